"""Run all benchmarks, or the ones named: `python benchmarks loop layouts`. Each prints ratios measured in one run."""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOT_BENCHMARKS = ("__main__", "timing", "tune_speedy")


def main(names):
    """Each with its own defaults; one that fails does not stop the others, and the exit code tells."""
    failed = []
    for name in names or sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_BENCHMARKS):
        print(f"== {name}", flush=True)
        sys.argv = [name]
        try:
            runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
        except ModuleNotFoundError as missing:
            print(f"skipped: it needs the package {missing.name}")
        except AssertionError as problem:
            print(f"FAILED: {problem}")
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":  # worker processes import this file again
    sys.path.insert(0, str(HERE))
    sys.exit(main(sys.argv[1:]))
