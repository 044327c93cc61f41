"""A real cluster of two nodes, on this machine, each with one CPU."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

import lives
from dissensus import datasets
from dissensus.cli.progress import read_status
from dissensus.engine import ray as on_ray
from dissensus.engine import worker_processes
from dissensus.engine.local import LocalExecutor
from dissensus.engine.measures import Ensemble, Evaluation, measure_spec
from dissensus.engine.one_run import Execution
from dissensus.engine.ray import RayExecutor
from dissensus.errors import InputError
from dissensus.labels.targets import Teacher
from dissensus.models import Linear
from dissensus.store import locks
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Recipe
from test_assignments import heads

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dissensus[ray]'")

DATA = datasets.load("digits")
QUICK = Recipe(model=Linear(), optimiser=AdamW(lr=0.01), epochs=2, batch=256)
SLOW = replace(QUICK, epochs=600).spec(DATA, 0)  # some seconds
OFTEN = Execution(checkpoint_seconds=0.1)
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",  # else a token in the home folder, left by another Ray, would be asked for
    "RAY_num_workers_soft_limit": "4",  # workers stay warm
}
WAYS = pytest.mark.parametrize("shared", [True, False], ids=["in_a_shared_folder", "without_a_shared_folder"])


@contextmanager
def node(folder, *options, ready):
    """A node of a cluster, as `ray start` makes it; gives the line of its output that matches `ready`."""
    settings = ("--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", "--include-log-monitor=false")
    process = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *settings, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "DISSENSUS_DATA": f"{folder}/data", **SETTINGS},
        start_new_session=True,
    )
    try:
        output = []
        for line in process.stdout:
            output.append(line)
            if found := re.search(ready, line):
                yield found
                break
        else:
            pytest.fail("a node did not start:\n" + "".join(output))
    finally:
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture(scope="module")
def folder():
    """Where the nodes work. Ray's sockets lie in it, and their names may not be long."""
    made = tempfile.mkdtemp(prefix="r")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(folder):
    """The address of two nodes, to which this process is connected."""
    worker_processes.prepare()  # the driver that will be killed comes from there
    with ExitStack() as at_the_end:
        head = ("--head", "--port=0", "--include-dashboard=false", f"--temp-dir={folder}/head")
        address = at_the_end.enter_context(node(folder, *head, ready="--address='(.+?)'"))[1]
        second = (f"--address={address}", '--resources={"second": 1}')
        at_the_end.enter_context(node(folder, *second, ready="block forever"))
        ray.init(address=address, log_to_driver=False)
        at_the_end.callback(ray.shutdown)
        ray.get(ray.remote(num_cpus=0, resources={"second": 1})(lambda: None).remote())  # waits until it has joined
        yield address


