"""The page: one HTML file that needs nothing else. The template shows; what is shown is computed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from dissensus.experiments.description import Experiment
from dissensus.report import charts, wording
from dissensus.report.answer import NOT_EVIDENCE
from dissensus.report.charts import Figure
from dissensus.report.comparison import LEVEL, Comparison, how_tested
from dissensus.report.judged_claims import HOW_TO_READ, JudgedClaim, decided_and_waiting, waiting_in_words
from dissensus.report.method_notes import MethodNotes
from dissensus.report.recommendation import Recommendation
from dissensus.report.score_section import difference_picture, picture
from dissensus.report.sections import Section
from dissensus.report.spending_advice import SpendingAdvice


def html(
    experiment: Experiment[str],
    sections: Sequence[Section],
    claims: Sequence[JudgedClaim],
    notes: MethodNotes,
    recommended: Recommendation | SpendingAdvice | None = None,
) -> str:
    """The whole page as text; equal runs give equal text."""
    environment = Environment(
        loader=PackageLoader("dissensus.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        capital=wording.capital,
        fixed=wording.fixed,
        signed=wording.signed,
        spread=wording.spread,
        significant=wording.significant,
        probability=wording.probability,
        interval=wording.interval,
        paper_value=wording.paper_value,
        title=wording.title,
        unit=wording.unit,
        about=wording.about,
        direction=wording.direction,
        swatch=charts.swatch,
    )
    comparisons = [section.scores.comparison for section in sections if section.scores]
    decided, waiting = decided_and_waiting(claims)
    printed = [printed.number for section in sections for printed in section.exhibit.printed]
    return environment.get_template("page.html").render(
        experiment=experiment,
        banner=NOT_EVIDENCE if experiment.scale == "smoke" else "",
        sections=sections,
        compared=[section for section in sections if section.scores],
        claims=claims,
        decided=decided,
        waiting=waiting,
        waiting_in_words=waiting_in_words(waiting),
        recommended=recommended,
        picture=recommended.picture if isinstance(recommended, SpendingAdvice) else _picture(experiment, comparisons),
        notes=notes,
        level=f"{LEVEL:.0%}",
        how_tested=how_tested(comparisons),
        how_claims_are_judged=HOW_TO_READ,
        seeds_note=wording.FINISHED_NOTE,
        limits={limit.label: limit.meaning for comparison in comparisons for limit in comparison.limits},
        glossary=_glossary(comparisons),
        sources=list(dict.fromkeys(number.source for number in (*printed, *experiment.apart))),
    )


def _picture(experiment: Experiment[str], comparisons: Sequence[Comparison]) -> Figure | None:
    """The picture to remember: all tables on one metric, or, where there is something to choose, the differences."""
    if experiment.candidates:
        chosen_from = experiment.candidates.table
        return next((difference_picture(table) for table in comparisons if table.table.key == chosen_from), None)
    return picture(comparisons, _headline_metric(comparisons)) if comparisons else None


def _headline_metric(comparisons: Sequence[Comparison]) -> str:
    if any("kl_to_truth" in comparison.columns for comparison in comparisons):
        return "kl_to_truth"
    return comparisons[0].primary


def _glossary(comparisons: Sequence[Comparison]) -> list[str]:
    shown = dict.fromkeys(name for comparison in comparisons for name in comparison.columns)
    return [name for name in (*shown, *(() if "smooth_ece" in shown else ("smooth_ece",))) if wording.about(name)]
