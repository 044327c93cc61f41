"""Columns beside the votes, as real tables have them, never become votes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dissensus.cli import cli
from dissensus.datasets.own_files import as_logits, read_predictions, read_probabilities
from dissensus.errors import InputError
from dissensus.votes import read_votes
from dissensus.votes.alignment import align
from dissensus.votes.matrices import read_matrix

N = 30
LABELS = [("cat", "dog", "cat", "bird", "cat")[n % 5] for n in range(N)]
IDS = [f"t{n * 7 % 100}" for n in range(N)]
NUMBERS = [n * 7 % 100 + 5 for n in range(N)]


def table(path: Path, header: str, rows: Iterable[Iterable[object]], separator: str = ",") -> Path:
    lines = [header, *(separator.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def vote(n: int, person: int) -> str:
    return LABELS[(n + person * (n % 3 == 0)) % N]


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
@pytest.mark.parametrize(
    ("name", "ids"), [("id", IDS), ("id", NUMBERS), ("tweet_id", NUMBERS), ("image", IDS), ("item", NUMBERS)]
)
def test_row_numbers_of_pandas_and_r_are_no_ids_beside_ids(
    index: str, name: str, ids: list[object], tmp_path: Path
) -> None:
    people = [[n, ids[n], vote(n, 0), "" if n % 4 else vote(n, 1), vote(n, 2)] for n in range(N)]
    votes = read_votes(table(tmp_path / "wide.csv", f"{index},{name},ann,bob,cy", people))
    assert votes.items == tuple(map(str, ids))
    assert votes.annotators == ("ann", "bob", "cy")
    assert votes.read_as is not None
    assert index in votes.read_as.ignored
    counts = [[n, ids[n], n % 3, 3 - n % 3, 1] for n in range(N)]
    votes = read_votes(table(tmp_path / "counts.csv", f"{index},{name},cat,dog,bird", counts))
    assert votes.items == tuple(map(str, ids))
    assert votes.classes == ("cat", "dog", "bird")
    assert np.array_equal(votes.counts, [row[2:] for row in counts])
    matrix = read_matrix(
        table(tmp_path / "p.csv", f"{index},{name},cat,dog", ([n, ids[n], 0.25, 0.75] for n in range(N)))
    )
    assert matrix.ids == tuple(map(str, ids))
    assert matrix.classes == ("cat", "dog")


def test_an_index_stays_the_item_where_the_other_column_is_a_class_or_a_text(tmp_path: Path) -> None:
    counts = ([n + 100, n % 3, 3 - n % 3] for n in range(N))
    assert read_votes(table(tmp_path / "counts.csv", ",question,statement", counts)).items[:2] == ("100", "101")
    texts = ([n + 100, f"text {n}", vote(n, 0), vote(n, 1)] for n in range(N))
    assert read_votes(table(tmp_path / "texts.csv", ",text,ann,bob", texts)).items[:2] == ("100", "101")


def test_a_number_that_is_named_as_an_id_is_no_class(tmp_path: Path) -> None:
    rows = ([n, 7, n % 3, 3 - n % 3] for n in range(N))
    path = table(tmp_path / "counts.csv", "subject_id,workflow_id,cat,dog", rows)
    with pytest.raises(InputError, match="'workflow_id' is named as a column of ids"):
        read_votes(path)
    assert read_votes(path, ignore=["workflow_id"]).n_votes == 3 * N
    assert read_votes(path, columns=["cat", "dog"]).n_votes == 3 * N


def test_people_beside_numbered_labels_are_no_labels(tmp_path: Path) -> None:
    rows = ([n, vote(n, 0), f"w{n % 4}", vote(n, 1), f"w{(n + 1) % 4}"] for n in range(N))
    path = table(tmp_path / "v.csv", "id,label1,annotator1,label2,annotator2", rows)
    with pytest.raises(InputError, match="--ignore annotator1,annotator2"):
        read_votes(path)
    assert set(read_votes(path, ignore=["annotator1", "annotator2"]).classes) == set(LABELS)


def test_two_kinds_of_columns_are_not_one_crowd(tmp_path: Path) -> None:
    rows = ([n, f"w{n % 4}", vote(n, 0), f"w{(n + 1) % 4}", vote(n, 1)] for n in range(N))
    path = table(tmp_path / "v.csv", "id,annotator_1_id,annotator_1_label,annotator_2_id,annotator_2_label", rows)
    with pytest.raises(InputError, match="--columns annotator_1_label,annotator_2_label"):
        read_votes(path)
    votes = read_votes(path, columns=["annotator_1_label", "annotator_2_label"])
    assert set(votes.classes) == set(LABELS)
    assert votes.n_votes == 2 * N


def test_items_settles_which_of_two_ids_names_the_item(tmp_path: Path) -> None:
    rows = ([f"p{n // 4}", f"r{n // 2}", "ab"[n % 2], LABELS[n]] for n in range(N))
    path = table(tmp_path / "v.csv", "post_id,reply_id,annotator_id,label", rows)
    with pytest.raises(InputError, match="both 'post_id' and 'reply_id'"):
        read_votes(path)
    assert len(read_votes(path, items="reply_id")) == N // 2


def test_a_total_below_the_items_is_no_item(tmp_path: Path) -> None:
    rows = [[f"i{n}", n % 3, 3 - n % 3] for n in range(N)]
    for name in ("Total", "All", "Grand Total"):
        total = [name, sum(row[1] for row in rows), sum(row[2] for row in rows)]  # type: ignore[misc]
        path = table(tmp_path / "counts.csv", "id,cat,dog", [*rows, total])
        with pytest.raises(InputError, match=f"counts.csv:{N + 2}: the last row, '{name}', is the sum"):
            read_votes(path)
        assert len(read_votes(path, format="counts")) == N + 1


def test_numbers_with_a_decimal_comma_are_numbers_where_another_mark_separates_the_cells(tmp_path: Path) -> None:
    rows = [[f"i{n}", f"{n % 3},0", f"{3 - n % 3},0"] for n in range(N)]
    votes = read_votes(table(tmp_path / "counts.csv", "id;cat;dog", rows, ";"))
    assert votes.counts.tolist() == [[n % 3, 3 - n % 3] for n in range(N)]
    assert votes.read_as is not None
    assert "numbers have a decimal comma, as in 'cat'" in votes.read_as.notes
    shares = [[f"i{n}", "0,25", "0,75"] for n in range(N)]
    assert read_matrix(table(tmp_path / "p.csv", "id;cat;dog", shares, ";")).values[0].tolist() == [0.25, 0.75]
    with pytest.raises(InputError, match="in column 'cat' is not a count"):
        read_votes(tmp_path / "p.csv")


@pytest.mark.parametrize(("cell", "other"), [("1,000", "2,000"), ("40%", "60%"), ("40.5 %", "59.5 %")])
def test_numbers_written_for_people_never_become_labels(cell: str, other: str, tmp_path: Path) -> None:
    rows = ([f"i{n}", f'"{(cell, other)[n % 2]}"', f'"{(other, cell)[n % 2]}"'] for n in range(N))
    with pytest.raises(InputError, match="numbers with a percent sign or a comma"):
        read_votes(table(tmp_path / "counts.csv", "id,cat,dog", rows))


def test_labels_that_are_numbers_with_a_comma_or_json_are_pointed_at(tmp_path: Path) -> None:
    rows = [[f"i{n // 2}", f"w{n % 2}", f"{n % 3 + 1},5"] for n in range(N)]
    votes = read_votes(table(tmp_path / "v.csv", "item;worker;label", rows, ";"))
    assert "the class '1,5' is a number with a comma" in " ".join(votes.read_as.warnings)  # type: ignore[union-attr]
    rows = [[f"i{n // 2}", f"w{n % 2}", f'[{{"task": "T0", "value": "{vote(n, 0)}"}}]'] for n in range(N)]
    votes = read_votes(table(tmp_path / "v.csv", "item;worker;label", rows, ";").rename(tmp_path / "j.tsv"))
    assert "is JSON, and the answer only a part" in " ".join(votes.read_as.warnings)  # type: ignore[union-attr]


def test_votes_by_column_as_hugging_face_writes_them(tmp_path: Path) -> None:
    records = [
        {
            "id": n,
            "annotators": {"label": [n % 2, 1, n % 3], "annotator_id": ["a", "b", "c"], "target": [["x"], [], ["y"]]},
        }
        for n in range(N)
    ]
    path = tmp_path / "v.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    votes = read_votes(path)
    assert (votes.annotators, votes.classes) == (("a", "b", "c"), ("0", "1", "2"))
    assert votes.n_votes == 3 * N
    path.write_text(
        "\n".join(map(json.dumps, ({"id": n, "votes": {"values": ["x", "y"], "names": ["a", "b"]}} for n in range(N))))
    )
    with pytest.raises(InputError, match="people by class, or columns"):
        read_votes(path)


def test_several_labels_of_one_person_are_no_votes(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    several = [["a"], ["a", "b"], ["b", "c", "a"]]
    path.write_text("\n".join(map(json.dumps, ({"id": n, "text": "t", "labels": several[n % 3]} for n in range(N)))))
    with pytest.raises(InputError, match="several labels of one person"):
        read_votes(path)
    assert read_votes(path, labels="labels").n_votes == 2 * N


def test_a_folder_with_one_table_per_annotator_may_have_a_readme(tmp_path: Path) -> None:
    for person in ("ann", "bob"):
        table(tmp_path / f"{person}.csv", "id,label", ([n, vote(n, 0)] for n in range(N)))
    (tmp_path / "README.md").write_text("Labels of birds")
    votes = read_votes(tmp_path)
    assert (votes.annotators, votes.n_votes) == (("ann", "bob"), 2 * N)


def test_qualtrics_has_three_header_rows_and_none_is_a_person(tmp_path: Path) -> None:
    items = [f"QID{n}" for n in range(6)]
    rows = [
        ["Response ID", *(f'"Text {n},\nplease"' for n in range(6))],
        ['"{""ImportId"":""_recordId""}"', *(f'"{{""ImportId"":""QID{n}""}}"' for n in range(6))],
        *([f"R_{who}", *(vote(n, who) for n in range(6))] for who in range(5)),
    ]
    votes = read_votes(table(tmp_path / "survey.csv", ",".join(["ResponseId", *items]), rows))
    assert votes.items == tuple(items)
    assert votes.annotators == tuple(f"R_{who}" for who in range(5))
    assert votes.n_votes == 30
    (tmp_path / "survey.csv").write_text((tmp_path / "survey.csv").read_text() + "R_9,cat\n")
    with pytest.raises(InputError, match=r"survey.csv:15: 2 columns where the first line has 7"):
        read_votes(tmp_path / "survey.csv")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_marks_at_the_ends_of_all_rows_make_no_columns(mark: str, tmp_path: Path) -> None:
    people = ([f"i{n}", vote(n, 0), "" if n % 4 else vote(n, 1), "", ""] for n in range(N))
    votes = read_votes(table(tmp_path / "v.csv", mark.join(["id", "ann", "bob", "", ""]), people, mark))
    assert votes.annotators == ("ann", "bob")
    rows = ([f"i{n}", "w", vote(n, 0), "", ""] for n in range(N))
    assert read_votes(table(tmp_path / "v.csv", mark.join(["item", "worker", "label", "", ""]), rows, mark)).n_votes == N


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("My survey,,\nitem,worker,label\na,b,c\n", "if the first line is a title, delete it"),
        ("# exported\nitem,worker,label\na,b,c\n", "If the first line is a title or a comment, delete it"),
        ("item worker label\na b c\nd e f\n", "separated by blanks"),
        ('"item" "worker" "label"\n"1" "a" "b" "c"\n', "in R: write.csv"),
        ("Respondent ID,Collector ID,A,B,C\n1,5,x,y,x\n2,5,x,x,y\n", "--format transposed"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_the_first_line_or_the_layout(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(content)
    with pytest.raises(InputError) as refusal:
        read_votes(tmp_path / "v.csv")
    assert said in str(refusal.value)


def test_a_text_of_the_items_is_no_label_where_another_column_can_be_it(tmp_path: Path) -> None:
    rows = ([n // 3, n % 3, f"text {n // 3}", vote(n, 0)] for n in range(N))
    path = table(tmp_path / "v.csv", "item_id,rater_id,response,Q_overall", rows)
    with pytest.raises(InputError, match="everybody has the same 'response' on an item"):
        read_votes(path)
    assert set(read_votes(path, labels="Q_overall").classes) == set(LABELS)


def test_a_label_on_which_everybody_agrees_everywhere_is_asked_about_where_another_column_differs(tmp_path: Path) -> None:
    rows = [[n // 3, n % 3, LABELS[n // 3 % 2], vote(n, 0)] for n in range(60)]
    path = table(tmp_path / "v.csv", "item_id,rater_id,response,harmful", rows)
    with pytest.raises(InputError, match="everybody has the same 'response' on an item"):
        read_votes(path)
    assert read_votes(path, labels="response").n_votes == 60
    assert read_votes(table(tmp_path / "few.csv", "item_id,rater_id,response,harmful", rows[:30])).n_votes == 30


@pytest.mark.parametrize("record", [{"id": 1, "label": 0, "worker": 2}, {"worker": "w", "label": "cat"}])
def test_rows_inside_rows_are_not_taken_for_people_or_counts(record: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text(json.dumps([{"row": record} for _ in range(N)]))
    with pytest.raises(InputError, match="look like rows of a table"):
        read_votes(path)


@pytest.mark.parametrize("index", ["", "item"])
def test_counts_of_equally_many_people_with_an_empty_cell_are_asked_about(index: str, tmp_path: Path) -> None:
    rows = [[f"t{n}", n % 4, 3 - n % 4, 2] for n in range(N)]
    rows[7] = ["t7", 1, "", 2]
    path = table(tmp_path / "v.csv", f"{index},cat,dog,cow", rows)
    with pytest.raises(InputError, match="sum to 5 in every row"):
        read_votes(path)
    assert read_votes(path, format="wide").annotators == ("cat", "dog", "cow")
    ratings = [[f"t{n}", n * 7 % 5, "" if n % 3 else n * 3 % 5, n % 5] for n in range(N)]
    assert read_votes(table(tmp_path / "r.csv", f"{index},ann,bob,eva", ratings)).annotators == ("ann", "bob", "eva")


def test_an_object_of_one_field_is_no_vote(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text("\n".join(json.dumps({"id": n, "behaviour": {"seconds": n % 7}}) for n in range(N)))
    with pytest.raises(InputError, match="the one field 'seconds'"):
        read_votes(path)


def test_a_first_column_of_any_name_holds_the_items_where_all_its_cells_differ(tmp_path: Path) -> None:
    rows = [[f"b{n}", vote(n, 0), vote(n, 1)] for n in range(N)]
    votes = read_votes(table(tmp_path / "v.csv", "brand,ann,bob", rows))
    assert (votes.items, votes.annotators) == (tuple(f"b{n}" for n in range(N)), ("ann", "bob"))
    assert "'brand' was taken for the items" in votes.read_as.warnings[0]
    with pytest.raises(InputError, match="add a header above it"):
        read_votes(table(tmp_path / "headless.csv", "b99,cat,dog", rows))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
@pytest.mark.parametrize("name", ["v.txt", "v.tsv", "v.csv"])
def test_text_as_excel_and_qualtrics_save_it_is_read(name: str, encoding: str, tmp_path: Path) -> None:
    rows = [[f"é{n}", person, vote(n, person)] for n in range(N) for person in range(2)]
    text = table(tmp_path / "plain.tsv", "item\tworker\tlabel", rows, "\t").read_text()
    (tmp_path / name).write_text(text, encoding=encoding)
    votes = read_votes(tmp_path / name)
    assert (votes.n_votes, votes.items[0]) == (2 * N, "é0")


def test_a_data_frame_is_read_as_its_file_is(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        [[f"t{n}", f"w{person}", vote(n, person)] for n in range(N) for person in range(3)],
        columns=["item", "worker", "label"],
    )
    frame.to_csv(tmp_path / "v.csv", index=False)
    expected = read_votes(tmp_path / "v.csv")
    wide, counts = frame.pivot(index="item", columns="worker", values="label"), pd.crosstab(frame["item"], frame["label"])
    scattered = frame.sample(frac=1, random_state=0)
    for again in map(read_votes, (frame, frame.astype("category"), scattered, wide, counts)):
        order = [again.items.index(name) for name in expected.items]
        assert np.array_equal(again.counts[order], expected.counts)
        assert again.read_as is not None
    assert read_votes(scattered).read_as.columns == expected.read_as.columns  # an index of row numbers is no column
    assert read_votes(frame, missing=["cat"]).n_votes < expected.n_votes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"label": ["x", 1] * 15}, "several kinds"),
        ({"label": [None] + ["x"] * 29}, "the label is empty"),
        ({"label": [object()] * 30}, "several kinds"),
    ],
)
def test_a_data_frame_that_is_no_table_of_votes_is_refused(change: dict[str, list[object]], said: str) -> None:
    frame = pd.DataFrame({"item": range(30), "worker": "w", "label": "x"}).assign(**change)
    with pytest.raises(InputError, match=said):
        read_votes(frame, labels="label")
    with pytest.raises(InputError, match="read from its file"):
        read_votes(frame, format="toloka")


def test_the_longest_list_of_one_object_has_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text(json.dumps({"features": [{"name": "label"}], "rows": [{"id": n, "label": 0} for n in range(N)]}))
    with pytest.raises(InputError, match=rf"'rows' \({N}\)"):
        read_votes(path)


def test_lists_of_annotator_ids_say_who_voted(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    records = ({"id": n, "annotations": [vote(n, 0), vote(n, 1)], "annotator_ids": ["a", "b"]} for n in range(N))
    path.write_text("\n".join(map(json.dumps, records)))
    assert read_votes(path).annotators == ("a", "b")


def test_a_name_with_a_comma_is_given_in_quotes(tmp_path: Path) -> None:
    rows = ([n, vote(n, 0), vote(n, 1), "same"] for n in range(N))
    path = table(tmp_path / "v.csv", 'id,ann,bob,"place, date"', rows)
    result = CliRunner().invoke(cli, ["inspect", str(path), "--ignore", '"place, date"'])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["id", None])
def test_the_index_of_a_data_frame_in_parquet_is_the_item(name: str | None, tmp_path: Path) -> None:
    for ids in (IDS, NUMBERS):
        frame = pd.DataFrame({"cat": [n % 3 for n in range(N)], "dog": [3 - n % 3 for n in range(N)]}, index=ids)
        frame.rename_axis(name).to_parquet(tmp_path / "counts.parquet")
        votes = read_votes(tmp_path / "counts.parquet")
        assert votes.items == tuple(map(str, ids))
        assert votes.classes == ("cat", "dog")
        (frame / 3).rename_axis(name).to_parquet(tmp_path / "p.parquet")
        assert read_probabilities(tmp_path / "p.parquet").ids == tuple(map(str, ids))


def test_probabilities_are_no_logits(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([[0.25, 0.75], [0.5, 0.5]]))
    with pytest.raises(InputError, match="these are probabilities"):
        as_logits(read_predictions(tmp_path / "p.npy"))
    np.save(tmp_path / "p.npy", np.log([[0.25, 0.75], [0.5, 0.5]]))
    assert as_logits(read_predictions(tmp_path / "p.npy")).values.shape == (2, 2)


def test_row_numbers_instead_of_ids_are_called_so() -> None:
    with pytest.raises(InputError, match="only numbers of rows, take the column out or pass --by-order"):
        align(["a", "b", "c"], ["0", "1", "2"])


NO_PEOPLE = (
    "gold_standard",
    "GT",
    "y_true",
    "target",
    "ground_truth_label",
    "final_decision",
    "prediction",
    "label_majority",
)


@pytest.mark.parametrize("name", NO_PEOPLE)
def test_what_is_named_as_a_truth_or_a_prediction_is_no_person(name: str, tmp_path: Path) -> None:
    rows = ([n, vote(n, 0), vote(n, 1), vote(n, 2), LABELS[n]] for n in range(N))
    votes = read_votes(table(tmp_path / "v.csv", f"id,ann,bob,cy,{name}", rows))
    assert votes.annotators == ("ann", "bob", "cy")
    assert f"{name}: by its name no person" in " ".join(votes.read_as.warnings)  # type: ignore[union-attr]


def test_a_column_that_always_has_the_most_frequent_label_of_the_others_is_asked_about(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    said = np.where(draw.random((90, 4)) < 0.7, draw.integers(3, size=(90, 1)), draw.integers(3, size=(90, 4)))
    winner = [np.bincount(row).argmax() for row in said]
    rows = ([f"i{n}", *("xyz"[code] for code in (*said[n], winner[n]))] for n in range(90))
    votes = read_votes(table(tmp_path / "v.csv", "id,ann,bob,cy,dee,end", rows))
    asked = [warning for warning in votes.read_as.warnings if "made from them" in warning]  # type: ignore[union-attr]
    assert len(asked) == 1
    assert "'end'" in asked[0]
    assert read_votes(tmp_path / "v.csv", ignore=["end"]).n_votes == 360
    assert not any("made from" in warning for warning in read_votes(tmp_path / "v.csv", ignore=["end"]).read_as.warnings)  # type: ignore[union-attr]


def test_ids_that_differ_only_in_blanks_and_a_single_class_are_pointed_at(tmp_path: Path) -> None:
    rows = ([f"i{n // 3}{' ' * (n == 4)}", f"w{n % 3}", LABELS[n]] for n in range(N))
    votes = read_votes(table(tmp_path / "v.csv", "item,worker,label", rows))
    assert "the items 'i1' and 'i1 ' differ only in blanks" in " ".join(votes.read_as.warnings)  # type: ignore[union-attr]
    ticks = ([n, *("x" if n % 3 == k else "" for k in range(3))] for n in range(N))
    votes = read_votes(table(tmp_path / "v.csv", "item,cat,dog,bird", ticks))
    assert "there is only one class, 'x'" in " ".join(votes.read_as.warnings)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["id", "item", "item_id", "image"])
@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_ids_behind_the_predictions_name_their_rows(name: str, extension: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"cat": [n / 50 for n in range(N)], "dog": [1 - n / 50 for n in range(N)], name: IDS})
    path = tmp_path / f"p.{extension}"
    if extension == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    matrix = read_probabilities(path)
    assert (matrix.ids, matrix.classes) == (tuple(IDS), ("cat", "dog"))
    assert f"rows are named by the column '{name}'" in matrix.notes


def test_a_class_of_fractions_is_no_id_behind_the_predictions(tmp_path: Path) -> None:
    rows = ([n / 50, 1 - n / 50] for n in range(N))
    matrix = read_probabilities(table(tmp_path / "p.csv", "statement,question", rows))
    assert (matrix.ids, matrix.classes) == (None, ("statement", "question"))


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        ("id,cat,dog,confidence", [0.5, 0.5, 0.5], "no class is called confidence"),
        ("id,cat", [0.5], "there is no column dog"),
        ("id,cat,hund", [0.5, 0.7], "the columns hund are not classes"),
    ],
)
def test_a_refusal_of_predictions_names_the_column_before_the_sums(
    header: str, row: list[float], said: str, tmp_path: Path
) -> None:
    predictions = table(tmp_path / "p.csv", header, ([f"i{n}", *row] for n in range(6)))
    votes = table(
        tmp_path / "v.csv", "item,worker,label", ([f"i{n}", w, ("cat", "dog")[w]] for n in range(6) for w in (0, 1))
    )
    result = CliRunner().invoke(cli, ["score", str(predictions), str(votes)])
    assert result.exit_code != 0
    assert said in str(result.exception) + result.output


@pytest.mark.parametrize("by_column", [False, True])
def test_lists_of_objects_in_parquet_are_read_as_in_json(by_column: bool, tmp_path: Path) -> None:
    said = [[{"annotator": f"w{person}", "label": vote(n, person)} for person in range(3)] for n in range(N)]
    cells = [{key: [entry[key] for entry in entries] for key in entries[0]} for entries in said] if by_column else said
    frame = pd.DataFrame({"id": IDS, "text": "a text", "annotations": cells})
    frame.to_parquet(tmp_path / "v.parquet", index=False)
    frame.to_json(tmp_path / "v.jsonl", orient="records", lines=True)
    votes, same = read_votes(tmp_path / "v.parquet"), read_votes(tmp_path / "v.jsonl")
    assert (votes.items, votes.annotators, votes.classes) == (same.items, same.annotators, same.classes)
    assert np.array_equal(votes.counts, same.counts)
    assert votes.n_votes == 3 * N
