"""Trainer of Hugging Face: a callback sets the epoch. The lines that matter are marked with an arrow.

    python examples/huggingface_trainer.py

The model is a small one, so that nothing is downloaded; one of the hub takes "labels" alike if its loss is cross-entropy.
"""

import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from dissensus import DeliveredDataset, datasets, multipass
from dissensus.metrics import RunningMetric


class SetEpoch(TrainerCallback):  # <-
    """Tell the training set which epoch it is, also after a resume."""

    def __init__(self, dataset):
        self.dataset = dataset

    def on_epoch_begin(self, args, state, control, **more):  # noqa: ARG002 - the Trainer's signature
        self.dataset.set_epoch(int(state.epoch or 0))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, pixels, labels=None):
        logits = self.network(pixels)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def main(epochs=10):
    set_seed(0)
    data = datasets.load("digits", votes=10)
    x = data.x.flatten(1).float() / 255
    train, test = torch.arange(1400), torch.arange(1400, 1797)

    labels = multipass(data.votes, seed=0, rows=train)  # <- or soft(…), sampled(…)
    dataset = DeliveredDataset([{"pixels": pixels} for pixels in x[train]], labels)  # <-

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=64,
            learning_rate=3e-3,
            use_cpu=True,
            dataloader_pin_memory=False,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,  # the Trainer would look for columns that only its own datasets have
        )
        model = Classifier()
        Trainer(model, arguments, train_dataset=dataset, callbacks=[SetEpoch(dataset)]).train()  # <-

    metric = RunningMetric("soft_nll")
    with torch.no_grad():
        metric.update(model(x[test])["logits"].log_softmax(1), data.people[test])
    return float(metric.compute())


if __name__ == "__main__":
    print(f"soft NLL on held-out digits: {main():.4f}")
