"""The pages under docs/results: made from the recipes and the committed records of their runs, and from nothing else.

python docs/result_pages.py                      make every page again
python docs/result_pages.py --check              exit code 1 where a page is not what its records say
python docs/result_pages.py --take 003 RUNS      first add finished runs of a ledger to the records of a folder

docs/results/003/records.jsonl.gz holds the records; table3.md and figures/table3-*.svg are what the recipe 003/table3
makes of them. Which data a run was trained on is part of its id: the digests stand in the records.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dissensus import report
from dissensus.engine.measures.renewed import RenewedRuns
from dissensus.experiments.description import Experiment
from dissensus.experiments.plan import DigestOf, make_plan
from dissensus.recipes import RECIPES, scales_of
from dissensus.report.judged_claims import HOW_TO_READ, JudgedClaim, judge_claims
from dissensus.report.training_sources import training_runs
from dissensus.store.ledger import Ledger
from dissensus.store.records import Records, pack
from dissensus.store.run_source import Arrays, RunSource, Summary
from dissensus.store.spec import Run

RESULTS = Path(__file__).parent / "results"
RECORDS = "records.jsonl.gz"


class Home(NamedTuple):
    """A folder of pages: the recipes of a paper at one scale, and what a reader should know first."""

    paper: str
    scale: str
    title: str
    about: str
    also: tuple[str, ...] = ()
    """Folders whose runs its pages show beside its own."""


HOMES = {
    "001": Home(
        "001",
        "laptop",
        "Human uncertainty and robustness (Peterson et al. 2019)",
        "Small members of three of the paper's eight families and the network `speedy`, pretrained on CIFAR-10's 50,000 "
        "images and fine-tuned on three of ten folds, by the clean protocol: nothing is chosen on the images that judge. "
        "Networks and training are far smaller than the paper's, so compare rows with rows. Claims were fixed before any "
        "of these runs was looked at.",
    ),
    "002": Home(
        "002",
        "offline",
        "Soft labels on frozen embeddings (Singh et al. 2025)",
        "Small heads on frozen features of three sets of votes; grid, seeds and tests as in the paper. The encoders are "
        "not the paper's (MiniLM and EfficientNet-Lite0 instead of OpenAI's and DINOv2), so compare differences, not "
        "levels.",
    ),
    "003": Home(
        "003",
        "miniature",
        "Hard against soft delivery, in the paper's own regime (Gheibi and Ghazizadeh 2026)",
        "The paper's training to the letter (crop, flip, SGD, cosine, 200 epochs, nothing averaged, nothing tuned) on "
        "ResNet-18 at an eighth of its width. This is the evidence on the paper's claims. Claims and margins were fixed "
        "before any of these runs was looked at. Runs are still being added: what is missing is called not finished.",
        also=("003-regularised",),
    ),
    "003-regularised": Home(
        "003",
        "laptop",
        "The same recipes on a strongly regularised small network: a robustness check",
        "The network `speedy` with distortions, weight decay and averaged weights for 36 epochs hardly overfits. So what "
        "the paper finds in networks that do may not appear here, and a claim that does not hold on these pages is not "
        "refuted.",
    ),
}
"""By folder. One without records has no pages yet."""

HEAD = f"""# Results

Experiments that were really run, with each paper's numbers beside ours. Every page is made from the committed records of
its runs by `python docs/result_pages.py`; no number is typed by hand.

{HOW_TO_READ}
"""


def main() -> None:
    """The three ways to call it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--take", nargs=2, metavar=("FOLDER", "RUNS"))
    chosen = arguments.parse_args()
    if chosen.take:
        folder, runs = chosen.take
        take(folder, Ledger(runs))
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


def take(folder: str, ledger: Ledger) -> None:
    """Add the runs that the pages of a folder name and those these were trained from, as far as the ledger has them."""
    file = RESULTS / folder / RECORDS
    file.parent.mkdir(parents=True, exist_ok=True)
    runs: RunSource = Together((Records(file), ledger)) if file.is_file() else ledger
    named = {run for experiment in experiments(HOMES[folder], runs).values() for run in experiment.runs()}
    behind = {source.id for run in named if run in runs for source in training_runs(runs.read(run), runs)}
    print(f"{pack(runs, sorted(named | behind), file)} records packed")


class Together:
    """The runs of several sources; where more than one has a run, the first is read."""

    def __init__(self, sources: tuple[RunSource, ...]) -> None:
        self.sources = sources

    def __contains__(self, run_id: str) -> bool:
        return any(run_id in source for source in self.sources)

    def ids(self) -> list[str]:
        """The ids of all runs, sorted."""
        return sorted({run_id for source in self.sources for run_id in source.ids()})

    def read(self, run_id: str) -> Run:
        """The record of a run."""
        return self._source(run_id).read(run_id)

    def predictions(self, run_id: str, checkpoint: str) -> Arrays | None:
        """What a run predicted at a checkpoint."""
        return self._source(run_id).predictions(run_id, checkpoint)

    def gallery(self, run_id: str) -> Arrays | None:
        """Pictures of the items on which people disagree most."""
        return self._source(run_id).gallery(run_id)

    def summaries(self) -> list[Summary]:
        """All runs in short."""
        return [summary for source in self.sources for summary in source.summaries()]

    def _source(self, run_id: str) -> RunSource:
        return next((source for source in self.sources if run_id in source), self.sources[0])


