"""What commands say about the files they read, and how they match them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from dissensus.cli import main

CLASSES = [str(n) for n in range(12)]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Call the command line in a folder of its own: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str):
        monkeypatch.setattr(sys, "argv", ["dissensus", *arguments])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    """Votes on 24 items, item n for class n mod 12 by two of three; predictions that are right, in text order."""
    rows = [f"i{n},w{w},{(n + (w == 2)) % 12}" for n in range(24) for w in range(3)]
    (tmp_path / "votes.csv").write_text("\n".join(["item,worker,label", *rows]))
    scattered = [rows[place] for place in np.random.default_rng(0).permutation(len(rows))]
    (tmp_path / "scattered.csv").write_text("\n".join(["item,worker,label", *scattered]))
    columns = sorted(CLASSES)
    lines = [f"i{n}," + ",".join("0.89" if name == str(n % 12) else "0.01" for name in columns) for n in range(24)]
    (tmp_path / "right.csv").write_text("\n".join(["id," + ",".join(columns), *lines]))
    (tmp_path / "some.csv").write_text(
        "\n".join(["id," + ",".join(columns), *lines[4:], lines[0].replace("i0", "other")])
    )
    np.save(tmp_path / "right.npy", np.where(np.arange(12) == np.arange(24)[:, None] % 12, 0.89, 0.01))
    (tmp_path / "test.txt").write_text("i5\ni7\ni9\n")
    return tmp_path


@pytest.mark.usefixtures("crowd")
def test_reading_is_said_on_stderr_and_in_json(run) -> None:
    code, out, err = run("inspect", "votes.csv", "--json")
    assert code == 0
    assert err.splitlines()[:2] == [
        "read as: long table, item=item, annotator=worker, label=label",
        "  72 votes on 24 items by 3 annotators, 12 classes: 0, 1, 2, 3, 4, 5, 6, 7, …",
    ]
    read_as = json.loads(out)["read_as"]
    assert (read_as["layout"], read_as["votes"], read_as["items"], read_as["classes"]) == ("long table", 72, 24, 12)


@pytest.mark.usefixtures("crowd")
def test_columns_in_the_order_of_text_score_as_they_should(run) -> None:
    code, out, _ = run("score", "right.csv", "votes.csv", "--json")
    assert (code, json.loads(out)["accuracy"], json.loads(out)["items"]) == (0, 1.0, 24)


@pytest.mark.usefixtures("crowd")
def test_some_ids_are_scored_only_with_intersect_and_it_is_said(run) -> None:
    code, _, err = run("score", "some.csv", "votes.csv", "--json")
    assert (code, "--intersect" in err, "4 ids are missing (i0" in err) == (2, True, True)
    code, out, err = run("score", "some.csv", "votes.csv", "--intersect", "--json")
    assert (code, json.loads(out)["items"]) == (0, 20)
    assert "20 items are in both: 4 of the votes and 1 rows are not" in err


@pytest.mark.usefixtures("crowd")
def test_ids_to_hold_out_are_those_that_are_scored(run) -> None:
    for predictions in ("right.csv", "some.csv", "right.npy"):
        code, out, _ = run("score", predictions, "votes.csv", "--test-ids", "test.txt", "--json")
        assert (code, json.loads(out)["items"], json.loads(out)["accuracy"]) == (0, 3, 1.0)
    Path("test.txt").write_text("i0\ni5\n")
    code, _, err = run("score", "some.csv", "votes.csv", "--test-ids", "test.txt")
    assert (code, "1 of the --test-ids have no row" in err) == (2, True)


@pytest.mark.usefixtures("crowd")
def test_rows_without_ids_need_an_order_that_is_plain(run) -> None:
    code, out, err = run("score", "right.npy", "votes.csv", "--json")
    assert (code, json.loads(out)["accuracy"]) == (0, 1.0)
    assert "rows were matched to the items by their order (the first row is item 'i0', the last 'i23')" in err
    code, _, err = run("score", "right.npy", "scattered.csv")
    assert (code, "the order of the items is not plain" in err, "--by-order" in err) == (2, True, True)
    assert run("score", "right.npy", "scattered.csv", "--by-order", "--json")[0] == 0


def test_ties_of_the_majority_are_counted_where_accuracy_is_against_it(run, tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", [[2, 2], [3, 1], [1, 3]])
    np.save(tmp_path / "probs.npy", [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    _, out, err = run("score", "probs.npy", "counts.npy", "--json")
    assert "1 of 3 items have no unique majority" in err
    assert any("no unique majority" in note for note in json.loads(out)["notes"])


def test_a_tiny_file_of_enormous_counts_is_inspected_at_once(run, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("item,a,b\n1,999999990,1\n")
    code, out, _ = run("inspect", "v.csv", "--json")
    assert (code, json.loads(out)["votes"]) == (0, 999_999_991)


SAMPLES = Path(__file__).parents[1].joinpath("docs", "votes.md").read_text(encoding="utf-8").split("```text\n")[2:]


@pytest.mark.parametrize(("number", "votes"), [*enumerate([3, 8, 4, 7, 12, 9, 2])])
def test_the_samples_in_the_documentation_are_read_as_it_says(number: int, votes: int, run, tmp_path: Path) -> None:
    sample = SAMPLES[number].split("```")[0]
    path = tmp_path / ("votes.jsonl" if sample.startswith("{") else "votes.csv")
    path.write_text(sample, encoding="utf-8")
    code, out, err = run("inspect", path.name, "--json")
    assert code == 0, err
    assert json.loads(out)["votes"] == votes
