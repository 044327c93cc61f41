"""What is written comes back, in every format; and the layout is found without being told."""

from __future__ import annotations

import csv
import json
import os
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dissensus.errors import InputError
from dissensus.votes import delimited, read_votes, write_votes
from dissensus.votes.votes import Votes

TABLES = [".csv", ".tsv", ".jsonl", ".parquet"]
PROPERTY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

ODD = [
    "01",
    "1",
    "NA",
    "null",
    "None",
    "nan",
    "inf",
    "true",
    " ",
    " x",
    'a"b',
    "a,b",
    "a\tb",
    "a\nb",
    "a\r\nb",
    "é",
    "猫",
    "\ufeff",
    "\u2028",
    "2020-01-01",
    "item",
    "label",
    "id",
    "a.b",
    "{}",
    "-",
    "#",
    "=1+1",
    "'",
    "\\",
    "\\N",
]
names = st.one_of(
    st.sampled_from(ODD), st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5)
)


@st.composite
def votes_of_people(draw: st.DrawFn) -> Votes:
    items = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    classes = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    people = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    everyone = [(i, a) for i in range(len(items)) for a in range(len(people))]
    chosen = draw(st.lists(st.sampled_from(everyone), unique=True))
    chosen += [(i, 0) for i in range(len(items)) if i not in {i for i, _ in chosen}]
    labels = draw(st.lists(st.integers(0, len(classes) - 1), min_size=len(chosen), max_size=len(chosen)))
    item, annotator = np.array(chosen).T
    return Votes(item, np.array(labels), tuple(items), tuple(classes), annotator, tuple(people))


def spelled(votes: Votes) -> Counter[tuple[str, ...]]:
    """Every vote by name, whatever the indices."""
    rows = zip(votes.item, votes.label, votes.annotator if votes.annotator is not None else votes.item, strict=True)
    people = votes.annotators
    return Counter((votes.items[i], votes.classes[c], people[a] if people else "") for i, c, a in rows)


def without_annotators(votes: Votes) -> Votes:
    return Votes(votes.item, votes.label, votes.items, votes.classes)


def assert_same(read: Votes, written: Votes) -> None:
    assert read.items == written.items
    assert read.classes == written.classes
    assert spelled(read) == spelled(written)


@pytest.mark.parametrize("extension", TABLES)
@PROPERTY
@given(votes=votes_of_people(), anonymous=st.booleans())
def test_a_long_table_comes_back_as_it_was_written(extension: str, votes: Votes, anonymous: bool, tmp_path: Path) -> None:
    votes = without_annotators(votes) if anonymous else votes
    write_votes(votes, tmp_path / f"votes{extension}")
    assert_same(read_votes(tmp_path / f"votes{extension}"), votes)


@pytest.mark.parametrize("extension", TABLES)
@PROPERTY
@given(votes=votes_of_people())
def test_a_wide_table_comes_back_as_it_was_written(extension: str, votes: Votes, tmp_path: Path) -> None:
    write_votes(votes, tmp_path / f"votes{extension}", "wide")
    assert_same(read_votes(tmp_path / f"votes{extension}", format="wide"), votes)


@pytest.mark.parametrize("extension", [*TABLES, ".npz"])
@PROPERTY
@given(votes=votes_of_people())
@example(votes=Votes([0, 0], [0, 3], ("a",), ("01", "1", "NA", "\\N")))  # `\N` looks like the total of a row, `n`
@example(votes=Votes([0, 0], [0, 1], ("a",), ("x", "total", "y")))
@example(
    votes=Votes(np.repeat(range(9), 2), [0, 1, 0, 2] * 4 + [0, 1], tuple("abcdefghi"), ("x", "y", "z"))
)  # x is half of it
@example(votes=Votes([0, 1], [0, 1], ("a", "b"), ("label", "worker")))
def test_counts_come_back_as_they_were_written(extension: str, votes: Votes, tmp_path: Path) -> None:
    votes = without_annotators(votes)
    write_votes(votes, tmp_path / f"votes{extension}", "counts")
    assert_same(read_votes(tmp_path / f"votes{extension}", format="counts"), votes)


@pytest.mark.parametrize("extension", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("classes", [("label", "text"), ("worker", "boss"), ("answer", "question"), ("rater1", "rater2")])
def test_counts_of_classes_named_like_columns_come_back_without_a_word(classes, extension: str, tmp_path: Path) -> None:
    votes = Votes([0, 0, 1, 1, 2], [0, 0, 0, 1, 1], ("a", "b", "c"), classes)
    write_votes(votes, tmp_path / f"votes{extension}", "counts")
    assert_same(read_votes(tmp_path / f"votes{extension}"), votes)


def test_a_list_of_classes_is_not_believed_where_the_table_is_another(tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text("item,worker,label\na,ann,label\na,bob,worker\n")
    (tmp_path / "votes.csv.classes.json").write_text('["worker", "label"]')
    votes = read_votes(tmp_path / "votes.csv")
    assert (votes.classes, votes.annotators, votes.n_votes) == (("worker", "label"), ("ann", "bob"), 2)


@PROPERTY
@given(counts=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_counts_come_back_from_npy(counts: list[list[int]], tmp_path: Path) -> None:
    votes = Votes.from_counts(np.array(counts) + 1)
    write_votes(votes, tmp_path / "votes.npy")
    assert_same(read_votes(tmp_path / "votes.npy"), votes)


@pytest.mark.parametrize("extension", TABLES)
@pytest.mark.parametrize("layout", ["long", "wide", "counts"])
def test_the_layout_is_found_without_being_told(extension: str, layout, tmp_path: Path) -> None:
    votes = Votes([0, 0, 1, 2], [0, 1, 1, 0], ("a", "b", "c"), ("cat", "dog"), [0, 1, 0, 1], ("ann", "bob"))
    write_votes(votes, tmp_path / f"votes{extension}", layout, drop_annotators=True)
    read = read_votes(tmp_path / f"votes{extension}")
    assert_same(read, without_annotators(votes) if layout == "counts" else votes)


@pytest.mark.parametrize("extension", [".csv", ".jsonl"])
def test_a_large_table_is_read_like_a_naive_reader_reads_it(extension: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"i{rng.integers(900)}", f"w{n}", str(rng.integers(12))) for n in range(20_000)]
    path = tmp_path / f"votes{extension}"
    if extension == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("task", "worker", "answer"), *rows])
    else:
        path.write_text("\n".join(json.dumps(dict(zip(("task", "worker", "answer"), row, strict=True))) for row in rows))
    votes = read_votes(path)
    assert votes.items == tuple(dict.fromkeys(item for item, _, _ in rows))
    assert votes.classes == tuple(str(label) for label in range(12))
    assert spelled(votes) == Counter((item, label, worker) for item, worker, label in rows)


