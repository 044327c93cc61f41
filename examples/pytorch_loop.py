"""Plain PyTorch: a loop of your own on the votes of the digits. The lines that matter are marked with an arrow.

python examples/pytorch_loop.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dissensus import DeliveredDataset, datasets, multipass
from dissensus.metrics import RunningMetric


def main(epochs=10):
    data = datasets.load("digits", votes=10)
    x = data.x.flatten(1).float() / 255
    train, test = torch.arange(1400), torch.arange(1400, 1797)

    labels = multipass(data.votes, seed=0, rows=train)  # <- or soft(…), sampled(…)
    dataset = DeliveredDataset(TensorDataset(x[train]), labels)  # <-
    loader = DataLoader(dataset, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(0))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        dataset.set_epoch(epoch)  # <-
        for inputs, target in loader:
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(inputs), target).backward()
            optimiser.step()

    metric = RunningMetric("soft_nll")  # what the model says, against everybody's votes
    with torch.no_grad():
        for rows in test.split(100):
            metric.update(model(x[rows]).log_softmax(1), data.people[rows])
    return float(metric.compute())


if __name__ == "__main__":
    print(f"soft NLL on held-out digits: {main():.4f}")
