"""From a manifest and its runs to what people read: one HTML page, results.md and results.csv."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dissensus.errors import InputError
from dissensus.experiment import Manifest
from dissensus.ledger import Ledger
from dissensus.report import longform, markdown, page
from dissensus.report.answer import answer
from dissensus.report.setup import setup
from dissensus.report.tables import comparisons


class Written(NamedTuple):
    """Where the three files are, and the answer to the question, in a sentence for each table."""

    html: Path
    markdown: Path
    csv: Path
    answers: dict[str, str]


def write(manifest: Manifest, ledger: Ledger, folder: Path | str) -> Written:
    """Write `report.html`, `results.md` and `results.csv` into the folder, from the manifest and the runs alone.

    Runs that are not in the ledger are shown as not finished. The same runs give the same bytes.
    """
    tables = comparisons(manifest, ledger)
    done = setup(tables)
    paths = [Path(folder) / name for name in ("report.html", "results.md", "results.csv")]
    texts = (
        page.html(manifest, tables, done, ledger),
        markdown.text(manifest, tables, done),
        longform.text(tables),
    )
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as problem:
        raise InputError(
            f"the report cannot be written ({problem.strerror})",
            where=str(folder),
            mend="Name a folder that you may write to",
            state="The runs are safe in the ledger.",
        ) from None
    html, markdown_file, csv = paths
    return Written(html, markdown_file, csv, {table.title: answer(table).headline for table in tables})