def test_quoted_line_ends_survive_where_the_file_is_read_in_blocks(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 200)
    items = tuple(f"first line {n}\nsecond, third\n" for n in range(100))
    write_votes(Votes(np.arange(100), np.zeros(100, int), items, ("cat",)), tmp_path / "votes.csv")
    assert read_votes(tmp_path / "votes.csv").items == items


def test_pandas_tables_of_integers_categories_and_gaps_read_by_their_names(tmp_path: Path) -> None:
    long = pd.DataFrame({"id": [10, 9, 8], "user": pd.Categorical(["b", "a", "b"]), "label": [2, 10, 9]})
    long.to_parquet(tmp_path / "long.parquet")
    votes = read_votes(tmp_path / "long.parquet")
    assert (votes.items, votes.annotators, votes.classes) == (("10", "9", "8"), ("b", "a"), ("2", "9", "10"))
    wide = pd.DataFrame({"item": ["x", "y"], "ann": [3, 1], "bob": [None, 3.0]})
    wide.to_parquet(tmp_path / "wide.parquet")
    assert spelled(read_votes(tmp_path / "wide.parquet")) == Counter(
        [("x", "3", "ann"), ("y", "1", "ann"), ("y", "3", "bob")]
    )


def test_a_table_without_a_needed_class_order_has_no_file_beside_it_and_a_stale_one_goes(tmp_path: Path) -> None:
    unsorted = Votes([0], [0], ("a",), ("dog", "cat"))
    write_votes(unsorted, tmp_path / "votes.csv")
    assert json.loads((tmp_path / "votes.csv.classes.json").read_text()) == ["dog", "cat"]
    write_votes(Votes([0, 0], [0, 1], ("a",), ("cat", "dog")), tmp_path / "votes.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["votes.csv"]


def test_what_a_format_cannot_hold_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    people = Votes([0, 0], [0, 1], ("a",), ("cat", "dog"), [0, 0], ("ann",))
    for path, layout, message in [
        ("v.npz", None, "cannot hold who voted"),
        ("v.csv", "counts", "cannot hold who voted"),
        ("v.csv", "wide", "voted twice"),
        ("v.npy", "long", "hold count matrices"),
        ("v.csv", "tall", "'tall' is not one of long, counts, wide"),
    ]:
        with pytest.raises(InputError, match=message):
            write_votes(people, tmp_path / path, layout)
    with pytest.raises(InputError, match="cannot hold the names"):
        write_votes(people, tmp_path / "v.npy", drop_annotators=True)
    with pytest.raises(InputError, match="no annotators"):
        write_votes(without_annotators(people), tmp_path / "v.csv", "wide")
    for name in ("", "a\0", "\ud800"):
        with pytest.raises(InputError, match="cannot be written"):
            write_votes(Votes([0], [0], (name,), ("cat",)), tmp_path / "v.csv")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="cannot be written"):
        write_votes(people, tmp_path / "nowhere" / "v.csv")


def test_a_wide_table_has_columns_for_those_who_voted(tmp_path: Path) -> None:
    votes = Votes([0, 1], [0, 0], ("a", "b"), ("cat",), [0, 1], ("ann", "bob"))
    write_votes(votes.subset([1]), tmp_path / "v.csv", "wide")
    assert (tmp_path / "v.csv").read_text() == "item,bob\nb,cat\n"


def test_annotators_and_names_go_when_told_to(tmp_path: Path) -> None:
    people = Votes([0, 0], [0, 1], ("a",), ("cat", "dog"), [0, 1], ("ann", "bob"))
    write_votes(people, tmp_path / "v.npy", drop_annotators=True, drop_names=True)
    assert np.load(tmp_path / "v.npy").tolist() == [[1, 1]]


def test_more_votes_than_can_be_listed_are_refused_before_any_list_is_made(tmp_path):
    """Before, 8 GB were taken first."""
    votes = Votes.from_counts([[999_999_990, 1]])
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="cannot be listed one by one"):
            write_votes(votes, tmp_path / "long.csv")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_votes_are_not_written_over_a_pipe_and_a_link_stays_one(tmp_path):
    votes = Votes.from_counts(np.array([[1, 2], [3, 0]]))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="not a regular file"):
        write_votes(votes, tmp_path / "pipe.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "target.csv")
    write_votes(votes, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (read_votes(tmp_path / "target.csv").counts == votes.counts).all()
