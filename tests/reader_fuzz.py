"""Damaged and odd files for the readers: nothing but an InputError may come out, and no count may be silently wrong.

Valid files of every kind are mutated. What a reader still accepts is parsed a second time by a naive parser that shares
no code with it (csv, json, np.load), and every single vote is compared.

    python tests/reader_fuzz.py --mutations 100000 [--kind csv] [--seed 0]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dissensus.datasets.gold import read_gold
from dissensus.datasets.own_files import read_features, read_ids, read_predictions, read_probabilities
from dissensus.errors import InputError
from dissensus.votes import Votes, read_votes

LONG = "item,annotator,label\n" + "".join(f"i{n % 7},w{n},{['cat', 'dog', 'cow'][n % 3]}\n" for n in range(20))
QUOTED = 'item,annotator,text,label\na,w1,"one, two",cat\nb,w1,"said ""no""",dog\n"c d",w2,"two\nlines",cat\n'
NUMBERS = "id,worker,rating\n" + "".join(f"{n % 5},{n},{n % 4}.0\n" for n in range(16))
WIDE = "item,annotator_1,annotator_2,text\na,x,y,hello\nb,y,,world\nc,x,x,again\n"
COUNTS = "item,cat,dog,cow\n" + "".join(f"p{n},{n % 4},{3 - n % 4},{2}\n" for n in range(9))
TRIPLES = "item,label,count\na,x,3\na,y,1\nb,x,4\n"
LISTS = 'item,labels\na,"[""x"", ""y""]"\nb,"[\'x\', \'x\', \'y\']"\nc,"{\'x\': 2, \'y\': 1}"\n'
JOINED = "item,labels\n" + "".join(f"i{n},{';'.join('xxy'[n % 2 : n % 2 + 2])}\n" for n in range(12))
PRINTED = "item,labels\n" + "".join(f"i{n},['x' 'y' 'x']\n" for n in range(6))
PEOPLE = "worker," + ",".join(f"q{n}" for n in range(6)) + "\n" + "".join(f"w{n},x,y,x,,y,x\n" for n in range(4))
NUMBERED = "id,label1,label2\n" + "".join(f"i{n},x,{'xy'[n % 2]}\n" for n in range(8))
VOTE_WORDS = "label|annotation|vote|answer|rating|score|response|judge?ment|choice|opinion"
ROWS = [{"item": f"i{n % 5}", "worker": n, "label": ["a", "b"][n % 2], "t": None} for n in range(12)]
NESTED = [{"id": n, "label": "a", "annotations": ["a", "b", "a"][: n % 3 + 1]} for n in range(4)]
TOKENS = [
    b'"', b'""', b",", b";", b"\t", b"\n", b"\r\n", b"\r", b"\n\n", b"NaN", b"-1", b"1.0", b"01", b"1e400", b"inf",
    b"null", b"[", b"]", b"{", b"}", b"[[[[", b":", b"'", b"\\", b"\\u", b"\\ud800", b"\xef\xbb\xbf", b"\xff", b"\0",
    b" ", b"item", b"label", b"count", b"0", b"9" * 30, b"true", b"False", b"\xc3\xa9", b"i1,w1,cat\n", b"|",
]  # fmt: skip


def seeds(kind: str) -> list[bytes]:
    """Valid files of a kind."""
    tables = [LONG, QUOTED, NUMBERS, WIDE, COUNTS, TRIPLES, LISTS, JOINED, PRINTED, PEOPLE, NUMBERED]
    if kind == "csv":
        return [text.encode() for text in (*tables, LONG.replace(",", ";"), NUMBERS.replace(",", "\t"))]
    if kind == "tsv":
        return [text.replace(",", "\t").encode() for text in (LONG, NUMBERS, WIDE, COUNTS, TRIPLES)]
    if kind == "csv.gz":
        return [gzip.compress(text.encode(), mtime=0) for text in tables]
    if kind == "jsonl":
        return ["\n".join(map(json.dumps, rows)).encode() for rows in (ROWS, NESTED)]
    if kind == "json":
        return [json.dumps(rows, indent=indent).encode() for rows in (ROWS, NESTED) for indent in (None, 1)]
    return [_binary(kind, which) for which in range(4)]


