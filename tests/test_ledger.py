"""What is written is read back as it was, and a file that is not what was written is never used."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dissensus.errors import InputError
from dissensus.store import records
from dissensus.store.atomic_files import DiskFullError, StorageError, write_whole
from dissensus.store.ledger import Ledger
from dissensus.store.records import Records
from dissensus.store.run_source import Summary, check_predictions
from dissensus.store.spec import Run, Spec, UnknownFormatError

WEIGHTS = torch.arange(6.0).reshape(2, 3).T
ARRAYS = {
    "predictions": {"logits": np.eye(3)},
    "predictions_best": {"logits": 2 * np.eye(3)},
    "gallery": {"x": np.ones((1, 1, 8, 8))},
}


def finished(seed=0):
    return Run(
        Spec("train", {"seed": seed}),
        {"last": {"raw": {"soft_nll": 0.5, "js": 0.25}}},
        {"train_loss": [1.0, None]},
        {"items": 3, "training_flops": 7},
        {"torch": "x"},
    )


@pytest.fixture
def ledger(tmp_path):
    """With one finished run."""
    made = Ledger(tmp_path / "runs")
    made.publish(finished(), ARRAYS, {"last": {"w": WEIGHTS}})
    return made


@pytest.fixture(params=["ledger", "records"])
def source(request, ledger, tmp_path):
    """All that runs can be read from, each with the same two runs."""
    ledger.publish(finished(1), {}, {})
    if request.param == "ledger":
        return ledger
    records.pack(ledger, ledger.ids(), tmp_path / "records.gz")
    return Records(tmp_path / "records.gz")


def test_every_source_of_runs_gives_the_same_records(source):
    assert source.ids() == sorted([finished().id, finished(1).id])
    assert finished().id in source
    assert "0" * 16 not in source
    assert source.read(finished().id) == finished()
    assert source.summaries() == [Summary.of(source.read(run_id)) for run_id in source.ids()]
    assert source.predictions(finished(1).id, "last") is None
    assert source.gallery(finished(1).id) is None
    with pytest.raises(InputError, match="there is no run 0000000000000000"):
        source.read("0" * 16)


def test_a_published_run_is_read_back_as_it_was(ledger):
    run = finished()
    assert ledger.read(run.id) == run
    assert (ledger.predictions(run.id, "last")["logits"] == np.eye(3)).all()
    assert (ledger.predictions(run.id, "best")["logits"] == 2 * np.eye(3)).all()
    assert ledger.gallery(run.id)["x"].shape == (1, 1, 8, 8)
    assert torch.equal(ledger.weights(run.id, "last")["w"], WEIGHTS)
    assert list(ledger) == [run]


def test_the_first_of_two_results_stays_and_nothing_else_is_left(ledger):
    ledger.publish(replace(finished(), facts={"items": 4}), {}, {})
    assert ledger.read(finished().id).facts == finished().facts
    assert sorted(path.name for path in ledger.folder.iterdir()) == [".ledger", ".work", finished().id]
    assert list((ledger.folder / ".work").iterdir()) == []


def test_a_run_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    unwritable = replace(finished(), scores={"last": {"raw": {"soft_nll": float("nan")}}})
    with pytest.raises(ValueError, match="not JSON compliant"):
        Ledger(tmp_path).publish(unwritable, ARRAYS, {})
    assert list((tmp_path / ".work").iterdir()) == []
    assert list(Ledger(tmp_path)) == []


def test_a_run_that_is_nowhere_cannot_be_read(tmp_path):
    nowhere = Ledger(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no run"):
        nowhere.read("f" * 16)
    assert nowhere.ids() == nowhere.summaries() == []


def test_weights_that_were_not_kept_are_named(ledger):
    with pytest.raises(InputError, match="no weights 'best'"):
        ledger.weights(finished().id, "best")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("run.json", lambda ledger, run_id: ledger.read(run_id)),
        ("predictions.npz", lambda ledger, run_id: ledger.predictions(run_id, "last")),
        ("last.safetensors", lambda ledger, run_id: ledger.weights(run_id, "last")),
    ],
)
def test_a_file_that_was_edited_is_never_used(ledger, name, read):
    file = ledger.folder / finished().id / name
    read(ledger, finished().id)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=f"{name} is not what was written"):
        read(ledger, finished().id)


def test_a_record_cut_short_is_damaged_also_where_there_are_no_checksums(ledger):
    folder = ledger.folder / finished().id
    (folder / "checksums").unlink()
    (folder / "run.json").write_text('{"spec": ')
    with pytest.raises(InputError, match=r"run\.json is damaged"):
        ledger.read(finished().id)


@pytest.mark.parametrize("name", ["run.json", "predictions.npz", "last.safetensors"])
@pytest.mark.parametrize("damage", ["edited", "cut short", "lost"])
def test_verifying_finds_files_that_were_edited_cut_short_or_lost(ledger, name, damage):
    run_id = finished().id
    assert ledger.verify(run_id) == []
    file = ledger.folder / run_id / name
    content = file.read_bytes()
    if damage == "lost":
        file.unlink()
    else:
        file.write_bytes(content[:-7] if damage == "cut short" else content.replace(content[-9:-5], b"0000"))
    assert any(name in problem for problem in ledger.verify(run_id)) or run_id not in ledger


def test_verifying_finds_a_run_under_a_wrong_name(ledger):
    (ledger.folder / finished().id).rename(ledger.folder / ("0" * 16))
    inside = f"run.json belongs to another run: the spec inside is that of {finished().id}"
    assert ledger.verify("0" * 16) == [inside]
    with pytest.raises(InputError, match=f"that of {finished().id}"):
        ledger.read("0" * 16)


def test_a_run_that_lost_its_record_is_seen_and_computed_again(ledger):
    run_id = finished().id
    (ledger.folder / run_id / "run.json").unlink()
    assert run_id not in ledger
    assert ledger.without_record() == [run_id]
    assert ledger.verify(run_id) == ["run.json is missing"]
    ledger.publish(finished(), ARRAYS, {"last": {"w": WEIGHTS}})
    assert ledger.without_record() == ledger.verify(run_id) == []
    assert ledger.read(run_id) == finished()
    assert not list((ledger.folder / ".work").iterdir())


def test_a_folder_is_a_ledger_by_its_marker_its_runs_or_the_work_on_them(ledger, tmp_path):
    assert ledger.exists
    (ledger.folder / ".ledger").unlink()  # as earlier versions left it
    assert ledger.exists
    (ledger.folder / ".work").rmdir()
    assert ledger.exists
    (tmp_path / "other" / "notes").mkdir(parents=True)
    (tmp_path / "other" / "run.json").write_text("{}")
    assert not Ledger(tmp_path / "other").exists
    assert not Ledger(tmp_path / "nowhere").exists
    Ledger(tmp_path / "new").create()
    assert Ledger(tmp_path / "new").exists


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_what_is_published_can_be_read_by_whom_the_umask_says(tmp_path, mask):
    before = os.umask(mask)
    try:
        ledger = Ledger(tmp_path / "runs")
        ledger.publish(finished(), ARRAYS, {"last": {"w": WEIGHTS}})
    finally:
        os.umask(before)
    folder = ledger.folder / finished().id
    assert folder.stat().st_mode & 0o777 == 0o777 & ~mask
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o666 & ~mask}


@pytest.mark.parametrize("name", ["run.json", "predictions.npz", "last.safetensors", "checksums"])
def test_a_disk_that_fills_while_any_file_is_written_is_called_full(tmp_path, monkeypatch, name):
    def full(file, *arguments, once=Path.write_bytes):
        if file.name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return once(file, *arguments)

    def full_text(file, content, **options):
        return full(file, content.encode())

    def full_arrays(file, *arguments, once=np.savez_compressed, **parts):
        if file.name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        once(file, *arguments, **parts)

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(Path, "write_text", full_text)
    monkeypatch.setattr(np, "savez_compressed", full_arrays)
    ledger = Ledger(tmp_path / "runs")
    with pytest.raises(DiskFullError, match="no room left"):
        ledger.publish(finished(), ARRAYS, {"last": {"w": WEIGHTS}})
    assert ledger.ids() == ledger.without_record() == list((ledger.folder / ".work").iterdir()) == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_folder_that_cannot_be_written_says_so(tmp_path, monkeypatch, number):
    def refused(*arguments, **options):
        raise OSError(number, os.strerror(number))

    ledger = Ledger(tmp_path / "runs")
    ledger.publish(finished(), {}, {})
    monkeypatch.setattr(Path, "mkdir", refused)
    monkeypatch.setattr(shutil, "rmtree", refused)
    for write in (ledger.create, lambda: ledger.publish(finished(1), {}, {}), lambda: ledger.remove(finished().id)):
        with pytest.raises(StorageError, match="nothing can be written there"):
            write()


def test_drafts_of_a_process_that_was_killed_are_no_runs_and_go_with_their_run(ledger):
    draft = ledger.folder / ".work" / f"{finished().id}-0123abcd"
    draft.mkdir()
    (draft / "predictions.npz").write_bytes(b"half")
    assert ledger.begun() == set()
    ledger.remove(finished().id)
    assert not draft.exists()


def test_summaries_are_those_of_the_runs_also_when_some_come_and_go(ledger):
    (summary,) = ledger.summaries()
    assert (summary.id, summary.kind, summary.raw, summary.flops) == (finished().id, "train", {"soft_nll": 0.5}, 7)
    ledger.publish(finished(1), {}, {})
    assert [summary.id for summary in ledger.summaries()] == ledger.ids()
    ledger.remove(finished().id)
    assert [summary.id for summary in ledger.summaries()] == [finished(1).id]
    (ledger.folder / ".index.json").write_text("{")
    assert [summary.id for summary in ledger.summaries()] == [finished(1).id]


def test_a_summary_is_the_same_from_a_record_without_its_head(ledger):
    """Of ledgers that are older than the head, and of records that somebody committed without it."""
    before = ledger.summaries()
    (ledger.folder / ".index.json").unlink()
    folder = ledger.folder / finished().id
    (folder / "checksums").unlink()
    (folder / "run.json").write_text(json.dumps(finished().to_json()))
    assert ledger.summaries() == before


def test_a_list_in_a_folder_that_cannot_be_written_is_read_all_the_same(ledger, monkeypatch):
    def refused(*arguments, **options):
        raise PermissionError

    monkeypatch.setattr("dissensus.store.ledger.write_whole", refused)
    assert [summary.id for summary in ledger.summaries()] == ledger.ids()


def test_a_removed_run_is_gone(ledger):
    ledger.remove(finished().id)
    assert finished().id not in ledger
    assert ledger.ids() == []


def test_an_adopted_run_is_the_same_run(ledger, tmp_path):
    other, run_id = Ledger(tmp_path / "other"), finished().id
    other.adopt(run_id, ledger.files(run_id))
    assert other.read(run_id) == ledger.read(run_id)
    assert other.verify(run_id) == []
    assert other.files(run_id) == ledger.files(run_id)


UNKNOWN_FORMS = {
    "a newer format": lambda record: record | {"format": 2},
    "another key": lambda record: record | {"sources": []},
    "a key less": lambda record: {name: part for name, part in record.items() if name != "facts"},
    "another key in the spec": lambda record: record | {"spec": record["spec"] | {"method": "soft"}},
    "another kind": lambda record: record | {"spec": record["spec"] | {"kind": "simulate"}},
    "no dictionary": lambda record: [record],
}


@pytest.mark.parametrize("changed", UNKNOWN_FORMS.values(), ids=UNKNOWN_FORMS)
@pytest.mark.parametrize("with_checksums", [True, False])
def test_a_record_of_an_unknown_form_is_refused_and_left_as_it_is(ledger, tmp_path, changed, with_checksums):
    file = ledger.folder / finished().id / "run.json"
    text = json.dumps(changed(json.loads(file.read_text())))
    files = ledger.files(finished().id) | {"run.json": text.encode()}
    newer = Ledger(tmp_path / "newer")
    newer.adopt(finished().id, files)
    if not with_checksums:
        (newer.folder / finished().id / "checksums").unlink()
    before = newer.files(finished().id)
    for read in (newer.summaries, lambda: newer.read(finished().id), lambda: list(newer)):
        with pytest.raises(UnknownFormatError) as refused:
            read()
        assert refused.value.where == str(newer.folder / finished().id / "run.json")
        assert "version of dissensus that wrote it" in refused.value.hint
    assert newer.files(finished().id) == before
    assert newer.verify(finished().id) == ([] if with_checksums else ["checksums is missing: nothing can be verified"])


def test_records_of_a_newer_format_are_refused_with_the_name_of_their_file(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "to_json", lambda run: {"format": 2})
    records.pack(ledger, [finished().id], tmp_path / "records.gz")
    with pytest.raises(
        UnknownFormatError, match=r"records\.gz: the record has format 2, and this version reads format 1"
    ):
        Records(tmp_path / "records.gz")


GOOD = {
    "rows": np.arange(3),
    "labels": np.array([0, 1, 1]),
    "ids": np.array(["a", "b", "c"]),
    "logits": np.zeros((3, 2), np.float32),
    "people": np.full((3, 2), 0.5),
}
ODD_ARRAYS = {
    "no logits": {"logits": None},
    "one row less": {"people": np.full((2, 2), 0.5)},
    "other classes": {"labels": np.array([0, 1, 2])},
    "labels in words": {"labels": np.array(["a", "b", "c"])},
    "a cube": {"logits": np.zeros((3, 2, 1), np.float32)},
    "counts of others": {"counts": np.ones((3, 3), np.int64)},
    "nothing": {name: array[:0] for name, array in GOOD.items()},
}


def test_predictions_that_fit_together_are_taken():
    check_predictions(GOOD, "0")
    check_predictions({**GOOD, "counts": np.ones((3, 2), np.int64), "truth": np.full((3, 2), 0.5)}, "0")


@pytest.mark.parametrize("change", ODD_ARRAYS.values(), ids=ODD_ARRAYS)
def test_arrays_of_something_else_are_no_predictions(change):
    arrays = {name: array for name, array in {**GOOD, **change}.items() if array is not None}
    with pytest.raises(InputError, match="these are no predictions of a run"):
        check_predictions(arrays, "0")


def test_no_file_is_put_in_the_place_of_a_device_a_pipe_or_a_folder_and_a_link_stays_one(tmp_path):
    pipe, folder, link = tmp_path / "pipe", tmp_path / "folder", tmp_path / "link.txt"
    os.mkfifo(pipe)
    folder.mkdir()
    for place in (pipe, folder, Path("/dev/null")):
        with pytest.raises(InputError, match="not a regular file"):
            write_whole(place, b"x")
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()
    link.symlink_to(tmp_path / "target.txt")
    write_whole(link, b"x")
    assert link.is_symlink()
    assert (tmp_path / "target.txt").read_bytes() == b"x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link.txt", "pipe", "target.txt"]
