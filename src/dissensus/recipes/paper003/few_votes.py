"""Few votes an item, or labels that go stale (003, §5.1 and A.3): Table 1, Figures 1, 2, 4, 5, 6."""

from __future__ import annotations

import dataclasses

from dissensus import stats
from dissensus.engine.measures import SparseTarget
from dissensus.experiments.description import Analysis, Claim, Exhibit, Experiment, Panel, Training
from dissensus.recipes.paper003.settings import (
    CHECKPOINTS,
    COLUMNS,
    HELD,
    HIGH,
    NLL,
    SHRUNK,
    Scale,
    Seeds,
    at,
    nodes,
    of_exhibits,
    printed,
)


def table1(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Few votes an item."""
    run = at(scale, seeds)
    titles = {votes: f"K = {votes}" for votes in run.votes}
    panels = tuple(
        Panel(
            titles[votes],
            {method: run.sparse(method, votes) for method in run.sweep},
            "Soft",
            f"Training sees {votes} votes an item, drawn from its full votes with replacement; judged by the full votes. "
            f"{SHRUNK}, is not in the paper: the few votes are shrunk towards the mean of their class.",
        )
        for votes in run.votes
    )
    cells = {
        method: {titles[votes]: nodes(run.sparse(method, votes), run.few) for votes in run.votes} for method in run.sweep
    }
    hard = {method: of for method, of in cells.items() if method != SHRUNK}
    tested = (len(hard) - 1) * len(run.votes)
    reach = stats.power(len(run.few), tested, alternative="less").sentence
    exhibits = [
        Exhibit(
            f"{TESTED}, {words}",
            "table",
            hard,
            (f"{checkpoint}.raw.soft_nll",),
            names=("soft NLL",),
            baseline="Soft",
            alternative="less",
            note=f"The paper's test, with its family of hard deliveries by K. {reach}",
        )
        for checkpoint, words in CHECKPOINTS.items()
    ]
    exhibits.append(
        Exhibit(
            f"{SHRUNK}, tested against Soft",
            "table",
            {method: cells[method] for method in ("Soft", SHRUNK)},
            (NLL, "best.raw.soft_nll"),
            names=("soft NLL, last epoch", "soft NLL, best epoch"),
            baseline="Soft",
            alternative="less",
            note="Apart, because the paper has no such row.",
        )
    )
    as_printed = f"{TESTED}, {CHECKPOINTS['best']}"
    beside = tuple(
        dataclasses.replace(one, panel=f"{as_printed} / {one.panel}", column="soft_nll:p")
        if one.column == "p_wilcoxon"
        else one
        for one in printed("table1", {"": as_printed} | {title: title for title in titles.values()})
    )
    return Experiment(
        name="003/table1",
        title="Few votes: does hard delivery help?",
        question="With K votes an item, are labels that are drawn or cycled better than the soft labels of those K "
        "votes?",
        panels=panels,
        seeds=run.few,
        scale=scale,
        columns=COLUMNS,
        notes=run.notes,
        printed=beside,
        exhibits=tuple(exhibits),
        claims=_sparse_claims(run),
    )


TESTED = "Hard deliveries tested against Soft"


def _sparse_claims(run: Scale) -> tuple[Claim, ...]:
    claims = []
    for votes in run.votes:
        cells = {method: nodes(run.sparse(method, votes), run.few) for method in run.sweep}
        hard = [method for method in run.sweep if method not in ("Soft", SHRUNK)]
        claims += [
            Claim(
                f"(f) At K = {votes}, {method} is at least as good as Soft in soft NLL.",
                "not_higher",
                {method: cells[method], "Soft": cells["Soft"]},
                (NLL,),
                source="003, §5.1",
            )
            for method in hard
        ]
        if SHRUNK in cells:
            claims += [
                Claim(
                    f"(h) At K = {votes}, shrinking the votes makes soft labels better than the plain ones.",
                    "lower",
                    {SHRUNK: cells[SHRUNK], "Soft": cells["Soft"]},
                    (NLL,),
                    source="a question that 003 does not ask",
                ),
                Claim(
                    f"(h) At K = {votes}, shrunk soft labels are at least as good as SLS.",
                    "not_higher",
                    {SHRUNK: cells[SHRUNK], "SLS": cells["SLS"]},
                    (NLL,),
                    source="a question that 003 does not ask",
                ),
                Claim(
                    f"(h) What remains at K = {votes} of the gap between Soft and SLS after one temperature fitted to "
                    "all votes of other evaluation items, which whoever has K votes does not have.",
                    "remaining",
                    {"Soft": cells["Soft"], "SLS": cells["SLS"]},
                    (NLL, "last.tempered_votes.soft_nll"),
                    source="a question that 003 does not ask",
                ),
            ]
    return tuple(claims)


def figure1(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The sweep as curves."""
    run = at(scale, seeds)
    cells = {
        method: {str(votes): nodes(run.sparse(method, votes), run.few) for votes in run.votes} for method in run.sweep
    }
    exhibit = Exhibit(
        "Scores by the number of votes",
        "lines",
        cells,
        (NLL, "last.raw.accuracy", "last.raw.entropy_spearman"),
        axes=("votes an item", ""),
        note="Last epoch, judged by the full votes. Mean over seeds, in a band of one standard deviation.",
    )
    return of_exhibits(
        "figure1",
        run,
        scale,
        "Few votes: scores by K",
        "How do the deliveries compare as each item has fewer votes?",
        (exhibit,),
        run.few,
        beside=printed("figure1", {"": "Scores by the number of votes"}),
    )


def _by_error(name: str, error: str, where: tuple[str, ...], what: str, scale: str, seeds: Seeds | None) -> Experiment:
    run = at(scale, seeds)
    hard = [method for method in run.sweep if method not in ("Soft", SHRUNK)]
    related = {
        (method, votes): tuple(
            Analysis(SparseTarget(), tuple(Training(run.sparse(one, votes), seed) for one in (method, "Soft")))
            for seed in run.few
        )
        for method in hard
        for votes in run.votes
    }
    exhibits = [
        Exhibit(
            f"Improvement over Soft, {WORDS[part]}",
            "curves",
            {method: {f"K = {votes}": related[method, votes] for votes in run.votes} for method in hard},
            (f"facts.bins.{part}.{error}.x", f"facts.bins.{part}.{error}.y"),
            names=(WORDS[part],),
            axes=(what, "nats"),
            note="Soft NLL of an item under Soft minus that under the hard delivery, by how far the item's few votes "
            "are from its full ones: items whose few votes are exactly right first, if any are, then five bins of equal "
            f"mass. Mean over seeds.{f' {HIGH}' if part.endswith('_high') else ''}",
        )
        for part in where
    ]
    correlations = Exhibit(
        "Correlation of error and improvement",
        "table",
        {method: {f"K = {votes}": related[method, votes] for votes in run.votes} for method in hard},
        tuple(f"{kind}_{error}_{part}" for part in where for kind in ("spearman", "partial_spearman")),
        names=tuple(f"{kind}, {WORDS[part]}" for part in where for kind in ("Spearman", "given vote entropy")),
        note="Over items, a seed at a time; beside it the partial correlation given vote entropy. On training items "
        "the sparse target was learned; the draw of an evaluation item was never seen, so its columns are a control.",
    )
    claims = tuple(
        Claim(
            f"At K = {votes}, the improvement by {method} over Soft, be it a gain or a loss, grows with the distance of "
            f"an item's few votes from all its votes: over {WORDS[where[0]]} its correlation with {what} is above 0 "
            "(the paper: by JS distance, over all methods and K, about 0.05 to 0.16).",
            "above",
            {method: related[method, votes]},
            (f"spearman_{error}_{where[0]}",),
            threshold=0.0,
            source="003, §5.1",
        )
        for votes in run.votes
        for method in hard
    )
    return of_exhibits(
        name,
        run,
        scale,
        f"Where does hard delivery help? By {what}",
        "Does an item gain more from hard delivery, the further its few votes are from all its votes?",
        (*exhibits, correlations),
        run.few,
        claims,
        beside=printed(name, {"": "Correlation of error and improvement"}),
    )


WORDS = {
    "train": "training items",
    "evaluation": "evaluation items (control)",
    "train_high": "training items of high disagreement",
    "evaluation_high": "evaluation items of high disagreement (control)",
}


def figure2(scale: str, seeds: Seeds | None = None) -> Experiment:
    """By JS distance."""
    return _by_error("figure2", "js", ("train", "evaluation"), "JS distance", scale, seeds)


def figure5(scale: str, seeds: Seeds | None = None) -> Experiment:
    """By L1 distance."""
    return _by_error("figure5", "l1", ("train", "evaluation"), "L1 distance", scale, seeds)


def figure6(scale: str, seeds: Seeds | None = None) -> Experiment:
    """By JS distance, where people disagree most."""
    return _by_error("figure6", "js", ("train_high", "evaluation_high"), "JS distance", scale, seeds)


def figure4(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Labels that are held."""
    run = at(scale, seeds)
    rows = {"SLS": nodes(run.own["SLS"], run.held)}
    rows |= {f"Held {epochs}": nodes(run.holding(epochs), run.held) for epochs in HELD}
    title = "Labels held for several epochs"
    exhibit = Exhibit(
        title,
        "dots",
        {label: {"": of} for label, of in rows.items()},
        (NLL, "best.raw.soft_nll", "last.raw.accuracy"),
        names=("soft NLL, last epoch", "soft NLL, best epoch", "accuracy"),
        baseline="SLS",
        note=f"A run has {run.base.epochs} epochs: labels that are held as long or longer are drawn once and stay. The "
        "paper's runs have 200, in which labels held for 50 are drawn four times.",
    )
    claim = Claim(
        "(c) The staler the labels, the worse, monotonically.", "rising", rows, (NLL,), source="003, §5.1 and Figure 4"
    )
    return of_exhibits(
        "figure4",
        run,
        scale,
        "What if labels are drawn less often?",
        "SLS draws a label an item every epoch. What if it keeps each draw for 5, 10 or 50 epochs?",
        (exhibit,),
        run.held,
        (claim,),
        printed("figure4", {"": title}),
    )
