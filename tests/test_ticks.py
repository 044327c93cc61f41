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
