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
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from dissensus import report
from dissensus.engine.measures.renewed import RenewedRuns
from dissensus.experiments.description import Experiment
from dissensus.experiments.plan import DigestOf, make_plan
from dissensus.recipes import RECIPES, scales_of
from dissensus.report.judged_claims import HOW_TO_READ, JudgedClaim, judge_claims
from dissensus.report.training_sources import training_runs
from dissensus.report.wording import counted
from dissensus.store.ledger import Ledger
from dissensus.store.records import Records, pack
from dissensus.store.run_source import Arrays, RunSource, Summary
from dissensus.store.spec import Run

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent.parent / "README.md"
RECORDS = "records.jsonl.gz"


class Home(NamedTuple):
    """A folder of pages: the recipes of a paper at one scale."""

    scale: str
    regime: str
    """How its models were trained, in a few words: the heading of a column."""
    about: str
    also: tuple[str, ...] = ()
    """Folders whose runs its pages show beside its own."""


class Paper(NamedTuple):
    """What a reader of two minutes should know of a paper's reproduction, and its folders of pages."""

    title: str
    summary: str
    untested: str
    homes: Mapping[str, Home]


PAPERS = {
    "000": Paper(
        "Four uncertainty methods, soft and hard labels (“Do Soft Labels Enhance Neural Network Training?”)",
        "ResNet-20 at full size with a plain head, SNGP, DUQ and MC dropout. The document has no authors and does not "
        "say how many seeds it has. Claims were fixed before any of these runs was looked at. Pooled claims are of "
        "several blocks or rows at once; their pairs of one seed share items, so that their intervals are narrower than "
        "they should be.",
        "The document's 200 epochs; Mixup and CutMix on SNGP, DUQ and dropout.",
        {
            "000": Home(
                "laptop",
                "ResNet-20, 40 epochs",
                "ResNet-20 at full size with a plain head, SNGP, DUQ and MC dropout, for 40 epochs; the document has "
                "200.",
            )
        },
    ),
    "001": Paper(
        "Human uncertainty and robustness (Peterson et al. 2019)",
        "Small members of three of the paper's eight families and the network `speedy`, pretrained on CIFAR-10's 50,000 "
        "images and fine-tuned on three of ten folds, by the clean protocol: nothing is chosen on the images that judge. "
        "Claims were fixed before any of these runs was looked at; four shorter trials on the first fold were, and "
        "lengths, weight decay and two claims about the last epoch were set after them.",
        "The paper's networks and training, which are far larger: compare rows with rows. CIFAR-10.1, in whose place "
        "samples of CINIC-10 and ImageNet-Far stand.",
        {
            "001": Home(
                "laptop",
                "small networks, three of ten folds",
                "Small members of three of the paper's eight families and the network `speedy`, pretrained on CIFAR-10's "
                "50,000 images and fine-tuned on three of ten folds, by the clean protocol.",
            )
        },
    ),
    "002": Paper(
        "Soft labels on frozen embeddings (Singh et al. 2025)",
        "Small heads on frozen features of three sets of votes, with the grid, seeds and tests of the paper. As in the "
        "paper, soft labels bring a head closer to the votes on all three sets, and its entropy closer to that of the "
        "votes on two; the gains are smaller than the paper's on two of three sets. Its gain in accuracy on ChaosNLI is "
        "not reproduced. Sampling one vote per epoch or cycling through the votes is as good as the soft labels, or "
        "nearly so.",
        "The paper's own encoders (text-embedding-3-large and DINOv2): MiniLM and EfficientNet-Lite0 take their places. "
        "So compare differences, not levels.",
        {"002": Home("offline", "MiniLM, EfficientNet-Lite0", "Small heads on frozen features of three sets of votes.")},
    ),
    "003": Paper(
        "Hard against soft delivery (Gheibi and Ghazizadeh 2026)",
        "Two regimes. The first is the paper's training to the letter (crop, flip, SGD, cosine, 200 epochs, nothing "
        "averaged, nothing tuned) on ResNet-18 at an eighth of its width: the evidence on the paper's claims. There, as "
        "in the paper, majority vote is far worse than soft labels; whether labels drawn anew in each epoch beat soft "
        "ones with five votes per item needs more seeds than there are so far. The second is a strongly regularised "
        "small network that hardly overfits: a robustness check, in which a claim that does not hold is not refuted. "
        "There, little is left of any difference. The paper's claims and all margins were fixed before any run of the "
        "first regime was looked at (not those of regularisation and precision, which the paper does not have); its "
        "runs are still being added, and what is missing is called not finished.",
        "ResNet-18 at its full width; K = 50 votes per item; ten seeds.",
        {
            "003": Home(
                "miniature",
                "ResNet-18 / 8, trained as in the paper",
                "The paper's training to the letter (crop, flip, SGD, cosine, 200 epochs, nothing averaged, nothing "
                "tuned) on ResNet-18 at an eighth of its width. This is the evidence on the paper's claims.",
                also=("003-regularised",),
            ),
            "003-regularised": Home(
                "laptop",
                "speedy, strongly regularised",
                "The same recipes on a strongly regularised small network: a robustness check. The network `speedy` "
                "with distortions, weight decay and averaged weights for 36 epochs hardly overfits. So what the paper "
                "finds in networks that do may not appear here, and a claim that does not hold on these pages is not "
                "refuted.",
            ),
        },
    ),
}
"""By key. A folder that has no records yet has no pages."""

