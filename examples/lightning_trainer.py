"""PyTorch Lightning: a callback sets the epoch. The lines that matter are marked with an arrow.

python examples/lightning_trainer.py
"""

import logging

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dissensus import DeliveredDataset, datasets, sampled
from dissensus.metrics import RunningMetric


class SetEpoch(lightning.Callback):  # <-
    """Tell the training set which epoch it is, also after a resume."""

    def on_train_epoch_start(self, trainer, module):  # noqa: ARG002 - Lightning's signature
        trainer.train_dataloader.dataset.set_epoch(trainer.current_epoch)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.soft_nll = RunningMetric("soft_nll")

    def training_step(self, batch, _):
        inputs, target = batch
        return nn.functional.cross_entropy(self.network(inputs), target)

    def validation_step(self, batch, _):
        inputs, people = batch
        self.soft_nll.update(self.network(inputs).log_softmax(1), people)

    def on_validation_epoch_end(self):
        self.log("soft_nll", self.soft_nll.compute().float())
        self.soft_nll.reset()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main(epochs=10, workers=0):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(0, verbose=False)
    data = datasets.load("digits", votes=10)
    x = data.x.flatten(1).float() / 255
    train, test = torch.arange(1400), torch.arange(1400, 1797)

    labels = sampled(data.votes, seed=0, rows=train)  # <- or soft(…), multipass(…)
    dataset = DeliveredDataset(TensorDataset(x[train]), labels)  # <-
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    held_out = DataLoader(TensorDataset(x[test], data.people[test]), batch_size=100)

    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[SetEpoch()],  # <-
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), loader, held_out)
    return float(trainer.callback_metrics["soft_nll"])


if __name__ == "__main__":
    print(f"soft NLL on held-out digits: {main():.4f}")