@pytest.fixture(autouse=True)
def tasks_report_often(monkeypatch):
    monkeypatch.setattr(on_ray, "MESSAGE_SECONDS", 0.1)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What one process on this machine computes."""
    ledger = Ledger(tmp_path_factory.mktemp("reference"))

    def scores(specs):
        assert not LocalExecutor(1, Execution(threads=1)).run(specs, ledger).failed
        return {spec.id: ledger.read(spec.id).scores for spec in specs}

    return scores


def scores_in(ledger, specs):
    return {spec.id: ledger.read(spec.id).scores for spec in specs}


@WAYS
def test_two_nodes_give_the_scores_of_one_process(cluster, reference, tmp_path, shared):
    members = [QUICK.spec(DATA, seed) for seed in range(6)]
    ids = tuple(spec.id for spec in members)
    specs = [*members, measure_spec(Ensemble(), ids[:2]), replace(QUICK, target=Teacher(ids[:2])).spec(DATA, 7)]
    events, ledger = [], Ledger(tmp_path / "ledger")
    executor = RayExecutor(cluster, shared_folder=None if shared else False)
    assert not executor.run(specs, ledger, events.append).failed
    assert scores_in(ledger, specs) == reference(specs)
    assert not [problem for spec in specs for problem in ledger.verify(spec.id)]
    nodes = {event.message for event in events if event.kind == "started"}
    assert len(nodes) == 2
    for spec in specs:
        kinds = [event.kind for event in events if event.run == spec.id]
        assert kinds[0] == "started"
        assert kinds[-1] == "done"
    assert not list(ledger.folder.glob(".ray-*"))
    assert not list(ledger.folder.glob(".work/*"))


def test_a_run_whose_worker_is_killed_ends_with_the_same_scores(cluster, reference, tmp_path):
    ledger = Ledger(tmp_path)
    over = threading.Event()

    def kill_once_saved():
        while not ledger.checkpoint_file(SLOW.id).is_file() and not over.wait(0.01):
            pass
        os.kill(json.loads(ledger.lock_file(SLOW.id).read_text())["pid"], signal.SIGKILL)

    with ThreadPoolExecutor() as pool:
        killing = pool.submit(kill_once_saved)
        result = RayExecutor(cluster, execution=OFTEN).run([SLOW], ledger)
        over.set()
        killing.result()
    assert not result.failed
    assert ledger.read(SLOW.id).provenance["resumed"] == 1
    assert scores_in(ledger, [SLOW]) == reference([SLOW])


@WAYS
def test_a_failing_run_is_reported_and_stops_only_those_that_need_it(cluster, tmp_path, shared):
    good = [QUICK.spec(DATA, seed) for seed in (0, 1)]
    broken = Spec("select", {"name": "unheard of"}, {"of": (good[0].id,)})
    waiting = measure_spec(Evaluation(), (broken.id,))
    ledger = Ledger(tmp_path)
    result = RayExecutor(cluster, shared_folder=shared).run([*good, broken, waiting], ledger)
    assert ledger.ids() == sorted(spec.id for spec in good)
    assert set(result.failed) == {broken.id}
    assert result.blocked == (waiting.id,)
    assert "'unheard of' is not one of" in ledger.error_file(broken.id).read_text()


@WAYS
def test_a_driver_that_stops_and_comes_back_goes_on_where_it_stopped(cluster, reference, tmp_path, shared):
    ledger = Ledger(tmp_path)
    specs, seen = [SLOW, *(QUICK.spec(DATA, seed) for seed in range(3))], []

    def stop(event):
        if event.kind == "epoch" and event.run == SLOW.id:
            seen.append(read_status({SLOW.id: "slow"}, ledger).under_way["slow"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RayExecutor(cluster, shared_folder=shared).run(specs, ledger, stop)
    assert seen[0].epoch > 0  # for `watch`, from another terminal
    assert SLOW.id not in ledger
    assert not locks.is_held(ledger.lock_file(SLOW.id))
    assert not RayExecutor(cluster, shared_folder=shared).run(specs, ledger).failed
    assert ledger.read(SLOW.id).provenance["resumed"] == 1
    assert scores_in(ledger, specs) == reference(specs)


def test_a_driver_that_is_killed_loses_at_most_what_came_after_the_last_checkpoint(cluster, reference, tmp_path):
    ledger, told = Ledger(tmp_path), lives.CONTEXT.Queue()
    driver = lives.born(lives.driving, SLOW.to_json(), str(tmp_path), cluster, told)
    while told.get(timeout=120) != "epoch":
        pass
    driver.kill()
    driver.join()
    assert SLOW.id not in ledger
    assert not RayExecutor(cluster, execution=OFTEN).run([SLOW], ledger).failed
    assert scores_in(ledger, [SLOW]) == reference([SLOW])


@WAYS
def test_a_stack_is_one_task(cluster, folder, tmp_path, monkeypatch, shared):
    specs = heads(Path(folder) / "data", monkeypatch)
    ledger, events = Ledger(tmp_path / "ledger"), []
    assert not RayExecutor(cluster, shared_folder=shared).run(specs, ledger, events.append).failed
    assert {run.provenance["stacked"] for run in ledger} == {len(specs)}
    assert len({event.message for event in events if event.kind == "started"}) == 1
    assert [event.kind for event in events].count("done") == len(specs) == len(ledger.ids())


def test_ray_is_given_no_more_tasks_than_allowed(cluster, tmp_path):
    specs, events = [QUICK.spec(DATA, seed) for seed in range(3)], []
    RayExecutor(cluster, most_under_way=1).run(specs, Ledger(tmp_path), events.append)
    order = [event.run for event in events]
    assert order == sorted(order, key=[spec.id for spec in specs].index)


def test_a_folder_that_a_node_cannot_see_is_not_used_there(cluster, reference, tmp_path, monkeypatch):
    specs, ledger = [QUICK.spec(DATA, 0)], Ledger(tmp_path)
    monkeypatch.setattr(on_ray, "_token", lambda ledger: nullcontext("/on/another/machine/.ray-token"))
    RayExecutor(cluster).run(specs, ledger)
    assert scores_in(ledger, specs) == reference(specs)
    with pytest.raises(InputError, match="cannot see this folder"):
        RayExecutor(cluster, shared_folder=True).run(specs, ledger)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"gpus": 1}, "no node of the cluster has 1 CPUs and 1 GPUs"),
        ({"cpus": 0}, "some of a CPU"),
        ({"cpus": 2}, "2 CPUs"),
    ],
)
def test_more_than_any_node_has_is_refused_at_once(cluster, tmp_path, shares, message):
    with pytest.raises(InputError, match=message):
        RayExecutor(cluster, **shares).run([SLOW], Ledger(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_head_that_is_killed_is_said_within_seconds_and_finished_runs_are_kept(tmp_path):
    """In a process of its own: Ray would end this one."""
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as place, ExitStack() as at_the_end:
        head = ("--head", "--port=0", "--include-dashboard=false", f"--temp-dir={place}/head")
        address = at_the_end.enter_context(node(place, *head, ready="--address='(.+?)'"))[1]
        options = ("--scale", "smoke", "--out", str(tmp_path / "o"), "--engine", "ray", "--address", address)
        driver = subprocess.Popen(
            [sys.executable, "-m", "dissensus", "run", "demo", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **SETTINGS},
        )
        ledger = Ledger(tmp_path / "o" / "runs")
        while not ledger.ids() and driver.poll() is None:
            threading.Event().wait(0.05)
        try:
            for process in _processes_of_head(place):
                os.kill(process, signal.SIGKILL)
            killed = time.monotonic()
            output = driver.communicate(timeout=60)[0]
        finally:
            driver.kill()
            driver.wait()
        assert time.monotonic() - killed < 30
    assert "the head of the Ray cluster no longer answers" in output
    assert "Traceback" not in output
    assert driver.returncode == 2
    assert ledger.ids()
    assert not [problem for run_id in ledger.ids() for problem in ledger.verify(run_id)]


def _processes_of_head(place):
    """All processes of the session of `ray start` with this folder; it itself comes first."""
    sessions = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            sessions[int(process.name)] = os.getsid(int(process.name)), (process / "cmdline").read_bytes()
    (head,) = (
        pid for pid, (session, command) in sessions.items() if pid == session and f"{place}/head".encode() in command
    )
    return sorted((pid for pid, (session, _) in sessions.items() if session == head), key=lambda pid: pid != head)


def test_a_cluster_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InputError, match=r"Ray at 127\.0\.0\.1:1: no Ray cluster can be reached"):
        RayExecutor("127.0.0.1:1").run([SLOW], Ledger(tmp_path))


def test_without_the_package_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'dissensus\[ray\]'"):
        RayExecutor().run([SLOW], Ledger(tmp_path))
