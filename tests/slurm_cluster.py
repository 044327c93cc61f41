"""A Slurm of this machine: one node on loopback, with its own munge, ports, folders and configuration; no database."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """Why there can be no Slurm here; empty where there can."""
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        return f"no {', '.join(missing)} (Debian: apt-get install slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "only root may start the daemons of Slurm"


@contextmanager
def slurm_here(folder):
    """The path of its configuration, while it runs."""
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(mode=0o700)
    key = folder / "munge" / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, host=host, ports=free_ports(2)))
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    with ExitStack() as running:

        def start(*command):
            log = running.enter_context((folder / f"{command[0]}.out").open("wb"))
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            running.callback(end, process)
            return process

        files = {name: f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")}
        start("munged", "--foreground", "--force", f"--socket={folder}/munge/socket", *files.values())
        until((folder / "munge" / "socket").exists)
        start("slurmctld", "-D", "-i", "-f", str(configuration))
        start("slurmd", "-D", "-f", str(configuration), "-N", host)
        until(lambda: asked("sinfo", "-h", "-o", "%T", environment=environment) == "idle")
        yield configuration
        subprocess.run(["scancel", "--user=root"], env=environment, check=False)


def end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def asked(*command, environment=None):
    """What a program prints, or None where it fails: a busy controller may not answer."""
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return ended.stdout.strip() if ended.returncode == 0 else None


def until(condition, state=lambda: "", seconds=300.0):
    """Wait for it, also on a busy machine; where it does not happen, the state tells why."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen in time: {state()}"
        time.sleep(0.1)


def start_now(job):
    """Tasks that were queued again wait for two minutes: let them start soon.

    Not within the second in which they ended, whose credentials Slurm refuses. (It returns None, for conditions.)
    """
    for line in (asked("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i %S", f"--jobs={job}") or "").splitlines():
        task, _, start = line.partition(" ")
        if start != "N/A" and datetime.fromisoformat(start) > datetime.now() + timedelta(seconds=20):
            asked("scontrol", "update", f"JobId={task}", "StartTime=now+2")


def free_ports(number):
    """Ports that nobody listens at, below those that the kernel hands out to whoever asks for any."""
    with ExitStack() as stack:
        found = []
        while len(found) < number:
            port = 10_000 + secrets.randbelow(20_000)
            with suppress(OSError):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                found.append(port)
        return found
