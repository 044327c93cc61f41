"""Readers for exports: each reads its platform's layout rightly, refuses what is no single choice, and knows its own."""

import re
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dissensus.errors import InputError
from dissensus.votes import Votes, files, read_votes, write_votes
from dissensus.votes.exports import EXPORTS, read_export
from dissensus.votes.exports.documents import open_document
from export_samples import (
    ORDINARY,
    REFUSED,
    SAMPLES,
    TOLOKA,
    ExportSample,
    annotation,
    as_json,
    as_lines,
    choice,
    mutated,
    prodigy,
    task,
)
from naive_exports import TWINS, naive_votes

DAMAGES = 250  # of each sample

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.title)


def counted(votes: Votes) -> Counter[tuple[str, str | None, str]]:
    """(item, annotator, label) of each vote, counted one by one."""
    people = [None] * len(votes.item) if votes.annotator is None else [votes.annotators[i] for i in votes.annotator]
    rows = zip(votes.item.tolist(), people, votes.label.tolist(), strict=True)
    return Counter((votes.items[item], person, votes.classes[label]) for item, person, label in rows)


def by_hand(sample: ExportSample) -> Counter[tuple[str, str | None, str]]:
    return Counter({(item, person, label): times for item, person, label, times in sample.votes})


def read(sample: ExportSample, folder: Path, **asked: object) -> Votes:
    votes = read_export(sample.write(folder), **(sample.asked | asked))
    assert votes is not None
    return votes


@each_sample
def test_the_votes_are_those_that_were_counted_by_hand(sample, tmp_path):
    votes = read(sample, tmp_path)
    assert counted(votes) == by_hand(sample)
    said = " ".join((str(votes.read_as), *votes.read_as.notes, *votes.read_as.warnings))
    for words in sample.skipped:
        assert words in said


@each_sample
def test_exactly_one_reader_recognises_a_sample(sample, tmp_path):
    document = open_document(sample.write(tmp_path))
    assert [name for name, reader in EXPORTS.items() if reader.recognises(document)] == [sample.export]


@pytest.mark.parametrize("file", ORDINARY)
def test_no_reader_recognises_an_ordinary_table(file, tmp_path):
    path = tmp_path / file
    path.write_bytes(ORDINARY[file])
    assert read_export(path) is None


def test_every_export_has_a_sample_and_a_refusal():
    assert {sample.export for sample in SAMPLES} == set(EXPORTS)
    without_other_kinds = {"crowd-kit", "cleanlab"}  # ordinary tables: what they are not is left to read_votes
    assert {sample.export for sample in REFUSED} == set(EXPORTS) - without_other_kinds


@each_sample
def test_what_was_read_can_be_written_and_read_back(sample, tmp_path):
    votes = read(sample, tmp_path)
    for name in ("again.csv", "again.parquet", "again.jsonl"):
        write_votes(votes, tmp_path / name, "long")
        again = read_votes(tmp_path / name)
        assert counted(again) == counted(votes)
        assert (again.items, again.classes) == (votes.items, votes.classes)
    write_votes(votes, tmp_path / "again.npz", drop_annotators=True)
    assert np.array_equal(read_votes(tmp_path / "again.npz").counts, votes.counts)


@each_sample
def test_naming_the_export_reads_the_same(sample, tmp_path):
    assert counted(read(sample, tmp_path, name=sample.export)) == by_hand(sample)


@pytest.mark.parametrize("role", ["items", "labels", "annotators"])
@each_sample
def test_a_field_that_is_not_there_is_refused_and_never_ignored(sample, role, tmp_path):
    with pytest.raises(InputError):
        read(sample, tmp_path, **{role: "nothing of that name"})


@pytest.mark.parametrize("sample", REFUSED, ids=lambda sample: sample.title)
def test_what_is_no_single_choice_is_refused_in_words(sample, tmp_path):
    with pytest.raises(InputError) as refusal:
        read_export(sample.write(tmp_path), **sample.asked)
    assert sample.says in str(refusal.value)


