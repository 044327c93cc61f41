"""What a training step of SNGP, DUQ and MC dropout costs, in steps of the plain ResNet-20; and what our penalty saves.

All uncompiled, float32, one thread, channels-last, the same batch of 128 images of 3×32×32, contenders in turn, in time
of the processor. DUQ is also timed with PyTorch's own second derivatives of convolution and batch norm, to the same loss.
"""

import copy
import time

import torch

from dissensus.models import Duq, McDropout, ResNet20, Sngp, new_model
from dissensus.models.twice_differentiable import TwiceDifferentiableBatchNorm, TwiceDifferentiableConv
from dissensus.training.optimisers import Sgd
from timing import best_of

ROUNDS = 6
MOST = {"sngp": 1.5, "duq": 3.5, "dropout": 1.1}


def main():
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(128, 3, 32, 32, generator=draw)
    target = torch.softmax(3 * torch.rand(128, 10, generator=draw), 1)
    models = {
        "plain": new_model(ResNet20(), x, 10, seed=0),
        "sngp": new_model(Sngp(), x, 10, seed=0),
        "duq": new_model(Duq(own_head=True), x, 10, seed=0),
        "dropout": new_model(McDropout(), x, 10, seed=0),
    }
    models["duq_of_pytorch"] = with_pytorchs_layers(models["duq"])
    steps = {name: step_of(model, x, target) for name, model in models.items()}
    seconds, losses = best_of(ROUNDS, time.process_time, **steps)
    plain = seconds["plain"]
    for name, most in MOST.items():
        print(f"{name:8} {seconds[name]:.3f} s | plain {plain:.3f} s | {seconds[name] / plain:.2f}x, at most {most}x")
    ours, theirs = seconds["duq"], seconds["duq_of_pytorch"]
    apart = abs(losses["duq"] - losses["duq_of_pytorch"])
    print(f"duq      {ours:.3f} s | PyTorch's layers {theirs:.3f} s | {theirs / ours:.2f}x | |Δ| {apart:.1e}")
    assert all(seconds[name] <= most * plain for name, most in MOST.items())


def step_of(model, x, target):
    """One step as the training loop takes it."""
    model = model.to(memory_format=torch.channels_last).train()
    optimiser = Sgd(0.01).build(model.parameters())

    def step():
        loss = model.loss(x, target)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        model.after_step(x, target)
        return float(loss.detach())

    return step


def with_pytorchs_layers(model):
    slow = copy.deepcopy(model)
    for part in slow.modules():
        if isinstance(part, TwiceDifferentiableConv | TwiceDifferentiableBatchNorm):
            part.__class__ = type(part).__bases__[0]
    return slow


if __name__ == "__main__":
    main()
