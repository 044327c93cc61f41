"""The heads that `VoteClassifier` knows by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dissensus.errors import InputError
from dissensus.models import Architecture, Duq, McDropout, Mlp, Sngp
from dissensus.training.selection import CandidateGrid

SELECTED = ("auto", "linear", "mlp")
"""Chosen over a grid and pooled (`training.selection`)."""


@dataclass(frozen=True)
class HeadSettings:
    """What a user may say about the body of a head."""

    hidden: int = 128
    dropout: float = 0.2

    @property
    def body(self) -> Mlp:
        """One hidden layer."""
        return Mlp((self.hidden,), self.dropout)


def _duq(settings: HeadSettings) -> Duq:
    """A crowd gives few steps per epoch: its centroids follow within a hundred of them."""
    return Duq(settings.body, embedding=64, decay=0.99)


HEADS: dict[str, Callable[[HeadSettings], Architecture]] = {
    "sngp": lambda settings: Sngp(settings.body, layer_norm=False),
    "duq": _duq,
    "dropout": lambda settings: McDropout(settings.body, settings.dropout),
}
"""Heads that are trained as one network each, by name: a function from settings to an architecture.

Those here have an uncertainty of each item: `VoteClassifier.predictions(X).uncertainty`. Any other architecture (a frozen
dataclass with `build`) can be given in place of a name.
"""


def head_names() -> tuple[str, ...]:
    """Every name there is."""
    return (*SELECTED, *HEADS)


def grid_of(
    head: str,
    *,
    hidden: int | None,
    dropout: float | None,
    weight_decay: float | None,
    epochs: int | None,
    lr: float | None,
    batch: int,
    seeds: int,
) -> CandidateGrid:
    """The default grid, with what the user has fixed. None is chosen on items left out."""
    defaults = CandidateGrid()
    if head == "linear":
        given = {"hidden": hidden, "dropout": dropout, "epochs": epochs, "lr": lr}
        if useless := [name for name, value in given.items() if value is not None]:
            raise InputError(
                f"a linear head is solved exactly and has no {' or '.join(useless)}",
                where="head",
                hint="Leave it out, or choose the head `mlp`",
                state="",
            )
        penalties = defaults.penalties if weight_decay is None else (float(weight_decay),)
        return CandidateGrid(mlps=(), penalties=penalties)
    dropouts = {pair[0] for pair in defaults.mlps} if dropout is None else {float(dropout)}
    decays = {pair[1] for pair in defaults.mlps} if weight_decay is None else {float(weight_decay)}
    pairs = {(first, second) for first in dropouts for second in decays}
    mlps = defaults.mlps if dropout is None and weight_decay is None else tuple(sorted(pairs))
    return CandidateGrid(
        linear=head == "auto",
        mlps=mlps,
        hidden=defaults.hidden if hidden is None else hidden,
        lr=lr,
        batch=batch,
        epochs=defaults.epochs if epochs is None else epochs,
        early_stopping=epochs is None,
        seeds=seeds,
    )
