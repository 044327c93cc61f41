"""Nothing lost, nothing computed twice, no wrong number: whatever happens to the processes, the disk and the files."""

import json
import os
import random as dice
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import lives
from dissensus import datasets
from dissensus.engine import local
from dissensus.engine import measures as analyses
from dissensus.engine.events import Event
from dissensus.engine.one_run import Execution, InterruptedRunError, execute
from dissensus.engine.worker import compute
from dissensus.errors import InputError
from dissensus.labels.delivery import Multipass, Sampled
from dissensus.labels.mixing import Mixup
from dissensus.models import Linear, Mlp, Smallcnn, Speedy
from dissensus.store import checkpoints
from dissensus.store import locks as claims
from dissensus.store.ledger import Ledger
from dissensus.training.averaging import Ema
from dissensus.training.optimisers import AdamW, Sgd
from dissensus.training.recipe import Best, Recipe
from dissensus.training.splits import Holdout

DATA = datasets.load("digits")
QUICK = Recipe(model=Linear(), optimiser=AdamW(lr=0.01), epochs=2, batch=256)
ALONE = Execution(threads=1)

KILLABLE = [
    replace(QUICK, model=Mlp(hidden=(32,)), delivery=Sampled(), optimiser=Sgd(lr=0.05), epochs=6, batch=128),
    replace(QUICK, model=Smallcnn(width=4, hidden=16), delivery=Multipass(), mixing=Mixup(), epochs=4, batch=128),
    replace(QUICK, validation=Holdout(0.2), best=Best(), epochs=12, batch=128),
    replace(QUICK, model=Speedy((4, 8)), averaging=Ema(0.5), best=Best("evaluation"), epochs=4, batch=128),
]


