"""A small chart kit: numbers in, one inline SVG out. Colours are CSS variables, so dark mode and print restyle it.

Every piece of text and every attribute is escaped on its way in; nothing here needs a script to be read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import NamedTuple

from markupsafe import Markup, escape

Point = tuple[float, float]

COLOURS = 8  # as many --c0 … --c7 as the style sheet defines
DASHES = (None, "7 3", "2 2.5", "9 3 2 3", "5 2", "1.5 3.5", "12 3")
SHAPES = ("circle", "square", "triangle", "diamond", "down", "plus", "cross")


@dataclass(frozen=True)
class Style:
    """How one method looks in every figure: a colour, and a dash and a marker for those who do not see colours.

    7 shapes and 8 colours share no divisor, so no pair comes twice among 56 methods.
    """

    index: int

    @property
    def css(self) -> str:
        """The class that sets the colour."""
        return f"m{self.index % COLOURS}"

    @property
    def dash(self) -> str | None:
        """A stroke-dasharray, None for a solid line."""
        return DASHES[self.index % len(DASHES)]

    @property
    def shape(self) -> str:
        """A name that `marker` knows."""
        return SHAPES[self.index % len(SHAPES)]


class Margins(NamedTuple):
    """Room around the plot, in user units."""

    left: float
    right: float
    top: float
    bottom: float


def tag(name: str, content: object = None, **attributes: object) -> Markup:
    """One element. `class_` is class, `stroke_width` is stroke-width; an attribute of None is left out.

    >>> print(tag("text", "a < b", x=1.25, class_="tick"))
    <text x="1.3" class="tick">a &lt; b</text>
    """
    parts = [
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), short(value) if isinstance(value, float) else value)
        for key, value in attributes.items()
        if value is not None
    ]
    head = Markup("<") + name + Markup("").join(parts)
    return head + Markup("/>") if content is None else head + Markup(">") + escape(content) + Markup(f"</{name}>")


def short(value: float) -> str:
    """A coordinate to a tenth of a unit, without trailing zeros: pages stay small.

    >>> short(3.04), short(-0.04), short(2.25)
    ('3', '0', '2.3')
    """
    tenths = math.floor(value * 10 + 0.5)
    return str(tenths // 10) if tenths % 10 == 0 else f"{tenths / 10:.1f}"


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) from within [low, high], about this many.

    >>> nice_ticks(0, 0.93)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, digits) + 0.0 for index in range(first, last + 1)]


def marker(at: Point, shape: str, size: float, **attributes: object) -> Markup:
    """A mark of about the same visual weight whatever its shape."""
    x, y = at
    r = size
    if shape == "circle":
        return tag("circle", cx=x, cy=y, r=r, **attributes)
    if shape in ("plus", "cross"):
        turn = f"rotate(45 {short(x)} {short(y)})" if shape == "cross" else None
        arm = r * 0.42
        corners = [(-arm, -r), (arm, -r), (arm, -arm), (r, -arm), (r, arm), (arm, arm)]
        corners += [(-a, -b) for a, b in corners]
        around = path([(x + a * 1.15, y + b * 1.15) for a, b in corners], close=True)
        return tag("path", d=around, transform=turn, **attributes)
    corners = {
        "square": [(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
        "triangle": [(0, -1.15), (1.05, 0.8), (-1.05, 0.8)],
        "diamond": [(0, -1.25), (1.1, 0), (0, 1.25), (-1.1, 0)],
        "down": [(0, 1.15), (1.05, -0.8), (-1.05, -0.8)],
    }[shape]
    return tag("path", d=path([(x + a * r, y + b * r) for a, b in corners], close=True), **attributes)


def path(points: Iterable[Point], *, close: bool = False) -> str:
    """Straight lines through the points."""
    text = "L".join(f"{short(x)} {short(y)}" for x, y in points)
    return f"M{text}{'Z' if close else ''}" if text else ""


def specks(points: Iterable[Point]) -> str:
    """Many dots as one path: lines of no length, which round caps make visible. A tenth of the size of circles."""
    return "".join(f"M{short(x)} {short(y)}h0" for x, y in points)


@dataclass
class Chart:
    """A plot of width × height user units, filled piece by piece; `x` and `y` are the ranges of the data."""

    width: float
    height: float
    x: Point
    y: Point
    margins: Margins
    label: str
    pieces: list[Markup] = field(default_factory=list)

    def at(self, x: float, y: float) -> Point:
        """Where a point of the data lies; what is outside the plot stops a little beyond its border."""
        m = self.margins
        across = m.left + _share(x, self.x) * (self.width - m.left - m.right)
        down = self.height - m.bottom - _share(y, self.y) * (self.height - m.top - m.bottom)
        return across, down

    def add(self, *pieces: Markup) -> None:
        """Put pieces on top of what is there."""
        self.pieces.extend(pieces)

    def x_axis(self, ticks: Sequence[float], title: str = "", labels: Sequence[str] | None = None) -> None:
        """Ticks and their numbers along the bottom, or the labels in their place."""
        bottom = self.height - self.margins.bottom
        for value, text in zip(ticks, labels or tick_labels(ticks), strict=True):
            across, _ = self.at(value, self.y[0])
            self.add(tag("text", text, x=across, y=bottom + 13, class_="tick", text_anchor="middle"))
        if title:
            middle = (self.margins.left + self.width - self.margins.right) / 2
            self.add(tag("text", title, x=middle, y=self.height - 3, class_="axis", text_anchor="middle"))

    def y_axis(self, ticks: Sequence[float], title: str = "") -> None:
        """Ticks, their numbers and thin lines across; the title stands above the axis, where it needs no turned head."""
        for value, text in zip(ticks, tick_labels(ticks), strict=True):
            left, down = self.at(self.x[0], value)
            right = self.width - self.margins.right
            self.add(tag("path", d=path([(left, down), (right, down)]), class_="grid"))
            self.add(tag("text", text, x=left - 5, y=down + 3.5, class_="tick", text_anchor="end"))
        if title:
            self.add(tag("text", title, x=0.0, y=11.0, class_="axis"))

    def line(self, points: Iterable[Point], **attributes: object) -> Markup:
        """A line through points of the data."""
        return tag("path", d=path(self.at(*point) for point in points), **attributes)

    def area(self, lower: Sequence[Point], upper: Sequence[Point], **attributes: object) -> Markup:
        """The band between two lines."""
        around = [self.at(*point) for point in [*lower, *reversed(upper)]]
        return tag("path", d=path(around, close=True), **attributes)

    def render(self) -> Markup:
        """The SVG, with what a screen reader says of it."""
        return tag(
            "svg",
            Markup("").join(self.pieces),
            viewBox=f"0 0 {short(self.width)} {short(self.height)}",
            role="img",
            aria_label=self.label,
        )


def standalone(drawing: Markup) -> str:
    """A drawing as a file of its own: what the page's style sheet says of it comes along."""
    style = resources.files("dissensus.report").joinpath("templates/chart.css").read_text(encoding="utf-8")
    head = '<svg xmlns="http://www.w3.org/2000/svg" '
    start, end = str(drawing).split(">", 1)
    ground = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f"{start.replace('<svg ', head)}><style>{style}</style>{ground}{end}\n"


def group(style: Style, *pieces: Markup, tooltip: str) -> Markup:
    """Pieces of one method: they share its colour, its number (for the page's script) and a tooltip."""
    return tag("g", tag("title", tooltip) + Markup("").join(pieces), class_=f"m {style.css}", data_k=style.index)


def padded(values: Iterable[float], *, share: float = 0.06) -> Point:
    """The range of the values with a little room on both sides; never empty."""
    present = list(values)
    if not present:
        return 0.0, 1.0
    low, high = min(present), max(present)
    room = (high - low) * share or abs(high) * share or 0.5
    return low - room, high + room


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Without trailing zeros.

    >>> tick_labels([-0.25, 0.0, 0.5])
    ['−0.25', '0', '0.5']
    """
    return [f"{tick:.10g}".replace("-", "−") for tick in ticks]


def _share(value: float, bounds: Point) -> float:
    low, high = bounds
    return min(max((value - low) / (high - low), -0.5), 1.5)