@pytest.mark.parametrize(
    "sample", [sample for sample in REFUSED if sample.file != "code.pt"], ids=lambda sample: sample.title
)
def test_a_refused_file_was_recognised_by_its_own_reader(sample, tmp_path):
    document = open_document(sample.write(tmp_path))
    assert [name for name, reader in EXPORTS.items() if reader.recognises(document)] == [sample.export]


def test_a_wrong_name_is_refused_with_the_right_ones(tmp_path):
    path = SAMPLES[0].write(tmp_path)
    with pytest.raises(InputError, match="there is no export 'doccanno'"):
        read_export(path, name="doccanno")
    with pytest.raises(InputError, match="not the layout of Toloka"):
        read_export(path, name="toloka")


def test_a_crowd_kit_frame_is_a_long_table_and_has_a_name_of_its_own(tmp_path):
    path = tmp_path / "crowd.csv"
    path.write_bytes(ORDINARY["crowd-kit.csv"])
    assert counted(read_export(path, name="crowd-kit")) == counted(read_votes(path))


def test_a_question_can_be_asked_for_by_name(tmp_path):
    path = tmp_path / "two.json"
    path.write_bytes(as_json([task(1, annotation(1, choice("a"), choice("x", "topic")), annotation(2, choice("b")))]))
    assert counted(read_export(path, labels="topic")) == Counter({("1", "1", "x"): 1})
    with pytest.raises(InputError, match="no question 'subject'"):
        read_export(path, labels="subject")


def test_items_can_be_named_by_a_field_of_the_data(tmp_path):
    path = SAMPLES[0].write(tmp_path)
    assert read_export(path, items="ref").items == ("t1", "t2")
    assert read_export(path, items="data.ref").items == ("t1", "t2")
    with pytest.raises(InputError, match="no field 'reference'"):
        read_export(path, items="reference")


def test_one_of_several_binary_labels_can_be_asked_for(tmp_path):
    path = tmp_path / "teach.jsonl"
    path.write_bytes(as_lines(prodigy(7, "a", label="SPAM"), prodigy(7, "a", "reject", label="AD")))
    votes = read_export(path, labels="AD")
    assert counted(votes) == Counter({("7", "a", "not AD"): 1})
    assert votes.classes == ("AD", "not AD")


def test_options_that_nobody_chose_stay_classes_in_their_order(tmp_path):
    (sample,) = (sample for sample in SAMPLES if sample.file == "choice.jsonl")
    assert read(sample, tmp_path).classes == ("pos", "neg", "other")


def test_votes_without_a_name_give_up_all_names_with_a_warning(tmp_path):
    path = tmp_path / "unnamed.json"
    path.write_bytes(as_json([task(1, annotation(1, choice("a")), annotation(None, choice("b")))]))
    votes = read_export(path)
    assert votes.annotators is None
    assert "1 of 2 votes do not say who cast them" in votes.read_as.warnings[0]


def test_labels_that_mean_no_vote_are_skipped_and_said(tmp_path):
    path = tmp_path / "toloka.tsv"
    path.write_bytes(TOLOKA)
    votes = read_export(path, missing=["cat"])
    assert set(votes.classes) == {"dog"}
    assert "votes for cat (--missing) (1)" in votes.read_as.notes[0]


@pytest.mark.parametrize(
    ("file", "marks", "lost"),
    [
        ("fer2013new.csv", ["neutral", "NF"], "skipped"),
        ("labeled_data.csv", ["neither"], "items without another vote (1)"),
    ],
)
def test_classes_of_counts_that_mean_no_vote_are_left_out_and_said(file, marks, lost, tmp_path):
    sample = next(sample for sample in SAMPLES if sample.file == file)
    path = sample.write(tmp_path)
    whole, votes = read_votes(path), read_votes(path, missing=marks)
    kept = [name for name in whole.classes if name not in marks]
    assert votes.classes == tuple(kept)
    assert votes.n_votes == whole.counts[:, [whole.classes.index(name) for name in kept]].sum() < whole.n_votes
    assert lost in votes.read_as.notes[0]
    with pytest.raises(InputError, match="'nope' is none of the classes"):
        read_votes(path, missing=["nope"])
    with pytest.raises(InputError, match="holds votes"):
        read_votes(path, ignore=[marks[0]])


