"""Our training loop against a bare PyTorch loop and a DataLoader loop: same model, data, batch order and labels.

Asserted: at most 1.05 times the bare loop, faster than the DataLoader, the same final loss to 1e-5.
"""

import copy
import math

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from dissensus import datasets, random
from dissensus.labels.delivery import Sampled, Soft
from dissensus.labels.targets import Empirical
from dissensus.models import Mlp, Smallcnn, new_model
from dissensus.training import loop as train
from dissensus.training.optimisers import Sgd
from dissensus.training.schedules import Cosine
from timing import best_of

EPOCHS, BATCH, LR, ROUNDS = 5, 64, 0.05, 7


def main():
    torch.set_num_threads(1)
    data = datasets.load("digits")
    features = data.x.reshape(len(data), -1).float() / 255
    for name, x, rule, delivery in [
        ("smallcnn, soft labels", data.x, Smallcnn(), Soft()),
        ("smallcnn, sampled labels", data.x, Smallcnn(), Sampled()),
        ("mlp on features, soft labels", features, Mlp(dropout=0.0), Soft()),
    ]:
        compare(name, x, rule, delivery, Empirical().target(data, torch.arange(len(data)), seed=0))


def compare(name, x, rule, delivery, target):
    start = new_model(rule, x, 10, seed=0)
    labels = delivery.labels(target, 0)
    scale = 255 if x.dtype == torch.uint8 else 1

    def ours():
        model, losses = copy.deepcopy(start), []
        settings = train.Settings(Sgd(LR, weight_decay=0.0), Cosine(), EPOCHS, BATCH)
        train.fit(model, x, labels, settings, classes=10, seed=0, observe=lambda _, loss: losses.append(loss))
        return losses[-1]

    def steps(model, batches):
        """What a careful person writes by hand."""
        optimiser = torch.optim.SGD(model.parameters(), LR, momentum=0.9, fused=True)
        steps_an_epoch = math.ceil(len(x) / BATCH)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS * steps_an_epoch)
        for epoch in range(EPOCHS):
            total = torch.zeros(())
            for inputs, wanted in batches(epoch):
                loss = cross_entropy(model(inputs), wanted)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                total += loss.detach() * len(inputs)
        return float(total) / len(x)

    def order(epoch):
        return torch.randperm(len(x), generator=random.generator(0, "order", epoch))

    def bare():
        def batches(epoch):
            y = labels(epoch)
            for rows in order(epoch).split(BATCH):
                yield x[rows].float() / scale, y[rows]

        return steps(copy.deepcopy(start), batches)

    def loader():
        def batches(epoch):
            items = TensorDataset(x.float() / scale, labels(epoch))
            return DataLoader(items, BATCH, sampler=order(epoch).tolist())

        return steps(copy.deepcopy(start), batches)

    seconds, losses = best_of(ROUNDS, ours=ours, bare=bare, loader=loader)
    apart = max(abs(losses["ours"] - losses["bare"]), abs(losses["ours"] - losses["loader"]))
    against_bare, against_loader = seconds["ours"] / seconds["bare"], seconds["loader"] / seconds["ours"]
    print(
        f"{name}: ours {seconds['ours']:.3f} s | bare loop {seconds['bare']:.3f} s | {against_bare:.3f} of its time | "
        f"DataLoader loop {seconds['loader']:.3f} s | {against_loader:.2f}x | max |Δ loss| {apart:.0e}"
    )
    assert apart < 1e-5, "not the same work"
    assert against_bare <= 1.05, "slower than a bare loop"
    assert against_loader > 1, "slower than a DataLoader"


if __name__ == "__main__":
    main()
