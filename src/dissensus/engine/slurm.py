"""On a Slurm cluster: one job array of the same command on one shared ledger.

Every task of the array is an ordinary local executor. Locks decide who computes what, so tasks may start late, die and
come back. Before a task's time is up, Slurm warns it: its runs save themselves, and it is queued again. A task leaves as
soon as others compute all that is left; the last one ends the plan.

Nothing is pickled: a task gets a command, and the command reads specs as JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dissensus.engine.assignments import stack_key_on
from dissensus.engine.events import Event, Listener, StopRequested, ignore, read_failure, read_progress
from dissensus.engine.executor import PlanResult
from dissensus.engine.interrupts import GRACE, interruptions
from dissensus.engine.local import LEAVE
from dissensus.engine.one_run import Execution
from dissensus.engine.scheduler import Scheduler
from dissensus.errors import InputError
from dissensus.store import locks
from dissensus.store.atomic_files import write_whole
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

__all__ = ["SlurmArray", "SlurmExecutor", "log_folder", "submit"]

POLL = 1.0  # seconds between two looks at the ledger
ASK = 10.0  # seconds between two questions to Slurm: its controller serves a whole cluster
RESTARTS = 100  # of a task, at most: one that gets nowhere within its time must end
DEATHS = 3  # of a task whose command is killed (out of memory?)
_TIME = re.compile(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}")


@dataclass(frozen=True)
class SlurmArray:
    """What is asked of Slurm: `tasks` tasks, of which `throttle` run at once, each with these resources.

    `time` is Slurm's: minutes, MM:SS, HH:MM:SS or D-HH. `warn_seconds` before it is up, runs save themselves; Slurm may
    warn up to a minute earlier. `more` are further options of sbatch, such as "--constraint=a100".
    """

    tasks: int = 1
    time: str = "01:00:00"
    throttle: int | None = None
    partition: str | None = None
    gres: str | None = None
    cpus: int = 1
    mem: str | None = None
    account: str | None = None
    qos: str | None = None
    warn_seconds: int = 120
    more: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not _TIME.fullmatch(self.time):
            raise InputError(f"{self.time!r} is no time", where="--time", hint="Write 90 (minutes), 02:00:00 or 1-12")
        for name in ("partition", "gres", "mem", "account", "qos"):
            value = getattr(self, name)
            if value is not None and not re.fullmatch(r"[\w.,:;=+*()/@-]+", value):
                raise InputError(f"{value!r} is no value for it", where=f"--{name}", hint="See `man sbatch`")
        for option in self.more:
            if not option.startswith("-") or "\n" in option:
                raise InputError(f"{option!r} is no option of sbatch", where="--sbatch", hint="Write --NAME=VALUE")

    def script(self, command: Sequence[str], *, name: str, logs: Path, folder: Path) -> str:
        """The text of the job script: `command` in `folder`, its output in `logs`."""
        limit = "" if self.throttle is None else f"%{self.throttle}"
        asked = {
            "job-name": name,
            "array": f"0-{self.tasks - 1}{limit}",
            "time": self.time,
            "cpus-per-task": str(self.cpus),
            "partition": self.partition,
            "gres": self.gres,
            "mem": self.mem,
            "account": self.account,
            "qos": self.qos,
            "signal": f"B:USR1@{self.warn_seconds}",
            "chdir": str(folder),
            "output": f"{str(logs).replace('%', '%%')}/%A_%a.log",
            "open-mode": "append",
        }
        lines = [f"#SBATCH --{option}={_quoted(value)}" for option, value in asked.items() if value is not None]
        lines += ["#SBATCH --requeue", *(f"#SBATCH {option}" for option in self.more)]
        return _SCRIPT.format(
            directives="\n".join(lines), leave=LEAVE, command=shlex.join(command), restarts=RESTARTS, deaths=DEATHS
        )


# `set -m`: without it, a shell starts what runs in the background deaf to SIGINT. A signal ends `wait` early, so the
# traps wait for the command themselves.
_SCRIPT = """\
#!/bin/bash
{directives}