def test_a_mark_of_no_vote_that_no_vote_has_is_pointed_at(tmp_path):
    path = tmp_path / "toloka.tsv"
    path.write_bytes(TOLOKA)
    assert "no vote is called catt (--missing)" in read_votes(path, missing=["catt"]).read_as.warnings
    assert not any("--missing)" in text for text in read_votes(path, missing=["cat"]).read_as.warnings)


def test_classes_select_the_order_and_an_unknown_label_is_refused(tmp_path):
    path = tmp_path / "toloka.tsv"
    path.write_bytes(TOLOKA)
    assert read_export(path, classes=["dog", "cat", "bird"]).classes == ("dog", "cat", "bird")
    with pytest.raises(InputError, match="label 'cat' is not one of the classes"):
        read_export(path, classes=["dog"])


@pytest.mark.parametrize("read", [read_votes, lambda path: read_export(path, name="peerannot")], ids=["votes", "export"])
def test_json_is_parsed_in_bounds(read, tmp_path):
    deep = tmp_path / "deep.json"
    deep.write_bytes(b"[" * 200_000)
    with pytest.raises(InputError, match="nested too deeply"):
        read(deep)
    twice = tmp_path / "twice.json"
    twice.write_bytes(b'{"0": {"7": 1, "7": 0}}')
    with pytest.raises(InputError, match="occurs twice"):
        read(twice)


def test_json_beyond_a_gigabyte_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dissensus.votes.exports.documents.MOST_BYTES", 100)
    with pytest.raises(InputError, match="more than is read at once"):
        read_votes(SAMPLES[0].write(tmp_path))


