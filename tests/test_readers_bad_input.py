"""Bad files: each says where, what and how to correct it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dissensus.datasets.gold import read_gold
from dissensus.datasets.own_files import read_features, read_predictions, read_probabilities
from dissensus.errors import InputError
from dissensus.votes import read_votes

LONG = "item,annotator,label\na,w1,cat\na,w2,dog\nb,w1,cat\n"


def refusal(read, path: Path, content: bytes | str, **arguments) -> str:
    """The message with which a reader refuses this content, with the folder taken out."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        read(path, **arguments)
    return str(caught.value).replace(f"{path.parent}/", "")


# name, content, arguments, and what the message must hold
def parquet_with_a_name_in_latin_1() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"item": ["a", "b"], "lab\u00e9l": ["x", "y"]}), file, store_schema=False)
    return file.getvalue().replace("lab\u00e9l".encode(), b"lab\xe9el")


BAD_VOTES = {
    "unknown label": (
        "v.csv",
        LONG + "b,w2,catt\n",
        {"classes": ["cat", "dog"]},
        [
            "v.csv:5: label 'catt' is not one of the classes (cat, dog)",
            "Did you mean 'cat'?",
            "--classes",
            "Nothing was written",
        ],
    ),
    "unknown label in JSONL": (
        "v.jsonl",
        '{"item":"a","label":"cat"}\n\n{"item":"a","label":"x"}\n',
        {"classes": ["cat"]},
        ["v.jsonl:3: label 'x'"],
    ),
    "line after quoted line ends": ("v.csv", 'item,label\n"a\nb",cat\n\nc,\n', {}, ["v.csv:5: the label is empty"]),
    "line with Windows line ends": ("v.csv", "item,label\r\na,cat\r\n\r\nb,\r\n", {}, ["v.csv:4: the label is empty"]),
    "empty": ("v.csv", "", {}, ["v.csv: the file is empty"]),
    "only blank lines": ("v.csv", "\ufeff\n\n", {}, ["v.csv: the file is empty"]),
    "empty JSONL": ("v.jsonl", "\n", {}, ["the file is empty"]),
    "empty npy": ("v.npy", b"", {}, ["the file is empty"]),
    "header only": ("v.csv", "item,annotator,label\n", {}, ["there is a header but no row"]),
    "header only of counts": ("v.csv", "item,cat,dog\n", {}, ["there is a header but no row"]),
    "negative count": (
        "v.csv",
        "item,cat,dog\na,1,2\nb,-1,2\n",
        {},
        ["v.csv:3: -1 in column 'cat' is not a count", "whole numbers"],
    ),
    "fractional count": (
        "v.csv",
        "item,cat,dog\na,1,2\nb,1,0.5\n",
        {},
        ["v.csv:3: 0.5 in column 'dog' is not a count", "--probs"],
    ),
    "NaN count": ("v.csv", "item,cat,dog\na,1,nan\n", {}, ["v.csv:2: nan in column 'dog' is not a count"]),
    "count is a word": (
        "v.csv",
        "item,cat,dog\na,1,2\nb,1,2\nc,1,x\nd,1,y\ne,1,2\n",
        {"format": "counts"},
        ["v.csv:4: 'x' in column 'dog' is not a number"],
    ),
    "count has a control character": (
        "v.csv",
        "item,cat,dog\na,1,\x1c2\n",
        {"format": "counts"},
        ["v.csv:2: '\\x1c2' in column 'dog' is not a number"],
    ),
    "count is missing": ("v.csv", "item,cat,dog\na,1,\n", {"format": "counts"}, ["v.csv:2: column 'dog' is empty"]),
    "counts without a vote": (
        "v.csv",
        "item,cat,dog\na,1,2\nb,0,0\nc,3,0\n",
        {},
        ["v.csv:3: this item has no vote (1 of 3 have none)", "--drop-empty"],
    ),
    "enormous counts": ("v.csv", "item,cat,dog\na,1,1e15\n", {}, ["the counts add up to 1e+15 votes"]),
    "item twice in counts": ("v.csv", "item,cat,dog\na,0,2\na,1,1\n", {}, ["v.csv:3: the id 'a' occurs a second time"]),
    "counts of other classes": (
        "v.csv",
        "item,cat,dog\na,1,2\n",
        {"classes": ["cat", "cow"]},
        ["there is no column for the class 'cow'", "item, cat, dog"],
    ),
    "ratings or counts": (
        "v.csv",
        "item,ann,bob\na,1,2\nb,5,4\n",
        {},
        ["counts of classes or what people said", "--format wide", "--format counts"],
    ),
    "counts or gaps": (
        "v.csv",
        "item,cat,dog\na,3,\nb,1,2\nc,,3\nd,2,1\n",
        {},
        ["empty cells beside numbers that sum to 3 in every row", "--format wide"],
    ),
    "a column that numbers the rows": (
        "v.csv",
        "nr,cat,dog\n1,0,3\n2,1,2\n3,3,0\n",
        {},
        ["the column 'nr' numbers the rows", "--items nr", "--columns"],
    ),
    "a first line with fractions": (
        "v.csv",
        "a,0.2,0.8\nb,0.5,0.5\n",
        {},
        ["v.csv:1: cannot tell whether the first line (a, 0.2, 0.8)", "Add a header"],
    ),
    "ids without a header": (
        "v.csv",
        "inf,1,2,2\np6,2,1,2\np0,3,0,2\n",
        {},
        ["no column is known to hold the items", "--items"],
    ),
    "one column of numbers": ("v.csv", "id,score\na,3\nb,4\n", {}, ["this is not a long table", "--labels"]),
    "rows swallowed by quotes": (
        "v.csv",
        'item,annotator,label\na,w1,"x\nb,w1,y\nc,w1,"x\nd,w1,y\n',
        {},
        ["v.csv:2: a double quote is opened and not closed"],
    ),
    "rows swallowed by quotes that balance": (
        "v.csv",
        'item,annotator,label\na,w1,"x\nb,w1,y"\nc,w1,x\n',
        {},
        ["v.csv:2: the cell 'x\\nb,w1,y' of column 'label' holds whole rows"],
    ),
    "repeated rows beside counts": (
        "v.csv",
        "item,label,count\na,x,2\na,x,2\n",
        {},
        ["cannot tell whether 'count' says", "--count count", "--ignore count"],
    ),
    "missing labels of counts": ("v.csv", "item,cat,dog\na,0,2\n", {"missing": ["-1"]}, ["--missing names labels"]),
    "a gzip file cut short": ("v.csv.gz", gzip.compress(LONG.encode())[:-9], {}, ["gzip file is damaged or cut short"]),
    "a key twice in an object": (
        "v.jsonl",
        '{"item":"a","label":"b","label":"c"}',
        {},
        ["v.jsonl:1", "key occurs twice"],
    ),
    "deep JSON": ("v.jsonl", '{"item":' + "[" * 100_000, {}, ["v.jsonl:1: the JSON is nested too deeply"]),
    "null": ("v.jsonl", "null\n", {}, ["v.jsonl:1: not a JSON object"]),
    "lists of lists": ("v.jsonl", '{"item":"a","label":[["b"]]}\n', {}, ["are not names"]),
    "not as many annotators as votes": (
        "v.jsonl",
        '{"item":"a","labels":["b","c"],"annotators":["w"]}\n',
        {},
        ["v.jsonl:1: there are not as many annotators as votes"],
    ),
    "wide item without a vote": ("v.csv", "item,w1,w2\na,cat,cat\nb,,\n", {}, ["v.csv:3: item 'b' has no vote"]),
    "wide without items": (
        "v.csv",
        "w1,w2\ncat,cat\n",
        {"format": "wide"},
        ["known to hold the items", "w1, w2", "--item"],
    ),
    "too few columns": ("v.csv", LONG + "c,w1\n", {}, ["v.csv:5: 2 columns where the first line has 3"]),
    "too many columns": (
        "v.tsv",
        LONG.replace(",", "\t") + "c\tw1\tx\ty\n",
        {},
        ["v.tsv:5: 4 columns where the first line has 3"],
    ),
    "an open quote": ("v.csv", LONG + '"c,w1,cat\nd,w1,cat\n', {}, ["v.csv:5: a double quote is opened and not closed"]),
    "duplicate rows": (
        "v.csv",
        LONG + "a,w1,dog\n",
        {},
        [
            "v.csv:5: annotator 'w1' votes on item 'a' for the second time (first at v.csv:2; 1 such",
            "--duplicates first, last or keep",
        ],
    ),
    "duplicate rows in a wide table": (
        "v.csv",
        "item,w1,w2\na,x,y\na,x,y\n",
        {"format": "wide"},
        ["v.csv:3: annotator 'w1'", "2 such rows"],
    ),
    "empty annotator": ("v.csv", LONG + "c,,cat\n", {}, ["v.csv:5: the annotator is empty"]),
    "no label column": (
        "v.csv",
        "item,worker,emotion\na,w1,joy\n",
        {},
        ["known to hold the label", "item, worker, emotion", "--labels"],
    ),
    "no item column": ("v.csv", "text,label\na,joy\n", {}, ["known to hold the item", "text, label", "--item"]),
    "two label columns": (
        "v.csv",
        "item,label,answer\na,b,c\n",
        {},
        ["both 'label' and 'answer' could be the label column", "--label"],
    ),
    "a flag that names nothing": (
        "v.csv",
        LONG,
        {"label": "feeling"},
        ["there is no column 'feeling'", "item, annotator, label"],
    ),
    "one column twice": ("v.csv", LONG, {"item": "label"}, ["one column cannot be two"]),
    "neither layout": (
        "v.csv",
        "id,text,emotion\na,hello,joy\n",
        {},
        ["not a long table, a count matrix or a wide table", "id, text, emotion", "--label"],
    ),
    "no header": ("v.csv", "img1,w1,cat\nimg2,w1,cat\n", {}, ["img1, w1, cat", "add a header"]),
    "numbers that may be a header": (
        "v.csv",
        "3,1,7\n2,2,2\n",
        {},
        ["v.csv:1: cannot tell whether the first line (3, 1, 7)"],
    ),
    "header twice": ("v.csv", "item,label,label\na,b,c\n", {}, ["the header names 'label' more than once"]),
    "binary": ("v.csv", b"item,label\n\0\1\2", {}, ["v.csv: this is not a text file"]),
    "Parquet as CSV": ("v.csv", b"PAR1....", {}, ["a Parquet file: name it .parquet"]),
    "UTF-16 cut short": ("v.csv", LONG.encode("utf-16")[:-1], {}, ["it begins as UTF-16 text, and byte"]),
    "UTF-16 without a mark": ("v.csv", LONG.encode("utf-16-le"), {}, ["v.csv: this is not a text file"]),
    "Latin-1": (
        "v.csv",
        (LONG + "c,w1,caf\xe9\n").encode("latin-1"),
        {},
        ["v.csv:5: byte 0xe9 is not UTF-8 text", "iconv"],
    ),
    "Latin-1 far down": (
        "v.csv",
        (LONG + "c,w,x\n" * 9000 + "d,w1,caf\xe9\n").encode("latin-1"),
        {},
        ["v.csv:9005: byte 0xe9"],
    ),
    "Latin-1 JSONL": ("v.jsonl", b'{"item":"a","label":"caf\xe9"}', {}, ["v.jsonl:1: byte 0xe9 is not UTF-8 text"]),
    "broken JSON": ("v.jsonl", '{"item":"a","label":"b"}\n{"item":\n', {}, ["v.jsonl:2: not JSON"]),
    "an empty item beside a number": (
        "v.csv",
        "id,n2,rating\n" + "".join(f"{row % 5 if row != 1 else ''},{row},{row % 4}\n" for row in range(20)),
        {},
        ["v.csv:3: the item is empty"],
    ),
    "half a letter in a list": (
        "v.csv",
        'item,labels\na,"[""x"", ""\\ud800""]"\nb,"[""x"", ""y""]"\n',
        {},
        ["a name has half a letter (\\ud800)"],
    ),
    "a JSON list": ("v.jsonl", '["a"]\n', {}, ["entry 0 of the list is not a JSON object"]),
    "JSON of two types": (
        "v.jsonl",
        '{"item":1,"label":"b"}\n{"item":"a","label":"b"}\n',
        {},
        ["v.jsonl:2: 'item' is a string here and a number above"],
    ),
    "huge JSON ids": ("v.jsonl", '{"item":9007199254740993,"label":"b"}\n{"item":1.5,"label":"b"}', {}, ["beyond 2^53"]),
    "no Parquet": ("v.parquet", LONG, {}, ["not a Parquet file, or it is cut short"]),
    "a Parquet name that is no text": (
        "v.parquet",
        parquet_with_a_name_in_latin_1(),
        {},
        ["the name of a column is not UTF-8 text"],
    ),
    "no npy": ("v.npy", LONG, {}, ["not a NumPy file, or it is cut short"]),
    "no npz": ("v.npz", b"PK\3\4nothing", {}, ["not a NumPy file, or it is cut short"]),
    "an unknown extension": ("v.xlsx", "x", {}, ["the extension '.xlsx' is not one of .csv"]),
    "JSON": ("v.json", "[]", {}, ["the table has no columns"]),
    "no extension": ("votes", LONG, {}, ["the name has no extension"]),
    "an unknown format": ("v.csv", LONG, {"format": "tall"}, ["'tall' is not one of long, counts, wide"]),
    "an unknown rule for duplicates": ("v.csv", LONG, {"duplicates": "drop"}, ["'drop' is not one of error, first"]),
    "flags of another layout": ("v.csv", LONG, {"format": "wide", "label": "label"}, ["only a long table has label"]),
}


