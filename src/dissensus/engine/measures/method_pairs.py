"""Two methods, run for run: tests, relative improvements, and what both say of single items (002)."""

from __future__ import annotations

from statistics import fmean
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dissensus import metrics, stats
from dissensus.engine.measures.finished_run import kept_predictions
from dissensus.engine.measures.measure import Analysis, Outcome, finite
from dissensus.errors import InputError
from dissensus.metrics.agreement import majority
from dissensus.models.predictions import Predictions
from dissensus.store.ledger import Arrays, Ledger
from dissensus.store.spec import Spec
from dissensus.votes.votes import Floats

COMPARED = {"kl": -1, "accuracy": 1, "entropy_pearson": 1}
"""The metrics of 002, and the sign of an improvement."""

Rule = Literal["disputed", "agreeing"]


def paired(of: tuple[str, ...], checkpoint: str = "best") -> Spec:
    """Relate: one method's runs against another's, `of` being the first one's and then, in the same order, the other's.

    For each metric of 002 the paired t test and the exact Wilcoxon test over the runs, and the improvement of the first
    method's mean as a share of the other's. For KL also the interval of the difference that is bootstrapped over the
    evaluation items, each with its mean over the runs: what other items might have said of the same training.
    """
    return Spec("relate", {"name": "paired", "checkpoint": checkpoint}, {"of": of})


def mean_score(of: tuple[str, ...]) -> Spec:
    """Relate: the mean over several analyses of each score that all of them have."""
    return Spec("relate", {"name": "mean_score"}, {"of": of})


def untied(of: str, checkpoint: str = "best") -> Spec:
    """Measure: accuracy on the evaluation items whose votes have one winner, where no tie-break decides what is right."""
    return Spec("measure", {"name": "untied", "checkpoint": checkpoint}, {"of": (of,)})


def examples(of: tuple[str, ...], names: tuple[str, str], rule: Rule, items: int = 1, checkpoint: str = "best") -> Spec:
    """Relate: what people and two runs say of a few evaluation items, which a rule and not an eye has chosen.

    `disputed`: those with the highest vote entropy. `agreeing`: those whose votes have one winner that both runs name, by
    how far the second run's KL exceeds the first's, around the median. Ties by row.
    """
    settings = {"name": "examples", "names": list(names), "rule": rule, "items": items, "checkpoint": checkpoint}
    return Spec("relate", settings, {"of": of})


def _paired(spec: Spec, ledger: Ledger) -> Outcome:
    ids, checkpoint = spec.inputs["of"], spec.settings["checkpoint"]
    first, second = ids[: len(ids) // 2], ids[len(ids) // 2 :]
    if not first or len(first) != len(second):
        raise InputError(f"{len(ids)} runs are not two of every pair", where="paired", state="")
    scores: dict[str, float | None] = {}
    for metric, sign in COMPARED.items():
        one, other = ([ledger.read(run).scores[checkpoint]["raw"][metric] for run in runs] for runs in (first, second))
        pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
        if pairs:
            a, b = zip(*pairs, strict=True)
            gain = sign * (fmean(a) - fmean(b))
            scores[f"relative_improvement_{metric}"] = finite(gain / fmean(b)) if fmean(b) else None
        if len(pairs) > 1:
            scores[f"p_t_{metric}"] = stats.paired_t(a, b).p
            scores[f"p_wilcoxon_{metric}"] = stats.wilcoxon(a, b).p
    divergences = [[_divergence(kept_predictions(run, ledger, checkpoint)) for run in runs] for runs in (first, second)]
    over_items = stats.paired_bootstrap(*(np.stack(of_runs) for of_runs in divergences))
    scores.update(
        difference_kl=over_items.mean_difference, low_kl_over_items=over_items.low, high_kl_over_items=over_items.high
    )
    return scores, {"runs": len(first), "items": over_items.n}, {}


def _mean_score(spec: Spec, ledger: Ledger) -> Outcome:
    several = [ledger.read(run).scores for run in spec.inputs["of"]]
    shared = [name for name in several[0] if all(one.get(name) is not None for one in several)]
    return {name: fmean(one[name] for one in several) for name in shared}, {"runs": len(several)}, {}


def _untied(spec: Spec, ledger: Ledger) -> Outcome:
    (run_id,) = spec.inputs["of"]
    kept = kept_predictions(run_id, ledger, spec.settings["checkpoint"])
    clear = _one_winner(torch.from_numpy(kept["people"]))
    right = (majority(torch.from_numpy(kept["logits"])) == torch.from_numpy(kept["labels"])).double()
    scores = {"accuracy_untied": float(right[clear].mean()) if bool(clear.any()) else None}
    return scores, {"items": {"untied": int(clear.sum()), "evaluation": len(clear)}}, {}


def _examples(spec: Spec, ledger: Ledger) -> Outcome:
    settings, names = spec.settings, spec.settings["names"]
    runs = [kept_predictions(run, ledger, settings["checkpoint"]) for run in spec.inputs["of"]]
    if len(runs) != 2 or not np.array_equal(runs[0]["rows"], runs[1]["rows"]):
        raise InputError("these are not two runs that were judged on the same items", where="examples", state="")
    people = torch.from_numpy(runs[0]["people"])
    said = [_log_probs(run).exp() for run in runs]
    far = [_divergence(run) for run in runs]
    chosen = _disputed(people) if settings["rule"] == "disputed" else _agreeing(people, said, far[1] - far[0])
    record = ledger.read(spec.inputs["of"][0])
    items = [
        {
            "name": f"{record.spec.settings['data']['name']}, item {runs[0]['ids'][place]}",
            "said": f"KL from people: {', '.join(f'{who} {kl[place]:.2f}' for who, kl in zip(names, far, strict=True))}",
            "classes": record.facts["classes"],
            "shares": {
                "People": people[place].tolist(),
                **{who: probs[place].tolist() for who, probs in zip(names, said, strict=True)},
            },
        }
        for place in chosen[: settings["items"]]
    ]
    return {}, {"examples": items, "candidates": len(chosen)}, {}


def _disputed(people: Tensor) -> list[int]:
    order: list[int] = np.argsort(-metrics.entropy(people).numpy(), kind="stable").tolist()
    return order


def _agreeing(people: Tensor, said: list[Tensor], gain: Floats) -> list[int]:
    """From the median of the gain outwards; empty where the runs name the people's one winner of no item."""
    winner = majority(people)
    both = _one_winner(people) & torch.stack([majority(probs) == winner for probs in said]).all(0)
    places = np.flatnonzero(both.numpy())
    ordered: list[int] = places[np.argsort(gain[places], kind="stable")].tolist()
    middle = (len(ordered) - 1) // 2
    return [place for _, place in sorted(enumerate(ordered), key=lambda ranked: abs(ranked[0] - middle))]


def _one_winner(people: Tensor) -> Tensor:
    return (people == people.max(1, keepdim=True).values).sum(1) == 1


def _log_probs(kept: Arrays) -> Tensor:
    return Predictions(torch.from_numpy(kept["logits"])).log_probs


def _divergence(kept: Arrays) -> Floats:
    """KL of each item, from people to the run."""
    values: Floats = metrics.kl(_log_probs(kept), torch.from_numpy(kept["people"])).numpy()
    return values


ANALYSES: dict[str, Analysis] = {"paired": _paired, "mean_score": _mean_score, "untied": _untied, "examples": _examples}
