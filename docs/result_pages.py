"""The pages under docs/results: made from the committed records of runs, and from nothing else.

python docs/result_pages.py                                       make every page anew
python docs/result_pages.py --check                               exit code 1 where a page is not what its records say
python docs/result_pages.py --take 002 OUT... --ledger RUNS       first take finished experiments (--out folders of `run`)

docs/results/002/records.jsonl.gz holds the records, docs/results/002/table3.json the manifest of an experiment, and
table3.md and figures/table3-*.svg what is made of the two.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dissensus import report
from dissensus.experiments.description import Manifest
from dissensus.report.judged_claims import HOW_TO_READ, judged
from dissensus.report.wording import capital
from dissensus.store import records
from dissensus.store.ledger import Ledger
from dissensus.store.run_source import RunSource

RESULTS = Path(__file__).parent / "results"
RECORDS = "records.jsonl.gz"
HEAD = f"""# Results

Experiments that were really run. Each page has our numbers with the paper's beside them, says what differs in the set-up,
and is made from the records of its runs by `python docs/result_pages.py`; no number is typed by hand. Under a page stands
what it says of the claims that the paper makes, or should have made.

{HOW_TO_READ}
"""


def main() -> None:
    """The three ways to call it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--take", nargs="+", metavar="PAPER OUT")
    arguments.add_argument("--ledger", help="where the runs of the experiments to take are")
    chosen = arguments.parse_args()
    if chosen.take:
        paper, *folders = chosen.take
        take(RESULTS / paper, [Path(folder) for folder in folders], Ledger(chosen.ledger))
    made = pages()
    stale = [file for file, content in made.items() if not file.is_file() or file.read_text("utf-8") != content]
    if chosen.check:
        print("\n".join(f"{file} is not what its records say" for file in stale) or "every page is what its records say")
        sys.exit(bool(stale))
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(made[file], encoding="utf-8", newline="\n")
    print(f"{len(stale)} pages written")


def take(home: Path, folders: list[Path], runs: RunSource) -> None:
    """Copy manifests, and pack the records of all the runs that the manifests of this paper name."""
    home.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        manifest = Manifest.from_json(json.loads((folder / "experiment.json").read_text("utf-8")))
        name = manifest.name.split("/")[-1]
        command = f"dissensus run {manifest.name} --scale {manifest.scale} --ledger runs --out {name}"
        document = json.dumps(replace(manifest, command=command).to_json(), indent=1, ensure_ascii=False)
        (home / f"{name}.json").write_text(document + "\n", encoding="utf-8")
    named = {run for manifest in manifests(home).values() for run in runs_of(manifest)}
    print(f"{records.pack(runs, sorted(named), home / RECORDS)} records packed")


def manifests(home: Path) -> dict[str, Manifest]:
    """Of one paper, by name."""
    files = sorted(home.glob("*.json"), key=_in_order)
    return {file.stem: Manifest.from_json(json.loads(file.read_text("utf-8"))) for file in files}


def _in_order(file: Path) -> tuple[str, int]:
    """Tables and figures as a paper numbers them: figure10 comes after figure9."""
    name, number = re.fullmatch(r"(.*?)(\d*)", file.stem).groups()  # type: ignore[union-attr]
    return name, int(number or 0)


def runs_of(manifest: Manifest) -> Iterator[str]:
    """Every run that a manifest names."""
    for table in manifest.tables:
        for row in table.rows:
            yield from row.runs.values()
    for exhibit in manifest.exhibits:
        for points in exhibit.cells.values():
            for runs in points.values():
                yield from runs
    for claim in manifest.claims:
        for runs in claim.groups.values():
            yield from runs


def pages() -> dict[Path, str]:
    """Every page and figure, as its records say it should be."""
    made: dict[Path, str] = {}
    index = [HEAD]
    for home in sorted(file.parent for file in RESULTS.glob(f"*/{RECORDS}")):
        kept = records.Records(home / RECORDS)
        trained = sum(kept.read(run).spec.kind == "train" for run in kept.ids())
        told = f"{trained:,} trained models and {len(kept.ids()) - trained:,} measurements of them"
        index.append(f"## {home.name}\n\n{told}, in [{RECORDS}]({home.name}/{RECORDS}).\n")
        index += [f"- [{file.stem}]({home.name}/{file.name}): {title_of(file)}" for file in written_by_hand(home)]
        for name, manifest in manifests(home).items():
            index.append(f"- [{name}]({home.name}/{name}.md) ({manifest.scale} scale): {manifest.title}")
            index += [f"  - {capital(one.word)}: {one.claim.text}" for one in judged(manifest, kept)]
            with tempfile.TemporaryDirectory() as folder:
                report.write(manifest, kept, folder)
                text = (Path(folder) / "results.md").read_text("utf-8")
                made[home / f"{name}.md"] = text.replace("](figures/", f"](figures/{name}-")
                for figure in sorted(Path(folder).glob("figures/*.svg")):
                    made[home / "figures" / f"{name}-{figure.name}"] = figure.read_text("utf-8")
        index.append("")
    made[RESULTS / "README.md"] = "\n".join(index)
    return made


def written_by_hand(home: Path) -> list[Path]:
    """Pages that belong to no manifest."""
    return [file for file in sorted(home.glob("*.md")) if not file.with_suffix(".json").is_file()]


def title_of(file: Path) -> str:
    """Its first heading."""
    return file.read_text("utf-8").splitlines()[0].lstrip("# ")


if __name__ == "__main__":
    main()
