"""On a real Slurm, one task is killed and one is warned of its time limit and queued again: the same bits as alone.

It needs root and Debian's slurmctld, slurmd, slurm-client and munge, and takes some minutes. The test of the same name
runs in the suite with the signal alone.
"""

import os
import subprocess
import sys
from pathlib import Path


def main():
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-k", "warned_of_their_limit"]
    environment = {**os.environ, "SLURM_LIMIT": "1"}
    ended = subprocess.run(
        [*command, "tests/test_slurm.py"], cwd=Path(__file__).parent.parent, env=environment, check=False
    )
    assert ended.returncode == 0, "the runs of a Slurm differ from those computed alone, or did not end"


if __name__ == "__main__":
    main()
