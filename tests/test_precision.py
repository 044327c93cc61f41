"""The precision that a run is trained in."""

import torch

from dissensus import datasets
from dissensus.engine.one_run import Execution, execute
from dissensus.models import Linear
from dissensus.store.ledger import Ledger
from dissensus.training import precision
from dissensus.training.recipe import Recipe


def test_auto_is_bfloat16_only_where_the_processor_has_instructions_for_it(monkeypatch):
    for native, expected in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(precision, "has_bfloat16", lambda device, native=native: native)
        assert precision.resolved("auto", torch.device("cpu")) == expected
        assert precision.resolved("float32", torch.device("cpu")) == "float32"


def test_a_run_records_what_auto_stood_for_and_has_the_numbers_of_that_precision(tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: True)
    data, ledger = datasets.load("digits"), Ledger(tmp_path)
    runs = {
        name: execute(Recipe(model=Linear(), epochs=1, precision=name).spec(data, 0), ledger, Execution(threads=1))
        for name in precision.PRECISIONS
    }
    assert {name: run.provenance["precision"] for name, run in runs.items()} == {
        "float32": "float32",
        "bfloat16": "bfloat16",
        "auto": "bfloat16",
    }
    assert runs["auto"].scores == runs["bfloat16"].scores != runs["float32"].scores


def test_a_run_records_the_instructions_of_the_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "_bfloat16_flags", lambda: frozenset({"amx_bf16", "avx512_bf16"}))
    assert precision.instruction_set() == f"{torch.backends.cpu.get_cpu_capability()} + amx_bf16 + avx512_bf16"
    run = execute(
        Recipe(model=Linear(), epochs=1).spec(datasets.load("digits"), 0), Ledger(tmp_path), Execution(threads=1)
    )
    assert run.provenance["instructions"] == precision.instruction_set()
