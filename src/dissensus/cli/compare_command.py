"""`compare`: which way of using these votes is best on these features?"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.experiment_commands import EXECUTION, compute, execution_options, start_workers
from dissensus.cli.inputs import read_as_json, writable_folder
from dissensus.cli.own_data import own_data, own_data_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dissensus.experiments.comparison_study import CrossValidation
    from dissensus.experiments.plan import Plan
    from dissensus.store.ledger import Ledger
    from dissensus.store.spec import Spec


@click.command(
    epilog="""\b
Methods (simplest first; the order decides where scores do not):
  soft              the shares of all votes in the loss
  majority          the most frequent vote alone
  gold              your own labels alone (with --gold)
  sampled           one vote per item, drawn anew in each epoch
  multipass         one vote per item and epoch, each in turn
  label-smoothing   the majority, with a tenth of the mass spread over all classes
  soft-shrunk       shares shrunk towards the mean of their class
  dawid-skene       votes weighed by their annotators' errors (where annotators are known)
A shuffled control, the class prior and two logistic regressions are always shown beside them.

\b
Examples:
  dissensus compare votes.csv --features features.npy --out comparison
  dissensus compare votes.csv --texts comment --out comparison             texts are encoded by minilm
  dissensus compare labels.json --texts texts.csv --out comparison
  dissensus compare votes.csv --images pictures/ --encoder efficientnet-lite0 --out comparison
  dissensus compare votes.csv --features features.npy --methods soft,majority --repeats 10 --out comparison
  dissensus compare votes.csv --features features.npy --out comparison --dry-run
""",
)
@own_data_options
@click.option("--out", required=True, metavar="DIR", help="Folder for the ledger, report.html and recommendation.json.")
@click.option("--ledger", metavar="DIR", help="Folder for finished runs (default: OUT/runs).")
@click.option("--methods", metavar="A,B,…", help="Compare only these, and soft (default: all that the votes allow).")
@click.option(
    "--repeats", default=3, show_default=True, type=click.IntRange(1, 1000), help="Repeats of the cross-validation."
)
@click.option("--folds", default=5, show_default=True, type=click.IntRange(3), help="Folds of the cross-validation.")
@click.option("--json", "as_json", is_flag=True, help="Print the recommendation as JSON instead of words.")
@execution_options
def compare(
    out: str,
    ledger: str | None,
    methods: str | None,
    repeats: int,
    folds: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare ways to train on VOTES, and say which to use.

    Every method trains the same small head on the same features and the same repeated cross-validation splits. The report
    begins with the recommendation and the command that trains with it: the simplest method, unless another is shown to be
    better (corrected t test of Nadeau and Bengio, Holm's correction). If interrupted, the same command resumes.
    """
    execution = {name: given.pop(name) for name in EXECUTION}
    start_workers(execution)
    from dissensus.experiments.comparison_study import CrossValidation, FitCommand, check_comparable, comparison

    folder = writable_folder(out)
    own = own_data(folder, **given)
    design = CrossValidation(repeats, folds)
    check_comparable(own.data, design)
    chosen = tuple(name.strip() for name in methods.split(",")) if methods else ()
    model = FitCommand(own.fit_start, f"--out {shlex.quote(str(Path(out) / 'model'))}")
    experiment = comparison(own.kept, own.data, design, model, chosen, own.notes)
    for note in experiment.notes[len(own.notes) :]:  # how the votes were read has been said
        click.echo(note, err=True)
    click.echo(
        _design_sentence(design, len(experiment.candidates.commands) - 1 if experiment.candidates else 1), err=True
    )
    written = compute(experiment, out, ledger, **execution, before=_Pilot(design), quiet=as_json)
    if as_json and written is not None:
        document = {} if written.recommendation is None else written.recommendation.to_json()
        document |= {"report": str(written.html), "read_as": read_as_json(own.data.votes)}
        sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _design_sentence(design: CrossValidation, methods: int) -> str:
    from dissensus import stats

    reach = stats.sensitivity(design.repeats * design.folds, test_to_train=design.test_to_train, cells=max(1, methods))
    correction = f", after Holm over {reach.cells} methods" if reach.cells > 1 else ""
    return (
        f"Design: {design.repeats} × {design.folds}-fold cross-validation. A true difference of {reach.effect:.1f} "
        "standard deviations of the difference between two methods on one split is found with a probability of "
        f"{reach.chance:.0%}{correction}."
    )


class _Pilot:
    """The baselines, which take seconds, computed first: they say what differences these splits can show in nats."""

    def __init__(self, design: CrossValidation) -> None:
        self._design = design

    def __call__(self, plan: Plan, compute_ahead: Callable[[Sequence[Spec]], Ledger]) -> None:
        from dissensus import stats

        baselines = [spec for spec in plan.specs if spec.settings.get("name") == "baseline_scores"]
        ledger = compute_ahead(baselines)
        scores: dict[str, dict[int, float]] = {}
        for spec in baselines:
            if spec.id in ledger:
                value = ledger.read(spec.id).scores["best"]["raw"]["soft_nll"]
                if value is not None:
                    scores.setdefault(spec.settings["baseline"], {})[spec.settings["seed"]] = value
        votes, majority, prior = (scores.get(name, {}) for name in ("votes_logistic", "majority_logistic", "class_prior"))
        paired = [value - majority[seed] for seed, value in votes.items() if seed in majority]
        learnt = [prior[seed] - value for seed, value in votes.items() if seed in prior]
        if len(paired) < 2 or not learnt:
            return
        reach = stats.sensitivity(len(paired), test_to_train=self._design.test_to_train)
        detectable, signal = reach.difference(stats.mean_sd(paired).sd or 0.0), stats.mean_sd(learnt).mean
        click.echo(
            f"Pilot: two logistic regressions differ by {abs(stats.mean_sd(paired).mean):.4f} nats, and this varies by "
            f"{stats.mean_sd(paired).sd:.4f} between splits: a difference of {detectable:.4f} nats can be found. The "
            f"features are worth {signal:.4f} nats over the class prior.",
            err=True,
        )
        if detectable > max(signal, 0.0):
            click.echo(
                "Warning: that is more than the features are worth, so this design can show little. Label more items, "
                "use more telling features, or raise --repeats.",
                err=True,
            )