def _binary(kind: str, which: int) -> bytes:
    file, draw = io.BytesIO(), np.random.default_rng(which)
    counts = draw.integers(0, 5, (8, 3)).astype([np.int64, np.float32, np.uint8, np.int16][which]) + 1
    if kind == "npy":
        np.save(file, np.asfortranarray(counts) if which % 2 else counts)
    elif kind == "npz":
        names = {
            "ids": np.array([f"i{n}" for n in range(8)], ["U", "S", "U", "S"][which] + "4"),
            "classes": np.array(list("abc")),
        }
        (np.savez_compressed if which % 2 else np.savez)(file, counts=counts, **names)
    else:
        columns: list[dict[str, Any]] = [
            {"item": [f"i{n % 5}" for n in range(20)], "worker": list(range(20)), "label": ["a", "b"] * 10},
            {"item": list(range(8)), **dict(zip("abc", counts.T.tolist(), strict=True))},
            {"item": ["a", "b"], "annotations": [["x", "y"], ["x", "x"]]},
            {
                "item": pa.array([1.0, 2.0, None]),
                "rater1": pa.array(["x", None, "y"]).dictionary_encode(),
                "rater2": ["x"] * 3,
            },
        ]
        compression = ["snappy", "none", "gzip", "zstd"][which]
        pq.write_table(pa.table(columns[which]), file, compression=compression, use_dictionary=which % 2 == 0)
    return file.getvalue()


KINDS = ("csv", "tsv", "csv.gz", "jsonl", "json", "npy", "npz", "parquet")


