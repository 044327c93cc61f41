"""The figures of 003."""

from __future__ import annotations

from dataclasses import replace

from dissensus.analyses.curves import convergence, reliability
from dissensus.analyses.disagreement import sparse_target
from dissensus.analyses.geometry import barrier, gradient_variance
from dissensus.analyses.representation import cka, grad_cam
from dissensus.experiment import Analysis, Claim, Exhibit, Experiment, Printed, Training
from dissensus.recipes.paper003.settings import HELD, HIGH, SHRUNK, Scale, Seeds, at, nodes, pairs, printed

NLL = "last.raw.soft_nll"


def _experiment(
    name: str,
    run: Scale,
    scale: str,
    title: str,
    question: str,
    exhibits: tuple[Exhibit, ...],
    seeds: Seeds,
    claims: tuple[Claim, ...] = (),
    beside: tuple[Printed, ...] = (),
) -> Experiment:
    return Experiment(
        name=f"003/{name}",
        title=title,
        question=question,
        panels=(),
        seeds=seeds,
        scale=scale,
        notes=run.notes,
        printed=beside,
        exhibits=exhibits,
        claims=claims,
    )


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
    return _experiment(
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
            Analysis(sparse_target, tuple(Training(run.sparse(one, votes), seed) for one in (method, "Soft")))
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
    return _experiment(
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


def figure3(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Reliability."""
    run = at(scale, seeds)
    labels = ("Soft", "SLS", "Multipass", "Majority", "Label smoothing", "Mixup")
    pooled = {method: {"": (Analysis(reliability, run.runs(method)),)} for method in labels}
    diagram = Exhibit(
        "Smooth reliability",
        "curves",
        pooled,
        ("facts.full.x", "facts.full.y", "facts.high.x", "facts.high.y"),
        names=("all evaluation items", "items of high disagreement"),
        axes=("confidence", "share right"),
        note="How often the top class is right, by confidence, smoothed with the kernel of smooth ECE; all seeds "
        "pooled, last epoch. Below the diagonal a method is too sure.",
    )
    each = {method: {"": tuple(Analysis(reliability, (node,)) for node in run.runs(method))} for method in labels}
    values = Exhibit(
        "Smooth ECE",
        "table",
        each,
        ("smooth_ece_full", "smooth_ece_high"),
        names=("smooth ECE", "on items of high disagreement"),
        baseline="Soft",
        note=HIGH,
    )
    claims = tuple(
        Claim(
            f"{method} is better calibrated than Majority: its smooth ECE is the lower.",
            "lower",
            {one: each[one][""] for one in (method, "Majority")},
            ("smooth_ece_full",),
            source="003, §5.2 and Figure 3",
        )
        for method in ("Soft", "SLS")
    )
    return _experiment(
        "figure3",
        run,
        scale,
        "Are the methods as sure as they should be?",
        "How often is the top class right, given how sure the network was?",
        (diagram, values),
        run.main,
        claims,
        beside=printed("figure3", {"": "Smooth ECE"}, {"smooth_ece": "smooth_ece_full"}),
    )


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
    return _experiment(
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


def figure7(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Label noise in the last layer."""
    run = at(scale, seeds)
    measured = {
        method: {"": tuple(Analysis(gradient_variance, node) for node in run.runs(method))} for method in ("SLS", "Soft")
    }
    table = Exhibit(
        "Spearman correlation with vote entropy",
        "table",
        measured,
        ("spearman_trained", "spearman_untrained", "spearman_labels_alone", "sampled_over_closed_form"),
        names=("trained network", "untrained network", "1 − ‖p‖² alone", "sampled / closed form"),
        note="An item's gradient variance in the last layer is (1 − ‖p‖²) times a factor of its features (1 + ‖h‖² with "
        "a bias; ‖h‖² times the squared scale of the logits in speedy): the first factor alone grows with vote entropy, "
        "so the correlation is nearly a tautology. The untrained network and the factor alone show how much of it needs "
        "no training.",
    )
    curve = Exhibit(
        "Gradient variance by vote entropy",
        "curves",
        {"SLS": measured["SLS"]},
        ("facts.bins.trained.x", "facts.bins.trained.y", "facts.bins.untrained.x", "facts.bins.untrained.y"),
        names=("trained network", "untrained network"),
        axes=("vote entropy, nats", "variance"),
    )
    claim = Claim(
        "(e) The Spearman correlation of gradient variance and vote entropy is above 0.9.",
        "above",
        {"SLS": measured["SLS"][""]},
        ("spearman_trained",),
        threshold=0.9,
        source="003, §5.3",
    )
    return _experiment(
        "figure7",
        run,
        scale,
        "Where is the label noise?",
        "Does drawing labels put more noise into the gradient of items that people disagree on?",
        (curve, table),
        run.main,
        (claim,),
        printed(
            "figure7",
            {"": "Spearman correlation with vote entropy"},
            {
                "spearman_trained_min": "spearman_trained:lowest",
                "spearman_trained_max": "spearman_trained:highest",
            },
        ),
    )


def figure8(scale: str, seeds: Seeds | None = None) -> Experiment:
    """How fast."""
    run = at(scale, seeds)
    cells = {
        method: {"": tuple(Analysis(convergence, node) for node in run.runs(method))}
        for method in ("Soft", "SLS", "Multipass", "Majority")
    }
    dots = Exhibit(
        "Epochs to near the best",
        "dots",
        cells,
        ("epochs_to_near_best", "best_epoch"),
        names=("epochs to 95% of the best soft NLL", "best epoch"),
        baseline="Soft",
        note="The first epoch with soft NLL at most best / 0.95, and the epoch of the best. A run has "
        f"{run.base.epochs} epochs; the paper's have 200, and it prints by how many SLS is ahead. Where the learning "
        "rate falls to 0 and weights are averaged, the best epoch is seldom far from the last.",
    )
    curve = Exhibit(
        "Soft NLL over the epochs",
        "curves",
        {method: {"": run.runs(method)} for method in cells},
        ("", "curve.soft_nll"),
        names=("soft NLL on evaluation items",),
        axes=("epoch", "nats"),
    )
    claim = Claim(
        "SLS comes near its best in fewer epochs than Soft.",
        "lower",
        {method: cells[method][""] for method in ("SLS", "Soft")},
        ("epochs_to_near_best",),
        source="003, Figure 8",
    )
    return _experiment(
        "figure8",
        run,
        scale,
        "Who gets there first?",
        "After how many epochs is each delivery near its best?",
        (curve, dots),
        run.main,
        (claim,),
        beside=printed(
            "figure8",
            {"": "Epochs to near the best"},
            {"epochs_to_95_earlier": "epochs_to_near_best:below", "best_epoch_earlier": "best_epoch:below"},
        ),
    )


PAIRS_OF_SEEDS = "(pairs of seeds share seeds, so the interval is narrower than it should be)."


def figure9(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Do seeds look at the same places?"""
    run = at(scale, seeds)
    title = "Grad-CAM stability across seeds"
    cells = {
        method: {"": tuple(Analysis(grad_cam, run.runs(method, both)) for both in pairs(run.seeds(method)))}
        for method in run.own
    }
    exhibit = Exhibit(
        title,
        "dots",
        cells,
        ("stability", "stability_high"),
        names=("all items", "items of high disagreement"),
        note="Correlation of the maps of two seeds over the items that both held out; every pair of seeds a dot. Pairs "
        f"share seeds, so the dots are not independent. {HIGH}",
    )
    claims = tuple(
        Claim(
            f"Grad-CAM maps agree more from seed to seed with SLS than with Soft, {where} {PAIRS_OF_SEEDS}",
            "lower",
            {method: cells[method][""] for method in ("Soft", "SLS")},
            (value,),
            source="003, §5.3 and Figure 9",
        )
        for value, where in (("stability", "on all items"), ("stability_high", "where people disagree"))
    )
    return _experiment(
        "figure9",
        run,
        scale,
        "Do seeds look at the same places?",
        "Are the places that decide the class the same from seed to seed?",
        (exhibit,),
        run.main,
        claims,
        beside=printed("figure9", {"": title}),
    )


def figure10(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The parts of the Brier score."""
    run = at(scale, seeds)
    names = ("reliability", "resolution", "uncertainty", "within_bin_variance", "within_bin_covariance")
    exhibit = Exhibit(
        "Brier score of the top class, in five parts",
        "table",
        {method: {"": run.runs(method)} for method in run.own},
        tuple(f"last.raw.brier_{name}" for name in ("top", *names)),
        names=("score", *(name.replace("_", " ") for name in names)),
        note="Event: the top class is right; 15 bins of equal mass; last epoch. Score = reliability − resolution + "
        "uncertainty + variance − covariance within bins, exactly. The event is each method's own, so methods that "
        "differ in accuracy do not compare: one that is nearly always wrong, and never sure, scores well.",
    )
    claim = Claim(
        "SLS has a higher resolution than Soft.",
        "lower",
        {method: run.runs(method) for method in ("Soft", "SLS")},
        ("last.raw.brier_resolution",),
        source="003, Figure 10",
    )
    return _experiment(
        "figure10",
        run,
        scale,
        "What is the Brier score made of?",
        "Do the methods differ in calibration or in telling right from wrong?",
        (exhibit,),
        run.main,
        (claim,),
    )


POLICIES = {"barrier_interpolated": "interpolated", "barrier_reestimated": "measured anew"}


def figure11(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The barrier between two solutions."""
    run = at(scale, seeds)
    related = {
        other: tuple(
            Analysis(barrier, (Training(run.own["SLS"], seed), Training(run.own[other], seed)), run.barrier)
            for seed in run.geometry
        )
        for other in ("Soft", "Multipass")
    }
    to_soft, control = "SLS to Soft", "SLS to Multipass"
    cells = {to_soft: {"": related["Soft"]}, control: {"": related["Multipass"]}}
    line = Exhibit(
        "Soft NLL on the line from SLS to another solution",
        "curves",
        cells,
        ("facts.x", "facts.interpolated", "facts.x", "facts.reestimated"),
        names=("batch-norm statistics interpolated", "batch-norm statistics measured anew"),
        axes=("share of the other end", "nats"),
    )
    height = Exhibit(
        "Height of the barrier",
        "table",
        cells,
        tuple(POLICIES),
        names=tuple(f"statistics {words}" for words in POLICIES.values()),
        note="The largest excess over the straight line between the losses of the two ends, 21 points, soft NLL on "
        "evaluation items; never below 0, so the claims ask for more than 0.1. The paper does not say what it does with "
        "batch-norm statistics, so both are shown. The control, which the paper does not have, is between two hard "
        "deliveries: a barrier there as well is no sign of what soft labels do.",
    )
    claims = tuple(
        claim
        for policy, words in POLICIES.items()
        for claim in (
            Claim(
                "SLS and Soft end in different basins: the barrier between them is above 0.1 nats, batch-norm statistics "
                f"{words}.",
                "above",
                {to_soft: related["Soft"]},
                (policy,),
                threshold=0.1,
                source="003, A.4",
            ),
            Claim(
                "The barrier is a sign of soft labels: it is lower between two hard deliveries, batch-norm statistics "
                f"{words}.",
                "lower",
                {control: related["Multipass"], to_soft: related["Soft"]},
                (policy,),
                source="a question that 003 does not ask",
            ),
        )
    )
    beside = printed("figure11", {"": "Height of the barrier"}, {"barrier": "barrier_interpolated"})
    return _experiment(
        "figure11",
        run,
        scale,
        "Is there a barrier between the solutions?",
        "Start from the same weights, deliver the same target in two ways: is the straight line between the results "
        "smooth?",
        (line, height),
        run.geometry,
        claims,
        beside=tuple(replace(one, row=to_soft) for one in beside),
    )


def figure12(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Features."""
    run = at(scale, seeds)
    title = "Linear CKA of penultimate features"
    within = {
        method: tuple(Analysis(cka, run.runs(method, both)) for both in pairs(run.seeds(method))) for method in run.own
    }
    across = {
        f"SLS with {method}": tuple(
            Analysis(cka, (Training(run.own["SLS"], a), Training(run.own[method], b))) for a, b in pairs(run.seeds("SLS"))
        )
        for method in ("Soft", "Majority")
    }
    exhibit = Exhibit(
        title,
        "dots",
        {label: {"": of} for label, of in (within | across).items()},
        ("cka", "cka_unbiased"),
        names=("as printed (biased)", "unbiased"),
        note="Between two seeds of one method, or of two methods, on the items that both held out; every pair a dot.",
    )
    claim = Claim(
        f"Features agree more from seed to seed with SLS than with Soft, by CKA {PAIRS_OF_SEEDS}",
        "lower",
        {method: within[method] for method in ("Soft", "SLS")},
        ("cka",),
        source="003, §5.3 and Figure 12",
    )
    return _experiment(
        "figure12",
        run,
        scale,
        "Do the networks see alike?",
        "Are features more alike within a delivery than across deliveries?",
        (exhibit,),
        run.main,
        (claim,),
        beside=printed("figure12", {"": title}, {"cka_within": "cka"}),
    )
