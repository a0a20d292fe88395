# make quickstart   set up, then compare an overconfident net with calibrated ones (a minute)
# make test         set up, then every test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Every install, a package's own build included, takes the pinned versions. (Relative: a path may hold a space.)
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# One thread per process: two OpenMP teams on two cores get in each other's way.
export OMP_NUM_THREADS := 1

.PHONY: quickstart test lint bench docs results clean

quickstart: $(VENV)/.base
	$(BIN)/singleshot quickstart

test: $(VENV)/.dev
	$(BIN)/pytest -n 2 -q -rs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/sampler.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/bootstrap.py
	$(BIN)/python benchmarks/posthoc.py
	$(BIN)/python benchmarks/evaluate_file.py
	$(BIN)/python benchmarks/report_page.py

# Puts the quickstart's table and picture into the README, from results/quickstart; measures what is not there yet.
docs: $(VENV)/.base
	$(BIN)/python docs/build.py

# Puts what was measured, results/runs, into docs/results.md and the README; trains nothing.
results: $(VENV)/.base
	$(BIN)/python docs/build_results.py

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install -q -e .
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install -q -e '.[bench]'
	touch $@