def mutated(content: bytes, others: list[bytes], draw: random.Random) -> bytes:
    """The content with one to four things changed."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        place, length = draw.randrange(len(data) + 1), draw.choice((1, 1, 2, 4, 16, 64))
        kind = draw.randrange(10)
        if kind == 0 and data:
            data[min(place, len(data) - 1)] ^= 1 << draw.randrange(8)
        elif kind == 1 and data:
            data[min(place, len(data) - 1)] = draw.randrange(256)
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = data[place : place + length] * draw.choice((1, 2))
        elif kind == 4:
            data[place:place] = draw.choice(TOKENS)
        elif kind == 5:
            data[place : place + length] = draw.choice(TOKENS)
        elif kind == 6:
            other = draw.choice(others)
            start = draw.randrange(len(other))
            data[place:place] = other[start : start + length]
        elif kind == 7:
            if draw.random() < 0.3:
                del data[place:]
        elif letters := [here for here in range(place, min(place + 40, len(data))) if chr(data[here]).isalnum()]:
            data[draw.choice(letters)] = ord(draw.choice("abcwxyzi0123456789"))
    return bytes(data)


ODD_VALUES: list[Any] = [
    None, 1, 1.0, 0, -1, 2.5, 10**18, 10**30, 1e300, float("nan"), True, False, "", " ", "1", "1.0", "01", "True", "a ",
    "A", "NA", "nan", "x\ny", "x,y", 'x"y', "\u2028", "é", ["a", "b"], [], ["a", None], [1, 1.0], {"a": 2, "b": 1},
    {"w1": "a"}, {}, [["a"]], "[1, 2]", "{'a': 1}", "label", "item", "2020-01-01",
]  # fmt: skip


def with_odd_cells(content: bytes, kind: str, draw: random.Random) -> bytes:
    """The file with one to four cells, names of columns or rows changed, and otherwise well formed."""
    if kind in ("json", "jsonl"):
        text = content.decode()
        rows = json.loads(text) if kind == "json" else [json.loads(line) for line in text.split("\n")]
        for _ in range(draw.choice((1, 1, 2, 4))):
            row = draw.choice(rows)
            name = draw.choice(list(row) or ["item"])
            change = draw.randrange(8)
            if change == 0:
                row.pop(name, None)
            elif change == 1:
                row[draw.choice(["item", "label", "count", "id", "x", "annotator_1"])] = draw.choice(ODD_VALUES)
            elif change == 2:
                rows.append(dict(draw.choice(rows)))
            else:
                row[name] = draw.choice(ODD_VALUES)
        return (json.dumps(rows) if kind == "json" else "\n".join(map(json.dumps, rows))).encode()
    delimiter = "\t" if kind == "tsv" else next(mark for mark in ",;\t" if mark in content.decode().split("\n")[0])
    table = list(csv.reader(io.StringIO(content.decode(), newline=""), delimiter=delimiter))
    for _ in range(draw.choice((1, 1, 2, 4))):
        row = draw.choice(table)
        change = draw.randrange(10)
        if change == 0 and len(table) > 2:
            table.append(list(draw.choice(table[1:])))
        elif change == 1:
            table.insert(draw.randrange(len(table) + 1), [])
        elif row:
            value = draw.choice(ODD_VALUES)
            row[draw.randrange(len(row))] = json.dumps(value) if isinstance(value, (list, dict)) else str(value)
    file = io.StringIO(newline="")
    quoting = draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    csv.writer(file, delimiter=delimiter, lineterminator=draw.choice(("\n", "\r\n", "\r")), quoting=quoting).writerows(
        table
    )
    return file.getvalue().encode()


def check_file(path: Path, draw: random.Random) -> str:
    """Read a file with one of the readers: "read" or "refused". Anything else that happens is an error."""
    told = partial(read_votes, format=draw.choice(("long", "wide", "counts")))
    reader = draw.choice((read_votes,) * 5 + (told, read_predictions, read_probabilities, read_features, read_ids, _gold))
    try:
        result = reader(path)
    except InputError:
        return "refused"
    if isinstance(result, Votes):
        check_votes(result, path)
    return "read"


def _gold(path: Path) -> Any:
    return read_gold(path, ("cat", "dog", "cow"), tuple(f"i{n}" for n in range(7)))


def check_votes(votes: Votes, path: Path) -> None:
    """Compare every vote with what a naive parser finds in the columns that `read_as` names."""
    assert votes.read_as is not None
    ours = Counter[tuple[str, str]]()
    for item, label, times in zip(*votes.cells, strict=True):
        ours[votes.items[item], votes.classes[label]] += int(times)
    assert sum(ours.values()) == votes.n_votes
    theirs = naive_votes(path, votes)
    assert +ours == +theirs, f"{votes.read_as}: {(+ours - +theirs)} and {(+theirs - +ours)}"


def naive_votes(path: Path, votes: Votes) -> Counter[tuple[str, str]]:
    """Every (item, class) in a file, by parsers that share no code with the readers."""
    read_as = votes.read_as
    assert read_as is not None
    if path.suffix in (".npy", ".npz"):
        return _naive_answers(path) if read_as.layout == "matrix of answers" else _naive_arrays(path)
    header, rows = _naive_rows(path, read_as.notes)
    found: Counter[tuple[str, str]] = Counter()
    columns = read_as.columns
    for number, cells in enumerate(rows):
        row = dict(zip(header, cells, strict=True))
        named = columns["item"] if columns.get("item") in row else header[0]  # "the index" has no name
        item = _name(row[named]) if "item" in columns else str(number)
        if read_as.layout == "long table":
            found[item, _label(row[columns["label"]])] += int(float(row[columns["count"]])) if "count" in columns else 1
        elif read_as.layout == "wide table" and "items" in columns:
            for name in header:
                if name in votes.items and name != columns["annotator"] and not _is_empty(row[name]):
                    found[name, _label(row[name])] += 1
        elif read_as.layout == "wide table":
            for name in header:
                squeezed = re.sub(r"[\W_]+", "", name.lower())
                numbered = "votes" in columns and re.fullmatch(f"({VOTE_WORDS})[0-9]+", squeezed)
                if (numbered or name in (votes.annotators or ())) and not _is_empty(row[name]):
                    found[item, _label(row[name])] += 1
        elif read_as.layout == "cleanlab wide table":
            for name in header[1:]:
                if not _is_empty(row[name]):
                    found[item, _label(row[name])] += 1
        elif read_as.layout == "table of counts":
            for name in header:
                if name in votes.classes and name != columns.get("item") and name not in read_as.ignored:
                    found[item, name] += int(float(row[name]))
        else:
            said = next((note.split()[-1] for note in read_as.notes if "hold several votes each" in note), None)
            mark = {"commas": ",", "semicolons": ";", "bars": "|"}.get(said or "")
            cell = row[columns["label"]]
            parts = [(part.strip(), 1) for part in str(cell).split(mark)] if mark and cell else _naive_cell(cell)
            for label, times in parts:
                found[item, _label(label)] += times
    return found


def _naive_answers(path: Path) -> Counter[tuple[str, str]]:
    matrix = np.load(path, allow_pickle=False)
    matrix = matrix if path.suffix == ".npy" else matrix["counts"]
    cells = [(str(r), cell) for r, row in enumerate(matrix.tolist()) for cell in row]
    return Counter((item, str(int(cell))) for item, cell in cells if cell == cell and cell != -1)


def _naive_arrays(path: Path) -> Counter[tuple[str, str]]:
    loaded = np.load(path, allow_pickle=False)
    arrays = {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded.items())
    matrix = next(array for array in arrays.values() if array.ndim == 2)
    names = [arrays.get("ids", arrays.get("items")), arrays.get("classes")]
    rows, columns = (
        [str(n) for n in range(size)]
        if array is None
        else [_name(cell.decode() if isinstance(cell, bytes) else cell) for cell in array.tolist()]
        for array, size in zip(names, matrix.shape, strict=True)
    )
    return Counter({(row, column): int(matrix[r, c]) for r, row in enumerate(rows) for c, column in enumerate(columns)})


def _naive_rows(path: Path, notes: tuple[str, ...]) -> tuple[list[str], list[list[Any]]]:
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        columns = [[_plain(cell) for cell in column.to_pylist()] for column in table.columns]
        return table.column_names, [list(row) for row in zip(*columns, strict=True)]
    content = path.read_bytes()
    text = (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8-sig")
    if path.suffix in (".json", ".jsonl"):
        if text.lstrip().startswith("["):
            objects = json.loads(text)
        else:
            decoder, objects, place = json.JSONDecoder(), [], 0
            while text[place:].strip():
                place += len(text[place:]) - len(text[place:].lstrip())
                value, place = decoder.raw_decode(text, place)
                objects.append(value)
        header = list(dict.fromkeys(name for row in objects for name in row))
        return header, [[row.get(name) for name in header] for row in objects]
    marks = {"semicolons": ";", "tabs": "\t", "bars": "|", "commas": ","}
    said = next(
        (mark for name, mark in marks.items() if any(f"columns are separated by {name}" in note for note in notes)), None
    )
    delimiter = said or ("\t" if path.suffix == ".tsv" else ",")
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    headless = any("no header" in note for note in notes)
    return ([str(n) for n in range(len(rows[0]))], rows) if headless else (rows[0], rows[1:])


def _plain(cell: Any) -> Any:
    return cell.decode() if isinstance(cell, bytes) else cell


def _is_empty(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and cell != cell)


def _name(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _label(cell: Any) -> str:
    text = _name(cell)
    if text in ("True", "TRUE", "False", "FALSE"):
        return text.lower()
    return text[: text.index(".")] if re.fullmatch(r"[+-]?[0-9]+\.0*", text) else text


def _naive_cell(cell: Any) -> list[tuple[str, int]]:
    if isinstance(cell, str) and cell.strip().startswith("[") and "," not in cell:
        words = re.findall(r"'[^']*'|\"[^\"]*\"|[^\s\[\]]+", cell)
        cell = [
            word[1:-1] if word[0] in "'\"" else json.loads(word) for word in words if word not in ("nan", "None", "null")
        ]
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except ValueError:
            cell = eval(
                cell, {"__builtins__": {}}, {"null": None, "true": True, "false": False, "nan": None, "NaN": None}
            )
    if isinstance(cell, dict):
        counts = all(
            isinstance(value, (int, float)) and not isinstance(value, bool)
            for value in cell.values()
            if value is not None
        )
        if counts:
            return [(_label(name), int(times)) for name, times in cell.items() if times]
        return [(_label(label), 1) for label in cell.values() if not _is_empty(label)]
    return [(_label(label), 1) for label in cell or () if not _is_empty(label)]


def fuzz_kind(kind: str, mutations: int, seed: int = 0, folder: Path | None = None) -> dict[str, int]:
    """How many mutated files of a kind were read (rightly) and refused. The first failure is raised, its file kept."""
    draw, files, counts = random.Random(f"{kind} {seed}"), seeds(kind), Counter[str]()
    with tempfile.TemporaryDirectory() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = (folder or Path(made)) / f"fuzzed.{kind}"
        for number in range(mutations):
            content = draw.choice(files)
            well_formed = kind in ("csv", "tsv", "json", "jsonl") and draw.random() < 0.5
            path.write_bytes(with_odd_cells(content, kind, draw) if well_formed else mutated(content, files, draw))
            try:
                counts[check_file(path, random.Random(f"{kind} {seed} {number}"))] += 1
            except Exception:
                kept = Path(tempfile.gettempdir()) / f"reader_fuzz_{seed}_{number}.{kind}"
                kept.write_bytes(path.read_bytes())
                print(f"mutation {number} of {kind}, seed {seed}: kept as {kept}", file=sys.stderr)
                raise
    return {"mutations": mutations, "read": counts["read"], "refused": counts["refused"]}


def fuzz_readers(mutations: int, seed: int = 0) -> dict[str, dict[str, int]]:
    """`fuzz_kind` for every kind, each in a process of its own, so that a crash of a parser is counted and not shared.

    A kind that failed has "failed": 1, and its last words are printed.
    """
    results = {}
    for kind in KINDS:
        command = [sys.executable, __file__, "--kind", kind, "--mutations", str(mutations), "--seed", str(seed)]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        if child.returncode:
            print(f"{kind}: exit code {child.returncode}\n{child.stderr[-2000:]}", file=sys.stderr)
            results[kind] = {"mutations": mutations, "failed": 1}
        else:
            results[kind] = {**json.loads(child.stdout), "failed": 0}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    arguments = parser.parse_args()
    if arguments.kind:
        print(json.dumps(fuzz_kind(arguments.kind, arguments.mutations, arguments.seed)))
    else:
        for kind, counts in fuzz_readers(arguments.mutations, arguments.seed).items():
            print(kind, counts)


if __name__ == "__main__":
    main()
