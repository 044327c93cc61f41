"""From a manifest and its runs to what people read: one HTML page, results.md and results.csv."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dissensus.errors import InputError
from dissensus.experiments.description import Manifest
from dissensus.report import longform, markdown, page
from dissensus.report.answer import answer
from dissensus.report.comparisons import comparisons, looks
from dissensus.report.exhibits import shown
from dissensus.report.judged_claims import judged
from dissensus.report.method_notes import setup
from dissensus.report.svg import standalone
from dissensus.report.wording import capital
from dissensus.store.run_source import RunSource


class Written(NamedTuple):
    """Where the three files are, and the answer to the question, in a sentence for each table and claim."""

    html: Path
    markdown: Path
    csv: Path
    answers: dict[str, str]


def write(manifest: Manifest, ledger: RunSource, folder: Path | str) -> Written:
    """Write `report.html`, `results.md` and `results.csv` into the folder, from the manifest and the runs alone.

    Figures of exhibits are also written one by one, as `figures/*.svg`. Runs that are not in the ledger are shown as not
    finished. The same runs give the same bytes.
    """
    styles = looks(manifest)
    tables, exhibits = comparisons(manifest, ledger, styles), shown(manifest, ledger, styles)
    claims, done = judged(manifest, ledger), setup(tables, exhibits, ledger)
    texts = {
        "report.html": page.html(manifest, tables, exhibits, claims, done, ledger),
        "results.md": markdown.text(manifest, tables, exhibits, claims, done),
        "results.csv": longform.text(tables, exhibits),
    }
    for one in exhibits:
        for name, panel in markdown.pictures(one):
            texts[name] = standalone(panel.drawing)
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
    answers = {table.title: answer(table).headline for table in tables}
    answers.update((one.claim.text, f"{capital(one.word)}. {one.why}") for one in claims)
    return Written(html, markdown_file, csv, answers)
