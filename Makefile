# make quickstart   install, then compare six ways to train a small network (a minute)
# make test         install, then run every test; a skipped test prints what it needs
# make lint         check style, types and the direction of imports
# make docs-site    build the documentation site into site/, strictly; open site/index.html
# make notebooks    execute the notebooks of the site and store their outputs
# make torture      kill, damage and mislead it for MINUTES=2, and print what it survived
# make dist         build the sdist and the wheel in dist/, and check them
# make bench        run every benchmark (a quarter of an hour)
# make bench-foreign  time the sampler on other people's models (half an hour)
PYTHON ?= python3
VENV := .venv
FOREIGN := .venv-foreign
BIN := $(VENV)/bin

# Every installation, including the builds of packages, uses the pinned versions. (Relative: a path may contain a space.)
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# One thread per process: two OpenMP teams on two cores slow each other down.
export OMP_NUM_THREADS := 1

.PHONY: quickstart test lint torture dist bench bench-foreign docs docs-site notebooks results clean

quickstart: $(VENV)/.base
	$(BIN)/singleshot quickstart

test: $(VENV)/.dev
	$(BIN)/pytest -n 2 -q -rs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

MINUTES ?= 2
torture: $(VENV)/.fuzz
	PYTHONPATH=tests:tests/training $(BIN)/python -m torture.run --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) \
		$(if $(TABLE),--markdown $(TABLE))

dist: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/costs.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/losses.py
	$(BIN)/python benchmarks/sampler.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/bootstrap.py
	$(BIN)/python benchmarks/posthoc.py
	$(BIN)/python benchmarks/evaluate_file.py
	$(BIN)/python benchmarks/report_page.py

# Times the sampler on models of timm and transformers. They need torchvision, which does not belong beside our torch,
# so they get an environment of their own.
bench-foreign: $(FOREIGN)/.installed
	PYTHONPATH=src:benchmarks $(FOREIGN)/bin/python benchmarks/foreign_models.py

$(FOREIGN)/.installed: constraints.txt
	$(PYTHON) -m venv $(FOREIGN)
	$(FOREIGN)/bin/pip install -q -e . transformers==5.23.0
	$(FOREIGN)/bin/pip install -q --no-deps timm==1.0.31 torchvision==0.29.2
	touch $@

# Update the picture and the table of the quickstart, whose missing runs are made first, and the costs in the README.
docs: $(VENV)/.base
	$(BIN)/python docs/build.py

# Update the tables and figures in docs/results.md, docs/results and the README from results/runs; nothing is trained.
results: $(VENV)/.base
	$(BIN)/python docs/build_results.py

# Build the documentation site; a broken link, anchor or docstring is an error.
docs-site: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

notebooks: $(VENV)/.docs
	$(BIN)/python docs/execute_notebooks.py

clean:
	rm -rf $(VENV) $(FOREIGN) site dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install -q -e .
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.base
	$(BIN)/pip install -q -e '.[docs]'
	touch $@

# There is no atheris for some platforms; the rest of the torture runs without it.
$(VENV)/.fuzz: $(VENV)/.dev
	$(BIN)/pip install -q -e '.[fuzz]' || echo "atheris cannot be installed here"
	touch $@

$(VENV)/.release: $(VENV)/.dev
	$(BIN)/pip install -q -e '.[release]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install -q -e '.[bench]'
	touch $@
