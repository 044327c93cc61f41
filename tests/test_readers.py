"""Reading votes, predictions, gold labels and features."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dissensus.datasets.gold import read_gold
from dissensus.datasets.own_files import read_features, read_predictions, read_probabilities
from dissensus.errors import InputError
from dissensus.metrics.checks import check_probabilities, check_shares
from dissensus.votes import read_votes
from dissensus.votes.alignment import align
from dissensus.votes.votes import Votes

CLASSES = ("cat", "dog", "cow")


def written(tmp_path: Path, content: str, name: str = "file.csv") -> Path:
    (tmp_path / name).write_bytes(content.encode())
    return tmp_path / name


def test_reading_does_not_import_torch_or_pandas() -> None:
    code = "import sys, dissensus.votes; sys.exit(bool({'torch', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "header",
    [
        "item,annotator,label",
        "Task ID,completed_by,Choice",
        "workerId,instance_id,Vote",
        "id,rater,class",
        "id,task,user,rating",
    ],
)
def test_columns_are_found_by_their_usual_names(header: str, tmp_path: Path) -> None:
    position = {"w": "annotator worker rater user completed", "i": "item task instance"}
    cells = [
        "w" if any(word in name.lower() for word in position["w"].split())
        else "i" if any(word in name.lower() for word in position["i"].split()) or (name == "id" and "task" not in header)
        else name
        for name in header.split(",")
    ]  # fmt: skip
    votes = read_votes(written(tmp_path, f"{header}\n{','.join(cells)}\n"))
    assert (votes.items, votes.annotators) == (("i",), ("w",))


def test_flags_name_the_columns_when_their_names_do_not(tmp_path: Path) -> None:
    path = written(tmp_path, "bild,wer,gefühl,label\na,w,joy,x\nb,w,fear,x\n")
    votes = read_votes(path, item="bild", label="gefühl", annotator="wer")
    assert (votes.items, votes.classes, votes.annotators) == (("a", "b"), ("fear", "joy"), ("w",))


def test_names_stay_as_written_and_numbers_sort_as_numbers(tmp_path: Path) -> None:
    votes = read_votes(written(tmp_path, "item,label\n01,10\n1,9\n 1,2.5\nNA,-1\n"))
    assert votes.items == ("01", "1", " 1", "NA")
    assert votes.classes == ("-1", "2.5", "9", "10")


def test_given_classes_keep_their_order_also_where_nobody_chose_one(tmp_path: Path) -> None:
    votes = read_votes(written(tmp_path, "item,label\na,dog\n"), classes=CLASSES)
    assert votes.classes == CLASSES
    assert votes.counts.tolist() == [[0, 1, 0]]


@pytest.mark.parametrize(
    "text", ["\ufeffitem,label\r\na,cat\r\nb,dog\r\n", "item,label\ra,cat\rb,dog", "\n\nitem,label\n\na,cat\nb,dog\n\n"]
)
def test_byte_order_marks_line_ends_and_blank_lines_do_not_matter(text: str, tmp_path: Path) -> None:
    votes = read_votes(written(tmp_path, text))
    assert (votes.items, votes.classes, votes.n_votes) == (("a", "b"), ("cat", "dog"), 2)


@pytest.mark.parametrize(
    ("duplicates", "counts"), [("first", [[1, 0], [1, 0]]), ("last", [[0, 1], [1, 0]]), ("keep", [[2, 1], [1, 0]])]
)
def test_a_second_vote_of_an_annotator_is_kept_as_told(duplicates, counts, tmp_path: Path) -> None:
    path = written(tmp_path, "item,worker,label\na,w,cat\na,w,cat\nb,w,cat\na,w,dog\n")
    assert read_votes(path, duplicates=duplicates).counts.tolist() == counts


def test_without_annotators_equal_rows_are_votes(tmp_path: Path) -> None:
    assert read_votes(written(tmp_path, "item,label\na,cat\na,cat\n")).counts.tolist() == [[2]]


@pytest.mark.parametrize(
    ("text", "annotators", "classes"),
    [
        ("item,cat,dog\na,1,2\nb,0,3\n", None, ("cat", "dog")),  # numbers without a gap: counts
        ("cat,dog\n1,2\n0,3\n", None, ("cat", "dog")),  # and no item column
        ("2,2,1\n0,3,1\n", None, ("0", "1", "2")),  # and no header
        (",cat,dog\na,1,2\nb,0,3\n", None, ("cat", "dog")),  # a pandas index
        ("item,annotator_1,Annotator 2\na,1,2\nb,0,3\n", ("annotator_1", "Annotator 2"), ("0", "1", "2", "3")),
        ("item,ann,bob\na,1,2\nb,,1\n", ("ann", "bob"), ("1", "2")),  # a gap: wide
        ("item,ann,bob\na,x,y\nb,y,x\n", ("ann", "bob"), ("x", "y")),
    ],
)
def test_layouts_of_matrices_are_told_apart_as_documented(text: str, annotators, classes, tmp_path: Path) -> None:
    votes = read_votes(written(tmp_path, text))
    assert (votes.annotators, votes.classes, len(votes.items)) == (annotators, classes, 2)


def test_columns_of_counts_follow_the_given_classes(tmp_path: Path) -> None:
    path = written(tmp_path, "item,dog,cat\na,1,2\n")
    assert read_votes(path, classes=["cat", "dog"]).counts.tolist() == [[2, 1]]
    np.save(tmp_path / "counts.npy", [[1, 2]])
    assert read_votes(tmp_path / "counts.npy", classes=["cat", "dog"]).classes == ("cat", "dog")


def matrix_file(tmp_path: Path, kind: str, values, ids=None, classes=None) -> Path:
    path = tmp_path / f"matrix.{kind}"
    frame = pd.DataFrame(values, columns=classes, index=pd.Index(ids, name="id") if ids else None)
    if kind == "npy":
        np.save(path, values)
    elif kind == "npz":
        np.savez(path, probs=values, **({"ids": ids} if ids else {}), **({"classes": classes} if classes else {}))
    elif kind == "parquet":
        frame.reset_index().to_parquet(path) if ids else frame.to_parquet(path)
    elif kind == "jsonl":
        (frame.reset_index() if ids else frame).to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=bool(ids), sep="," if kind == "csv" else "\t")
    return path


@pytest.mark.parametrize("kind", ["npz", "csv", "tsv", "jsonl", "parquet"])
def test_predictions_follow_the_ids_and_classes_of_the_votes(kind: str, tmp_path: Path) -> None:
    path = matrix_file(tmp_path, kind, [[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]], ["b", "a"], ["dog", "cow", "cat"])
    matrix = read_probabilities(path)
    assert matrix.values.dtype == np.float64
    assert matrix.for_items(["a", "b"])[0].tolist() == [0, 0, 1]
    assert matrix.for_classes(CLASSES)[0].tolist() == [0.25, 0.5, 0.25]


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
def test_matrices_without_ids_are_matched_by_row(kind: str, tmp_path: Path) -> None:
    path = matrix_file(
        tmp_path, kind, [[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]], None, None if kind != "csv" else list(CLASSES)
    )
    matrix = read_predictions(path)
    assert matrix.ids is None
    assert matrix.for_items(["x", "y"]).tolist() == matrix.values.tolist()
    with pytest.raises(InputError, match="2 rows for 3 items, and no ids"):
        matrix.for_items(["x", "y", "z"])
    with pytest.raises(InputError, match="3 columns for 2 classes"):
        matrix.for_classes(["cat", "dog"])


def test_a_matrix_in_csv_needs_no_header(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "p.csv", [[1, 0, 0], [0.5, 0.5, 0]], delimiter=",")
    matrix = read_probabilities(tmp_path / "p.csv")
    assert matrix.values.tolist() == [[1, 0, 0], [0.5, 0.5, 0]]
    assert matrix.for_classes(CLASSES).tolist() == matrix.values.tolist()


def test_log_probabilities_of_minus_infinity_are_predictions(tmp_path: Path) -> None:
    assert read_predictions(written(tmp_path, "id,cat,dog\na,0,-inf\n")).values[0].tolist() == [0, -np.inf]


def test_a_flag_names_the_ids_of_a_matrix(tmp_path: Path) -> None:
    path = written(tmp_path, "cat,picture,dog\n1,a.png,0\n")
    assert read_predictions(path, item="picture").ids == ("a.png",)
    assert read_votes(path, item="picture").classes == ("cat", "dog")


def test_sums_may_be_off_by_what_printing_does_and_no_more(tmp_path: Path) -> None:
    assert read_probabilities(written(tmp_path, "id,cat,dog\na,0.33333,0.66666\n")).notes == ()
    with pytest.raises(InputError, match=r"sum to 0\.9988, not 1"):
        read_probabilities(written(tmp_path, "id,cat,dog\na,0.3328,0.666\n"))  # four decimals do not do that
    with pytest.raises(InputError, match=r"sum to 0\.98, not 1"):
        read_probabilities(written(tmp_path, "id,cat,dog\na,0.32,0.66\n"))


def test_rounded_probabilities_are_divided_by_their_sum_and_it_is_said(tmp_path: Path) -> None:
    matrix = read_probabilities(written(tmp_path, "id,cat,dog,cow\na,0.33,0.33,0.33\nb,0.5,0.25,0.25\n"))
    np.testing.assert_allclose(matrix.values, [[1 / 3] * 3, [0.5, 0.25, 0.25]])
    assert (
        "1 rows of probabilities rounded to 2 decimals were divided by their sums (off by up to 0.01)" in matrix.notes[0]
    )


def test_columns_that_are_other_classes_are_refused(tmp_path: Path) -> None:
    matrix = read_predictions(written(tmp_path, "id,cat,pig\na,0.5,0.5\n"))
    with pytest.raises(InputError, match=r"the columns pig are not classes \(cat, dog\)"):
        matrix.for_classes(["cat", "dog"])


@given(
    st.lists(
        st.lists(st.floats(-0.25, 1.25, width=32) | st.sampled_from([0.0, 0.5, 1.0, np.nan]), min_size=2, max_size=2),
        min_size=1,
        max_size=3,
    )
)
def test_probabilities_from_files_and_in_memory_are_judged_alike(rows: list[list[float]]) -> None:
    def refused(check) -> bool:
        try:
            check()
        except InputError:
            return True
        return False

    values = np.array(rows)
    in_memory = refused(lambda: check_probabilities(torch.from_numpy(values), 2, where=""))
    assert refused(lambda: check_shares(values, where=str)) == in_memory


@pytest.mark.parametrize(
    "content",
    ["item,gold\nb,dog\na,cat\n", "label,item,text\ndog,b,x\ncat,a,x\n", "gold\ncat\ndog\n", "item,answer\nb,1\na,0\n"],
)
def test_gold_is_matched_by_id_or_row_and_by_name_or_number(content: str, tmp_path: Path) -> None:
    assert read_gold(written(tmp_path, content), CLASSES, ("a", "b")).tolist() == [0, 1]


def test_gold_classes_called_by_numbers_are_names_first(tmp_path: Path) -> None:
    assert read_gold(written(tmp_path, "item,gold\na,1\n"), ("1", "0"), ("a",)).tolist() == [0]


@pytest.mark.parametrize("array", [np.array([0, 2]), np.array(["cat", "cow"])])
def test_gold_is_read_from_arrays(array, tmp_path: Path) -> None:
    np.save(tmp_path / "gold.npy", array)
    assert read_gold(tmp_path / "gold.npy", CLASSES, ("a", "b")).tolist() == [0, 2]


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
def test_features_are_float32_with_the_ids_of_the_file(kind: str, tmp_path: Path) -> None:
    ids = None if kind == "npy" else ["a", "b"]
    features, found = read_features(
        matrix_file(tmp_path, kind, [[1.5, 2], [3, 4]], ids, None if kind == "npy" else ["f", "g"])
    )
    assert features.dtype == np.float32
    assert features.tolist() == [[1.5, 2], [3, 4]]
    assert found == (None if ids is None else tuple(ids))


@given(st.permutations(["a", "b", "c", "d"]), st.permutations(["a", "b", "c", "d"]))
def test_align_gives_the_row_of_each_id(ids: list[str], others: list[str]) -> None:
    assert [others[row] for row in align(ids, others)] == ids


def test_align_lists_what_is_missing_on_each_side() -> None:
    with pytest.raises(InputError, match=r"p\.csv: 1 ids are missing \(a\) and 4 are not in the votes \(c, d, e, …\)"):
        align(["a", "b"], ["b", "c", "d", "e", "f"], other="p.csv")
    with pytest.raises(InputError, match=r"1 are not in the votes \(c\)"):
        align(["a", "b"], ["a", "b", "c"])
    with pytest.raises(InputError, match="the id 'b' occurs twice"):
        align(["a", "b"], ["a", "b", "b"])


def test_votes_of_a_counts_file_are_those_of_the_matrix(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).integers(1, 60, (30, 10))
    np.save(tmp_path / "counts.npy", counts.astype(np.float32))
    assert (read_votes(tmp_path / "counts.npy").counts == Votes.from_counts(counts).counts).all()


def test_names_that_look_like_dates_are_names(tmp_path: Path) -> None:
    path = written(tmp_path, '{"": "a", "ann": "2020-01-01"}\n{"": "b", "ann": "2021-12-31"}\n', "v.jsonl")
    votes = read_votes(path, format="wide")
    assert (votes.items, votes.classes) == (("a", "b"), ("2020-01-01", "2021-12-31"))
