"""chaosnli: 100 votes each on 3,113 pairs of premise and hypothesis from SNLI and MNLI.

Nie, Zhou & Bansal, What Can We Learn from Collective Human Opinions on Natural Language Inference Data? (EMNLP 2020).
One JSON object per line: `label_count` in the order entailment, neutral, contradiction, and `entropy` in bits. The
label from SNLI or MNLI is not used as gold: the 100 annotators disagree with it on many pairs. Abductive NLI, the third
part of ChaosNLI, has other classes and is not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from dissensus.datasets.catalogue import Entry, Remote, data_root, missing, share
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.votes.exports.chaos_lines import CLASSES, chaos_counts, why
from dissensus.votes.votes import Votes

FOLDER = "chaosNLI_v1.0"
PARTS = {"SNLI pairs": ("chaosNLI_snli.jsonl", 1514), "MNLI pairs": ("chaosNLI_mnli_m.jsonl", 1599)}
PAIRS = sum(official for _, official in PARTS.values())


def load(root: Path | None = None) -> Data:
    """Pairs (premise, hypothesis) as `texts`, with their votes; ids are those of SNLI and MNLI. There is no gold."""
    folder = (root or data_root()) / FOLDER
    here = [path for path in (folder / name for name, _ in PARTS.values()) if path.is_file()]
    if not here:
        raise missing("chaosnli", folder / PARTS["SNLI pairs"][0])
    rows = [row for path in here for row in _rows(path)]
    ids = tuple(uid for uid, _, _ in rows)
    note = f"{share(len(ids), PAIRS)} pairs of ChaosNLI are here and were used."
    return Data(
        name="chaosnli",
        classes=CLASSES,
        ids=ids,
        votes=Votes.from_counts([counts for _, _, counts in rows], classes=CLASSES, items=ids),
        texts=tuple(pair for _, pair, _ in rows),
        notes=() if len(ids) == PAIRS else (note,),
    )


def _rows(path: Path) -> Iterator[tuple[str, tuple[str, str], list[int]]]:
    """The id, the pair and the counts of each line, checked."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                example = row["example"]
                pair = (str(example["premise"]), str(example["hypothesis"]))
                counts = chaos_counts(row)
                yield str(row["uid"]), pair, counts
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise InputError(
                    f"this is not a line of ChaosNLI ({why(error)})",
                    where=f"{path}:{number}",
                    hint="Remove the file and run `dissensus data get chaosnli`",
                    state="",
                ) from error


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many pairs of each part are present: one per line."""
    return {part: (_lines(root / FOLDER / name), official) for part, (name, official) in PARTS.items()}


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0


ENTRY = Entry(
    name="chaosnli",
    description="ChaosNLI: 311,300 human votes on 3,113 pairs of sentences (SNLI and MNLI)",
    licence="CC BY-NC 4.0; cite Nie, Zhou & Bansal (2020)",
    source="https://github.com/easonnie/ChaosNLI",
    load=load,
    sizes=sizes,
    remotes=(
        Remote(
            # The direct form of the link in its README, which leads a browser to a page.
            url="https://dl.dropboxusercontent.com/s/h4j7dqszmpt2679/chaosNLI_v1.0.zip",
            path=".",  # the archive has its own folder inside
            brings=tuple((f"{FOLDER}/{name}", None) for name, _ in PARTS.values()),
        ),
    ),
)
