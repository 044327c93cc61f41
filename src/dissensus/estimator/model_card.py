"""README.md of a model folder: what the model was trained on, how good it is, and what it is not for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissensus.datasets.data import Data

ROWS = {
    "votes_logistic": "logistic, votes",
    "majority_logistic": "logistic, majority",
    "class_prior": "class prior",
}
"""What the baselines are called, best first as a rule."""

COLUMNS = ("soft_nll", "accuracy", "ece_mass_15", "entropy_spearman")
AT_BEST = {
    "soft_nll": ("soft_nll_expected", "soft_nll_floor"),
    "entropy_spearman": ("entropy_spearman_ceiling",),
}
"""The scores that say what a perfect model would get."""


def score_rows(scores: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """This model, the baselines and a perfect model by name; the `COLUMNS` of each, then soft NLL after tempering."""
    raw = scores["raw"]
    judged = {"this model": scores, **{ROWS[name]: scores["baselines"][name] for name in ROWS}}
    rows = {name: [*(part["raw"][key] for key in COLUMNS), _tempered(part)] for name, part in judged.items()}
    at_best = [next((raw[key] for key in AT_BEST.get(name, ()) if raw.get(key) is not None), None) for name in COLUMNS]
    return {**rows, "perfect model": [*at_best, None]}


def _tempered(part: Mapping[str, Any]) -> float | None:
    value: float | None = part.get("tempered_votes", {}).get("soft_nll")
    return value


def model_card(data: Data, features: str, scores: Mapping[str, Any], version: str) -> str:
    """Markdown. `features` says where they come from."""
    items, raw = scores["items"], scores["raw"]
    votes = data.votes
    counted = "shares of votes, their number not known" if votes is None else f"{votes.n_votes:,} votes"
    read_as = [] if votes is None or votes.read_as is None else [f"Votes were {_plain(str(votes.read_as))}."]
    lines = [
        "# Model card",
        "",
        f"A classifier of {len(data.classes)} classes ({_few(data.classes)}), trained by dissensus {version} to predict "
        "what people would vote.",
        "",
        "## Data",
        "",
        f"{len(data):,} items, {counted}, from {_plain(data.name)}. {' '.join(read_as)}".rstrip(),
        f"Features: {_plain(features)}, {data.x.shape[1] if data.x is not None else 0:,} numbers per item.",
        "",
        "## Scores",
        "",
        f"Of a model trained in the same way on {items['train']:,} items, on {items['held_out']:,} held-out items; then "
        "this model was trained on all items.",
        "",
        f"| | {' | '.join(COLUMNS)} | soft_nll, tempered |",
        "|---|" + "---:|" * (len(COLUMNS) + 1),
        *(f"| {name} | {' | '.join(map(_number, values))} |" for name, values in score_rows(scores).items()),
        "",
        "Soft NLL (cross-entropy to the votes, in nats) and ECE: lower is better. *Logistic* is logistic regression with "
        "a tuned L2 penalty, on all votes or on the majority alone. *Perfect model* is an estimate of what the true "
        "distributions would score on so few votes."
        + (" Accuracy and ECE are against the majority vote." if raw["gold"] == "majority" else ""),
        "",
        *(f"**Look at this first:** {_plain(warning)}\n" for warning in scores["warnings"]),
        "## How it was made",
        "",
        "Chosen by soft NLL on items left out (five folds), weighted, and trained again on all items:",
        "",
        "| candidate | soft NLL on items left out | weight |",
        "|---|---:|---:|",
        *(f"| {part['name']} | {_number(part['soft_nll'])} | {part['weight']:.2f} |" for part in scores["chosen"]),
        "",
        f"Temperature: {scores['temperature']:.3f}."
        if scores["temperature"] != 1
        else "No temperature: it did not help.",
        "",
        "## Limits",
        "",
        "- It predicts the votes of people like those who voted here, on items like these. It knows no right answer.",
        "- Its probabilities are shares of opinion. That 30% say *yes* does not mean that *yes* is wrong.",
        "- Other features than those named above, or made by another version of their encoder, give nonsense silently.",
        "- Scores above are of one split; differences of less than a few standard errors are noise.",
        "",
    ]
    return "\n".join(lines)


def _few(classes: tuple[str, ...]) -> str:
    return ", ".join(map(_plain, classes[:12])) + (", …" if len(classes) > 12 else "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _plain(text: str) -> str:
    """Text of the user's that can neither break the table nor be taken for markup."""
    return "".join(f"\\{mark}" if mark in "\\`*_{}[]<>#|" else mark for mark in " ".join(text.split()))
