"""A newcomer's walk: texts.csv and a Label Studio export to a recommendation, a model and predictions, in three commands.

    python benchmarks/newcomer.py [--items 3000] [--folder DIR]

3,000 texts of POPQUORN (politeness, five classes) are written as a user would have them; `compare`, the `fit` that it
recommends and `predict` are run one after the other in a fresh cache, so that MiniLM is included. Prints wall time and
CPU of each with its children. Fails where the three take more than ten minutes of wall time.

Needs the POPQUORN data and `pip install 'dissensus[text]'`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dissensus import datasets

LIMIT = 600.0  # seconds, for all three commands


def write_files(folder: Path, items: int) -> None:
    """texts.csv and votes.json of the first items, and new.csv of the others."""
    data = datasets.load("popquorn")
    votes, texts = data.votes, data.x if data.x is not None else data.texts
    by_item: dict[int, list[tuple[str, str]]] = {}
    for item, person, label in zip(votes.item.tolist(), votes.annotator.tolist(), votes.label.tolist(), strict=True):
        by_item.setdefault(item, []).append((votes.annotators[person], votes.classes[label]))
    rows = list(enumerate(texts))
    for name, part in (("texts.csv", rows[:items]), ("new.csv", rows[items:])):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("id", "text"), *part])
    (folder / "votes.json").write_text(json.dumps([task(item, by_item[item]) for item, _ in rows[:items]]))


def task(item: int, votes: list[tuple[str, str]]) -> dict[str, object]:
    """One task with its annotations, as Label Studio exports it."""
    annotations = [
        {
            "id": 1000 * item + number,
            "completed_by": {"id": number, "email": person},
            "result": [{"from_name": "polite", "to_name": "text", "type": "choices", "value": {"choices": [label]}}],
        }
        for number, (person, label) in enumerate(votes)
    ]
    return {"id": item, "data": {"text": "shown"}, "annotations": annotations, "predictions": [], "drafts": []}


def timed(command: list[str], folder: Path) -> tuple[str, str, float, float]:
    """What a command printed, what it said, its wall time and its CPU seconds with those of its children."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "dissensus", *command], cwd=folder, env=environment, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, done.stderr, time.perf_counter() - began, cpu


def recommended(printed: str, command: str) -> list[str]:
    """The arguments of the command that an output names."""
    line = next(line for line in printed.splitlines() if line.startswith(f"  dissensus {command} "))
    return shlex.split(line)[1:]


def walk(folder: Path) -> None:
    """Run the three commands; each is the one that the last named."""
    command, total = ["compare", "votes.json", "--texts", "texts.csv", "--out", "c"], 0.0
    for following in ("fit", "predict", None):
        printed, said, wall, cpu = timed(command, folder)
        total += wall
        lines = len(said.splitlines())
        print(f"{command[0]:8} {wall:6.0f} s wall, {cpu:6.0f} s CPU, {lines} lines of progress", flush=True)
        print(f"         {next(iter(printed.splitlines()), '')}", flush=True)
        if following is not None:
            command = [word.replace("NEW.csv", "new.csv") for word in recommended(printed, following)]
    print(f"together {total:6.0f} s wall | limit {LIMIT:.0f} s | {LIMIT / total:.1f}x", flush=True)
    assert total <= LIMIT, "the walk takes more than ten minutes here"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--items", type=int, default=3_000)
    arguments.add_argument("--folder", type=Path, help="Keep the files here (default: a temporary folder).")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_files(folder, chosen.items)
        walk(folder)


if __name__ == "__main__":
    main()
