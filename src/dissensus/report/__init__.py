"""From a planned experiment and its runs to what people read: one HTML page, results.md, results.csv and seeds.csv."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from dissensus.errors import InputError
from dissensus.experiments.description import BarChart, CurvePlot, Exhibit, Experiment, GapTable, ScoreTable, ValueTable
from dissensus.report import markdown, page, results_csv
from dissensus.report.comparison import looks
from dissensus.report.gap_section import gap_section
from dissensus.report.judged_claims import judge_claims
from dissensus.report.method_notes import method_notes
from dissensus.report.recommendation import Recommendation, recommend
from dissensus.report.score_section import score_section
from dissensus.report.sections import Section
from dissensus.report.spending_advice import SpendingAdvice, advise
from dissensus.report.svg import Style, standalone
from dissensus.report.value_sections import bar_section, curve_section, table_section
from dissensus.report.wording import capital
from dissensus.store.atomic_files import StorageError, write_whole
from dissensus.store.run_source import RunSource

__all__ = ["PAGE", "Written", "finished_runs", "finished_runs_shown", "write"]

PAGE = "report.html"


class Written(NamedTuple):
    """Where the three files are, and the answer to the question, in a sentence for each score table and claim.

    `recommendation` is there where the experiment has candidates or a budget, also as `recommendation.json`.
    """

    html: Path
    markdown: Path
    csv: Path
    answers: dict[str, str]
    recommendation: Recommendation | SpendingAdvice | None = None


def write(experiment: Experiment[str], runs: RunSource, folder: Path | str) -> Written:
    """Write `report.html`, `results.md` and `results.csv` into the folder, from the experiment and its runs alone.

    Where there are score tables, `seeds.csv` has the scores of their single runs. Figures are also written one by one, as
    `figures/*.svg`. Runs that are not there are shown as not finished. The same runs give the same bytes.
    """
    styles = looks(experiment)
    sections = tuple(_section(exhibit, runs, styles) for exhibit in experiment.exhibits)
    claims, notes = judge_claims(experiment, runs), method_notes(sections, runs)
    recommended: Recommendation | SpendingAdvice | None = None
    if experiment.candidates:
        recommended = recommend(experiment.candidates, sections)
    elif experiment.budget:
        recommended = advise(experiment, sections, styles)
    texts = {
        PAGE: page.html(experiment, sections, claims, notes, recommended)
        + _FINISHED.format(finished_runs(experiment, runs)),
        "results.md": markdown.text(experiment, sections, claims, notes, recommended),
        "results.csv": results_csv.text(line for section in sections for line in section.lines),
    }
    if recommended is not None:
        texts["recommendation.json"] = json.dumps(recommended.to_json(), indent=1, ensure_ascii=False) + "\n"
    if scores := [section.scores for section in sections if section.scores]:
        texts["seeds.csv"] = results_csv.seeds_text([line for of_table in scores for line in of_table.seed_lines])
    for section in sections:
        texts |= {name: standalone(panel.drawing) for name, panel in markdown.pictures(section)}
    if isinstance(recommended, SpendingAdvice):
        texts |= {name: standalone(panel.drawing) for name, panel in markdown.advice_pictures(recommended)}
    try:
        for name, text in texts.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode("utf-8", "replace"), durable=False)
    except (OSError, StorageError) as problem:
        reason = problem.what if isinstance(problem, StorageError) else problem.strerror
        raise InputError(
            f"the report cannot be written ({reason})",
            where=str(folder),
            hint="Name a folder that you may write to",
            state="The runs are safe in the ledger.",
        ) from None
    html, markdown_file, csv = (Path(folder) / name for name in (PAGE, "results.md", "results.csv"))
    answers = {section.exhibit.title: section.scores.answer.headline for section in sections if section.scores}
    answers.update((claim.claim.text, f"{capital(claim.word)}. {claim.why}") for claim in claims)
    return Written(html, markdown_file, csv, answers, recommended)


_FINISHED = "<!-- made from {} finished runs -->\n"
"""The last line of a page, by which the next one knows what it would replace."""


def finished_runs(experiment: Experiment[str], runs: RunSource) -> int:
    """How many runs of the experiment are finished."""
    return sum(run_id in runs for run_id in set(experiment.runs()))


def finished_runs_shown(folder: Path | str) -> int | None:
    """How many finished runs the page in a folder shows; None where there is no page. A page of an earlier version does
    not say it, and counts as one."""
    try:
        content = (Path(folder) / PAGE).read_bytes()
    except OSError:
        return None
    found = re.search(_FINISHED.format("(\\d+)").strip().encode(), content[-200:])
    return int(found[1]) if found else 1


def _section(exhibit: Exhibit[str], runs: RunSource, styles: Mapping[str, Style]) -> Section:
    """An exhibit, drawn by the one function for its kind."""
    if isinstance(exhibit, ScoreTable):
        return score_section(exhibit, runs, styles)
    if isinstance(exhibit, ValueTable):
        return table_section(exhibit, runs, styles)
    if isinstance(exhibit, GapTable):
        return gap_section(exhibit, runs, styles)
    if isinstance(exhibit, CurvePlot):
        return curve_section(exhibit, runs, styles)
    assert isinstance(exhibit, BarChart)
    return bar_section(exhibit, runs, styles)
