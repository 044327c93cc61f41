"""`models`: which networks there are, and what they cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissensus.models.listing import ModelListing


@click.command(
    epilog="""\b
Examples:
  dissensus models
  dissensus models --json
""",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the settings of every model.")
def models(as_json: bool) -> None:
    """List every model: parameters and FLOPs at its published size, for 32×32 colour images and ten classes.

    FLOPs are those of one prediction for one image; a multiply-add is two. Every model can be made smaller by its
    settings: see docs/models.md.
    """
    from dissensus.models import ARCHITECTURES
    from dissensus.models.listing import list_models

    listings = list_models(ARCHITECTURES)
    if as_json:
        click.echo(json.dumps([listing.to_json() for listing in listings], ensure_ascii=False, indent=1))
    else:
        click.echo("\n".join(_lines(listings)))


def _lines(listings: Sequence[ModelListing]) -> list[str]:
    cells = [("model", "parameters", "FLOPs per image", "published as")]
    cells += [(row.name, _count(row.parameters), _count(row.flops), row.published) for row in listings]
    wide = [max(len(row[column]) for row in cells) for column in range(3)]
    return [
        f"{name:<{wide[0]}}  {parameters:>{wide[1]}}  {flops:>{wide[2]}}  {published}".rstrip()
        for name, parameters, flops, published in cells
    ]


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
