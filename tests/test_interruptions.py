"""Nothing lost, nothing computed twice, no wrong number: whatever happens to the processes, the disk and the files."""

import json
import os
import random as dice
import signal
import time
from dataclasses import replace

import pytest
import torch

import lives
from dissensus import datasets
from dissensus.engine import local
from dissensus.engine.events import Event
from dissensus.engine.local import LocalExecutor
from dissensus.engine.measures import Ensemble, measure_spec
from dissensus.engine.one_run import Execution, InterruptedRunError, execute
from dissensus.engine.worker import compute
from dissensus.labels.delivery import Multipass, Sampled
from dissensus.labels.mixing import Mixup
from dissensus.models import Linear, Mlp, Smallcnn, Speedy
from dissensus.store import checkpoints
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
        else:  # a busy machine: every life ended before it got any further
            lives.born(lives.computing, spec.to_json(), str(broken.folder)).join()
        assert outcome(broken, spec.id) == outcome(whole, spec.id)
        if kills >= 20:
            break
    assert kills >= 20
    assert any(run.provenance.get("resumed") for run in broken)


def test_a_run_asked_to_stop_saves_itself_after_the_step_and_goes_on_from_there(tmp_path):
    spec, ledger = KILLABLE[0].spec(DATA, 0), Ledger(tmp_path / "a")
    asked = iter([False] * 17 + [True])
    with pytest.raises(InterruptedRunError):
        execute(spec, ledger, ALONE, stop_requested=lambda: next(asked))
    state = checkpoints.load(ledger.checkpoint_file(spec.id))["state"]
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
        LocalExecutor(workers, Execution(threads=1)).run(specs, ledger, press)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    saved = [checkpoints.load(ledger.checkpoint_file(spec.id)) for spec in specs]
    assert any(one is not None and one["state"]["step"] + one["state"]["epoch"] > 0 for one in saved)
    assert not any(ledger.lock_file(spec.id).exists() for spec in specs)


DAMAGES = [lambda b: b[:-100], lambda b: b[:20], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""]


@pytest.mark.parametrize("damage", DAMAGES, ids=["cut short", "nearly empty", "one bit", "empty"])
def test_a_damaged_checkpoint_is_not_believed(tmp_path, damage):
    spec, ledger = QUICK.spec(DATA, 3), Ledger(tmp_path / "a")
    asked = iter([False] * 5 + [True])
    with pytest.raises(InterruptedRunError):
        execute(spec, ledger, ALONE, stop_requested=lambda: next(asked))
    file = ledger.checkpoint_file(spec.id)
    file.write_bytes(damage(file.read_bytes()))
    run = execute(spec, ledger, ALONE)
    execute(spec, Ledger(tmp_path / "b"), ALONE)
    assert outcome(ledger, spec.id) == outcome(Ledger(tmp_path / "b"), spec.id)
    assert "resumed" not in run.provenance


def test_a_checkpoint_of_a_version_with_another_state_is_left_and_the_run_starts_anew(tmp_path):
    spec, ledger = QUICK.spec(DATA, 3), Ledger(tmp_path / "a")
    asked = iter([False] * 5 + [True])
    with pytest.raises(InterruptedRunError):
        execute(spec, ledger, ALONE, stop_requested=lambda: next(asked))
    saved = checkpoints.load(ledger.checkpoint_file(spec.id))
    checkpoints.save(ledger.checkpoint_file(spec.id), {**saved, "state": {**saved["state"], "phase": 2}})
    assert "resumed" not in execute(spec, ledger, ALONE).provenance
    execute(spec, Ledger(tmp_path / "b"), ALONE)
    assert outcome(ledger, spec.id) == outcome(Ledger(tmp_path / "b"), spec.id)


def test_a_run_that_goes_on_under_other_conditions_says_so(tmp_path):
    spec, ledger = QUICK.spec(DATA, 4), Ledger(tmp_path)
    asked = iter([False] * 5 + [True])
    with pytest.raises(InterruptedRunError):
        execute(spec, ledger, ALONE, stop_requested=lambda: next(asked))
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
    assert kinds[-1].kind == "disk_full"
    assert "no room left" in kinds[-1].message
    assert "goes on" in kinds[-1].message
    assert spec.id not in ledger
    execute(spec, ledger, ALONE)
    assert ledger.verify(spec.id) == []


def test_an_executor_begins_nothing_more_once_the_disk_is_full(tmp_path, monkeypatch):
    def no_room(assignment, ledger, execution, listen, stop_requested):
        listen(Event("disk_full", assignment.run_ids[0], message="there is no room left"))

    monkeypatch.setattr(local, "compute", no_room)
    events = []
    result = LocalExecutor().run([QUICK.spec(DATA, seed) for seed in range(3)], Ledger(tmp_path), events.append)
    assert [event.kind for event in events] == ["disk_full"]
    assert "no room" in result.disk_full


def test_two_executors_on_one_ledger_share_the_work_and_compute_nothing_twice(tmp_path):
    specs = [replace(QUICK, epochs=4).spec(DATA, seed) for seed in range(8)]
    specs.append(measure_spec(Ensemble(), (specs[0].id, specs[-1].id)))
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
            lock = json.loads(ledger.lock_file(event.run).read_text())
            os.kill(lock["pid"], signal.SIGKILL)
            killed.append(event.run)

    often = Execution(threads=1, checkpoint_seconds=0.0)
    result = LocalExecutor(2, often).run(specs, ledger, kill_once)
    assert killed
    assert not result.failed
    assert all(spec.id in ledger for spec in specs)
    assert ledger.read(killed[0]).provenance["resumed"] == 1


def test_a_worker_whose_parent_is_gone_leaves(tmp_path):
    parents, line = lives.CONTEXT.Pipe()
    orphan = lives.born(local._serve, line, str(tmp_path), ALONE, {})
    line.close()
    parents.close()
    orphan.join(30)
    assert orphan.exitcode == 0


def test_a_failed_run_leaves_its_traceback_in_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("dissensus.engine.one_run.TrainingSetup.of", lambda spec, ledger: 1 / 0)
    ledger, spec, events = Ledger(tmp_path), QUICK.spec(DATA, 0), []
    compute(lives.alone(spec), ledger, ALONE, events.append)
    assert events[-1].kind == "failed"
    assert "ZeroDivisionError" in ledger.error_file(spec.id).read_text()


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
        if event.kind == "epoch" and spec.id not in ledger:  # it slept here: its lock was taken over, its run published
            ledger.adopt(spec.id, finished)

    compute(lives.alone(spec), ledger, Execution(threads=1, checkpoint_seconds=0.0), tell)
    assert events == ["started", *["epoch"] * 4, "done"]
    assert ledger.files(spec.id) == finished
    assert not list((ledger.folder / ".work").iterdir())


def test_no_worker_is_started_where_nothing_is_left_to_compute(tmp_path, monkeypatch):
    spec, ledger = QUICK.spec(DATA, 0), Ledger(tmp_path)
    execute(spec, ledger, ALONE)
    monkeypatch.setattr(local._Pool, "_start_worker", lambda pool: pytest.fail("a worker was started"))
    assert not LocalExecutor(2).run([spec], ledger).failed