def test_numpy_and_unknown_files_are_left_to_read_votes(tmp_path):
    np.save(tmp_path / "counts.npy", np.ones((2, 2), int))
    np.save(tmp_path / "pickle.npy", {"random_label1": np.ones(3)}, allow_pickle=True)
    assert read_export(tmp_path / "counts.npy") is None
    with pytest.raises(InputError, match="never unpickled"):
        read_votes(tmp_path / "pickle.npy")


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if sample.file in TWINS], ids=lambda sample: sample.title
)
def test_a_damaged_text_is_refused_or_read_as_the_plainest_reading_of_it(sample, tmp_path):
    rng = np.random.default_rng(17)
    for _ in range(DAMAGES):
        content = mutated(sample.content, rng)
        path = replace(sample, content=content).write(tmp_path)
        try:
            votes = read_export(path, **sample.asked)
        except InputError:
            continue
        if votes is not None:
            columns, with_people = votes.read_as.columns, votes.annotators is not None
            assert counted(votes) == naive_votes(sample.file, content, columns, with_people), content


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if sample.file not in TWINS], ids=lambda sample: sample.title
)
def test_a_damaged_file_is_refused_or_read_but_never_breaks(sample, tmp_path):
    rng = np.random.default_rng(17)
    for _ in range(DAMAGES // 4):
        if isinstance(sample.content, bytes):
            content = mutated(sample.content, rng)
        else:
            content = {name: mutated(part, rng) for name, part in sample.content.items()}
        try:
            votes = read_export(replace(sample, content=content).write(tmp_path), **sample.asked)
        except InputError:
            continue
        assert votes is None or isinstance(votes, Votes)


def test_a_torch_file_whose_arrays_name_no_encoding_is_refused(tmp_path):
    sample = next(sample for sample in SAMPLES if sample.export == "cifar-n" and sample.file.endswith(".pt"))
    content = sample.content.replace(b"latin1", b"~atin1")
    assert content != sample.content
    with pytest.raises(InputError, match=r"CIFAR-10_human\.pt"):
        read_export(replace(sample, content=content).write(tmp_path))


class Pickled:
    """Is pickled as the call of a function, and a state."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


def pickled_array(flags=0, code="i8", fields=None, content=bytes(24)):
    kind = Pickled(np.dtype, (code, False, True), (3, "<", None, None, fields, -1, -1, flags))
    rebuild = np.empty(0).__reduce__()[0]
    return Pickled(rebuild, (np.ndarray, (0,), b"b"), (1, (3,), kind, False, content))


@pytest.mark.parametrize(
    "value",
    [
        [torch.ones(2), torch.ones(3)],
        torch.ones(2, 2, dtype=torch.bfloat16),
        torch.eye(2).long().to_sparse(),
        torch.nn.Parameter(torch.full((2, 2), 0.5)),
        torch.ones(2, 2, dtype=torch.complex64).conj(),
        torch.ones(2, 2, device="meta"),
        torch.ones(1, dtype=torch.int64).expand(20_000, 20_000),
        [[[1, 1]]],
        [[2**70, 1]],
        [[1, 2], [3]],
        pickled_array(flags=1),
        pickled_array(code="V8", fields={"a": 1}),
        pickled_array(code="O8"),
        pickled_array(content=bytes(23)),
        pickled_array(content=None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_torch_saved_that_is_no_array_of_whole_numbers_is_refused(value, tmp_path):
    """NumPy's own unpickling prints internal errors or ends the process at some of these, and one asks for 3 GB."""
    for name, content in (("alone", value), ("named", {"random_label1": value})):
        torch.save(content, tmp_path / f"{name}.pt")
        with pytest.raises(InputError, match=rf"{name}\.pt"):
            read_votes(tmp_path / f"{name}.pt")


def test_a_row_that_a_torch_file_names_a_thousand_times_is_refused(tmp_path):
    torch.save([[1] * 2_000] * 2_000, tmp_path / "rows.pt")
    assert (tmp_path / "rows.pt").stat().st_size < 20_000
    with pytest.raises(InputError, match="a list that is not one tensor of numbers"):
        read_votes(tmp_path / "rows.pt")


def test_a_torch_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "INFLATED_FREELY", 1 << 20)
    torch.save(torch.zeros(2, 2), tmp_path / "small.pt")
    with zipfile.ZipFile(tmp_path / "large.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        with zipfile.ZipFile(tmp_path / "small.pt") as plain:
            for member in plain.infolist():
                packed.writestr(member.filename, plain.read(member))
        packed.writestr("small/data/1", bytes(4 << 20))
    with pytest.raises(InputError, match="bytes unpack to 4,19"):
        read_votes(tmp_path / "large.pt")


@pytest.mark.parametrize("dtype", ["int8", ">i4", "uint16", "int64"])
@pytest.mark.parametrize("order", "CF")
def test_arrays_inside_a_torch_file_are_read_as_numpy_reads_them(dtype, order, tmp_path):
    counts = np.array([[1, 2, 0], [0, 3, 4]], dtype=dtype, order=order)
    torch.save(counts, tmp_path / "counts.pt")
    assert read_votes(tmp_path / "counts.pt").counts.tolist() == counts.tolist()


def test_every_sample_on_the_page_is_read_as_the_page_says(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "exports.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### [^\n]*: `([\w-]+)`\n(.*?)(?=^##)", page + "\n##", re.DOTALL | re.MULTILINE)
    assert {name for name, _ in sections} == set(EXPORTS)
    for name, text in sections:
        blocks = re.findall(r"<!-- sample: (\S+) -->\n```\w+\n(.*?)```", text, re.DOTALL)
        for file, content in blocks:
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        if blocks:
            first = tmp_path / name / blocks[0][0]
            path = first if "/" not in blocks[0][0] else first.parent
            document = open_document(path)
            assert [other for other, reader in EXPORTS.items() if reader.recognises(document)] == [name]
            assert read_export(path).n_votes > 0


@pytest.mark.parametrize("cell", ["1.\x1d", "\x1f.0", "1.0\x1c"])
def test_a_number_with_a_control_character_is_no_class_of_a_cleanlab_table(cell, tmp_path):
    path = tmp_path / "frame.csv"
    path.write_text(f",A1,A2,A3\n0,1.0,,0.0\n1,,{cell},2.0\n2,0.0,0.0,1.0\n")
    assert read_export(path) is None
