"""The pages under docs/results: made from the recipes and the committed records of their runs, and from nothing else.

python docs/result_pages.py                      make every page again
python docs/result_pages.py --check              exit code 1 where a page is not what its records say
python docs/result_pages.py --take 003 RUNS      first add finished runs of a ledger to the records of a paper

docs/results/003/records.jsonl.gz holds the records; table3.md and figures/table3-*.svg are what the recipe 003/table3
makes of them. Which data a run was trained on is part of its id: the digests stand in the records.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dissensus import report
from dissensus.experiments.description import Experiment
from dissensus.experiments.plan import DigestOf, make_plan
from dissensus.recipes import RECIPES
from dissensus.report.judged_claims import HOW_TO_READ, judge_claims
from dissensus.report.wording import capital
from dissensus.store.ledger import Ledger
from dissensus.store.records import Records, pack
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Run

RESULTS = Path(__file__).parent / "results"
RECORDS = "records.jsonl.gz"
SCALES = {"002": "paper", "003": "laptop"}
"""The scale at which the pages of each paper were run."""

HEAD = f"""# Results

Experiments that were really run. Each page has our numbers with the paper's beside them, says what differs in the set-up,
and is made from the records of its runs by `python docs/result_pages.py`; no number is typed by hand. Under a page stands
what it says about the claims that the paper makes, or should have made.

{HOW_TO_READ}
"""


def main() -> None:
    """The three ways to call it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--take", nargs=2, metavar=("PAPER", "RUNS"))
    chosen = arguments.parse_args()
    if chosen.take:
        paper, folder = chosen.take
        take(paper, Ledger(folder))
    made = pages()
    stale = [file for file, content in made.items() if not file.is_file() or file.read_text("utf-8") != content]
    gone = [file for file in RESULTS.glob("*/figures/*.svg") if file not in made]
    if chosen.check:
        wrong = [f"{file} is not what its records say" for file in stale] + [f"{file} has no page" for file in gone]
        print("\n".join(wrong) or "every page is what its records say")
        sys.exit(bool(wrong))
    for file in gone:
        file.unlink()
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(made[file], encoding="utf-8", newline="\n")
    print(f"{len(stale)} pages written")


def take(paper: str, ledger: Ledger) -> None:
    """Add the runs that the pages of a paper name, as far as the ledger has them, to the paper's records."""
    file = RESULTS / paper / RECORDS
    file.parent.mkdir(parents=True, exist_ok=True)
    runs: RunSource = Both(Records(file), ledger) if file.is_file() else ledger
    named = {run for experiment in experiments(paper, runs).values() for run in experiment.runs()}
    print(f"{pack(runs, sorted(named), file)} records packed")


class Both:
    """The runs of two sources; where both have one, the first is read."""

    def __init__(self, first: RunSource, second: RunSource) -> None:
        self.first, self.second = first, second

    def __contains__(self, run_id: str) -> bool:
        return run_id in self.first or run_id in self.second

    def ids(self) -> list[str]:
        """The ids of all runs, sorted."""
        return sorted({*self.first.ids(), *self.second.ids()})

    def read(self, run_id: str) -> Run:
        """The record of a run."""
        return (self.first if run_id in self.first else self.second).read(run_id)


def experiments(paper: str, runs: RunSource) -> dict[str, Experiment[str]]:
    """What the pages of a paper show, by name and planned on the data of these runs."""
    scale, digest_of = SCALES[paper], digests(runs)
    names = sorted((name for name in RECIPES if name.startswith(f"{paper}/")), key=_in_order)
    planned = {}
    for name in names:
        page = name.split("/")[1]
        command = f"dissensus run {name} --scale {scale} --ledger runs --out {page}"
        planned[page] = make_plan(RECIPES[name](scale, None), digest_of, command).experiment
    return planned


def _in_order(name: str) -> tuple[str, int]:
    """Tables and figures as a paper numbers them: figure10 comes after figure9."""
    start, number = re.fullmatch(r"(.*?)(\d*)", name).groups()  # type: ignore[union-attr]
    return start, int(number or 0)


def digests(runs: RunSource) -> DigestOf:
    """The digest of each data set that these runs used; "unknown" for others, of which no run can be here then."""
    known: dict[str, str] = {}
    for run_id in runs.ids():
        for name, options, digest in _data_of(runs.read(run_id).spec.settings):
            known[repr((name, sorted(options)))] = digest
    return lambda name, options: known.get(repr((name, sorted(options))), "unknown")


def _data_of(settings: dict[str, object]) -> Iterator[tuple[str, list[tuple[str, object]], str]]:
    data = settings.get("data")
    if isinstance(data, dict) and data["name"] == "data_ref":  # of a measure
        yield data["dataset"], [tuple(option) for option in data["options"]], data["digest"]
    elif isinstance(data, dict):  # of a training run
        yield data["name"], list(data["options"].items()), data["digest"]


def pages() -> dict[Path, str]:
    """Every page and figure, as its records say it should be."""
    made: dict[Path, str] = {}
    index = [HEAD]
    for home in sorted(file.parent for file in RESULTS.glob(f"*/{RECORDS}")):
        records = Records(home / RECORDS)
        trained = sum(records.read(run).spec.kind == "train" for run in records.ids())
        counts = f"{trained:,} trained models and {len(records.ids()) - trained:,} measurements of them"
        index.append(f"## {home.name}\n\n{counts}, in [{RECORDS}]({home.name}/{RECORDS}).\n")
        planned = experiments(home.name, records)
        index += [f"- [{file.stem}]({home.name}/{file.name}): {title_of(file)}" for file in by_hand(home, set(planned))]
        for name, experiment in planned.items():
            index.append(f"- [{name}]({home.name}/{name}.md) ({experiment.scale} scale): {experiment.title}")
            index += [f"  - {capital(judged.word)}: {judged.claim.text}" for judged in judge_claims(experiment, records)]
            with tempfile.TemporaryDirectory() as folder:
                report.write(experiment, records, folder)
                text = (Path(folder) / "results.md").read_text("utf-8")
                made[home / f"{name}.md"] = text.replace("](figures/", f"](figures/{name}-")
                for figure in sorted(Path(folder).glob("figures/*.svg")):
                    made[home / "figures" / f"{name}-{figure.name}"] = figure.read_text("utf-8")
        index.append("")
    made[RESULTS / "README.md"] = "\n".join(index)
    return made


def by_hand(home: Path, recipes: set[str]) -> list[Path]:
    """Pages that no recipe makes."""
    return [file for file in sorted(home.glob("*.md")) if file.stem not in recipes]


def title_of(page: Path) -> str:
    """The heading of a page."""
    return page.read_text("utf-8").splitlines()[0].removeprefix("# ")


if __name__ == "__main__":
    main()
