# Two commands on a fresh machine with Python 3.11 and pip: `make demo` and `make test`. See README.md.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
REPORT ?= demo-report
WHAT ?=

.PHONY: demo test format docs bench clean

demo: $(VENV)/.run
	$(BIN)/dissensus demo --out $(REPORT)

test: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

format: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

bench: $(VENV)/.dev
	$(BIN)/python benchmarks $(WHAT)

clean:
	rm -rf $(VENV) $(REPORT) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Stamps, so that an environment is made once and again only when what it holds has changed.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/.run
