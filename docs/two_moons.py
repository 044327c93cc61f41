"""Draw docs/figures/two-moons.svg: the uncertainty of SNGP, DUQ and MC dropout around two half circles.

python docs/two_moons.py

Dark is uncertain, by the rank of each point of the picture; the dots are the training items of the two classes. Takes
some seconds. Every model is trained through the one loop, on features alone.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from markupsafe import Markup
from torch import Tensor
from torch.nn.functional import one_hot

from dissensus import random
from dissensus.labels.delivery import Soft
from dissensus.labels.targets import Target
from dissensus.models import Architecture, Duq, Linear, McDropout, Mlp, Sngp, new_model
from dissensus.report.png import data_uri
from dissensus.report.svg import tag
from dissensus.training.loop import Settings, fit
from dissensus.training.optimisers import Adam
from dissensus.training.schedules import Cosine

FILE = Path(__file__).parent / "figures" / "two-moons.svg"
SIDE, PIXELS, SPAN = 220, 60, 4.0
MODELS: dict[str, Architecture] = {
    "SNGP": Sngp(Linear(), features=512, length_scale=0.5, layer_norm=False, likelihood="gaussian"),
    "DUQ": Duq(Mlp((128, 128), dropout=0.0), embedding=32, length_scale=0.3, decay=0.99, penalty=0.1),
    "MC dropout": McDropout(Mlp((128, 128)), rate=0.3, samples=100),
}


def main() -> None:
    """Train, ask on a grid, draw."""
    x, label = two_moons()
    axis = torch.linspace(-SPAN, SPAN, PIXELS)
    grid = torch.stack([axis.repeat(PIXELS), axis.flip(0).repeat_interleave(PIXELS)], 1) + x.mean(0)
    models = {name: trained(architecture, x, label) for name, architecture in MODELS.items()}
    panels = [panel(name, model, x, label, grid, index) for index, (name, model) in enumerate(models.items())]
    width, height = (SIDE + 14) * len(MODELS), SIDE + 26
    style = tag("style", "text { font: 13px sans-serif; fill: #777 }")
    content, box = Markup("").join([style, *panels]), f"0 0 {width} {height}"
    picture = tag("svg", content, xmlns="http://www.w3.org/2000/svg", viewBox=box)
    FILE.write_text(str(picture) + "\n", encoding="utf-8")


def two_moons(n: int = 300) -> tuple[Tensor, Tensor]:
    """Two half circles that hold each other, with a little noise."""
    draw = random.generator(0, "subsample", "two moons")
    angle, label = math.pi * torch.rand(n, generator=draw), torch.arange(n) % 2
    upper = torch.stack([torch.cos(angle), torch.sin(angle)], 1)
    lower = torch.stack([1 - torch.cos(angle), 0.5 - torch.sin(angle)], 1)
    return torch.where(label[:, None] == 0, upper, lower) + 0.1 * torch.randn(n, 2, generator=draw), label


def trained(architecture: Architecture, x: Tensor, label: Tensor):
    """On one-hot labels."""
    model = new_model(architecture, x, 2, seed=0)
    settings = Settings(Adam(0.01), Cosine(), epochs=60, batch=30)
    labels = Soft().labels(Target(one_hot(label, 2).float(), torch.arange(len(x))), 0)
    fit(model, x, labels, settings, classes=2, seed=0, observe=lambda _epoch, _loss: None)
    return model.eval()


def panel(name: str, model, x: Tensor, label: Tensor, grid: Tensor, index: int) -> Markup:
    """The picture of one model."""
    with torch.no_grad():
        uncertainty = model.variance(grid) if name == "SNGP" else model.predict(grid).uncertainty
        accuracy = float((model.predict(x).logits.argmax(1) == label).double().mean())
    rank = uncertainty.argsort().argsort().double() / (len(grid) - 1)
    grey = (250 - 170 * rank).round().to(torch.uint8).reshape(1, PIXELS, PIXELS)
    left = index * (SIDE + 14)
    image = tag("image", x=left, y=22, width=SIDE, height=SIDE, href=data_uri(grey.numpy()))
    dots = []
    for point, kind in zip((x - x.mean(0)).tolist(), label.tolist(), strict=True):
        across, down = (SIDE / 2 * (1 + point[0] / SPAN), SIDE / 2 * (1 - point[1] / SPAN))
        colour = ("#0072b2", "#d55e00")[kind]
        dots.append(tag("circle", cx=round(left + across, 1), cy=round(22 + down, 1), r=1.4, fill=colour))
    return tag("text", f"{name} (accuracy {accuracy:.2f})", x=left, y=15) + image + Markup("").join(dots)


if __name__ == "__main__":
    main()
