"""The same command as a job array: what is submitted, what is refused, and what a real Slurm makes of it."""

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissensus import datasets
from dissensus.cli import cli
from dissensus.engine import slurm, slurm_task
from dissensus.engine.local import LocalExecutor
from dissensus.engine.measures import Ensemble, measure_spec
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.slurm import SlurmArray, SlurmExecutor
from dissensus.errors import InputError
from dissensus.models import Linear
from dissensus.store import locks
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Recipe
from slurm_cluster import asked, slurm_here, start_now, until, why_not

DATA = datasets.load("digits")
QUICK = Recipe(model=Linear(), optimiser=AdamW(lr=0.01), epochs=2, batch=256)
ONE_THREAD = Execution(threads=1, device="cpu")
PLUGIN = '''
import os
import signal
import time
from dataclasses import dataclass, replace

from dissensus.experiments.description import Experiment
from dissensus.experiments.plan import score_table
from dissensus.labels.delivery import DELIVERIES, Soft
from dissensus.labels.targets import Majority
from dissensus.models import Linear
from dissensus.recipes import RECIPES
from dissensus.store.encoding import table
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Recipe


@dataclass(frozen=True)
class Held:
    """Stays in the third epoch until the gate is open or the process is asked to stop."""

    def labels(self, target, seed):
        labels, before, asked = Soft().labels(target, seed), signal.getsignal(signal.SIGINT), []

        def note(*arguments):
            asked.append(True)
            before(*arguments)

        def at(epoch):
            while epoch > 2 and not asked and not os.path.exists(os.environ["GATE"]):
                time.sleep(0.05)
            return labels(epoch)

        signal.signal(signal.SIGINT, note)
        return at


DELIVERIES.update(table(Held))


def held(scale, seeds=None):
    soft = Recipe(model=Linear(), optimiser=AdamW(lr=0.01), delivery=Held(), epochs=6, batch=256)
    rows = {"Soft": soft, "Majority": replace(soft, target=Majority())}
    scores = score_table(rows, (0,), key="scores", title="Scores", baseline="Soft")
    return Experiment(key="held", title="Held", question="?", scale=scale, exhibits=(scores,))


RECIPES["held"] = held
'''