HEAD = """# Results

Experiments that were really run, with each paper's numbers beside ours. Every page is made from the committed records of
its runs by `python docs/result_pages.py`; no number is typed by hand. For each paper: what came out, its main claims, and
what could not be tested here. A cell has the verdict, our effect and its 95% interval, from how many runs or pairs of
runs, and the page that has the rest. Where a claim compares two methods, the effect is their difference, taken so that a
number below 0 agrees with the claim (alike: near 0); where it names a number, the effect is the mean itself. How the
default of `dissensus fit` compares with logistic regression on real crowds is on
[a page of its own](crowds.md).
"""
FOOT = f"## How the verdicts are reached\n\n{HOW_TO_READ}\n"

FINDINGS = ("<!-- findings: by docs/result_pages.py -->\n", "<!-- end of findings -->\n")
"""Around what the project's README says of the results."""


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
    key, home = next((key, paper.homes[folder]) for key, paper in PAPERS.items() if folder in paper.homes)
    named = {run for experiment in experiments(key, home, runs).values() for run in experiment.runs()}
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


def experiments(key: str, home: Home, runs: RunSource) -> dict[str, Experiment[str]]:
    """What the pages of a folder show, by name and planned on the data of these runs."""
    digest_of = digests(runs)
    names = [name for name in RECIPES if name.startswith(f"{key}/") and home.scale in scales_of(name)]
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


class Folder(NamedTuple):
    """What a folder's records say: the experiments of its pages, their claims, and how many runs there are."""

    name: str
    home: Home
    planned: Mapping[str, Experiment[str]]
    judged: Mapping[str, tuple[JudgedClaim, ...]]
    trained: int
    measured: int

    @property
    def claims(self) -> list[JudgedClaim]:
        """Of all pages."""
        return [claim for of_page in self.judged.values() for claim in of_page]

    @property
    def main_claims(self) -> dict[str, tuple[JudgedClaim, str]]:
        """By their text, with the page that has them."""
        return {
            claim.claim.text: (claim, page)
            for page, claims in self.judged.items()
            for claim in claims
            if claim.claim.is_main
        }


def pages() -> dict[Path, str]:
    """Every page and figure, as its records say it should be."""
    made: dict[Path, str] = {}
    sections, judged = [], dict[str, list[JudgedClaim]]()
    for key, paper in PAPERS.items():
        folders = []
        for name, home in paper.homes.items():
            place = RESULTS / name
            if not (place / RECORDS).is_file():
                continue  # nothing has been run
            own = Records(place / RECORDS)
            runs = RenewedRuns(Together((own, *(Records(RESULTS / other / RECORDS) for other in home.also))))
            folder = read_folder(key, name, home, own, runs)
            folders.append(folder)
            made[place / "README.md"] = contents(folder)
            for page, experiment in folder.planned.items():
                made |= written(place, page, experiment, runs)
        if folders:
            sections.append(section(paper, folders))
            judged |= {folder.name: folder.claims for folder in folders}
    every = [claim for claims in judged.values() for claim in claims]
    count = f"These pages have {len(every):,} claims: {verdicts(every)}.\n"
    made[RESULTS / "README.md"] = "\n".join([HEAD, count, *sections, FOOT])
    made[README] = with_findings(README.read_text("utf-8"), judged)
    return made


def with_findings(readme: str, judged: Mapping[str, Sequence[JudgedClaim]]) -> str:
    """The project's README, with the numbers of its findings as the records have them."""

    def gap(folder: str, text: str) -> str:
        return difference(next(one for one in judged[folder] if one.claim.text == text))

    majority = "Soft has a lower soft NLL than Majority ({}; {})."
    sampled = "(a) SLS and Soft are alike in soft NLL (last epoch; margin 0.0105)."
    plain, held_back = "ResNet-18 / 8, crop and flip", "speedy, + distortions, weight decay × 2"
    lines = (
        "In the paper's regime, the soft NLL of soft labels minus that of majority vote is "
        f"{gap('003', majority.format(plain, 'last epoch'))}. On another small network, with strong regularisation, it "
        f"is {gap('003', majority.format(held_back, 'last epoch'))}. The two networks differ in more than "
        "regularisation.",
        "One temperature, fitted after training to held-out votes, takes away most of the first difference: it leaves "
        f"{gap('003', majority.format(plain, 'last epoch, tempered'))}.",
        "What remains between ways to deliver the same votes is small: labels drawn anew in each epoch (SLS) minus "
        f"soft labels is {gap('003', sampled)} in the paper's regime, and {gap('003-regularised', sampled)} with strong "
        "regularisation.",
    )
    start, end = FINDINGS
    before, rest = readme.split(start)
    bullets = "".join(f"{textwrap.fill(line, 122, initial_indent='- ', subsequent_indent='  ')}\n" for line in lines)
    return f"{before}{start}{bullets}{end}{rest.split(end)[1]}"


