"""The contract of executors. A new one is tested by being listed in EXECUTORS."""

import importlib.util
import os
import signal
from dataclasses import is_dataclass, replace

import pytest

from dissensus import datasets
from dissensus.engine.local import LocalExecutor
from dissensus.engine.measures import Ensemble, Evaluation, measure_spec
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.ray import RayExecutor
from dissensus.engine.torchrun import TorchrunExecutor
from dissensus.labels.targets import Teacher
from dissensus.models import Linear
from dissensus.store import locks
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Recipe

DATA = datasets.load("digits")
QUICK = Recipe(model=Linear(), optimiser=AdamW(lr=0.01), epochs=2, batch=256)
ONE_THREAD = Execution(threads=1, device="cpu")
EXECUTORS = {
    "in_this_process": LocalExecutor(1, ONE_THREAD),
    "two_workers": LocalExecutor(2, ONE_THREAD),
    "ray": RayExecutor("local", execution=ONE_THREAD),
    "torchrun": TorchrunExecutor(execution=ONE_THREAD),
}


@pytest.fixture(scope="module")
def ray_of_this_machine():
    """One node with one CPU, in this session."""
    if not importlib.util.find_spec("ray"):
        pytest.skip("Ray is not installed: pip install 'dissensus[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # else a token in the home folder, left by another Ray, is asked for
        patch.setattr("dissensus.engine.ray.MESSAGE_SECONDS", 0.1)
        import ray

        ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=80_000_000)
        yield
        ray.shutdown()


@pytest.fixture(params=EXECUTORS)
def executor(request):
    if request.param == "ray":
        request.getfixturevalue("ray_of_this_machine")
    return EXECUTORS[request.param]


@pytest.fixture(params=[name for name in EXECUTORS if name != "torchrun"])
def lenient(request):
    """Those that promise more than torchrun can."""
    if request.param == "ray":
        request.getfixturevalue("ray_of_this_machine")
    return EXECUTORS[request.param]


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")


def kinds(events, spec):
    return [event.kind for event in events if event.run == spec.id]


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
def test_an_executor_is_a_value(executor):
    assert is_dataclass(executor)
    assert replace(executor) == executor
    assert hash(replace(executor)) == hash(executor)


def test_a_plan_in_any_order_is_computed_and_each_run_is_reported(executor, ledger, tmp_path):
    members = [QUICK.spec(DATA, seed) for seed in range(3)]
    ensemble = measure_spec(Ensemble(), tuple(spec.id for spec in members))
    specs, events = [ensemble, *members], []
    result = executor.run(specs, ledger, events.append)
    assert (dict(result.failed), result.blocked, result.disk_full) == ({}, (), "")
    assert ledger.ids() == sorted(spec.id for spec in specs)
    alone = Ledger(tmp_path / "alone")
    for spec in (*members, ensemble):
        assert kinds(events, spec)[0] == "started"
        assert kinds(events, spec)[-1] == "done"
        assert ledger.verify(spec.id) == []
        assert ledger.read(spec.id).scores == execute(spec, alone, ONE_THREAD).scores
    assert list((ledger.folder / ".work").iterdir()) == []


def test_what_is_done_is_not_computed_again(executor, ledger):
    spec, events = QUICK.spec(DATA, 0), []
    execute(spec, ledger, ONE_THREAD)
    before = ledger.files(spec.id)
    assert not executor.run([spec], ledger, events.append).failed
    assert kinds(events, spec) == ["already_done"]
    assert ledger.files(spec.id) == before


def test_a_run_that_needs_one_outside_the_plan_is_blocked(executor, ledger):
    good, student, events = QUICK.spec(DATA, 0), replace(QUICK, target=Teacher(("f" * 16,))).spec(DATA, 0), []
    result = executor.run([student, good], ledger, events.append)
    assert result.blocked == (student.id,)
    assert ledger.ids() == [good.id]
    assert "which is not in the plan" in events[-1].message


def test_a_failing_run_blocks_those_that_need_it_and_no_other(lenient, ledger):
    good = QUICK.spec(DATA, 0)
    broken = Spec("select", {"name": "unheard of"}, {"of": (good.id,)})
    waiting = measure_spec(Evaluation(), (broken.id,))
    other = measure_spec(Evaluation(), (good.id,))
    events = []
    result = lenient.run([waiting, broken, other, good], ledger, events.append)
    assert set(result.failed) == {broken.id}
    assert result.blocked == (waiting.id,)
    assert set(ledger.ids()) == {good.id, other.id}
    assert "unheard of" in result.failed[broken.id]
    assert ledger.error_file(broken.id).read_text() == result.failed[broken.id]
    assert kinds(events, broken)[-1] == "failed"
    assert kinds(events, waiting) == ["blocked"]


def test_ctrl_c_saves_what_is_under_way_and_the_same_call_goes_on(lenient, ledger, tmp_path):
    spec = replace(QUICK, epochs=300).spec(DATA, 0)

    def press(event):
        if event.kind == "epoch":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        lenient.run([spec], ledger, press)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert ledger.checkpoint_file(spec.id).is_file()
    assert not ledger.lock_file(spec.id).exists()
    assert not lenient.run([spec], ledger).failed
    run = ledger.read(spec.id)
    assert run.provenance["resumed"] == 1
    assert run.scores == execute(spec, Ledger(tmp_path / "unbroken"), ONE_THREAD).scores


def test_a_run_that_another_executor_has_locked_is_left_to_it_until_it_gives_up(lenient, ledger):
    spec, events = QUICK.spec(DATA, 0), []
    lock = locks.take(ledger.lock_file(spec.id))

    def give_up(event):
        events.append(event)
        if event.kind == "computed_elsewhere":
            lock.release()

    assert not lenient.run([spec], ledger, give_up).failed
    assert [kind for kind in kinds(events, spec) if kind != "epoch"] == ["computed_elsewhere", "started", "done"]
