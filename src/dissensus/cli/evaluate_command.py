"""`evaluate`: a checkpoint, trained here or elsewhere, judged in one go."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from typing_extensions import override

from dissensus.cli.inputs import say, writable_folder
from dissensus.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from dissensus.datasets.data import Data, Moments
    from dissensus.engine.setup import TrainingSetup
    from dissensus.models import Architecture


class Pixels(click.ParamType):  # type: ignore[type-arg] # generic since click 8.2
    """A size in units of [0, 1], also as a fraction: 4/255."""

    name = "number"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(Fraction(str(value).replace(" ", "")))
        except (ValueError, ZeroDivisionError, OverflowError):
            self.fail(f"{value!r} is no number: write 4/255 or 0.016.", param, ctx)
        if not 0 <= number <= 1:
            self.fail(f"{value!r} is not between 0 and 1: pixels are in [0, 1], so write 4/255 for 4.", param, ctx)
        return number


@click.command(
    epilog="""\b
Examples:
  dissensus evaluate --model resnet20 --weights net.safetensors --out judged
  dissensus evaluate --model 'resnet18(width=8)' --weights net.safetensors --data cifar10h --attacks fgsm,pgd
      --ood svhn,cifar100 --shift cinic10,cifar10.1-v4 --mean 0.49,0.48,0.45 --std 0.25,0.24,0.26 --out judged
  dissensus evaluate --weights out/runs/3f0c…/last.safetensors --out judged       a checkpoint of our own run
