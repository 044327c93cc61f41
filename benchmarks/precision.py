"""How much faster is a training step in bfloat16, and how much slower with Muon?

    python benchmarks/precision.py              # every network; a minute or two of one core
    python benchmarks/precision.py resnet18/8   # one

One thread, batches of 128 images of 32×32, channels-last, uncompiled, as recipes train them. For each network the
contenders step in turn, round after round, by the processor's own clock, so that a busy machine disturbs little; ratios
are of the best rounds, and the median of the rounds' own ratios.
Where the processor has no bfloat16 instructions, it says so and compares all the same.
"""

import argparse
import statistics
import time
from operator import truediv

import torch

from dissensus.models import ResNet18, ResNet20, Speedy, new_model
from dissensus.training.muon import Muon
from dissensus.training.optimisers import Sgd
from dissensus.training.precision import has_bfloat16, instruction_set

NETWORKS = {
    "resnet18/8": ResNet18(8),
    "resnet18/4": ResNet18(16),
    "resnet20": ResNet20(),
    "speedy": Speedy((32, 64, 128)),
    "speedy, wide": Speedy((32, 128, 256)),
}
CONTENDERS = {
    "float32": (torch.float32, Sgd()),
    "bfloat16": (torch.bfloat16, Sgd()),
    "bfloat16, Muon": (torch.bfloat16, Muon()),
}
ROUNDS, STEPS, BATCH = 12, 4, 128


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("networks", nargs="*", default=list(NETWORKS))
    torch.set_num_threads(1)
    native = "" if has_bfloat16("cpu") else " (no bfloat16 instructions here: it is emulated)"
    print(f"{instruction_set()}{native}; torch {torch.__version__}; {ROUNDS} rounds of {STEPS} steps in turn")
    print("| network | float32 / bfloat16, best | median | with Muon / with SGD, best | median |")
    print("|---|---:|---:|---:|---:|")
    for name in arguments.parse_args().networks:
        seconds = {label: [] for label in CONTENDERS}
        steppers = {label: stepper(NETWORKS[name], *contender) for label, contender in CONTENDERS.items()}
        for _ in range(ROUNDS):
            for label, step in steppers.items():
                start = time.process_time()
                for _ in range(STEPS):
                    step()
                seconds[label].append((time.process_time() - start) / STEPS)
        cells = []
        for slow, fast in (("float32", "bfloat16"), ("bfloat16, Muon", "bfloat16")):
            median = statistics.median(map(truediv, seconds[slow], seconds[fast]))
            cells += [f"{min(seconds[slow]) / min(seconds[fast]):.2f}", f"{median:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def stepper(network, precision, optimiser):
    """A function that takes one step of training, warmed up."""
    x = torch.rand(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    x = x.contiguous(memory_format=torch.channels_last)
    target = torch.eye(10)[torch.arange(BATCH) % 10]
    model = new_model(network, x, 10, seed=0).to(memory_format=torch.channels_last).train()
    built = optimiser.build(model.parameters())

    def step():
        with torch.autocast("cpu", precision, enabled=precision != torch.float32):
            loss = model.loss(x, target)
        built.zero_grad()
        loss.backward()
        built.step()

    for _ in range(2):
        step()
    return step


if __name__ == "__main__":
    main()
