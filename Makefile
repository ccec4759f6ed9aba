# Everything runs in a virtual environment that these targets make themselves; Python 3.11 or newer is all they need.
#   make test PYTHON=python3.13            another interpreter (by default the first suitable one on the path)
#   make test VENV=/tmp/venv               another place for the environment
#   make test PYTEST_ARGS="-k sinc -x"     arguments for pytest
#   make bench-paper BENCH_ARGS="--quick --jobs 2"    arguments for the two long benchmarks (--help lists them)
VENV ?= .venv
PYTHON ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
SPHINX_ARGS ?= -W --keep-going

PY := $(VENV)/bin/python
SETUP := sh tools/setup_env.sh "$(VENV)" "$(PYTHON)"
# The stamp names the directory, since an editable install points at it: a tree that was moved is installed anew.
STAMP := $(VENV)/.installed-$(firstword $(shell pwd | cksum))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install demo test lint format bench bench-paper bench-real docs clean distclean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

install: $(STAMP)-dev  ## environment with all development tools

demo: $(STAMP)-test  ## set up, then fit real data: examples/quickstart.py
	@$(PY) examples/quickstart.py

test: $(STAMP)-test  ## set up, then run all tests
	@$(PY) -m pytest $(PYTEST_ARGS)

lint: $(STAMP)-dev  ## ruff (rules and format) and mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: $(STAMP)-dev  ## put the code into its format, apply the safe fixes
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: $(STAMP)-bench  ## run every benchmarks/bench_*.py
	@set -e; for script in benchmarks/bench_*.py; do \
	    if [ -e "$$script" ]; then echo "== $$script"; $(PY) "$$script"; else echo "There is no $$script."; fi; \
	done

bench-paper: $(STAMP)-bench  ## the paper's experiments beside other methods: hours; goes on where it was stopped
	@$(PY) benchmarks/paper.py $(BENCH_ARGS)

bench-real: $(STAMP)-bench  ## real labelled data beside other methods: minutes to an hour; goes on likewise
	@$(PY) benchmarks/real.py $(BENCH_ARGS)

docs: $(STAMP)-docs  ## build the documentation into docs/_build/html, warnings are errors
	@$(PY) -m sphinx -b html $(SPHINX_ARGS) docs docs/_build/html

clean:  ## remove what was built, keep the environment
	rm -rf build dist docs/_build docs/api output .pytest_cache .hypothesis .mypy_cache .ruff_cache .benchmarks
	find . -path "./$(VENV)" -prune -o -type d -name __pycache__ -exec rm -rf {} +

distclean: clean  ## remove the environment too
	rm -rf "$(VENV)"

# A stamp is older than pyproject.toml when dependencies may have changed: install again.
$(STAMP)-%: pyproject.toml tools/setup_env.sh
	@$(SETUP) $*
	@touch $@
# The extra "dev" contains "test" and "bench".
	@if [ $* = dev ]; then touch $(STAMP)-test $(STAMP)-bench; fi