def outcome(ledger, run_id):
    """Everything of a run that an interruption must not change, to the bit."""
    run = ledger.read(run_id)
    weights = {name: ledger.weights(run_id, name) for name in run.scores}
    flat = {f"{name}/{key}": value for name, state in weights.items() for key, value in state.items()}
    return run.scores, run.curve, run.facts, {key: value.numpy().tobytes() for key, value in flat.items()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A ledger with one finished run, not to be changed."""
    ledger = Ledger(tmp_path_factory.mktemp("finished"))
    execute(QUICK.spec(DATA, 0), ledger, ALONE)
    return ledger


@pytest.fixture
def copy(finished, tmp_path):
    """The same, to be changed."""
    import shutil

    shutil.copytree(finished.folder, tmp_path / "copy")
    return Ledger(tmp_path / "copy")


def test_a_run_killed_at_random_moments_ends_with_the_same_bits(tmp_path):
    throw, kills = dice.Random(0), 0
    for seed, recipe in enumerate(KILLABLE * 20):
        spec = recipe.spec(DATA, seed)
        broken, whole = Ledger(tmp_path / "broken"), Ledger(tmp_path / "whole")
        began = time.monotonic()
        lives.born(lives.computing, spec.to_json(), str(whole.folder)).join()
        a_life = time.monotonic() - began  # on this machine, as busy as it is
        for _ in range(50):
            life = lives.born(lives.computing, spec.to_json(), str(broken.folder))
            life.join(throw.uniform(0.1, 1.0) * a_life)
            if life.exitcode is None:
                life.kill()
                kills += 1
            life.join()
            if spec.id in broken:
                break
        assert outcome(broken, spec.id) == outcome(whole, spec.id)
        if kills >= 20:
            break
    assert kills >= 20
    assert any(run.provenance.get("resumed") for run in broken)


def test_a_run_asked_to_stop_saves_itself_after_the_step_and_goes_on_from_there(tmp_path):
    spec, ledger = KILLABLE[0].spec(DATA, 0), Ledger(tmp_path / "a")
    asked = iter([False] * 17 + [True])
    with pytest.raises(InterruptedRunError):
        execute(spec, ledger, ALONE, stop=lambda: next(asked))
    state = checkpoints.load(ledger.work(spec.id) / "checkpoint")["state"]
    assert (state["epoch"], state["step"]) != (0, 0)
    execute(spec, ledger, ALONE)
    execute(spec, Ledger(tmp_path / "b"), ALONE)
    assert outcome(ledger, spec.id) == outcome(Ledger(tmp_path / "b"), spec.id)
    assert not ledger.work(spec.id).exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_saves_what_is_under_way(tmp_path, workers):
    long = replace(QUICK, epochs=500)
    specs, ledger = [long.spec(DATA, seed) for seed in range(2)], Ledger(tmp_path)

    def press(event):
        if event.kind == "epoch":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        local.run_all(specs, ledger, workers=workers, execution=Execution(threads=1), listen=press)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    saved = [checkpoints.load(ledger.work(spec.id) / "checkpoint") for spec in specs]
    assert any(one is not None and one["state"]["step"] + one["state"]["epoch"] > 0 for one in saved)
    assert not any((ledger.work(spec.id) / "claim").exists() for spec in specs)


DAMAGES = [lambda b: b[:-100], lambda b: b[:20], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""]


@pytest.mark.parametrize("damage", DAMAGES, ids=["cut short", "nearly empty", "one bit", "empty"])
def test_a_damaged_checkpoint_is_not_believed(tmp_path, damage):
    spec, ledger = QUICK.spec(DATA, 3), Ledger(tmp_path / "a")
    asked = iter([False] * 5 + [True])
    with pytest.raises(InterruptedRunError):
        execute(spec, ledger, ALONE, stop=lambda: next(asked))
    file = ledger.work(spec.id) / "checkpoint"
    file.write_bytes(damage(file.read_bytes()))
    run = execute(spec, ledger, ALONE)
    execute(spec, Ledger(tmp_path / "b"), ALONE)
    assert outcome(ledger, spec.id) == outcome(Ledger(tmp_path / "b"), spec.id)
    assert "resumed" not in run.provenance


def test_a_run_that_goes_on_under_other_conditions_says_so(tmp_path):
    spec, ledger = QUICK.spec(DATA, 4), Ledger(tmp_path)
    asked = iter([False] * 5 + [True])
    with pytest.raises(InterruptedRunError):
        execute(spec, ledger, ALONE, stop=lambda: next(asked))
    run = execute(spec, ledger, Execution(threads=2))
    torch.set_num_threads(1)
    assert [other["threads"] for other in run.provenance["also_on"]] == [1]


def test_a_full_disk_stops_with_a_message_and_leaves_a_run_that_goes_on(tmp_path):
    spec, ledger = KILLABLE[0].spec(DATA, 5), Ledger(tmp_path / "a")
    told = lives.CONTEXT.Queue()
    lives.born(lives.in_a_small_room, spec.to_json(), str(ledger.folder), 30_000, told)
    kinds = []
    while not kinds or kinds[-1].kind in ("started", "epoch"):
        kinds.append(told.get(timeout=60))
    assert kinds[-1].kind == "full"
    assert "no room left" in kinds[-1].message
    assert "goes on" in kinds[-1].message
    assert spec.id not in ledger
    execute(spec, ledger, ALONE)
    assert ledger.verify(spec.id) == []


def test_an_executor_begins_nothing_more_once_the_disk_is_full(tmp_path, monkeypatch):
    def no_room(job, ledger, execution, tell, stop):
        tell(Event("full", job.runs[0], message="there is no room left"))

    monkeypatch.setattr(local, "compute", no_room)
    events = []
    ended = local.run_all([QUICK.spec(DATA, seed) for seed in range(3)], Ledger(tmp_path), listen=events.append)
    assert [event.kind for event in events] == ["full"]
    assert "no room" in ended.full


def test_two_executors_on_one_ledger_share_the_work_and_compute_nothing_twice(tmp_path):
    specs = [replace(QUICK, epochs=4).spec(DATA, seed) for seed in range(8)]
    specs.append(analyses.ensemble((specs[0].id, specs[-1].id)))
    told = lives.CONTEXT.Queue()
    documents = [spec.to_json() for spec in specs]
    executors = [lives.born(lives.executing, documents, str(tmp_path), told) for _ in range(2)]
    for executor in executors:
        executor.join(120)
        assert executor.exitcode == 0
    events = []
    while not told.empty():
        events.append(told.get())
    begun = [run for kind, run in events if kind == "started"]
    assert sorted(begun) == sorted(spec.id for spec in specs)
    assert set(Ledger(tmp_path).ids()) == {spec.id for spec in specs}


def test_a_worker_that_is_killed_is_replaced_and_its_run_goes_on(tmp_path):
    ledger = Ledger(tmp_path)
    specs = [replace(QUICK, epochs=30, batch=64).spec(DATA, seed) for seed in range(2)]
    killed = []

    def kill_once(event):
        if event.kind == "epoch" and not killed:
            claim = json.loads((ledger.work(event.run) / "claim").read_text())
            os.kill(claim["pid"], signal.SIGKILL)
            killed.append(event.run)

    often = Execution(threads=1, checkpoint_seconds=0.0)
    ended = local.run_all(specs, ledger, workers=2, execution=often, listen=kill_once)
    assert killed
    assert not ended.failed
    assert all(spec.id in ledger for spec in specs)
    assert ledger.read(killed[0]).provenance["resumed"] == 1


def test_a_worker_whose_parent_is_gone_leaves(tmp_path):
    parents, line = lives.CONTEXT.Pipe()
    orphan = lives.born(local._work, line, str(tmp_path), ALONE, {})
    line.close()
    parents.close()
    orphan.join(30)
    assert orphan.exitcode == 0


def test_a_failed_run_leaves_its_traceback_in_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("dissensus.engine.one_run.Stage.of", lambda spec, ledger: 1 / 0)
    ledger, spec, events = Ledger(tmp_path), QUICK.spec(DATA, 0), []
    compute(lives.alone(spec), ledger, ALONE, events.append)
    assert events[-1].kind == "failed"
    assert "ZeroDivisionError" in (ledger.work(spec.id) / "error.txt").read_text()


class TestClaims:
    def test_only_one_can_hold_a_claim_and_it_is_free_afterwards(self, tmp_path):
        file = tmp_path / "work" / "claim"
        claim = claims.take(file)
        assert claims.take(file) is None
        assert claims.is_held(file)
        claim.release()
        assert not claims.is_held(file)
        assert not file.parent.exists()
        claims.take(file).release()

    def test_the_claim_of_a_process_that_was_killed_is_free_at_once(self, tmp_path):
        ready, let_go = lives.CONTEXT.Event(), lives.CONTEXT.Event()
        holder = lives.born(lives.holding, tmp_path / "claim", ready, let_go)
        assert ready.wait(30)
        assert claims.take(tmp_path / "claim") is None
        holder.kill()
        holder.join()
        claims.take(tmp_path / "claim").release()

    def test_the_claim_of_another_machine_is_free_only_when_nobody_touched_it_for_long(self, tmp_path):
        file = tmp_path / "claim"
        file.write_text(json.dumps({"host": "elsewhere", "pid": 1, "claim": "x"}))
        assert claims.take(file) is None
        os.utime(file, (0, file.stat().st_mtime - claims.PATIENCE - 1))
        claims.take(file).release()

    def test_a_beating_heart_keeps_all_claims_of_a_process_fresh(self, tmp_path, monkeypatch):
        monkeypatch.setattr(claims, "HEARTBEAT", 0.01)
        files = [tmp_path / name / "claim" for name in "abc"]
        held = [claims.take(file) for file in files]
        for file in files:
            os.utime(file, (0, 0))
        for _ in range(500):
            if all(file.stat().st_mtime > 0 for file in files):
                break
            claims.threading.Event().wait(0.01)
        assert all(file.stat().st_mtime > 0 for file in files)
        for claim in held:
            claim.release()
        assert not list(tmp_path.iterdir())

    def test_an_owner_that_slept_through_its_claim_does_not_touch_or_end_the_new_one(self, tmp_path):
        file = tmp_path / "claim"
        sleeper = claims.take(file)
        file.write_text(json.dumps({"host": "elsewhere", "pid": 1, "claim": "new"}))
        os.utime(file, (0, 0))
        sleeper.touch()
        sleeper.release()
        assert "new" in file.read_text()
        assert file.stat().st_mtime == 0

    def test_of_many_who_see_an_abandoned_claim_one_gets_it(self, tmp_path):
        from concurrent.futures import ThreadPoolExecutor

        for attempt in range(20):
            file = tmp_path / str(attempt) / "claim"
            file.parent.mkdir()
            file.write_text(json.dumps({"host": "elsewhere", "pid": 1, "claim": "old"}))
            os.utime(file, (0, 0))
            with ThreadPoolExecutor(8) as pool:
                taken = [claim for claim in pool.map(lambda _, f=file: claims.take(f), range(8)) if claim is not None]
            assert len(taken) == 1
            assert file.read_text() == taken[0].owner
            taken[0].release()


def test_a_paused_owner_and_its_successor_publish_one_result(tmp_path):
    spec = QUICK.spec(DATA, 0)
    first, second = Ledger(tmp_path / "shared"), Ledger(tmp_path / "elsewhere")
    execute(spec, second, ALONE)
    before = second.read(spec.id)
    execute(spec, first, ALONE)
    first.adopt(spec.id, {**second.files(spec.id), "run.json": b"{}"})  # the late result of the one who slept
    assert first.read(spec.id).scores == before.scores
    assert first.verify(spec.id) == []
    assert list((tmp_path / "shared" / ".work").iterdir()) == []


def test_an_owner_whose_run_was_finished_by_another_meanwhile_ends_quietly_and_its_result_is_dropped(tmp_path):
    spec, ledger, elsewhere = replace(QUICK, epochs=4).spec(DATA, 0), Ledger(tmp_path / "a"), Ledger(tmp_path / "b")
    execute(spec, elsewhere, ALONE)
    finished = elsewhere.files(spec.id)
    events = []

    def tell(event):
        events.append(event.kind)
        if event.kind == "epoch" and spec.id not in ledger:  # it slept here: its claim was taken over, its run published
            ledger.adopt(spec.id, finished)

    compute(lives.alone(spec), ledger, Execution(threads=1, checkpoint_seconds=0.0), tell)
    assert events == ["started", *["epoch"] * 4, "done"]
    assert ledger.files(spec.id) == finished
    assert not list((ledger.folder / ".work").iterdir())


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("run.json", lambda ledger, run_id: ledger.read(run_id)),
        ("predictions.npz", lambda ledger, run_id: ledger.arrays(run_id, "predictions")),
        ("last.safetensors", lambda ledger, run_id: ledger.weights(run_id, "last")),
    ],
)
def test_a_file_that_was_edited_is_never_used(copy, name, read):
    (run_id,) = copy.ids()
    file = copy.folder / run_id / name
    read(copy, run_id)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=f"{name} is not what was written"):
        read(copy, run_id)


@pytest.mark.parametrize("name", ["run.json", "predictions.npz", "last.safetensors"])
@pytest.mark.parametrize("damage", ["edited", "cut short", "lost"])
def test_verifying_finds_files_that_were_edited_cut_short_or_lost(copy, name, damage):
    (run_id,) = copy.ids()
    assert copy.verify(run_id) == []
    file = copy.folder / run_id / name
    content = file.read_bytes()
    if damage == "lost":
        file.unlink()
    else:
        file.write_bytes(content[:-7] if damage == "cut short" else content.replace(content[-9:-5], b"0000"))
    assert any(name in problem for problem in copy.verify(run_id)) or run_id not in copy


def test_verifying_finds_a_run_under_a_wrong_name(copy):
    (run_id,) = copy.ids()
    Path(copy.folder / run_id).rename(copy.folder / ("0" * 16))
    assert copy.verify("0" * 16) == [f"the spec inside is that of {run_id}"]


def test_summaries_are_those_of_the_runs_also_when_some_come_and_go(copy):
    (run_id,) = copy.ids()
    (one,) = copy.summaries()
    run = copy.read(run_id)
    assert one.id == run_id
    assert one.raw["soft_nll"] == run.scores["last"]["raw"]["soft_nll"]
    assert one.flops == run.facts["training_flops"]
    other = QUICK.spec(DATA, 1)
    execute(other, copy, ALONE)
    assert [one.id for one in copy.summaries()] == copy.ids()
    copy.remove(run_id)
    assert [one.id for one in copy.summaries()] == [other.id]
    (copy.folder / ".index.json").write_text("{")
    assert [one.id for one in copy.summaries()] == [other.id]


def test_a_summary_is_the_same_from_a_record_without_its_head(copy):
    """Of ledgers that are older than the head, and of records that somebody committed without it."""
    (run_id,) = copy.ids()
    before = copy.summaries()
    (copy.folder / ".index.json").unlink()
    (copy.folder / run_id / "checksums").unlink()
    (copy.folder / run_id / "run.json").write_text(json.dumps(copy.read(run_id).to_json()))
    assert copy.summaries() == before


def test_a_list_in_a_folder_that_cannot_be_written_is_read_all_the_same(copy, monkeypatch):
    def refused(*arguments, **options):
        raise PermissionError

    monkeypatch.setattr("dissensus.store.ledger.write_whole", refused)
    assert [one.id for one in copy.summaries()] == copy.ids()


def test_no_worker_is_hired_where_nothing_is_left_to_compute(finished, monkeypatch):
    monkeypatch.setattr(local._Pool, "_hired", lambda pool: pytest.fail("somebody was hired"))
    assert not local.run_all([QUICK.spec(DATA, 0)], finished, workers=2).failed


def test_a_removed_run_is_computed_again(copy):
    (run_id,) = copy.ids()
    copy.remove(run_id)
    assert run_id not in copy
    assert execute(QUICK.spec(DATA, 0), copy, ALONE).id == run_id


def test_an_adopted_run_is_the_same_run(finished, tmp_path):
    (run_id,) = finished.ids()
    other = Ledger(tmp_path)
    other.adopt(run_id, finished.files(run_id))
    assert other.read(run_id) == finished.read(run_id)
    assert other.verify(run_id) == []
    assert np.array_equal(other.arrays(run_id, "predictions")["logits"], finished.arrays(run_id, "predictions")["logits"])


def test_a_run_that_is_nowhere_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no run"):
        Ledger(tmp_path / "nowhere").read("f" * 16)
    assert Ledger(tmp_path / "nowhere").ids() == []
