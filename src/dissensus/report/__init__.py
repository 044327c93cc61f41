"""From a planned experiment and its runs to what people read: one HTML page, results.md and results.csv."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from dissensus.errors import InputError
from dissensus.experiments.description import BarChart, CurvePlot, Exhibit, Experiment, ScoreTable, ValueTable
from dissensus.report import markdown, page, results_csv
from dissensus.report.comparison import looks
from dissensus.report.judged_claims import judge_claims
from dissensus.report.method_notes import method_notes
from dissensus.report.score_section import score_section
from dissensus.report.sections import Section
from dissensus.report.svg import Style, standalone
from dissensus.report.value_sections import bar_section, curve_section, table_section
from dissensus.report.wording import capital
from dissensus.store.run_source import RunSource

__all__ = ["Written", "write"]


class Written(NamedTuple):
    """Where the three files are, and the answer to the question, in a sentence for each score table and claim."""

    html: Path
    markdown: Path
    csv: Path
    answers: dict[str, str]


def write(experiment: Experiment[str], runs: RunSource, folder: Path | str) -> Written:
    """Write `report.html`, `results.md` and `results.csv` into the folder, from the experiment and its runs alone.

    Figures are also written one by one, as `figures/*.svg`. Runs that are not there are shown as not finished. The same
    runs give the same bytes.
    """
    styles = looks(experiment)
    sections = tuple(_section(exhibit, runs, styles) for exhibit in experiment.exhibits)
    claims, notes = judge_claims(experiment, runs), method_notes(sections, runs)
    texts = {
        "report.html": page.html(experiment, sections, claims, notes),
        "results.md": markdown.text(experiment, sections, claims, notes),
        "results.csv": results_csv.text(line for section in sections for line in section.lines),
    }
    for section in sections:
        texts |= {name: standalone(panel.drawing) for name, panel in markdown.pictures(section)}
    try:
        for name, text in texts.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as problem:
        raise InputError(
            f"the report cannot be written ({problem.strerror})",
            where=str(folder),
            hint="Name a folder that you may write to",
            state="The runs are safe in the ledger.",
        ) from None
    html, markdown_file, csv = (Path(folder) / name for name in ("report.html", "results.md", "results.csv"))
    answers = {section.exhibit.title: section.scores.answer.headline for section in sections if section.scores}
    answers.update((claim.claim.text, f"{capital(claim.word)}. {claim.why}") for claim in claims)
    return Written(html, markdown_file, csv, answers)


def _section(exhibit: Exhibit[str], runs: RunSource, styles: Mapping[str, Style]) -> Section:
    """An exhibit, drawn by the one function for its kind."""
    if isinstance(exhibit, ScoreTable):
        return score_section(exhibit, runs, styles)
    if isinstance(exhibit, ValueTable):
        return table_section(exhibit, runs, styles)
    if isinstance(exhibit, CurvePlot):
        return curve_section(exhibit, runs, styles)
    assert isinstance(exhibit, BarChart)
    return bar_section(exhibit, runs, styles)