def dissensus(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "dissensus", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def shim(folder, name, text):
    """A program of this name, in a folder for PATH."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(folder)


ASKED = ("slurm", "demo", "--scale", "smoke", "--out", "o", "--array", "50", "--time", "02:00:00")


def test_a_dry_run_prints_the_script_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(cli, [*ASKED, "--ledger", "l", "--throttle", "10", "--gres", "gpu:1", "--dry-run"])
    assert ended.exit_code == 0, ended.output
    lines = ended.output.splitlines()
    assert {"#SBATCH --array=0-49%10", "#SBATCH --time=02:00:00", "#SBATCH --gres=gpu:1", "#SBATCH --requeue"} <= {*lines}
    assert f"#SBATCH --output={tmp_path}/l/.slurm/%A_%a.log" in lines
    assert f"{sys.executable} -m dissensus run demo --scale smoke --out o --ledger l --workers 1 &" in lines
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (ASKED, "no shared ledger is given"),
        (
            ("slurm", "inspect", "v.csv", "--array", "2", "--time", "9"),
            "`dissensus inspect` computes no runs on a ledger",
        ),
        (("slurm", "no/such", "--ledger", "l", "--out", "o", "--array", "2", "--time", "9"), "no recipe 'no/such'"),
        ((*ASKED, "--ledger", "l", "--workrs", "3"), "No such option '--workrs'"),
        ((*ASKED[:-1], "soon", "--ledger", "l"), "'soon' is no time"),
        ((*ASKED, "--ledger", "l", "--partition", "a b"), "'a b' is no value"),
        ((*ASKED, "--ledger", "l"), "the program sbatch is not found"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_is_submitted(arguments, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = CliRunner().invoke(cli, arguments)
    assert isinstance(ended.exception, InputError) or ended.exit_code == 2
    assert problem in f"{ended.exception} {ended.output}"
    assert list(tmp_path.iterdir()) == []


def test_the_words_of_a_slurm_that_refuses_are_shown(tmp_path, monkeypatch):
    path = shim(tmp_path / "bin", "sbatch", 'echo "sbatch: error: invalid partition specified: nine" >&2; exit 1')
    monkeypatch.setenv("PATH", path, prepend=os.pathsep)
    with pytest.raises(InputError, match="Slurm refused the job: sbatch: error: invalid partition specified: nine"):
        slurm.submit("#!/bin/bash\n", Ledger(tmp_path / "ledger"))


def test_the_script_is_one_that_bash_can_read_whatever_the_paths(tmp_path):
    script = SlurmArray(3, "10").script(
        ["python", "it's", "a b"], name="x y", logs=tmp_path / "50% done", folder=tmp_path / "c d"
    )
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert f'--output="{tmp_path}/50%% done/%A_%a.log"' in script
    with pytest.raises(InputError, match="cannot be written into a job script"):
        SlurmArray().script(["python"], name='"', logs=tmp_path, folder=tmp_path)


def test_the_executor_is_a_value():
    executor = SlurmExecutor(SlurmArray(8, "30", more=("--exclusive",)), execution=ONE_THREAD)
    assert replace(executor) == executor
    assert hash(replace(executor)) == hash(executor)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b'{"ledger": "l", "workers": 0}'])
def test_a_damaged_plan_is_refused_without_a_traceback(content, tmp_path, capsys):
    (tmp_path / "plan.json").write_bytes(content)
    assert slurm_task.main(str(tmp_path / "plan.json")) == 2
    assert "Submit the job again" in capsys.readouterr().err


def test_progress_that_is_damaged_does_not_end_the_driver(tmp_path, monkeypatch):
    """The lock says that a task computes the run; what the task wrote about it is broken."""
    spec, ledger = QUICK.spec(DATA, 0), Ledger(tmp_path)
    monkeypatch.setattr(slurm, "submit", lambda script, ledger: ("1", tmp_path / "job.sh"))
    monkeypatch.setattr(slurm._SlurmDriver, "_is_over", lambda self, job, now=False: False)
    monkeypatch.setattr(slurm._SlurmDriver, "close", lambda self: None)
    monkeypatch.setattr(slurm, "POLL", 0.01)
    looks, kinds = iter((b"{", b"[]", b'{"epoch": 1, "epochs": 2, "loss": 0.5}')), []
    held = []

    def sleep(seconds):
        if not held:
            held.append(locks.take(ledger.lock_file(spec.id)))
        if (content := next(looks, None)) is not None:
            ledger.progress_file(spec.id).write_bytes(content)
        elif "epoch" in kinds:
            held[0].release()
            ledger.error_file(spec.id).parent.mkdir(parents=True, exist_ok=True)
            ledger.error_file(spec.id).write_bytes(b"\xff it broke")

    monkeypatch.setattr(slurm.time, "sleep", sleep)
    result = SlurmExecutor(SlurmArray()).run([spec], ledger, lambda event: kinds.append(event.kind))
    assert "it broke" in result.failed[spec.id]
    assert kinds.count("epoch") == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_an_executor_that_may_leave_does_not_wait_for_what_others_compute(workers, tmp_path):
    ledger = Ledger(tmp_path)
    theirs, ours = QUICK.spec(DATA, 0), QUICK.spec(DATA, 1)
    both = measure_spec(Ensemble(), (theirs.id, ours.id))
    lock = locks.take(ledger.lock_file(theirs.id))
    result = LocalExecutor(workers, ONE_THREAD, leave=True).run([theirs, ours, both], ledger)
    assert result.elsewhere == (theirs.id, both.id)
    assert (dict(result.failed), result.blocked, ledger.ids()) == ({}, (), [ours.id])
    lock.release()
    assert LocalExecutor(workers, ONE_THREAD, leave=True).run([theirs, ours, both], ledger).elsewhere == ()
    assert both.id in ledger


def test_a_polite_end_saves_what_is_under_way_as_ctrl_c_does(tmp_path):
    spec, ledger = replace(QUICK, epochs=300).spec(DATA, 0), Ledger(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        LocalExecutor(1, ONE_THREAD).run(
            [spec], ledger, lambda event: event.kind == "epoch" and os.kill(os.getpid(), signal.SIGTERM)
        )
    assert ledger.checkpoint_file(spec.id).is_file()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if reason := why_not():
        pytest.skip(reason)
    with slurm_here(tmp_path_factory.mktemp("slurm")) as configuration, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(configuration))
        patch.setattr(slurm, "POLL", 0.1)
        patch.setattr(slurm, "ASK", 0.5)
        yield


@pytest.mark.usefixtures("cluster")
def test_on_a_slurm_a_plan_is_computed_with_the_same_bits_and_a_failing_run_blocks_those_that_need_it(tmp_path):
    members = [QUICK.spec(DATA, seed) for seed in range(2)]
    ensemble = measure_spec(Ensemble(), tuple(spec.id for spec in members))
    broken = Spec("select", {"name": "unheard of"}, {"of": (members[0].id,)})
    waiting = measure_spec(Ensemble(), (members[0].id, broken.id))
    ledger, alone, events = Ledger(tmp_path / "shared"), Ledger(tmp_path / "alone"), []
    result = SlurmExecutor(SlurmArray(1, "5"), execution=ONE_THREAD).run(
        [waiting, ensemble, broken, *members], ledger, events.append
    )
    assert set(result.failed) == {broken.id}
    assert "unheard of" in result.failed[broken.id]
    assert result.blocked == (waiting.id,)
    for spec in (*members, ensemble):
        kinds = [event.kind for event in events if event.run == spec.id]
        assert (kinds[0], kinds[-1]) == ("started", "done")
        assert ledger.read(spec.id).scores == execute(spec, alone, ONE_THREAD).scores


REALLY = pytest.mark.skipif("SLURM_LIMIT" not in os.environ, reason="takes minutes: `make bench WHAT=slurm_limit`")


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("minutes", ["60", pytest.param("4", marks=REALLY)])
def test_on_a_slurm_tasks_that_are_killed_and_that_are_warned_of_their_limit_leave_the_same_bits(
    minutes, tmp_path, monkeypatch
):
    """With 4 minutes, Slurm itself warns 2 to 3 minutes before the limit; with 60 the test sends the same signal."""
    (tmp_path / "held_study.py").write_text(PLUGIN)
    gate, ledger = tmp_path / "gate", Ledger(tmp_path / "runs")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("DISSENSUS_PLUGINS", "held_study")
    monkeypatch.setenv("GATE", str(gate))
    study = ("held", "--scale", "smoke", "--threads", "1", "--device", "cpu", "--workers", "1")
    submitted = dissensus(
        "slurm", *study, "--ledger", "runs", "--out", "out", "--array", "2", "--time", minutes, cwd=tmp_path
    )
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.removeprefix("Job ").partition(":")[0]

    def logs():
        return "".join(file.read_text() for file in (ledger.folder / ".slurm").glob("*.log"))

    until(lambda: len(owners(ledger)) == 2, logs)
    killed, warned = owners(ledger).values()
    os.kill(killed, signal.SIGKILL)
    if minutes == "60":  # as Slurm does before the limit, which it looks at twice per minute only
        asked("scancel", "--batch", "--signal=USR1", f"{job}_{task_of(warned)}")
    until(lambda: "Killed" in logs() and "Interrupted. Finished runs and checkpoints" in logs(), logs)
    assert any(map(Path.is_file, map(ledger.checkpoint_file, ledger.begun())))
    until(lambda: start_now(job) or len(set(owners(ledger).values()) - {killed, warned}) == 2, logs)
    gate.touch()
    until(lambda: asked("squeue", "-h", f"--jobs={job}") == "", logs)
    assert (tmp_path / "out" / "results.csv").is_file(), logs()
    assert any(run.provenance.get("resumed") for run in ledger), logs()
    alone = dissensus("run", *study, "--out", "alone", cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    whole = Ledger(tmp_path / "alone" / "runs")
    assert whole.ids() == ledger.ids()
    for run in ledger:
        assert ledger.verify(run.id) == []
        assert (run.scores, run.curve) == (whole.read(run.id).scores, whole.read(run.id).curve)
        weights = whole.weights(run.id, "last")
        assert all(value.equal(weights[name]) for name, value in ledger.weights(run.id, "last").items())
    for name in ("results.csv", "seeds.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def owners(ledger):
    """The process that computes each run that has begun to learn."""
    found = {}
    for run_id in ledger.begun():
        with suppress(OSError):  # its process ends just now
            if ledger.progress_file(run_id).is_file():
                found[run_id] = json.loads(ledger.lock_file(run_id).read_text())["pid"]
    return found


def task_of(pid):
    """The number of the task of an array that a process belongs to."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return next(line.partition("=")[2] for line in environment if line.startswith("SLURM_ARRAY_TASK_ID="))