@pytest.mark.parametrize("case", BAD_VOTES)
def test_bad_votes_are_refused_with_row_and_hint(case: str, tmp_path: Path) -> None:
    name, content, arguments, said = BAD_VOTES[case]
    message = refusal(read_votes, tmp_path / name, content, **arguments)
    assert [part for part in said if part not in message] == [], message


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([[1, -1]]), "v.npy, row 0 (counting from 0): -1 in column 1 is not a count"),
        (np.array([[1, 1], [0.5, 0.5]]), "row 1 (counting from 0): 0.5"),
        (np.array([[1, np.nan]]), "nan in column 1"),
        (np.array([[1, 1], [0, 0]]), "row 1 (counting from 0): this item has no vote"),
        (np.array([1, 2]), "not exactly one matrix [items, columns] in it ((2,))"),
        (np.zeros((0, 3)), "the matrix is empty (0, 3)"),
        (np.array([["a", "b"]]), "not numbers"),
    ],
)
def test_bad_count_arrays_are_refused(array, said: str, tmp_path: Path) -> None:
    np.save(tmp_path / "made.npy", array)
    assert said in refusal(read_votes, tmp_path / "v.npy", (tmp_path / "made.npy").read_bytes())


def test_pickled_arrays_are_never_opened(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("exploded").touch, ())

    np.save(tmp_path / "made.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    content = (tmp_path / "made.npy").read_bytes()
    assert "never unpickled" in refusal(read_votes, tmp_path / "v.npy", content)
    refusal(read_votes, tmp_path / "v.npy", pickle.dumps(Bomb()))
    assert not (tmp_path / "exploded").exists()


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    pd.DataFrame({"item": ["a"] * 500, "label": [str(i) for i in range(500)]}).to_parquet(tmp_path / "whole.parquet")
    np.savez_compressed(tmp_path / "whole.npz", counts=np.random.default_rng(0).integers(1, 9, (50, 50)))
    np.save(tmp_path / "whole.npy", np.ones((50, 50)))
    for kind in ("parquet", "npz", "npy"):
        content = (tmp_path / f"whole.{kind}").read_bytes()
        for length in (10, len(content) // 2, len(content) - 1):
            assert "cut short" in refusal(read_votes, tmp_path / f"v.{kind}", content[:length])


def test_damage_inside_a_file_is_an_input_error(tmp_path: Path) -> None:
    pd.DataFrame({"item": ["a"] * 500, "label": [str(i) for i in range(500)]}).to_parquet(tmp_path / "whole.parquet")
    np.savez_compressed(tmp_path / "whole.npz", counts=np.random.default_rng(0).integers(1, 9, (50, 50)))
    for kind in ("parquet", "npz"):
        content = bytearray((tmp_path / f"whole.{kind}").read_bytes())
        content[80:400] = b"\xff" * 320
        refusal(read_votes, tmp_path / f"v.{kind}", bytes(content))


def test_a_missing_file_brings_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text(LONG)
    with pytest.raises(InputError, match=r"vote\.csv: there is no such file\.\n  Did you mean votes\.csv\?"):
        read_votes(tmp_path / "vote.csv")
    with pytest.raises(InputError, match="there is no such file"):
        read_votes(tmp_path / "no" / "such" / "folder.parquet")


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet", "npy"])
def test_a_folder_is_not_a_file(extension: str, tmp_path: Path) -> None:
    (tmp_path / f"votes.{extension}").mkdir()
    with pytest.raises(InputError, match="this is a folder, not a file"):
        read_votes(tmp_path / f"votes.{extension}")


def test_a_bad_file_of_classes_is_named(tmp_path: Path) -> None:
    (tmp_path / "v.csv.classes.json").write_text('{"cat": 1}')
    assert "v.csv.classes.json: this is not a JSON list" in refusal(read_votes, tmp_path / "v.csv", LONG)


BAD_MATRICES = {
    "logits": (
        read_probabilities,
        "p.csv",
        "id,cat,dog\na,0.5,0.5\nb,2.5,-1\n",
        ["p.csv:3: not a probability distribution (2.5, -1)", "--logits"],
    ),
    "counts": (read_probabilities, "p.csv", "id,cat,dog\na,3,1\n", ["not a probability distribution (3, 1)", "as votes"]),
    "a sum that is not 1": (
        read_probabilities,
        "p.csv",
        "id,cat,dog\na,0.5,0.4\n",
        ["p.csv:2: the probabilities sum to 0.9, not 1"],
    ),
    "minus infinity": (read_probabilities, "p.csv", "id,cat,dog\na,1,-inf\n", ["p.csv:2: NaN or infinity"]),
    "NaN": (read_predictions, "p.csv", "id,cat,dog\na,0.5,NaN\n", ["p.csv:2: nan in column 'dog'"]),
    "infinity": (read_predictions, "p.csv", "id,cat,dog\na,0.5,inf\n", ["p.csv:2: inf in column 'dog'"]),
    "an unnamed id column": (
        read_predictions,
        "p.csv",
        "picture,cat\na.png,1\n",
        ["'a.png' in column 'picture' is not a number", "--item"],
    ),
    "ids only": (read_predictions, "p.csv", "id\na\n", ["no column of numbers"]),
    "an empty id": (read_predictions, "p.csv", "id,cat\n,1\n", ["p.csv:2: the id is empty"]),
    "ids twice": (read_predictions, "p.csv", "id,cat\na,1\nb,1\na,1\n", ["p.csv:4: the id 'a' occurs a second time"]),
    "NaN feature": (read_features, "x.csv", "id,f\na,1\nb,nan\n", ["x.csv:3: feature 'f' is nan"]),
    "a feature beyond float32": (read_features, "x.csv", "id,f\na,1e300\n", ["x.csv:2: feature 'f' is 1e+300"]),
}


@pytest.mark.parametrize("case", BAD_MATRICES)
def test_bad_matrices_are_refused_with_row_and_hint(case: str, tmp_path: Path) -> None:
    read, name, content, said = BAD_MATRICES[case]
    message = refusal(read, tmp_path / name, content)
    assert [part for part in said if part not in message] == [], message


BAD_GOLD = {
    "unknown": (
        "g.csv",
        "item,gold\na,cat\nb,catt\n",
        ["g.csv:3: label 'catt' is not one of the classes", "Did you mean 'cat'?"],
    ),
    "out of range": ("g.csv", "item,gold\na,0\nb,2\n", ["g.csv:3: label '2'"]),
    "empty": ("g.csv", "item,gold\na,\nb,cat\n", ["g.csv:2: column 'gold' is empty"]),
    "missing ids": ("g.csv", "item,gold\na,cat\nc,cat\n", ["1 ids are missing (b) and 1 are not in the votes (c)"]),
    "too few rows": ("g.csv", "gold\ncat\n", ["1 rows for 2 items, and no ids"]),
    "no gold column": ("g.csv", "item,x,y1\na,cat,1\nb,cat,1\n", ["known to hold the gold labels", "item, x, y1"]),
}


@pytest.mark.parametrize("case", BAD_GOLD)
def test_bad_gold_is_refused_with_row_and_hint(case: str, tmp_path: Path) -> None:
    name, content, said = BAD_GOLD[case]
    message = refusal(read_gold, tmp_path / name, content, classes=("cat", "dog"), ids=("a", "b"))
    assert [part for part in said if part not in message] == [], message


@pytest.mark.parametrize("array", [np.ones((2, 2), int), np.ones(2)])
def test_gold_arrays_must_be_lists_of_classes(array, tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", array)
    with pytest.raises(InputError, match="not exactly one list of classes"):
        read_gold(tmp_path / "g.npy", ("cat", "dog"), ("a", "b"))


CELL = st.sampled_from(
    ["item", "id", "label", "worker", "a", "1", "2", "-1", "0.5", "nan", "", '"', '""', " ", "\ufeff", "é"]
)
TABLE = st.lists(st.lists(CELL, max_size=3).map(",".join), max_size=4).map("\n".join)
JSON = st.lists(
    st.sampled_from(['{"item":"a","label":"b"}', '{"item":1}', '{"label":null}', "{}", "[]", "1", '{"a":{"b":1}}', "{"])
)


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".txt", ".csv.gz", ".jsonl", ".json", ".parquet", ".npy", ".npz"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(TABLE.map(str.encode), JSON.map("\n".join).map(str.encode), st.text().map(str.encode), st.binary())
)
@example(content=b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n")
@example(content=b"\x93NUMPY\x01\x00")
@example(content=b"{}\n{}")
@example(content=b'"' + b"x" * 200_000)
def test_no_content_breaks_a_reader(extension: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"file{extension}"
    path.write_bytes(content)
    for read in (read_votes, read_predictions, read_features, lambda path: read_gold(path, ("a", "b"), ("1",))):
        with contextlib.suppress(InputError):  # anything else is our bug
            read(path)


def test_objects_that_share_no_key_make_no_table_of_empty_cells(tmp_path):
    """Without a bound, half a megabyte of these took gigabytes and minutes."""
    lines = "".join(f'{{"item": "i{row}", "c{row}": 1}}\n' for row in range(4_000))
    (tmp_path / "sparse.jsonl").write_text(lines)
    with pytest.raises(InputError, match=r"4,000 columns of 4,000 objects .* make 16,00\d,000 cells"):
        read_votes(tmp_path / "sparse.jsonl")


def test_names_of_megabytes_are_refused_by_the_header(tmp_path):
    np.savez_compressed(tmp_path / "names.npz", counts=np.ones((2, 2), int), ids=np.zeros(2, "S9000000"))
    with pytest.raises(InputError, match="names of 9,000,000 bytes are none"):
        read_votes(tmp_path / "names.npz")


@pytest.mark.parametrize("name", ["v.csv", "v.jsonl", "v.tsv"])
@pytest.mark.parametrize("rows", [20, 20_000])
def test_votes_are_read_from_a_named_pipe(name, rows, tmp_path):
    """A pipe can be read once: who recognises a file and who reads it may not both take from it."""
    cells = [(f"item {n}", "ab"[n % 2], "xy"[n % 3 == 0]) for n in range(rows)]
    if name == "v.jsonl":
        lines = [json.dumps(dict(zip(("item", "annotator", "label"), row, strict=True))) for row in cells]
    else:
        lines = [("," if name == "v.csv" else "\t").join(row) for row in [("item", "annotator", "label"), *cells]]
    os.mkfifo(tmp_path / name)
    writer = threading.Thread(target=(tmp_path / name).write_text, args=("\n".join(lines) + "\n",), daemon=True)
    writer.start()
    assert read_votes(tmp_path / name).n_votes == rows
    writer.join(10)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(list("aabbcc"), pa.string_view()),
        pa.array([b"aa"] * 6, pa.binary_view()),
        pa.array(range(6), pa.timestamp("us", "+99:99")),
        pa.array(range(6), pa.timestamp("us", "Mars/X")),
        pa.array([0, 0, 2**31 - 1, 1, 2, 2], pa.date32()),
        pa.array([2**62, 0, 1, 1, 2, 2], pa.duration("s")),
    ],
    ids=lambda column: str(column.type),
)
def test_types_of_parquet_that_python_has_no_value_for_are_read_or_refused(column, tmp_path):
    labels, numbers = pa.array(list("xyxxyy")), pa.array([1, 2, 3, 1, 2, 3])
    records = pa.array([[{"label": "x", "worker": "p"}]] * 6)
    tables = (
        {"item": column, "label": labels},
        {"item": labels, "annotator": column, "label": labels},
        {"item": column, "cat": numbers, "dog": numbers[::-1]},
        {"item": column, "votes": records},
        {"cat": column, "dog": numbers},
        {"item": pa.array(list("abcdef")), "r1": column, "r2": labels, "r3": labels},
    )
    read = 0
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), tmp_path / f"{number}.parquet")
        try:
            read += read_votes(tmp_path / f"{number}.parquet").n_votes > 0
        except InputError:
            continue
    assert read >= (str(column.type) == "string_view")


def test_a_matrix_of_true_and_false_is_one_of_0_and_1(tmp_path):
    matrix = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]])
    np.save(tmp_path / "whole.npy", matrix)
    np.save(tmp_path / "bool.npy", matrix.astype(bool))
    assert np.array_equal(read_votes(tmp_path / "bool.npy").counts, read_votes(tmp_path / "whole.npy").counts)


def test_names_of_bytes_in_an_npz_are_text(tmp_path):
    np.savez(
        tmp_path / "v.npz", counts=np.eye(2, dtype=int) + 1, ids=np.array([b"a", b"b"]), classes=np.array([b"x", b"y"])
    )
    votes = read_votes(tmp_path / "v.npz")
    assert (votes.items, votes.classes) == (("a", "b"), ("x", "y"))
