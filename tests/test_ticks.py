"""One column per option, and one tick per row: one question, never one option against the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dissensus.errors import InputError
from dissensus.votes import read_votes

OPTIONS = ("pos", "neg", "neu")
CHOSEN = [OPTIONS[(n // 2 + (n % 5 == 0)) % 3] for n in range(20)]


def batch(path: Path, names: tuple[str, ...], marks: tuple[str, str]) -> Path:
    lines = [",".join(["HITId", "WorkerId", "Input.text", *(f"Answer.{name}" for name in names)])]
    for n, chosen in enumerate(CHOSEN):
        lines.append(",".join([f"h{n // 2}", f"w{n % 2}", "t", *(marks[option != chosen] for option in OPTIONS)]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("marks", [("true", "false"), ("1", "0"), ("on", ""), ("yes", "no")])
@pytest.mark.parametrize(
    ("names", "question", "classes"),
    [
        (("mood.pos", "mood.neg", "mood.neu"), "mood", OPTIONS),
        (("mood.p.1", "mood.p.2", "mood.n"), "mood", ("p.1", "p.2", "n")),
        (OPTIONS, "pos+neg+neu", OPTIONS),
        (("pos.on", "neg.on", "neu.on"), "pos+neg+neu", OPTIONS),
        (("b1.pos", "b2.neg", "b3.neu"), "b1.pos+b2.neg+b3.neu", ("b1.pos", "b2.neg", "b3.neu")),
    ],
)
def test_radio_buttons_of_mturk_are_one_question(
    names: tuple[str, ...], question: str, classes: tuple[str, ...], marks: tuple[str, str], tmp_path: Path
) -> None:
    votes = read_votes(batch(tmp_path / "batch.csv", names, marks))
    assert votes.classes == classes
    assert [votes.classes[label] for label in votes.label] == [classes[OPTIONS.index(chosen)] for chosen in CHOSEN]
    assert votes.read_as is not None
    assert votes.read_as.columns["label"] == f"Answer.{question}"
    assert any("exactly one tick" in note for note in votes.read_as.notes)


def test_ticks_of_several_questions_or_choices_are_not_one(tmp_path: Path) -> None:
    path = batch(tmp_path / "batch.csv", ("a.yes", "a.no", "b.yes"), ("true", "false"))
    path.write_text(path.read_text().replace("neg", "x").replace("false,true,false", "true,true,false"))
    with pytest.raises(InputError, match="several"):
        read_votes(path)
    path = batch(tmp_path / "batch.csv", OPTIONS, ("true", "true"))
    with pytest.raises(InputError, match="several questions: pos, neg, neu"):
        read_votes(path)
    path = batch(tmp_path / "batch.csv", ("m.pos", "m.neg", "m.neu"), ("true", "true"))
    with pytest.raises(InputError, match="3 options of 'm' are true: several choices"):
        read_votes(path)


def rows(path: Path, *more: str, header: str = "item,worker,pos,neg,neu", marks: tuple[str, str] = ("1", "0")) -> Path:
    cells = [",".join([f"i{n // 2}", f"w{n % 2}", *(marks[o != said] for o in OPTIONS)]) for n, said in enumerate(CHOSEN)]
    path.write_text("\n".join([header, *cells, *more]) + "\n")
    return path


@pytest.mark.parametrize("marks", [("1", "0"), ("1.0", "0.0"), ("True", "False")])
def test_rows_with_one_1_are_votes_for_that_class(marks: tuple[str, str], tmp_path: Path) -> None:
    votes = read_votes(rows(tmp_path / "v.csv", marks=marks))
    assert votes.classes == OPTIONS
    assert votes.annotators == ("w0", "w1")
    assert [votes.classes[label] for label in votes.label] == CHOSEN
    assert votes.read_as is not None
    assert votes.read_as.columns["classes"] == "pos neg neu"
    assert any("the one class of pos, neg, neu that has its 1" in note for note in votes.read_as.notes)


def test_in_json_and_with_a_class_that_nobody_chose(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    records = (
        {"item": n // 2, "worker": n % 2, "odd": False, **{o: o == said for o in OPTIONS}}
        for n, said in enumerate(CHOSEN)
    )
    path.write_text("\n".join(map(json.dumps, records)))
    votes = read_votes(path)
    assert votes.classes == ("odd", *OPTIONS)
    assert votes.counts.sum(0).tolist() == [0, *(CHOSEN.count(o) for o in OPTIONS)]


@pytest.mark.parametrize(
    ("more", "header", "hint"),
    [
        (("i10,w0,0,0,0",), "item,worker,pos,neg,neu", "Pass --drop-empty"),
        (("i10,w0,1,1,0",), "item,worker,pos,neg,neu", "a vote is for one class"),
    ],
)
def test_rows_with_another_number_of_1s_are_refused(
    more: tuple[str, ...], header: str, hint: str, tmp_path: Path
) -> None:
    path = rows(tmp_path / "v.csv", *more, header=header)
    with pytest.raises(InputError, match=r"not one 1 in every row: [02] in .*v.csv:22") as refusal:
        read_votes(path)
    assert hint in str(refusal.value)
    assert set(read_votes(path, labels="pos").classes) == {"0", "1"}  # only where the user says so
    if "drop" in hint:
        votes = read_votes(path, drop_empty=True)
        assert (votes.classes, votes.n_votes, len(votes)) == (OPTIONS, 20, 10)


def test_a_mark_beside_the_classes_is_named(tmp_path: Path) -> None:
    path = rows(tmp_path / "v.csv", header="item,worker,pos,neg,neu")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{lines[0]},unsure", *(f"{line},{n % 3 // 2}" for n, line in enumerate(lines[1:]))]))
    with pytest.raises(InputError, match="pass --ignore unsure to read the others"):
        read_votes(path)
    assert [OPTIONS[label] for label in read_votes(path, ignore=["unsure"]).label] == CHOSEN


def test_flags_of_the_items_are_no_votes(tmp_path: Path) -> None:
    path = rows(tmp_path / "v.csv")
    lines = ["item,worker,mood,is_train,is_test"]
    lines += [f"i{n // 2},w{n % 2},{said},{n // 2 % 2},{1 - n // 2 % 2}" for n, said in enumerate(CHOSEN)]
    path.write_text("\n".join(lines))
    assert set(read_votes(path).classes) == set(OPTIONS)
    path.write_text(path.read_text().replace("mood", "text"))
    assert set(read_votes(path).classes) == set(OPTIONS)
    with pytest.raises(InputError, match="no column is known to hold the label"):
        read_votes(path, ignore=["text"])
