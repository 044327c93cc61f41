"""Run all benchmarks, or the ones named: `python benchmarks loop layouts`. Each prints ratios measured in one run."""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
names = sys.argv[1:] or sorted(
    path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_") and path.stem != "timing"
)
sys.path.insert(0, str(HERE))
for name in names:
    print(f"== {name}", flush=True)
    sys.argv = [name]  # each with its own defaults
    runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