export {leave}=1
set -m

again() {{  # the time is nearly up: save, and go on in a new allocation
  kill -INT "$command" 2>/dev/null
  wait "$command"
  code=$?
  if [ "$code" -gt 128 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {restarts} ]; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
  fi
  exit "$code"
}}

leave() {{  # asked to stop: save, and end
  kill -INT "$command" 2>/dev/null
  wait "$command"
  exit $?
}}

trap again USR1
trap leave INT TERM
{command} &
command=$!
wait "$command"
code=$?
if [ "$code" -gt 128 ] && [ "$code" -ne 130 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {deaths} ]; then
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"  # it was killed: another node may have more memory
fi
exit "$code"
"""


def _quoted(value: str) -> str:
    """A value in a #SBATCH line."""
    if "\n" in value or '"' in value:
        raise InputError(f"{value!r} cannot be written into a job script", where="slurm", hint="Use another path")
    return value if re.fullmatch(r"[\w.,:;=+*()/@%-]+", value) else f'"{value}"'


def log_folder(ledger: Ledger) -> Path:
    """Where job scripts and the output of tasks are, beside the runs."""
    return ledger.folder.absolute() / ".slurm"


def submit(script: str, ledger: Ledger) -> tuple[str, Path]:
    """Hand a job script to Slurm; the id of the job, and the file in which the script is kept."""
    sbatch = _program("sbatch")
    folder = log_folder(ledger)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"job-{hashlib.sha256(script.encode()).hexdigest()[:8]}.sh"
        write_whole(file, script.encode())
    except OSError as problem:
        raise InputError(
            f"the ledger cannot be written to ({problem.strerror})",
            where=str(ledger.folder),
            hint="Choose another folder",
        ) from None
    ended = subprocess.run([sbatch, "--parsable", str(file)], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise InputError(
            f"Slurm refused the job: {ended.stderr.strip() or f'sbatch ended with code {ended.returncode}'}",
            where=str(file),
            hint="Correct the options; `sinfo` lists partitions and their limits",
            state="No job was submitted.",
        )
    return ended.stdout.strip().partition(";")[0], file


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise InputError(
            f"the program {name} is not found",
            where="Slurm",
            hint="Run this on a login node of the cluster, or see the script with --dry-run",
            state="No job was submitted.",
        )
    return path


@dataclass(frozen=True)
class SlurmExecutor:
    """A plan as one job array; this process only watches the ledger, and submits again what the array did not finish.

    All nodes must see the ledger's folder. Each task computes with `workers` workers. Runs under way are shown as far as
    their progress files tell.
    """

    array: SlurmArray = SlurmArray()
    workers: int = 1
    execution: Execution = Execution()

    def run(self, specs: Sequence[Spec], ledger: Ledger, listen: Listener = ignore) -> PlanResult:
        """As `Executor` says."""
        scheduler = Scheduler(specs, ledger, listen, stack_key_on(self.execution.device))
        driver = _SlurmDriver(self, specs, scheduler, ledger)
        with interruptions() as stop_requested:
            try:
                driver.run(stop_requested)
            finally:
                driver.close()
            if stop_requested():
                raise KeyboardInterrupt
        return scheduler.result()

    def command(self, plan: Path) -> list[str]:
        """What each task runs."""
        return [sys.executable, "-m", "dissensus.engine.slurm_task", str(plan)]


class _SlurmDriver:
    """Hands all that is ready to one array, and reports what the ledger says of it."""

    def __init__(self, executor: SlurmExecutor, specs: Sequence[Spec], scheduler: Scheduler, ledger: Ledger) -> None:
        self._executor, self._scheduler, self._ledger = executor, scheduler, ledger
        self._specs = specs
        self._job: str | None = None
        self._ask_at = 0.0
        self._under_way: dict[str, bool] = {}  # by run id, whether its start was reported
        self._shown: dict[str, Event] = {}  # by run id, the progress that was reported last

    def run(self, stop_requested: StopRequested) -> None:
        """Go on until everything has ended, or a stop is requested."""
        while not stop_requested():
            while assignment := self._scheduler.next():
                self._under_way.update(dict.fromkeys(assignment.run_ids, False))
            if not self._scheduler.unfinished:
                return
            self._look(is_over=self._job is None or self._is_over(self._job))
            if self._under_way and self._job is None:
                self._submit()
            time.sleep(POLL)

    def close(self) -> None:
        """Ask tasks to save and leave, waiting ones not to start; those that take too long are ended."""
        if self._job is None:
            return
        cancel = _program("scancel")
        for arguments in (["--state=PENDING"], ["--batch", "--signal=INT"]):
            subprocess.run([cancel, *arguments, self._job], capture_output=True, check=False)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and not self._is_over(self._job, now=True):
            time.sleep(POLL / 2)
        subprocess.run([cancel, self._job], capture_output=True, check=False)

    def _submit(self) -> None:
        for run_id in self._under_way:  # a failure of an earlier attempt must not be taken for one of this
            self._ledger.error_file(run_id).unlink(missing_ok=True)
        plan = self._write_plan()
        script = self._executor.array.script(
            self._executor.command(plan), name="dissensus", logs=log_folder(self._ledger), folder=Path.cwd()
        )
        self._job, _ = submit(script, self._ledger)
        self._ask_at = time.monotonic() + POLL

    def _write_plan(self) -> Path:
        document = {
            "ledger": str(self._ledger.folder.absolute()),
            "workers": self._executor.workers,
            "execution": asdict(self._executor.execution),
            "specs": [spec.to_json() for spec in self._specs],
        }
        content = json.dumps(document).encode()
        folder = log_folder(self._ledger)
        folder.mkdir(parents=True, exist_ok=True)
        plan = folder / f"plan-{hashlib.sha256(content).hexdigest()[:8]}.json"
        write_whole(plan, content)
        return plan

    def _is_over(self, job: str, now: bool = False) -> bool:
        """Whether no task of a job is left. Slurm is asked every few seconds only."""
        if not now and time.monotonic() < self._ask_at:
            return False
        self._ask_at = time.monotonic() + ASK
        ended = subprocess.run(
            [_program("squeue"), "--noheader", "--format=%i", f"--jobs={job}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode != 0:  # an unknown job has ended long ago; a controller that does not answer will
            return "Invalid job id" in ended.stderr
        return not ended.stdout.strip()

    def _look(self, is_over: bool) -> None:
        """Report what the ledger says of the runs that were handed out."""
        now = locks.clock(self._ledger.folder)
        lost = []
        for run_id, started in list(self._under_way.items()):
            if run_id in self._ledger:
                self._end(Event("done", run_id))
            elif locks.is_held(self._ledger.lock_file(run_id), now=now):
                if self._job is None:
                    self._end(Event("computed_elsewhere", run_id))
                    continue
                if not started:
                    self._start(run_id)
                self._show(run_id)
            elif self._job is not None and (reason := read_failure(self._ledger, run_id)) is not None:
                self._end(Event("failed", run_id, message=reason))
            elif self._job is not None and is_over:
                lost.append(run_id)
        if is_over and self._job is not None:
            job, self._job = self._job, None
            if lost:
                for run_id in lost:
                    del self._under_way[run_id]
                logs = log_folder(self._ledger) / f"{job}_*.log"
                self._scheduler.worker_died(lost, f"the array ended without it; see {logs}")

    def _start(self, run_id: str) -> None:
        self._under_way[run_id] = True
        self._scheduler.note(Event("started", run_id))

    def _show(self, run_id: str) -> None:
        epoch = read_progress(self._ledger, run_id)
        if epoch is not None and epoch != self._shown.get(run_id):
            self._shown[run_id] = epoch
            self._scheduler.note(epoch)

    def _end(self, event: Event) -> None:
        started = self._under_way.pop(event.run)
        if event.kind == "done" and not started:
            self._scheduler.note(Event("started", event.run))
        self._scheduler.note(event)
