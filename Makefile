# `make run` and `make test` need Python 3.11 and make, nothing else: the first one to run builds .venv.
PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/.ready

.PHONY: run test quick check format docs dist bench mutants clean

run: $(READY)
	$(BIN)/glws train

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(READY)
	GLWS_EXAMPLES=12 $(BIN)/python -m pytest -n 2 -m "not slow"

check: $(READY)
	$(BIN)/ruff check src tests reproduction benchmarks examples docs
	$(BIN)/ruff format --check src tests reproduction benchmarks examples docs
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix src tests reproduction benchmarks examples docs
	$(BIN)/ruff format src tests reproduction benchmarks examples docs

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

dist: $(READY)
	$(BIN)/python -m build --outdir dist

bench: $(READY)
	$(BIN)/python -m benchmarks

mutants: $(READY)
	$(BIN)/python tests/mutants.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,docs]"
	touch $(READY)

clean:
	rm -rf .venv build dist docs/_build docs/gallery .mypy_cache .ruff_cache .pytest_cache .hypothesis
