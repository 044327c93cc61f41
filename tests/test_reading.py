"""How a file is understood: what is decided, what is said about it, and what settles it."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reader_fuzz
from dissensus.datasets.gold import gold_of, read_gold
from dissensus.datasets.own_files import read_ids, read_predictions, read_probabilities, rows_of_ids
from dissensus.errors import InputError
from dissensus.votes import Items, Votes, match, read_votes, write_votes
from dissensus.votes.array_files import load_arrays
from dissensus.votes.evidence import counts_or_ratings


def written(tmp_path: Path, content: str, name: str = "v.csv") -> Path:
    (tmp_path / name).write_bytes(content.encode())
    return tmp_path / name


def table(*rows: tuple[object, ...]) -> str:
    return "\n".join(",".join(map(str, row)) for row in rows) + "\n"


def spelled(votes: Votes) -> list[tuple[str, str, str]]:
    people = votes.annotators or ("",)
    who = votes.annotator if votes.annotator is not None else np.zeros(votes.n_votes, int)
    rows = zip(votes.item, who, votes.label, strict=True)
    return sorted((votes.items[i], people[a], votes.classes[c]) for i, a, c in rows)


def test_votes_carry_how_their_file_was_read(tmp_path: Path) -> None:
    content = "tweet_id,worker,choice,text\n" + "".join(f"t{n % 9},w{n},{'ab'[n % 4 < 1]},hello {n}\n" for n in range(18))
    votes = read_votes(written(tmp_path, content))
    assert str(votes.read_as) == "read as: long table, item=tweet_id, annotator=worker, label=choice; ignored text"
    assert votes[:3].read_as is votes.read_as
    assert votes.read_as.to_json()["columns"] == {"item": "tweet_id", "annotator": "worker", "label": "choice"}


# content, arguments, (layout, items, votes, classes)
READ = {
    "semicolons": ("item;label\na;x, y\nb;z\n", {}, ("long table", 2, 2, ("x, y", "z"))),
    "tabs in a csv": ("item\tlabel\na\tx\nb\tz\n", {}, ("long table", 2, 2, ("x", "z"))),
    "item, label, count": ("item,label,count\na,x,3\na,y,1\nb,x,4\n", {}, ("long table", 2, 8, ("x", "y"))),
    "a count column by flag": ("item,label,w\na,x,3\na,x,1\n", {"count": "w"}, ("long table", 1, 4, ("x",))),
    "a count column ignored": ("item,label,n\na,x,3\na,y,1\n", {"ignore": ["n"]}, ("long table", 1, 2, ("x", "y"))),
    "whole floats": ("item,label\na,1.0\na,1\nb,2.\n", {}, ("long table", 2, 3, ("1", "2"))),
    "leading zeros": ("item,label\na,01\na,1\n", {}, ("long table", 1, 2, ("01", "1"))),
    "booleans": ("item,label\na,True\na,true\na,FALSE\n", {}, ("long table", 1, 3, ("false", "true"))),
    "missing": ("item,label\na,-1\na,x\nb,x\n", {"missing": ["-1", "NA"]}, ("long table", 2, 2, ("x",))),
    "missing floats": ("item,label\na,-1.0\na,2\nb,2\n", {"missing": ["-1"]}, ("long table", 2, 2, ("2",))),
    "empty labels": ("item,label\na,\na,x\nb,x\n", {"drop_empty": True}, ("long table", 2, 2, ("x",))),
    "items that vanish": ("item,label\nc,\na,x\nb,x\n", {"drop_empty": True}, ("long table", 2, 2, ("x",))),
    "a wide table with -1": (
        "item,p,q,r\na,1,0,-1\nb,-1,-1,1\n",
        {"format": "wide", "missing": ["-1"]},
        ("wide table", 2, 3, ("0", "1")),
    ),
    "a wide item without votes": (
        "item,p,q\na,x,y\nb,,\n",
        {"format": "wide", "drop_empty": True},
        ("wide table", 1, 2, ("x", "y")),
    ),
    "annotator columns beside a label": (
        "id,annotator1,annotator2,label\na,x,y,x\nb,y,y,y\n",
        {},
        ("wide table", 2, 4, ("x", "y")),
    ),
    "texts beside annotators": (
        "id,text,ann,bob\na,some words,x,y\nb,other words,y,y\n",
        {},
        ("wide table", 2, 4, ("x", "y")),
    ),
    "columns by flag": (
        "id,x,ann,bob\na,1,x,y\nb,2,y,y\n",
        {"columns": ["ann", "bob"]},
        ("wide table", 2, 4, ("x", "y")),
    ),
    "a column with the sum": ("id,x,y,total\na,1,2,3\nb,0,3,3\n", {}, ("table of counts", 2, 6, ("x", "y"))),
    "classes select columns": (
        "id,x,y,rest\na,1,2,9\nb,0,3,9\n",
        {"classes": ["y", "x"]},
        ("table of counts", 2, 6, ("y", "x")),
    ),
    "a text beside counts": ("id,text,x,y\na,one,1,2\nb,two,0,3\n", {}, ("table of counts", 2, 6, ("x", "y"))),
    "lists as JSON": (
        'id,labels\na,"[""x"",""y""]"\nb,"[""x""]"\n',
        {},
        ("one list of votes per item", 2, 3, ("x", "y")),
    ),
    "lists as Python prints them": (
        "id,labels\na,\"['x', 'y']\"\n",
        {},
        ("one list of votes per item", 1, 2, ("x", "y")),
    ),
    "objects of counts": ('id,labels\na,"{""x"": 3, ""y"": 2}"\n', {}, ("one list of votes per item", 1, 5, ("x", "y"))),
}


@pytest.mark.parametrize("case", READ)
def test_a_table_is_read_as_documented(case: str, tmp_path: Path) -> None:
    content, arguments, (layout, items, votes, classes) = READ[case]
    read = read_votes(written(tmp_path, content), **arguments)
    assert (read.read_as.layout, len(read), read.n_votes, read.classes) == (layout, items, votes, classes)


@pytest.mark.parametrize("name", ["v.json", "v.jsonl", "v.json.gz", "v.jsonl.gz"])
def test_json_is_read_as_a_list_or_as_lines(name: str, tmp_path: Path) -> None:
    rows = [{"item": 1, "label": "x"}, {"item": 1, "label": "y"}, {"item": 12345678901234567890, "label": "x"}]
    text = (
        json.dumps(rows, indent=1) if ".json." in name + "." and "jsonl" not in name else "\n".join(map(json.dumps, rows))
    )
    content = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (tmp_path / name).write_bytes(content)
    votes = read_votes(tmp_path / name)
    assert (votes.items, votes.counts.tolist()) == (("1", "12345678901234567890"), [[1, 1], [1, 0]])


def test_objects_that_run_over_several_lines_are_read(tmp_path: Path) -> None:
    text = "\n".join(json.dumps({"item": name, "label": "x"}, indent=2) for name in "ab")
    assert read_votes(written(tmp_path, text, "v.jsonl")).items == ("a", "b")


def test_lists_of_annotators_go_with_lists_of_labels_and_objects_may_name_them(tmp_path: Path) -> None:
    rows = [{"id": "a", "annotations": ["x", "y"], "annotators": ["p", "q"], "label": "x"}]
    votes = read_votes(written(tmp_path, json.dumps(rows), "v.json"))
    assert spelled(votes) == [("a", "p", "x"), ("a", "q", "y")]
    assert "'label' seems to be one label per item" in votes.read_as.warnings[0]
    named = read_votes(written(tmp_path, '[{"id": "a", "labels": {"p": "x", "q": "y"}}]', "w.json"))
    assert spelled(named) == spelled(votes)
    pq.write_table(
        pa.table({"id": ["a"], "annotations": [["x", "y"]], "annotators": [["p", "q"]]}), tmp_path / "v.parquet"
    )
    assert spelled(read_votes(tmp_path / "v.parquet")) == spelled(votes)


def many(rows: int, cells) -> str:
    return "".join(",".join(map(str, cells(n))) + "\n" for n in range(rows))


# header, cells of row n, and what a warning must hold
ODD = {
    "a class that means no vote": (
        "item,label",
        lambda n: (n // 3, ["x", "y", "-1"][n % 3]),
        ["'-1' looks", "--missing -1"],
    ),
    "a class called NA": ("item,label", lambda n: (n // 3, ["x", "y", "NA"][n % 3]), ["'NA' looks", "--missing NA"]),
    "case": ("item,label", lambda n: (n // 3, ["x", "y", "X"][n % 3]), ["case or blanks: 'X' and 'x'", "--classes"]),
    "blanks": ("item,label", lambda n: (n // 3, ["x", "y", "x "][n % 3]), ["case or blanks: 'x' and 'x '"]),
    "several choices": ("item,label", lambda n: (n // 3, ["x", "y", "x|y"][n % 3]), ["'x|y' is several", "--missing"]),
    "less agreement than chance": ("item,label", lambda n: (n // 2, "xy"[n % 2]), ["alpha is -", "--items"]),
    "unanimous": ("item,label", lambda n: (n // 2, "xy"[n // 2 % 2]), ["every item is unanimous", "--labels"]),
    "one vote per item": ("item,label", lambda n: (n, "xy"[n % 2]), ["every item has one vote", "--items"]),
    "row numbers": (
        "id,tweet_id,worker,label",
        lambda n: (n, n // 3, f"w{n}", "xy"[n % 2]),
        ["every row has its own 'id', but 'tweet_id' repeats", "--items tweet_id"],
    ),
    "many classes": ("item,label", lambda n: (n // 2, f"c{n % 17}"), ["17 classes for 30 items are many", "--labels"]),
    "continuous": ("item,label", lambda n: (n // 2, n / 7 + 0.01), ["are fractions", "continuous", "--labels"]),
    "a sum": ("item,x,y,z", lambda n: (n, n % 3, 2 - n % 3, 2), ["'z' is the sum of the other columns", "--columns"]),
    "ratings": (
        "item,p,q,r",
        lambda n: (n, n % 5 + 1, (n + n % 3) % 5 + 1, n % 5 + 1),
        ["taken for what people said", "--format counts"],
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_what_looks_odd_is_said_with_the_flag_that_settles_it(case: str, tmp_path: Path) -> None:
    header, cells, said = ODD[case]
    warnings = " | ".join(read_votes(written(tmp_path, f"{header}\n{many(60, cells)}")).read_as.warnings)
    assert [part for part in said if part not in warnings] == [], warnings


def test_ordinary_votes_raise_no_suspicion(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = [
        (f"i{n}", f"w{w}", "abc"[n % 3 if draw.random() < 0.8 else draw.integers(3)]) for n in range(60) for w in range(4)
    ]
    votes = read_votes(written(tmp_path, table(("item", "worker", "label"), *rows)))
    assert (votes.read_as.notes, votes.read_as.warnings) == ((), ())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("agreement", [0.3, 0.9])
def test_tables_of_ratings_never_become_counts_and_counts_never_ratings(seed: int, agreement: float) -> None:
    draw = np.random.default_rng(seed)
    truth = draw.integers(1, 6, (200, 1))
    ratings = np.where(draw.random((200, 5)) < agreement, truth, draw.integers(1, 6, (200, 5))).astype(float)
    assert counts_or_ratings(ratings)[0] == "wide"
    assert counts_or_ratings(ratings - 1)[0] != "counts"
    shares = draw.dirichlet(np.full(5, 1 - agreement), 200)
    for voters in (np.full(200, 10), draw.integers(45, 60, 200)):
        counts = np.stack([draw.multinomial(n, p) for n, p in zip(voters, shares, strict=True)]).astype(float)
        assert counts_or_ratings(counts)[0] == "counts"


def test_columns_of_predictions_are_matched_by_name_also_where_names_are_numbers(tmp_path: Path) -> None:
    names = tuple(map(str, range(12)))
    in_text_order = sorted(names)
    rows = [[float(name == str(n)) for name in in_text_order] for n in range(12)]
    path = written(tmp_path, table(("id", *in_text_order), *[(f"i{n}", *row) for n, row in enumerate(rows)]), "p.csv")
    assert (read_probabilities(path).for_classes(names) == np.eye(12)).all()
    without_ids = written(tmp_path, table(tuple(in_text_order), *rows), "q.csv")
    assert (read_probabilities(without_ids).for_classes(names) == np.eye(12)).all()
    animals = tuple(f"animal {n}" for n in range(12))
    matched = read_probabilities(path).with_classes(animals)
    assert (matched.values == np.eye(12)).all()  # numbers of classes, in any order
    assert "numbers of classes: 0 is 'animal 0'" in matched.notes[-1]


def test_columns_whose_names_are_others_are_matched_by_order_only_if_told(tmp_path: Path) -> None:
    matrix = read_predictions(written(tmp_path, "id,x,y\na,0.25,0.75\n"))
    with pytest.raises(InputError, match="the columns x, y are not classes"):
        matrix.with_classes(("cat", "dog"))
    assert matrix.with_classes(("cat", "dog"), by_order=True).values.tolist() == [[0.25, 0.75]]
    assert "by their order" in matrix.with_classes(("0", "1"), named=False).notes[0]


@pytest.mark.parametrize("spelling", ["1", "1.0", "True"])
def test_classes_and_gold_have_one_rule_for_their_spellings(spelling: str, tmp_path: Path) -> None:
    classes = ("0", "1") if spelling != "True" else ("false", "true")
    first = "0" if spelling != "True" else "FALSE"
    assert read_gold(written(tmp_path, f"item,gold\na,{spelling}\nb,{first}\n"), classes, ("a", "b")).tolist() == [1, 0]
    matrix = read_predictions(written(tmp_path, f"id,{spelling},{first}\na,0.9,0.1\n", "p.csv"))
    assert matrix.for_classes(classes).tolist() == [[0.1, 0.9]]


@pytest.mark.parametrize("extension", [".csv", ".jsonl", ".parquet"])
def test_odd_spellings_of_classes_come_back_as_they_were_written(extension: str, tmp_path: Path) -> None:
    votes = Votes([0, 0, 1], [0, 1, 2], ("a", "b"), ("1.0", "1", "True"))
    write_votes(votes, tmp_path / f"v{extension}")
    again = read_votes(tmp_path / f"v{extension}")
    assert (again.classes, again.counts.tolist()) == (votes.classes, votes.counts.tolist())


def test_ids_on_both_sides_are_matched_by_id_or_refused() -> None:
    items = Items(("0", "1", "2", "3"))
    assert match(items, ("3", "2", "1", "0"), 4, path="p.csv").rows.tolist() == [3, 2, 1, 0]
    with pytest.raises(InputError, match=r"1 ids are missing \(0\) and 1 are not in the votes \(4\)"):
        match(items, ("1", "2", "3", "4"), 4, path="p.csv")
    both = match(items, ("1", "2", "3", "4"), 4, path="p.csv", intersect=True)
    assert (both.kept.tolist(), both.rows.tolist()) == ([1, 2, 3], [0, 1, 2])
    assert both.note == "p.csv: 3 items are in both: 1 of the votes and 1 rows are not"
    assert match(Items(("1", "2")), ("2.0", "1.0"), 2, path="p.csv").rows.tolist() == [1, 0]  # pandas wrote them


@pytest.mark.parametrize(
    ("items", "in_file", "rows"),
    [
        (Items(("2", "0", "1"), in_order=False), None, [2, 0, 1]),  # numbers of rows
        (Items(("a", "b", "c"), in_order=False), None, [0, 1, 2]),  # sorted
        (Items(("9", "10", "11"), in_order=False), None, [0, 1, 2]),  # sorted as numbers
        (Items(("c", "a", "b"), in_order=True), None, [0, 1, 2]),  # one after another in their file
        (Items(("0", "1", "2"), named=False), ("2", "1", "0"), [2, 1, 0]),  # the file numbers the rows
        (Items(("0", "1", "2"), named=False), ("x", "z", "y"), [0, 1, 2]),
        (Items(("c", "a", "b"), in_order=False), None, None),  # scattered
    ],
)
def test_rows_without_ids_are_matched_by_order_only_where_it_is_plain_and_it_is_said(items, in_file, rows) -> None:
    if rows is None:
        with pytest.raises(InputError, match="the order of the items is not plain"):
            match(items, in_file, 3, path="x.npy")
        rows = [0, 1, 2]
        matched = match(items, in_file, 3, path="x.npy", by_order=True)
    else:
        matched = match(items, in_file, 3, path="x.npy")
    assert matched.rows.tolist() == rows
    assert "matched" in matched.note


def test_votes_know_whether_their_items_come_one_after_another(tmp_path: Path) -> None:
    assert Items.of(read_votes(written(tmp_path, "item,label\nb,x\nb,y\na,x\n"))).in_order
    assert not Items.of(read_votes(written(tmp_path, "item,label\nb,x\na,y\nb,x\n"))).in_order
    np.save(tmp_path / "v.npy", [[1, 2]])
    assert not Items.of(read_votes(tmp_path / "v.npy")).named


def test_gold_says_when_its_labels_are_numbers_and_rows_go_by_order(tmp_path: Path) -> None:
    np.save(tmp_path / "gold.npy", [1, 0])
    gold = gold_of(tmp_path / "gold.npy", ("cat", "dog"), Items(("a", "b")))
    assert gold.labels.tolist() == [1, 0]
    assert ["numbers of classes" in gold.notes[0], "by their order" in gold.notes[1]] == [True, True]
    np.savez(tmp_path / "gold.npz", y=[1, 0], ids=["b", "a"])
    assert read_gold(tmp_path / "gold.npz", ("cat", "dog"), ("a", "b")).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "content"),
    [("i.txt", "b\n\nc\n"), ("i.csv", "item,x\nb,1\nc,2\n"), ("j.csv", "b\nc\n"), ("i.json", '["b", "c"]')],
)
def test_ids_to_hold_out_come_from_lines_tables_and_lists(name: str, content: str, tmp_path: Path) -> None:
    path = written(tmp_path, content, name)
    assert set(read_ids(path)) == {"b", "c"}
    assert rows_of_ids(("a", "c", "b"), path).tolist() == [1, 2]
    with pytest.raises(InputError, match="1 of 2 ids are not among the items, 'c' among them"):
        rows_of_ids(("a", "b"), path)


def test_parquet_decimals_uuids_and_times_are_numbers_and_names(tmp_path: Path) -> None:
    counts = {"item": ["a", "b"], "x": [Decimal("3.00"), Decimal("0.00")], "y": [Decimal("1.00"), Decimal("4.00")]}
    pq.write_table(pa.table(counts), tmp_path / "c.parquet")
    assert read_votes(tmp_path / "c.parquet").counts.tolist() == [[3, 1], [0, 4]]
    times = pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("Europe/Berlin")
    ids = pa.array([bytes(range(16)), bytes(16)], pa.binary(16)).cast(pa.uuid())
    pq.write_table(
        pa.table({"item": ids, "worker": times, "label": [Decimal("1.0"), Decimal("2.5")]}), tmp_path / "l.parquet"
    )
    votes = read_votes(tmp_path / "l.parquet")
    assert votes.items == ("00010203-0405-0607-0809-0a0b0c0d0e0f", "00000000-0000-0000-0000-000000000000")
    assert votes.classes == ("1", "2.5")


def test_names_that_numpy_saved_as_bytes_are_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", counts=[[1, 2]], ids=np.array([b"x"]), classes=np.array(["é".encode(), b"b"]))
    votes = read_votes(tmp_path / "v.npz")
    assert (votes.items, votes.classes) == (("x",), ("é", "b"))


def test_a_small_archive_that_unpacks_to_gigabytes_is_refused_from_its_headers(tmp_path: Path) -> None:
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '|u1', 'fortran_order': False, 'shape': (600000, 1000), }".ljust(117)
        + b"\n"
    )
    with zipfile.ZipFile(tmp_path / "v.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(header)
        for _ in range(600):
            member.write(bytes(10**6))
    tracemalloc.start()
    with pytest.raises(InputError, match="bytes unpack to 600,000,128 or more"):
        load_arrays(tmp_path / "v.npz")
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_a_header_of_many_columns_is_read_in_linear_time(tmp_path: Path) -> None:
    spent = []
    for columns in (1_000, 10_000):
        names = [f"class {n}" for n in range(columns)]
        path = written(
            tmp_path, table(("item", *names), ("a", 3, *[0] * (columns - 1)), ("b", 2, 1, *[0] * (columns - 2)))
        )
        start = time.process_time()
        assert read_votes(path).n_votes == 6
        spent.append(time.process_time() - start)
    assert spent[1] < 25 * spent[0] + 1  # quadratic would be 100 times


@pytest.mark.parametrize("kind", reader_fuzz.KINDS)
def test_no_mutated_file_breaks_a_reader_or_is_read_wrongly(kind: str, tmp_path: Path) -> None:
    counts = reader_fuzz.fuzz_kind(kind, 250, folder=tmp_path)
    assert counts["read"] + counts["refused"] == 250
    assert counts["read"] > 0
