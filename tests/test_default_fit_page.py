"""docs/results/crowds.md is what its committed records say."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("default_fit", ROOT / "benchmarks" / "default_fit.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclass looks for its types
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_page_is_what_its_records_say(benchmark):
    records = json.loads(benchmark.RECORDS.read_text())
    assert benchmark.PAGE.read_text(encoding="utf-8") == benchmark.page(records)
    records[0]["soft_nll"]["ours"] += 1
    assert benchmark.PAGE.read_text(encoding="utf-8") != benchmark.page(records)


def test_the_default_is_never_much_worse_than_logistic_regression_and_better_on_most_crowds(benchmark):
    records = json.loads(benchmark.RECORDS.read_text())
    benchmark.check(benchmark.rows_of(records))
    for reference in benchmark.REFERENCES:
        row = [r for r in records if (r["crowd"], r["size"]) == (records[0]["crowd"], records[0]["size"])]
        worse = [{**r, "soft_nll": {**r["soft_nll"], reference: r["soft_nll"]["ours"] - 0.006}} for r in row]
        with pytest.raises(AssertionError, match=reference):
            benchmark.check(benchmark.rows_of(worse + records[len(row) :]))


def test_training_and_judging_items_are_apart(benchmark):
    train, judges = benchmark.split(500, 300, 1)
    assert (len(train), len(judges)) == (240, 260)
    assert not set(train) & set(judges)
