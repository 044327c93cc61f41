"""Are channels-last and torch.compile faster, and from which length of training does compiling pay?

Prints, for a step of each network on batches of its own kind of image, the time of the plain layout over that of
channels-last, compiled or not, and the FLOPs after which the time spent compiling is won back. Two threads.
"""

import copy
import shutil
import time

import torch

from dissensus.models import ResNet18, ResNet20, Smallcnn, new_model
from dissensus.models.flops import training_flops
from timing import best_of

CASES = {  # rule, image, batch, steps timed together
    "smallcnn": (Smallcnn(), (1, 8, 8), 64, 50),
    "resnet20": (ResNet20(), (3, 32, 32), 128, 2),
    "resnet18": (ResNet18(), (3, 32, 32), 32, 1),
}


def main():
    torch.set_num_threads(2)
    for name, (rule, shape, batch, steps) in CASES.items():
        start = new_model(rule, torch.zeros(1, *shape), 10, seed=0)
        print(f"{name}: {compare(start, shape, batch, steps)}", flush=True)


def compare(start, shape, batch, steps):
    x, y = torch.rand(batch, *shape), torch.arange(batch) % 10

    def made(channels_last, compiled):
        """A function that takes the steps, and the time of its first call."""
        model = copy.deepcopy(start)
        if channels_last:
            model = model.to(memory_format=torch.channels_last)
        loss = torch.compile(model.loss) if compiled else model.loss
        optimiser = torch.optim.SGD(model.parameters(), 0.01, fused=True)

        def run():
            for _ in range(steps):
                optimiser.zero_grad()
                loss(x, y).backward()
                optimiser.step()

        began = time.perf_counter()
        run()
        return run, time.perf_counter() - began

    plain, _ = made(channels_last=False, compiled=False)
    last, first_plain = made(channels_last=True, compiled=False)
    contenders = {"plain": plain, "channels_last": last}
    if can_compile := shutil.which("g++") or shutil.which("clang++"):
        contenders["compiled"], first_compiled = made(channels_last=True, compiled=True)
    seconds, _ = best_of(7, **contenders)
    verdict = f"plain / channels-last {seconds['plain'] / seconds['channels_last']:.2f}"
    if not can_compile:
        return f"{verdict} | no C++ compiler here"
    compiling = first_compiled - first_plain
    saved = (seconds["channels_last"] - seconds["compiled"]) / (steps * batch)
    pays = f"{training_flops(start, shape, round(compiling / saved)):.1e} FLOPs" if saved > 0 else "never"
    ratio = seconds["channels_last"] / seconds["compiled"]
    return f"{verdict} | channels-last / compiled {ratio:.2f} | compiling took {compiling:.0f} s, won back after: {pays}"


if __name__ == "__main__":
    main()
