"""The page: one HTML file that needs nothing else. The template shows; what is shown is computed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from dissensus.experiments.description import Manifest, Printed
from dissensus.report import panels as figures
from dissensus.report import wording
from dissensus.report.answer import NOT_EVIDENCE, Answer, answer
from dissensus.report.comparisons import LEVEL, Comparison, how_tested
from dissensus.report.curves import curves
from dissensus.report.dots import dots
from dissensus.report.exhibits import Shown, unplaced
from dissensus.report.gallery import Gallery, gallery
from dissensus.report.judged_claims import HOW_TO_READ, Judged
from dissensus.report.method_notes import Setup, classes_of
from dissensus.report.panels import Figure
from dissensus.store.run_source import RunSource


@dataclass(frozen=True)
class Chapter:
    """All that the page says about one table. `left_out` says why figures are missing, where some are."""

    table: Comparison
    answer: Answer
    figures: tuple[Figure, ...]
    gallery: Gallery | None
    left_out: str


def html(
    manifest: Manifest,
    tables: Sequence[Comparison],
    exhibits: Sequence[Shown],
    claims: Sequence[Judged],
    done: Setup,
    ledger: RunSource,
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
        significant=wording.significant,
        probability=wording.probability,
        interval=wording.interval,
        paper_value=wording.paper_value,
        title=wording.title,
        unit=wording.unit,
        about=wording.about,
        direction=wording.direction,
        swatch=figures.swatch,
    )
    headline_metric = "kl_to_truth" if any("kl_to_truth" in table.columns for table in tables) else manifest.primary
    return environment.get_template("page.html").render(
        manifest=manifest,
        banner=NOT_EVIDENCE if manifest.scale == "smoke" else "",
        chapters=[_chapter(table, ledger) for table in tables],
        exhibits=exhibits,
        claims=claims,
        picture=dots(tables, headline_metric),
        done=done,
        level=f"{LEVEL:.0%}",
        how_tested=how_tested(tables),
        how_claims_are_judged=HOW_TO_READ,
        seeds_note=wording.FINISHED_NOTE,
        limits={limit.label: limit.meaning for table in tables for limit in table.limits},
        glossary=_glossary(tables),
        unplaced=unplaced(manifest, tables, exhibits),
        sources=_sources(manifest.printed),
    )


def _chapter(table: Comparison, ledger: RunSource) -> Chapter:
    kept = figures.predictions_of(table, ledger)
    drawn = (curves(table), figures.reliability(table, kept), figures.entropies(table, kept))
    silent = [method.label for method in table.methods if method.runs and method.label not in kept]
    left_out = ""
    if silent:
        left_out = f"The predictions of {wording.listed(silent)} were not kept, so figures that need them leave them out."
    present = tuple(figure for figure in drawn if figure is not None)
    return Chapter(table, answer(table), present, gallery(table, kept, ledger, classes_of(table)), left_out)


def _glossary(tables: Sequence[Comparison]) -> list[str]:
    shown = dict.fromkeys(name for table in tables for name in table.columns)
    return [name for name in (*shown, *(() if "smooth_ece" in shown else ("smooth_ece",))) if wording.about(name)]


def _sources(printed: Sequence[Printed]) -> list[str]:
    return list(dict.fromkeys(one.source for one in printed))
