"""What is written is read back as it was, and a file that is not what was written is never used."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dissensus.errors import InputError
from dissensus.store import records
from dissensus.store.ledger import Ledger
from dissensus.store.records import Records
from dissensus.store.run_source import Summary
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
    assert sorted(path.name for path in ledger.folder.iterdir()) == [".work", finished().id]
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
    assert ledger.verify("0" * 16) == [f"the spec inside is that of {finished().id}"]


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
