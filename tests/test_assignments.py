"""Runs that are trained in one stack are runs like others: published, locked, interrupted and failing each for itself."""

from dataclasses import replace

import numpy as np
import pytest

import lives
from dissensus import datasets
from dissensus.datasets import feature_files as features
from dissensus.engine import worker
from dissensus.engine.assignments import LARGEST_STACK, Assignment, stack_key_on, stacks
from dissensus.engine.events import Event, ignore
from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution
from dissensus.engine.scheduler import ATTEMPTS, Scheduler
from dissensus.engine.stacked_runs import stack_key
from dissensus.engine.worker import compute
from dissensus.labels.delivery import Sampled, Soft
from dissensus.labels.targets import Teacher
from dissensus.models import Mlp
from dissensus.store import locks
from dissensus.store.atomic_files import DiskFullError
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec
from dissensus.training.optimisers import Adam
from dissensus.training.recipe import Recipe
from dissensus.training.schedules import Constant
from dissensus.training.splits import Holdout
from test_interruptions import outcome

HEAD = Recipe(
    data="digits",
    options=(("features", "toy"),),
    model=Mlp(hidden=(16,)),
    optimiser=Adam(),
    schedule=Constant(),
    validation=Holdout(0.2),
    epochs=4,
    batch=64,
)
ONE_THREAD = Execution(threads=1)


def heads(root, patch):
    """Twelve heads on the same features, some of which are the beginning of others."""
    patch.setenv("DISSENSUS_DATA", str(root))
    digits = datasets.load("digits")
    x = digits.x.flatten(1).float().numpy()[:, ::4]
    features.store(features.Features(digits.ids, x, {"encoder": "toy"}), "digits", "toy", root)
    data = datasets.load("digits", features="toy")
    return [
        replace(HEAD, epochs=epochs, delivery=delivery).spec(data, seed)
        for epochs in (4, 2)
        for delivery in (Soft(), Sampled())
        for seed in range(3)
    ]


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield heads(tmp_path_factory.mktemp("data"), patch)


