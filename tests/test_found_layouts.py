"""Files as people really have them: the votes that were written are the votes that are read, or the file is refused.

One small crowd is written in every layout; what is read is compared vote by vote with what was written.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from dissensus.errors import InputError
from dissensus.votes import Votes, read_votes
from dissensus.votes.joined_cells import separator_of
from dissensus.votes.object_cells import meaning_of

CLASSES = ("bird", "cat", "dog")
PEOPLE = tuple(f"p{n}" for n in range(6))
N = 40


def crowd() -> list[tuple[str, str, str]]:
    """(item, person, label): four of six people on each of 40 items, who often agree."""
    draw = np.random.default_rng(0)
    votes = []
    for item in range(N):
        usual = draw.integers(3)
        for person in sorted(draw.permutation(6)[:4]):
            label = usual if draw.random() < 0.7 else draw.integers(3)
            votes.append((f"i{item}", PEOPLE[person], CLASSES[label]))
    return votes


VOTES = crowd()
BY_ITEM = {f"i{n}": {who: label for item, who, label in VOTES if item == f"i{n}"} for n in range(N)}
COUNTS = {item: [list(by.values()).count(name) for name in CLASSES] for item, by in BY_ITEM.items()}


def rows(header: Iterable[object], lines: Iterable[Iterable[object]], separator: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([list(header), *map(list, lines)])
    return text.getvalue()


def lines(records: Iterable[Any]) -> str:
    return "\n".join(map(json.dumps, records))


def number(label: str) -> int:
    return CLASSES.index(label)


def wide(
    cell: Callable[[str, str | None], object], *more: tuple[str, Callable[[str], object]], first: bool = True
) -> str:
    """One row per item, one column per person; `more` columns follow, and the item column is first or last."""
    header = [*PEOPLE, *(name for name, _ in more)]
    lines = [[cell(i, by.get(p)) for p in PEOPLE] + [make(i) for _, make in more] for i, by in BY_ITEM.items()]
    table = [[item, *line] if first else [*line, item] for item, line in zip(BY_ITEM, lines, strict=True)]
    return rows(["id", *header] if first else [*header, "id"], table)


def name_or_blank(item: str, label: str | None) -> object:
    return label or ""


def majority(item: str) -> str:
    return CLASSES[int(np.argmax(COUNTS[item]))]


# file -> (content, who is known, how labels are named, arguments, words that are said)
LAYOUTS: dict[str, tuple[str, bool, Callable[[str], str], dict[str, Any], str]] = {
    "sep line of Excel.csv": ("sep=;\r\n" + rows(("item", "worker", "label"), VOTES, ";"), True, str, {}, "semicolons"),
    "Snow et al.tsv": (
        rows(
            ("!amt_annotation_ids", "!amt_worker_ids", "orig_id", "response", "gold"),
            [(n, p, i, label, "cat") for n, (i, p, label) in enumerate(VOTES)],
            "\t",
        ),
        True, str, {}, "annotator=!amt_worker_ids",
    ),
    "a label by evidence.csv": (
        rows(
            ("instance_id", "user_id", "text", "politeness", "age"),
            [(i, p, f"text {i}", label, PEOPLE.index(p) + 20) for i, p, label in VOTES],
        ),
        True, str, {}, "'politeness' was taken for the label",
    ),
    "texts as items.csv": (rows(("text", "annotator", "label"), VOTES), True, str, {}, "item=text"),
    "SNLI.txt": (
        rows(
            ("gold_label", "sentence1", "captionID", "pairID", *(f"label{n}" for n in range(1, 6))),
            [("cat", f"words {i}", "c1", i, *by.values(), "") for i, by in BY_ITEM.items()],
            "\t",
        ),
        False, str, {}, "who cast the votes is not known",
    ),
    "gold beside people.csv": (wide(name_or_blank, ("gold", majority)), True, str, {}, "gold: by its name no person"),
    "final beside people.csv": (wide(name_or_blank, ("final_label", majority)), True, str, {}, "ignored final_label"),
    "ids in the last column.csv": (
        wide(name_or_blank, first=False).replace("p", "rater"), True, str, {}, "annotators=rater0 rater1",
    ),
    "people in rows.csv": (
        rows(
            ("worker", *BY_ITEM),
            [(p, *((by.get(p) or "") for by in BY_ITEM.values())) for p in PEOPLE],
        ),
        True, str, {}, "one row per annotator",
    ),
    "a form.csv": (
        rows(
            ("Timestamp", "Email address", *BY_ITEM),
            [("1/2/2026", p, *((by.get(p) or "") for by in BY_ITEM.values())) for p in PEOPLE],
        ),
        True, str, {}, "one row per annotator",
    ),
    "winner beside counts.csv": (
        rows(("id", *CLASSES, "winner"), [(i, *COUNTS[i], majority(i)) for i in BY_ITEM]),
        False, str, {}, "ignored winner",
    ),
    "agreement beside counts.csv": (
        rows(("id", *CLASSES, "agreement"), [(i, *COUNTS[i], max(COUNTS[i]) / 4) for i in BY_ITEM]),
        False, str, {}, "ignored agreement",
    ),
    "joined by commas.csv": (
        rows(("id", "labels"), [(i, ",".join(by.values())) for i, by in BY_ITEM.items()]), False, str, {}, "commas",
    ),
    "joined with people.csv": (
        rows(("id", "annotators", "labels"), [(i, ";".join(by), ";".join(by.values())) for i, by in BY_ITEM.items()]),
        True, str, {}, "semicolons",
    ),
    "lists by NumPy.csv": (
        rows(("id", "labels"), [(i, np.array([*by.values()])) for i, by in BY_ITEM.items()]), False, str, {}, "one list",
    ),
    "numbers by NumPy.csv": (
        rows(("id", "labels"), [(i, np.array([*map(number, by.values())], float)) for i, by in BY_ITEM.items()]),
        False, lambda name: str(number(name)), {}, "one list",
    ),
    "objects of people.jsonl": (
        lines({"id": i, "votes": {p: number(name) for p, name in by.items()}} for i, by in BY_ITEM.items()),
        True, lambda name: str(number(name)), {}, "map people to their labels",
    ),
    "objects of counts.jsonl": (
        lines({"id": i, "votes": dict(zip(CLASSES, COUNTS[i], strict=True))} for i in BY_ITEM),
        False, str, {}, "map classes to counts",
    ),
    "HateXplain.json": (
        json.dumps(
            {
                i: {"post_id": i, "annotators": [{"label": x, "annotator_id": p, "target": []} for p, x in by.items()],
                    "rationales": [[0, 1]], "post_tokens": ["a", "b"]}
                for i, by in BY_ITEM.items()
            }
        ),
        True, str, {}, "label=annotators.label",
    ),
    "DynaSent.jsonl": (
        lines(
            {"text_id": i, "gold_label": "cat",
             "label_distribution": {name: [p for p, x in by.items() if x == name] for name in CLASSES}}
            for i, by in BY_ITEM.items()
        ),
        True, str, {}, "people by class",
    ),
    "a record per person.json": (
        json.dumps(
            [
                {"user_id": p, "annotations": [{"image_path": i, "class_label": x} for i, q, x in VOTES if q == p]}
                for p in PEOPLE
            ]
        ),
        True, str, {}, "item=image_path",
    ),
    "Argilla 1.jsonl": (
        lines(
            {"id": i, "text": "t", "label": [{"user_id": p, "value": x, "status": "submitted"} for p, x in by.items()]
             + [{"user_id": "late", "value": "cat", "status": "draft"}]}
            for i, by in BY_ITEM.items()
        ),
        True, str, {}, "draft entries (40)",
    ),
    "lists by item.json": (
        json.dumps({i: [*by.values()] for i, by in BY_ITEM.items()}), False, str, {}, "votes by item",
    ),
    "objects by item.json": (json.dumps(BY_ITEM), True, str, {}, "votes by item"),
    "savetxt.txt": (
        "\n".join(" ".join(f"{number(by[p]) if p in by else -1:.18e}" for p in PEOPLE) for by in BY_ITEM.values()),
        True, lambda name: str(number(name)), {}, "-1 means no answer",
    ),
    "nan.csv": (
        "\n".join(",".join(f"{number(by[p])}.0" if p in by else "nan" for p in PEOPLE) for by in BY_ITEM.values()),
        True, lambda name: str(number(name)), {}, "nan means no answer",
    ),
    "people in lines.txt": (
        "\n".join(" ".join(str(number(by[p]) if p in by else -1) for by in BY_ITEM.values()) for p in PEOPLE),
        True, lambda name: str(number(name)), {"format": "transposed"}, "item=the column",
    ),
}  # fmt: skip


def told(votes: Votes) -> Counter[tuple[str, str | None, str]]:
    people = [None] * len(votes.item) if votes.annotator is None else [votes.annotators[n] for n in votes.annotator]
    return Counter(
        (votes.items[i], who, votes.classes[c]) for i, who, c in zip(votes.item, people, votes.label, strict=True)
    )


@pytest.mark.parametrize("file", LAYOUTS)
def test_every_vote_of_a_layout_is_read_and_the_reading_is_said(file: str, tmp_path: Path) -> None:
    content, known, label, arguments, said = LAYOUTS[file]
    (tmp_path / file).write_bytes(content.encode())
    votes = read_votes(tmp_path / file, **arguments)
    item = (lambda name: name[1:]) if "the row" in str(votes.read_as) or "the column" in str(votes.read_as) else str
    person = {p: p.replace("p", "rater") if "rater" in content else str(n) if item("i1") == "1" else p
              for n, p in enumerate(PEOPLE)}  # fmt: skip
    assert told(votes) == Counter((item(i), person[p] if known else None, label(x)) for i, p, x in VOTES)
    everything = " | ".join((str(votes.read_as), *votes.read_as.notes, *votes.read_as.warnings))
    assert said in everything, everything


ratings = [[1 + (n * 7 + p * p + n // 3) % 5 for p in range(3)] for n in range(N)]
# file -> (content, words of the refusal, arguments that settle it)
REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a year among counts.csv": (
        rows(("id", "year", *CLASSES), [(i, 2000 + int(i[1:]), *COUNTS[i]) for i in BY_ITEM]),
        "'year' does not look like a class", {"ignore": ["year"]},
    ),
    "a length among counts.csv": (
        rows(("id", *CLASSES, "length"), [(i, *COUNTS[i][:2], COUNTS[i][2] + n % 2, 30 + n * 3 % 50)
                                         for n, i in enumerate(BY_ITEM)]),
        "'length' does not look like a class", {"columns": CLASSES},
    ),
    "yes or no by people.csv": (
        rows(("id", "A", "B", "C"), [(n, *(int((n * 5 + p) % 16 == 0) for p in range(3))) for n in range(N)]),
        "rows are all 0", {"format": "wide"},
    ),
    "answers of few.csv": (
        rows(("", "A0001", "A0002", "A0003"), [(n, n % 3, (n // 2) % 3, (n // 3) % 3) for n in range(12)]),
        "counts of classes or what people said", {"format": "wide"},
    ),
    "tokens beside a label.csv": (
        rows(("id", "label", "tokens"), [(i, majority(i), "['a', 'b']") for i in BY_ITEM]),
        "which one holds the votes", {"labels": "label"},
    ),
    "shares per label.csv": (
        rows(("item", "label", "share"),
             [(i, x, c / 4) for i in BY_ITEM for x, c in zip(CLASSES, COUNTS[i], strict=True)]),
        "shares are no votes", {"ignore": ["share"]},
    ),
    "numbers per label.csv": (
        rows(("item", "label", "antal"),
             [(i, x, c) for i in BY_ITEM for x, c in zip(CLASSES, COUNTS[i], strict=True) if c]),
        "does 'antal' say how many votes", {"count": "antal"},
    ),
    "a split beside people.csv": (
        wide(name_or_blank, ("split", lambda item: ("train", "test")[len(item) % 2])),
        "split: no other column has the same labels", {"ignore": ["split"]},
    ),
    "one vote per line.txt": (
        "\n".join(f"{p[1:]} {i[1:]} {number(x)}" for i, p, x in VOTES), "one vote (item, annotator, label)", {},
    ),
    "several questions.csv": (
        rows(("item", "worker", "toxic", "insult"), [(i, p, x, CLASSES[len(i) % 2]) for i, p, x in VOTES[:-1]]
             + [("i0", "p9", "cat", "dog"), ("i1", "p9", "dog", "cat"), ("i1", "p8", "dog", "dog")]),
        "any of toxic, insult can be it", {"labels": "toxic"},
    ),
    "thin objects.jsonl": (
        lines({"id": n, "votes": {f"k{p}": 1 + (n + p) % 4 for p in range(2 + n % 3)}} for n in range(N)),
        "count classes, or say which class each person chose", {"format": "wide"},
    ),
    "counts in lists.jsonl": (
        lines({"id": i, "label_count": COUNTS[i]} for i in BY_ITEM), "one number per class in every row, counts", {},
    ),
    "shares in lists.jsonl": (
        lines({"id": i, "soft_label": [c / 4 for c in COUNTS[i]]} for i in BY_ITEM), "shares, and no list of votes", {},
    ),
    "ids in objects.jsonl": (
        lines({"data_row": {"id": i, "name": f"n{i}"}, "projects": {"p": {}}} for i in BY_ITEM), "these are hardly votes",
        {"labels": "data_row"},
    ),
    "a wrapped list.json": (json.dumps({"data": [{"item": 1, "label": "x"}], "version": 1}), "in the field 'data'", {}),
    "columns of pandas.json": (
        json.dumps({"item": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}}), "columns or items", {},
    ),
    "a sheet.xlsx": ("PK", "xlsx", {}),
}  # fmt: skip


@pytest.mark.parametrize("file", REFUSED)
def test_what_could_be_read_in_two_ways_is_refused_and_a_flag_settles_it(file: str, tmp_path: Path) -> None:
    content, said, settles = REFUSED[file]
    (tmp_path / file).write_bytes(content.encode())
    with pytest.raises(InputError) as refusal:
        read_votes(tmp_path / file)
    assert said in str(refusal.value)
    if settles:
        option = f"--{next(iter(settles))}"
        assert option in str(refusal.value)
        assert read_votes(tmp_path / file, **settles).n_votes > 0


# header, cells of row n, words that a warning must hold
SUSPICIOUS = {
    "percentages": ("item,x,y", lambda n: (n, 25 * (n % 4), 100 - 25 * (n % 4)), "percentages are no votes"),
    "a total of ratings": (
        "item,a,b,c,total",
        lambda n: (n, *ratings[n], sum(ratings[n])),
        "'total' is the sum of the other columns: ignored",
    ),
    "blanks around": ("item,label", lambda n: (n // 4, f" {'xy'[n % 4 == 0]}"), "begins or ends with a blank"),
    "people beside a label": (
        "id,ann,bob,label",
        lambda n: (n, "xy"[n % 2], "xy"[n % 3 == 0], "xy"[n % 2]),
        "are they people? (--columns ann,bob)",
    ),
    "rejected rows": (
        "item,worker,label,status",
        lambda n: (n // 4, n % 4, "xy"[n % 3 == 0], ("Approved", "Rejected")[n % 8 == 0]),
        "5 rows have status=Rejected and count as votes",
    ),
    "test questions": (
        "unit_id,worker_id,label,_golden",
        lambda n: (n // 4, n % 4, "xy"[n % 3 == 0], str(n < 4).lower()),
        "4 rows have _golden=true",
    ),
    "more people than items": (
        "id," + ",".join(f"q{n}" for n in range(12)),
        lambda n: (n, *("xy"[(n + k * k) % 3 == 0] for k in range(12))),
        "(--format transposed)",
    ),
}


@pytest.mark.parametrize("case", SUSPICIOUS)
def test_what_looks_odd_about_real_files_is_said(case: str, tmp_path: Path) -> None:
    header, cells, said = SUSPICIOUS[case]
    size = 5 if case == "more people than items" else N
    table = header + "\n" + "".join(",".join(map(str, cells(n))) + "\n" for n in range(size))
    (tmp_path / "v.csv").write_text(table)
    warnings = " | ".join(read_votes(tmp_path / "v.csv").read_as.warnings)
    assert said in warnings, warnings


def test_a_scale_through_zero_has_a_minus_one_and_nobody_wonders(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("item,label\n" + "".join(f"{n // 9},{n % 5 - 2}\n" for n in range(90)))
    assert not [warning for warning in read_votes(tmp_path / "v.csv").read_as.warnings if "no vote" in warning]


@pytest.mark.parametrize("extension", [".npy", ".pt"])
def test_arrays_of_answers_and_of_ratings_never_become_counts(extension: str, tmp_path: Path) -> None:
    def saved(values: Any) -> Path:
        path = tmp_path / f"v{extension}"
        np.save(path, values) if extension == ".npy" else torch.save(torch.tensor(values), path)
        return path

    answers = np.array([[number(by[p]) if p in by else -1 for p in PEOPLE] for by in BY_ITEM.values()])
    wanted = Counter((i[1:], str(PEOPLE.index(p)), str(number(x))) for i, p, x in VOTES)
    assert told(read_votes(saved(answers))) == wanted
    assert told(read_votes(saved(np.where(answers < 0, np.nan, answers)))) == wanted
    assert told(read_votes(saved(answers.T), format="transposed")) == wanted
    with pytest.raises(InputError, match="look like what people said"):
        read_votes(saved(np.array(ratings)))
    assert read_votes(saved(np.array([*COUNTS.values()]))).n_votes == len(VOTES)


def test_an_array_that_could_be_either_is_read_as_documented_and_it_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.array(ratings[:9]))
    assert "--format wide" in read_votes(tmp_path / "v.npy").read_as.warnings[0]
    assert read_votes(tmp_path / "v.npy", format="wide").annotators == ("0", "1", "2")
    assert "--format wide" not in " ".join(read_votes(tmp_path / "v.npy", format="counts").read_as.warnings)


@pytest.mark.parametrize("cell", ["['x' -1'y']", "['x' 'y', 'x']", "['x' ... 'y']", "['x''y']"])
def test_a_list_that_numpy_did_not_print_is_no_list(cell: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(rows(("id", "labels"), [("a", "['x' 'y']"), ("b", cell)]))
    try:
        votes = read_votes(tmp_path / "v.csv")
    except InputError:
        return
    assert votes.read_as.layout == "long table"


def test_lists_of_people_beside_one_label_are_no_votes(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text(lines({"id": n, "label": "xy"[n % 2], "annotators": ["a", "b"]} for n in range(8)))
    assert read_votes(tmp_path / "v.jsonl", ignore=["annotators"]).n_votes == 8
    with pytest.raises(InputError):
        read_votes(tmp_path / "v.jsonl")


def test_joined_cells_are_told_from_names_with_commas() -> None:
    assert separator_of(["Smith, John", "Doe, Jane", "Roe, Max"]) is None
    assert separator_of(["a,b", "a", "b", "a,b"]) is None  # several boxes ticked by one person
    assert separator_of(["a,b", "b,a"], ["ann,bob", "bob,cy"]) == ","
    assert separator_of(["a,b", "b,a"], ["ann,bob", "bob"]) is None


@pytest.mark.parametrize("seed", range(10))
def test_objects_of_people_never_become_counts_and_counts_never_people(seed: int) -> None:
    draw = np.random.default_rng(seed)
    usual = draw.integers(0, 5, 200)
    people, counts = [], []
    for label in usual:
        voters = draw.permutation(30)[: draw.integers(3, 8)]
        said = np.where(draw.random(len(voters)) < 0.6, label, draw.integers(0, 5, len(voters)))
        people.append({f"w{who}": float(vote) for who, vote in zip(voters, said, strict=True)})
        tally = np.bincount(said, minlength=5)
        counts.append({f"c{k}": float(times) for k, times in enumerate(tally) if times})
    assert meaning_of(people)[0] != "counts"
    assert meaning_of(counts)[0] != "people"
    same_size = [dict(list(cell.items())[:3]) for cell in people]
    assert meaning_of(same_size)[0] == "people"


def test_a_transposed_table_leaves_out_a_column_of_lists(tmp_path):
    columns = {"worker": ["p", "q", "r"], "a": ["x", "y", "x"], "b": ["y", "y", "x"], "tags": [[1], [2], [3]]}
    pq.write_table(pa.table(columns), tmp_path / "v.parquet")
    votes = read_votes(tmp_path / "v.parquet", format="transposed")
    assert (votes.items, votes.annotators, votes.n_votes) == (("a", "b"), ("p", "q", "r"), 6)
    assert votes.read_as.ignored == ("tags",)