""",
)
@click.option("--weights", "weights_file", required=True, metavar="FILE", help="A .safetensors file of a state_dict.")
@click.option(
    "--model", metavar="NAME(OPTIONS)", help="The architecture: resnet20, 'resnet18(width=8)' (own runs know it)."
)
@click.option("--data", "data_name", default="cifar10h", show_default=True, help="A data set of images.")
@click.option("--test-ids", metavar="FILE", help="Judge these items only: one id per line, or a table.")
@click.option("--attacks", default="", metavar="A,B", help="fgsm, pgd or both.")
@click.option("--epsilon", type=Pixels(), default="4/255", show_default=True, help="Of attacks, pixels in [0, 1].")
@click.option("--steps", default=10, show_default=True, type=click.IntRange(1), help="Of pgd.")
@click.option("--step-size", type=Pixels(), default="1/255", show_default=True, help="Of pgd.")
@click.option("--random-start", is_flag=True, help="Begin pgd at a random point of the ball.")
@click.option("--attack-items", default=1000, show_default=True, type=click.IntRange(1), help="Attack at most so many.")
@click.option("--ood", default="", metavar="A,B", help="Data sets outside the distribution: svhn, cifar100, …")
@click.option("--shift", default="", metavar="A,B", help="Data sets of the same classes: cinic10, cifar10.1-v4, …")
@click.option("--mean", metavar="R,G,B", help="What the network's inputs are centred by (default: as in the file).")
@click.option("--std", metavar="R,G,B", help="What they are divided by.")
@click.option("--rename", multiple=True, metavar="PATTERN=NEW", help="Change names of weights by a regular expression.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", required=True, metavar="DIR", help="Folder for evaluation.json, .csv and .md.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def evaluate(
    weights_file: str,
    model: str | None,
    data_name: str,
    test_ids: str | None,
    attacks: str,
    epsilon: float,
    steps: int,
    step_size: float,
    random_start: bool,
    attack_items: int,
    ood: str,
    shift: str,
    mean: str | None,
    std: str | None,
    rename: tuple[str, ...],
    seed: int,
    out: str,
    as_json: bool,
) -> None:
    """Judge a checkpoint: accuracy, soft NLL, second-best accuracy, calibration; attacks, OOD, shifted data.

    Scores are raw and after temperatures that are cross-fitted on halves of the items. A checkpoint of a run of
    dissensus is judged on the items that the run held out; one from elsewhere on all items, or on those of --test-ids:
    leave out what it was trained on.
    """
    from dissensus import datasets
    from dissensus.cli.model_option import read_model
    from dissensus.cli.stage_progress import StageProgress
    from dissensus.engine.checkpoint_judging import AttackSettings, judge_checkpoint
    from dissensus.engine.foreign_weights import load_foreign, read_weights
    from dissensus.engine.measures.finished_run import on_fastest_device
    from dissensus.report.evaluation_tables import evaluation_csv, evaluation_markdown
    from dissensus.store.atomic_files import write_whole
    from dissensus.store.encoding import encode

    wanted_attacks = _names(attacks)
    if unknown := [name for name in wanted_attacks if name not in ("fgsm", "pgd")]:
        raise InputError(f"{unknown[0]!r} is not one of fgsm, pgd", where="--attacks", state="")
    moments, renames = _moments(mean, std), [_rename(text) for text in rename]
    given = None if model is None else read_model(model)
    folder = writable_folder(out)
    weights = read_weights(Path(weights_file))
    own = _own_run(Path(weights_file))
    data = datasets.load(data_name)
    architecture = _architecture(given, own, weights_file)
    judged = _items(data, own, test_ids)
    shape = tuple(data.x.shape[1:]) if data.x is not None else ()
    if len(shape) != 3:
        raise InputError("these data have no images", where=data.name, hint="See `dissensus data list`", state="")
    loaded = load_foreign(
        architecture,
        shape,
        len(data.classes),
        weights,
        where=weights_file,
        renames=renames,
        moments=moments,
        default_moments=data.moments,
    )
    settings = AttackSettings(epsilon, steps, step_size, random_start, attack_items)
    with StageProgress() as tell:
        document = judge_checkpoint(
            on_fastest_device(loaded.model),
            data,
            judged.rows,
            attacks=wanted_attacks,
            attack=settings,
            outside=[datasets.load(name) for name in _names(ood)],
            shifted=[datasets.load(name) for name in _names(shift)],
            seed=seed,
            tell=tell,
        )
    elsewhere = [note for part in ("shifted", "ood") for each in document[part].values() for note in each["notes"]]
    notes = [*loaded.notes, judged.note, *document["notes"], *dict.fromkeys(elsewhere)]
    described = {"model": model or encode(architecture)["name"], "architecture": encode(architecture)}
    document = {**described, "weights": Path(weights_file).name, **document, "notes": notes}
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    contents = {"json": text, "csv": evaluation_csv(document), "md": evaluation_markdown(document)}
    for ending, content in contents.items():
        write_whole(folder / f"evaluation.{ending}", content.encode())
    if as_json:
        click.echo(text, nl=False)
    else:
        _print(document)
        click.echo(f"\nSaved to {folder} (evaluation.json, evaluation.csv, evaluation.md).")
    say(notes)


@dataclass(frozen=True, eq=False)
class _Judged:
    """The rows that are judged, and a sentence on why these."""

    rows: Tensor
    note: str


def _items(data: Data, own: TrainingSetup | None, test_ids: str | None) -> _Judged:
    import torch

    from dissensus.datasets.own_files import rows_of_ids
    from dissensus.votes.alignment import Items

    if test_ids is not None:
        rows = torch.from_numpy(rows_of_ids(Items(data.ids), test_ids))
        return _Judged(rows, f"Judged on the {len(rows):,} items of {test_ids}.")
    if own is not None and own.data.digest == data.digest:
        note = f"A checkpoint of our own run: judged on the {len(own.held_out):,} items that it held out."
        return _Judged(own.held_out, note)
    note = f"Judged on all {len(data):,} items: that is fair only if the network was trained on none of them."
    return _Judged(torch.arange(len(data)), note)


def _own_run(weights: Path) -> TrainingSetup | None:
    """The run that wrote these weights, where they lie in its folder of a ledger."""
    from dissensus.engine.setup import TrainingSetup
    from dissensus.store.ledger import Ledger

    folder = weights.resolve().parent
    ledger = Ledger(folder.parent)
    return TrainingSetup.of(ledger.read(folder.name).spec, ledger) if folder.name in ledger else None


def _architecture(given: Architecture | None, own: TrainingSetup | None, where: str) -> Architecture:
    if given is not None:
        return given
    if own is None:
        hint = "Pass --model, such as --model resnet20"
        raise InputError("the file does not say which architecture it is", where=where, hint=hint, state="")
    return own.recipe.model


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _moments(mean: str | None, std: str | None) -> Moments | None:
    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise InputError("one of them is missing", where="--mean and --std", hint="Give both, or neither", state="")
    hint = "Write one number per channel, of images in [0, 1]: --mean 0.49,0.48,0.45 --std 0.25,0.24,0.26"
    try:
        centre, spread = (tuple(float(number) for number in text.split(",")) for text in (mean, std))
    except ValueError:
        raise InputError("these are not numbers", where="--mean and --std", hint=hint, state="") from None
    sound = all(abs(number) < 1e6 for number in (*centre, *spread)) and all(number > 0 for number in spread)
    if len(centre) != len(spread) or not sound:
        what = "they do not have one finite number per channel, std above 0"
        raise InputError(what, where="--mean and --std", hint=hint, state="")
    if max(spread) > 2:
        what = f"std {max(spread):g} is not that of images in [0, 1]"
        raise InputError(what, where="--std", hint="Divide mean and std by 255", state="")
    return centre, spread


def _rename(text: str) -> tuple[str, str]:
    pattern, equals, new = text.partition("=")
    if not equals or not pattern:
        hint = r"Write PATTERN=NEW, such as --rename '^fc\.=head.'"
        raise InputError(f"{text!r} has no pattern before a =", where="--rename", hint=hint, state="")
    try:
        re.compile(pattern)
    except re.error as problem:
        raise InputError(f"{pattern!r} is no regular expression ({problem})", where="--rename", state="") from None
    return pattern, new


def _print(document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from dissensus.report.evaluation_tables import evaluation_tables

    console = Console()
    for number, words in enumerate(evaluation_tables(document)):
        if number:
            console.print()
        console.print(words.title, style="bold", highlight=False, markup=False)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column, head in enumerate(words.heads):
            table.add_column(head, justify="right" if column else "left", no_wrap=column > 0)
        for row in words.rows:
            table.add_row(*row)
        console.print(table)
    console.print(
        "\nSBA: second-best accuracy; strict: on items whose people have a strict first, second and third choice.\n"
        "if right, if wrong: mean confidence. Noise is Gaussian, of the attack's norm per item.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