def plan(n, keys=1, epochs=(1,)):
    return [Spec("train", {"key": k, "seed": s, "epochs": e}) for s in range(n) for k in range(keys) for e in epochs]


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 200])
def test_a_plan_is_cut_into_stacks_of_nearly_equal_size_and_everyone_is_in_one(n):
    specs = plan(n, keys=2)
    stack_of = stacks(specs, lambda spec: spec.settings["key"])
    assert all(spec in stack_of.get(spec.id, (spec,)) for spec in specs)
    parts = {part[0].id: part for part in stack_of.values()}.values()
    assert sum(map(len, parts)) == (2 * n if n > 1 else 0)
    assert all(len({spec.settings["key"] for spec in part}) == 1 for part in parts)
    sizes = [len(part) for part in parts]
    assert not sizes or (max(sizes) <= LARGEST_STACK and len(sizes) == 2 * -(-n // LARGEST_STACK))


def test_runs_that_differ_in_their_epochs_alone_are_in_one_stack():
    specs = plan(LARGEST_STACK // 2 + 5, epochs=(1, 2))
    stack_of = stacks(specs, lambda spec: "all")
    apart = sum(stack_of[one.id] != stack_of[two.id] for one, two in zip(specs[::2], specs[1::2], strict=True))
    assert apart <= 1  # where the cut goes


def test_specs_that_wait_are_stacked_only_with_those_that_wait_for_the_same():
    first, second, *others = plan(4)
    for_first = [Spec("train", {"seed": seed, "epochs": 1}, {"chosen": (first.id,)}) for seed in (8, 9)]
    for_second = Spec("train", {"seed": 9, "epochs": 1}, {"chosen": (second.id,)})
    free = (first, second, *others)
    stack_of = stacks([*free, *for_first, for_second], lambda spec: "all")
    assert {spec.id for spec in stack_of[first.id]} == {spec.id for spec in free}
    assert {spec.id for spec in stack_of[for_first[0].id]} == {spec.id for spec in for_first}
    assert for_second.id not in stack_of


def test_nothing_is_stacked_where_another_device_is_asked_for(specs):
    assert stack_key_on(None)(specs[0]) == stack_key_on("cpu")(specs[0]) == stack_key(specs[0]) is not None
    assert stack_key_on("cuda")(specs[0]) is None


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_computed_together_have_their_own_events_and_the_numbers_of_runs_alone(specs, tmp_path, workers):
    events, ledger, alone = [], Ledger(tmp_path / "together"), Ledger(tmp_path / "alone")
    result = LocalExecutor(workers, ONE_THREAD).run(specs, ledger, events.append)
    assert not result.failed
    for spec in specs:
        assert [event.kind for event in events if event.run == spec.id and event.kind != "epoch"] == ["started", "done"]
        assert ledger.read(spec.id).provenance["stacked"] == len(specs)
        assert ledger.verify(spec.id) == []
    assert not list((ledger.folder / ".work").iterdir())
    for spec in specs[::5]:
        compute(lives.alone(spec), alone, ONE_THREAD, ignore)
        one, other = (store.predictions(spec.id, "last")["logits"] for store in (ledger, alone))
        assert np.allclose(one, other, atol=1e-4)


def test_what_was_finished_before_does_not_move_a_bit_of_the_rest(specs, tmp_path):
    whole, broken = Ledger(tmp_path / "whole"), Ledger(tmp_path / "broken")
    LocalExecutor(1, ONE_THREAD).run(specs, whole)
    for spec in specs[::2]:
        broken.adopt(spec.id, whole.files(spec.id))
    begun = []
    LocalExecutor(1, ONE_THREAD).run(specs, broken, lambda e: begun.append(e.run) if e.kind == "started" else 0)
    assert sorted(begun) == sorted(spec.id for spec in specs[1::2])
    for spec in specs:
        assert outcome(broken, spec.id) == outcome(whole, spec.id)


def test_asked_to_stop_a_stack_gives_its_locks_back_and_goes_on_later(specs, tmp_path):
    ledger, events = Ledger(tmp_path), []
    asked = iter([False, False])
    compute(Assignment(tuple(specs), tuple(specs)), ledger, ONE_THREAD, events.append, lambda: next(asked, True))
    assert [event.kind for event in events if event.kind != "epoch"] == ["started"] * 12 + ["stopped"] * 12
    assert ledger.ids() == []
    assert not any(locks.is_held(ledger.lock_file(spec.id)) for spec in specs)
    assert not LocalExecutor(1, ONE_THREAD).run(specs, ledger).failed
    assert len(ledger.ids()) == 12


def test_of_a_stack_that_fails_only_the_bad_run_fails_and_what_was_finished_stays(specs, tmp_path, monkeypatch):
    bad, once = specs[4], worker.execute_stacked

    def breaks(stack, *arguments):
        for number, run in enumerate(once(stack, *arguments)):
            yield run
            if number == 2:
                raise ZeroDivisionError

    def alone(spec, *arguments):
        if spec == bad:
            raise ValueError("the bad one")
        return execute(spec, *arguments)

    execute = worker.execute
    monkeypatch.setattr(worker, "execute_stacked", breaks)
    monkeypatch.setattr(worker, "execute", alone)
    ledger, events = Ledger(tmp_path), []
    result = LocalExecutor(1, ONE_THREAD).run(specs, ledger, events.append)
    assert set(result.failed) == {bad.id}
    assert "the bad one" in ledger.error_file(bad.id).read_text()
    assert len(ledger.ids()) == 11
    assert [event.kind for event in events].count("done") == 11
    assert sum("stacked" in run.provenance for run in ledger) == 3


def test_a_disk_that_is_full_ends_the_whole_stack(specs, tmp_path, monkeypatch):
    def no_room(*arguments):
        raise DiskFullError("there is no room left")
        yield

    monkeypatch.setattr(worker, "execute_stacked", no_room)
    events = []
    result = LocalExecutor(1, ONE_THREAD).run(specs, Ledger(tmp_path), events.append)
    assert {event.kind for event in events} == {"started", "disk_full"}
    assert "no room" in result.disk_full


def test_runs_of_a_stack_that_others_have_locked_are_left_to_them(specs, tmp_path):
    ledger, events = Ledger(tmp_path), []
    held = [locks.take(ledger.lock_file(spec.id)) for spec in specs[:6]]
    compute(Assignment(tuple(specs), tuple(specs)), ledger, ONE_THREAD, events.append)
    assert {event.run for event in events if event.kind == "computed_elsewhere"} == {spec.id for spec in specs[:6]}
    assert {event.run for event in events if event.kind == "done"} == {spec.id for spec in specs[6:]}
    for lock in held:
        lock.release()


def test_a_stack_that_kills_its_workers_is_tried_again_and_then_each_alone(tmp_path):
    specs, events = plan(3), []
    scheduler = Scheduler(specs, Ledger(tmp_path), events.append, lambda spec: "all")
    for _ in range(ATTEMPTS - 1):
        assignment = scheduler.next()
        assert set(assignment.run_ids) == {spec.id for spec in assignment.stack} == {spec.id for spec in specs}
        assert scheduler.next() is None
        scheduler.worker_died(assignment.run_ids, "killed")
    last = [scheduler.next() for _ in specs]
    assert sorted(assignment.run_ids for assignment in last) == sorted((spec.id,) for spec in specs)
    assert all(assignment.stack == assignment.specs for assignment in last)
    scheduler.worker_died(last[0].run_ids, "with code -9")
    assert [event.run for event in events if event.kind == "failed"] == list(last[0].run_ids)
    assert "3 workers died on it; the last one: with code -9" in scheduler.result().failed[last[0].run_ids[0]]
    for assignment in last[1:]:
        scheduler.note(Event("done", assignment.run_ids[0]))
    assert not scheduler.unfinished


def test_students_of_one_teacher_are_stacked_once_it_is_finished(specs, tmp_path):
    teacher, data = specs[0], datasets.load("digits", features="toy")
    students = [replace(HEAD, target=Teacher((teacher.id,))).spec(data, seed) for seed in (1, 2)]
    ledger, alone = Ledger(tmp_path / "together"), Ledger(tmp_path / "alone")
    assert not LocalExecutor(1, ONE_THREAD).run([teacher, *students], ledger).failed
    assert [ledger.read(spec.id).provenance.get("stacked") for spec in (teacher, *students)] == [None, 2, 2]
    for spec in (teacher, students[0]):
        compute(lives.alone(spec), alone, ONE_THREAD, lambda event: None)
    stacked, plain = (store.predictions(students[0].id, "last")["logits"] for store in (ledger, alone))
    assert np.allclose(stacked, plain, atol=1e-4)
