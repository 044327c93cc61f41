"""ChaosNLI in its official format: on small files written here, and on the real one where it is."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import entr

from dissensus import datasets
from dissensus.datasets import chaosnli
from dissensus.errors import InputError
from dissensus.votes import read_votes


def line(uid: str, counts: tuple[int, int, int], **changes: Any) -> dict[str, Any]:
    """One object as the authors write it."""
    total = sum(counts)
    entropy = -sum(c / total * math.log2(c / total) for c in counts if c)
    row = {
        "uid": uid,
        "label_counter": {letter: count for letter, count in zip("enc", counts, strict=True) if count},
        "majority_label": "enc"[int(np.argmax(counts))],
        "label_dist": [count / total for count in counts],
        "label_count": list(counts),
        "entropy": entropy,
        "example": {"uid": uid, "premise": f"premise of {uid}", "hypothesis": f"hypothesis of {uid}", "source": "s"},
        "old_label": "n",
        "old_labels": ["neutral"],
    }
    return {**row, **changes}


def write(root: Path, name: str, *rows: dict[str, Any] | str) -> None:
    folder = root / "chaosNLI_v1.0"
    folder.mkdir(exist_ok=True)
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("".join(text + "\n" for text in texts), encoding="utf-8")


def test_counts_are_entailment_neutral_contradiction_and_texts_are_pairs(tmp_path):
    write(tmp_path, "chaosNLI_snli.jsonl", line("1.jpg#0r1n", (30, 70, 0)), line("2.jpg#0r1e", (98, 1, 1)))
    write(tmp_path, "chaosNLI_mnli_m.jsonl", line("50830c", (12, 68, 20)))
    data = datasets.load("chaosnli", root=tmp_path)
    assert data.ids == ("1.jpg#0r1n", "2.jpg#0r1e", "50830c")
    assert data.classes == ("entailment", "neutral", "contradiction")
    assert data.votes.counts.tolist() == [[30, 70, 0], [98, 1, 1], [12, 68, 20]]
    assert data.texts[2] == ("premise of 50830c", "hypothesis of 50830c")
    assert not data.has_gold
    assert data.x is None


def test_one_part_is_read_alone_and_says_so(tmp_path):
    write(tmp_path, "chaosNLI_mnli_m.jsonl", line("a", (1, 0, 0)))
    data = datasets.load("chaosnli", root=tmp_path)
    assert data.notes == ("1 of 3,113 pairs of ChaosNLI are here and were used.",)
    assert chaosnli.sizes(tmp_path) == {"SNLI pairs": (0, 1514), "MNLI pairs": (1, 1599)}


def test_the_texts_are_part_of_the_digest(tmp_path):
    write(tmp_path, "chaosNLI_snli.jsonl", line("a", (1, 0, 0)))
    before = datasets.load("chaosnli", root=tmp_path).digest
    write(tmp_path, "chaosNLI_snli.jsonl", line("a", (1, 0, 0), example={"premise": "p", "hypothesis": "h"}))
    assert datasets.load("chaosnli", root=tmp_path).digest != before


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ("{not json", "Expecting property name"),
        ("[1, 2]", "list indices"),
        (line("b", (1, 2, 3), label_count=[1, 3, 2]), "label_count .* and label_counter .* differ"),
        (line("b", (1, 2, 3), entropy=1.0), r"the entropy of \[1, 2, 3\] is 1.459148 bits, not 1.0"),
        ({key: value for key, value in line("b", (1, 2, 3)).items() if key != "example"}, "there is no 'example'"),
        (line("b", (1, 2, 3), label_count=None), "not iterable"),
    ],
)
def test_a_broken_line_is_named(tmp_path, bad, what):
    write(tmp_path, "chaosNLI_snli.jsonl", line("a", (1, 0, 0)), bad)
    with pytest.raises(InputError, match=what) as caught:
        datasets.load("chaosnli", root=tmp_path)
    assert caught.value.where.endswith("chaosNLI_snli.jsonl:2")
    assert "dissensus data get chaosnli" in caught.value.hint


def test_a_pair_that_stands_there_twice_is_refused(tmp_path):
    write(tmp_path, "chaosNLI_snli.jsonl", line("a", (1, 0, 0)), line("a", (0, 1, 0)))
    with pytest.raises(InputError, match="'a' twice"):
        datasets.load("chaosnli", root=tmp_path)


def test_a_set_that_is_not_here_says_how_to_get_it(tmp_path):
    with pytest.raises(InputError, match="dissensus data get chaosnli"):
        datasets.load("chaosnli", root=tmp_path)


HERE = "DISSENSUS_DATA" in os.environ and all(n for n, _ in chaosnli.sizes(datasets.data_root()).values())


@pytest.mark.skipif(not HERE, reason="DISSENSUS_DATA names no folder with chaosnli")
def test_chaosnli_is_as_published():
    data = datasets.load("chaosnli")
    assert len(data) == 3_113
    assert (data.votes.votes_per_item == 100).all()
    normalised = entr(data.votes.soft).sum(1) / math.log(3)
    assert normalised.mean() == pytest.approx(0.59, abs=0.005)  # 002, table 1
    assert data.notes == ()


@pytest.mark.skipif(not HERE, reason="DISSENSUS_DATA names no folder with chaosnli")
def test_its_files_are_also_votes_for_every_command():
    data = datasets.load("chaosnli")
    parts = [read_votes(datasets.data_root() / chaosnli.FOLDER / name) for name, _ in chaosnli.PARTS.values()]
    assert tuple(item for part in parts for item in part.items) == data.ids
    assert np.array_equal(np.concatenate([part.counts for part in parts]), data.votes.counts)