def difference(judged: JudgedClaim) -> str:
    """`−0.44 nats in soft NLL (95% interval −0.50 to −0.38, 5 pairs)`."""
    effect = judged.effect
    if effect is None or effect.low is None or effect.high is None:
        return "not known yet"
    bounds = f"{signed_short(effect.low)} to {signed_short(effect.high)}"
    return f"{signed_short(effect.mean)} nats (95% interval {bounds}, {counted(effect.runs, 'pair')})"


def read_folder(key: str, name: str, home: Home, own: RunSource, runs: RunSource) -> Folder:
    """Plan and judge what a folder's records allow; `runs` also has those of other folders."""
    planned = experiments(key, home, own)
    judged = {page: judge_claims(experiment, runs) for page, experiment in planned.items()}
    trained = sum(own.read(run).spec.kind == "train" for run in own.ids())
    return Folder(name, home, planned, judged, trained, len(own.ids()) - trained)


def written(place: Path, page: str, experiment: Experiment[str], runs: RunSource) -> dict[Path, str]:
    """A page and its figures."""
    made = {}
    with tempfile.TemporaryDirectory() as out:
        report.write(experiment, runs, out)
        text = (Path(out) / "results.md").read_text("utf-8")
        made[place / f"{page}.md"] = text.replace("](figures/", f"](figures/{page}-")
        for figure in sorted(Path(out).glob("figures/*.svg")):
            made[place / "figures" / f"{page}-{figure.name}"] = figure.read_text("utf-8")
    return made


def section(paper: Paper, folders: Sequence[Folder]) -> str:
    """What a reader of two minutes should know of a paper: what came out, the main claims, and where the rest is."""
    main = [folder.main_claims for folder in folders]
    texts = sorted(dict.fromkeys(text for of_folder in main for text in of_folder), key=lettered_first)
    lines = [
        f"## {paper.title}\n",
        f"{paper.summary}\n",
        f"| claim | the paper's | {' | '.join(folder.home.regime for folder in folders)} |",
        f"| :--- | ---: |{' :--- |' * len(folders)}",
    ]
    for text in texts:
        printed = next(of_folder[text][0].claim.printed for of_folder in main if text in of_folder)
        cells = [
            claim_cell(*of_folder[text], folder.name) if text in of_folder else "–"
            for folder, of_folder in zip(folders, main, strict=True)
        ]
        lines.append(f"| {text} | {'–' if printed is None else signed_short(printed)} | {' | '.join(cells)} |")
    lines.append(f"\nNot tested here: {paper.untested}\n")
    lines += [f"- [All pages: {folder.home.regime}]({folder.name}/README.md), {counts(folder)}" for folder in folders]
    return "\n".join([*lines, ""])


def lettered_first(text: str) -> str:
    """Claims that the text numbers, (a), (b)…, in their order, and then the others as they come."""
    return text[:3] if re.match(r"\([a-z]\)", text) else "~"


def counts(folder: Folder) -> str:
    """`20 trained models, 28 measurements of them, 100 claims: …`."""
    measured = f"{folder.trained:,} trained models, {folder.measured:,} measurements of them"
    return f"{measured}; {len(folder.claims):,} claims: {verdicts(folder.claims)}"


def contents(folder: Folder) -> str:
    """The first page of a folder: every page, and what it says of its claims."""
    hand_made = [
        f"- [{file.stem}]({file.name}): {title_of(file)}"
        for file in by_hand(RESULTS / folder.name, {*folder.planned, "README"})
    ]
    listed = [
        f"- [{page}]({page}.md): {experiment.title}{f' ({verdicts(claims)})' if (claims := folder.judged[page]) else ''}"
        for page, experiment in folder.planned.items()
    ]
    records = f"{counts(folder)}. The records are in [{RECORDS}]({RECORDS})."
    lines = [f"# {folder.home.regime}\n", f"{folder.home.about}\n", f"{records}\n", *hand_made, *listed]
    return "\n".join([*lines, "", "[What the papers' main claims came to](../README.md)", ""])


def claim_cell(judged: JudgedClaim, page: str, folder: str) -> str:
    """A main claim in one regime: the verdict, our effect and its interval, of how many runs, and where to read on."""
    effect, ours = judged.effect, ""
    if judged.word == "measured":
        ours = f": {judged.why.partition(':')[0]}"
    elif effect is not None:
        runs = counted(effect.runs, "pair" if len(judged.claim.groups) > 1 else "run")
        bounds = "" if effect.low is None else f" ({signed_short(effect.low)} to {signed_short(effect.high)})"
        ours = f": {signed_short(effect.mean)}{bounds}, {runs}"
    return f"**{judged.word}**{ours} [{page}]({folder}/{page}.md)"


def signed_short(value: float | None) -> str:
    """Three significant digits, never as a power of ten, with a real minus sign."""
    return "–" if value is None else f"{Decimal(f'{value:.3g}'):+,f}".replace("-", "−")


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