def experiments(home: Home, runs: RunSource) -> dict[str, Experiment[str]]:
    """What the pages of a folder show, by name and planned on the data of these runs."""
    digest_of = digests(runs)
    names = [name for name in RECIPES if name.startswith(f"{home.paper}/") and home.scale in scales_of(name)]
    planned = {}
    for name in sorted(names, key=_in_order):
        page = name.split("/")[1]
        command = f"dissensus run {name} --scale {home.scale} --ledger runs --out {page}"
        planned[page] = make_plan(RECIPES[name](home.scale, None), digest_of, command).experiment
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
    sections, every = [], list[JudgedClaim]()
    for folder, home in HOMES.items():
        place = RESULTS / folder
        if not (place / RECORDS).is_file():
            continue
        own = Records(place / RECORDS)
        records = RenewedRuns(Together((own, *(Records(RESULTS / other / RECORDS) for other in home.also))))
        planned = experiments(home, own)
        judged = {name: judge_claims(experiment, records) for name, experiment in planned.items()}
        every += [claim for of_page in judged.values() for claim in of_page]
        sections.append(section(folder, home, planned, judged, own))
        for name, experiment in planned.items():
            with tempfile.TemporaryDirectory() as written:
                report.write(experiment, records, written)
                text = (Path(written) / "results.md").read_text("utf-8")
                made[place / f"{name}.md"] = text.replace("](figures/", f"](figures/{name}-")
                for figure in sorted(Path(written).glob("figures/*.svg")):
                    made[place / "figures" / f"{name}-{figure.name}"] = figure.read_text("utf-8")
    count = f"{len(every):,} claims are judged on these pages: {verdicts(every)}.\n"
    made[RESULTS / "README.md"] = "\n".join([HEAD, count, *sections])
    return made


def section(
    folder: str,
    home: Home,
    planned: dict[str, Experiment[str]],
    judged: dict[str, tuple[JudgedClaim, ...]],
    records: RunSource,
) -> str:
    """What a reader of two minutes should know of a folder: the regime, the main claims, and where the rest is."""
    trained = sum(records.read(run).spec.kind == "train" for run in records.ids())
    counts = f"{trained:,} trained models and {len(records.ids()) - trained:,} measurements of them"
    lines = [
        f"## {home.title}\n",
        f"{home.about} {counts}, in [{RECORDS}]({folder}/{RECORDS}).\n",
        "| claim | verdict | ours, 95% interval | the paper's | page |",
        "| :--- | :--- | :--- | ---: | :--- |",
    ]
    for name, claims in judged.items():
        lines += [claim_row(claim, f"[{name}]({folder}/{name}.md)") for claim in claims if claim.claim.is_main]
    lines.append("\nAll pages, and what they say of every claim:\n")
    lines += [
        f"- [{file.stem}]({folder}/{file.name}): {title_of(file)}" for file in by_hand(RESULTS / folder, set(planned))
    ]
    for name, experiment in planned.items():
        of_page = f" ({verdicts(judged[name])})" if judged[name] else ""
        lines.append(f"- [{name}]({folder}/{name}.md): {experiment.title}{of_page}")
    return "\n".join([*lines, ""])


def claim_row(judged: JudgedClaim, link: str) -> str:
    """A main claim in one line: the verdict, our effect and interval, and the paper's effect."""
    effect, printed = judged.effect, judged.claim.printed
    ours = "–"
    if effect is not None:
        runs = f"{effect.runs} pairs" if len(judged.claim.groups) > 1 else f"{effect.runs} runs"
        bounds = "" if effect.low is None else f" ({signed_short(effect.low)} to {signed_short(effect.high)}, {runs})"
        ours = signed_short(effect.mean) + bounds
    paper = "–" if printed is None else signed_short(printed)
    return f"| {judged.claim.text} | {judged.word} | {ours} | {paper} | {link} |"


def signed_short(value: float | None) -> str:
    """Three significant digits, with a real minus sign."""
    return "–" if value is None else f"{value:+.3g}".replace("-", "−")


def verdicts(claims: Sequence[JudgedClaim]) -> str:
    """`3 hold, 1 does not hold, 2 not shown`."""
    words = {"holds": "hold", "does not hold": "do not hold"}
    counted = Counter(claim.word for claim in claims)
    return ", ".join(f"{count} {words.get(word, word) if count > 1 else word}" for word, count in counted.most_common())


def by_hand(home: Path, recipes: set[str]) -> list[Path]:
    """Pages that no recipe makes."""
    return [file for file in sorted(home.glob("*.md")) if file.stem not in recipes]


def title_of(page: Path) -> str:
    """The heading of a page."""
    return page.read_text("utf-8").splitlines()[0].removeprefix("# ")


if __name__ == "__main__":
    main()
