# Everything runs in a virtual environment that these targets make themselves; Python 3.11 or newer is all they need.
#   make test PYTHON=python3.13            another interpreter (by default the first suitable one on the path)
#   make test VENV=/tmp/venv               another place for the environment
#   make test PYTEST_ARGS="-k sinc -x"     arguments for pytest
#   make bench-paper BENCH_ARGS="--quick --jobs 2"    arguments for one of the benchmarks (--help lists them)
VENV ?= .venv
PYTHON ?=
PYTEST_ARGS ?=
FUZZ_CALLS ?= 30000
BENCH_ARGS ?=
SPHINX_ARGS ?= -W --keep-going

BACKEND_TESTS := $(addprefix tests/factors/test_,backend.py blocks.py implicit.py sweeps.py) \
	$(addprefix tests/decomposition/test_,problem.py solver.py) tests/_support/test_iteration.py

PY := $(VENV)/bin/python
SETUP := sh tools/setup_env.sh "$(VENV)" "$(PYTHON)"
# The stamp names the directory, since an editable install points at it: a tree that was moved is installed anew.
STAMP := $(VENV)/.installed-$(firstword $(shell pwd | cksum))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install demo test fuzz test-lowest test-minimal test-backends install-backends lint format bench bench-all bench-paper bench-real bench-reach docs clean distclean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

install: $(STAMP)-dev  ## environment with all development tools

demo: $(STAMP)-test  ## set up, then fit real data: examples/quickstart.py
	@$(PY) examples/quickstart.py

test: $(STAMP)-test  ## set up, then run all tests, as many at a time as there are processors
	@$(PY) -m pytest -n auto $(PYTEST_ARGS)

fuzz: $(STAMP)-test  ## 30 000 hostile calls of every public name: ten minutes; FUZZ_CALLS=1000 for fewer
	@TENSORLY_SMP_FUZZ_CALLS=$(FUZZ_CALLS) $(PY) -m pytest -n auto tests/test_fuzz.py $(PYTEST_ARGS)

test-lowest:  ## the quick tests with the oldest releases that pyproject.toml allows, in an environment of their own
	@sh tools/setup_env.sh "$(VENV)-lowest" "$(PYTHON)" lowest
# What old releases of others deprecate, or leave open, says nothing about this package; some extras are not there.
	@PYTHONPATH=tests $(VENV)-lowest/bin/python -m pytest -m "not slow" -p without_extras -W ignore::DeprecationWarning \
		-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning $(PYTEST_ARGS)

test-minimal:  ## the quick tests without any extra, in an environment of their own; those that need one are skipped
	@sh tools/setup_env.sh "$(VENV)-minimal" "$(PYTHON)" minimal
	@PYTHONPATH=tests $(VENV)-minimal/bin/python -m pytest -m "not slow" -p without_extras $(PYTEST_ARGS)

test-backends: $(STAMP)-test install-backends  ## set up with PyTorch and JAX, then run the tests of backends
	@$(PY) -m pytest -n auto $(BACKEND_TESTS) -k "pytorch or jax" $(PYTEST_ARGS)

install-backends: $(STAMP)-torch $(STAMP)-jax  # builds for CPUs

lint: $(STAMP)-dev  ## ruff (rules and format) and mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: $(STAMP)-dev  ## put the code into its format, apply the safe fixes
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: $(STAMP)-bench  ## one table of the jobs that users wait for, beside other packages: ten minutes
	@OMP_NUM_THREADS=1 $(PY) benchmarks/bench_jobs.py $(BENCH_ARGS)

bench-all: $(STAMP)-bench  ## every other benchmarks/bench_*.py
	@set -e; for script in $(filter-out %/bench_jobs.py,$(wildcard benchmarks/bench_*.py)); do \
	    echo "== $$script"; $(PY) "$$script"; \
	done

bench-paper: $(STAMP)-bench  ## the paper's experiments beside other methods: hours; goes on where it was stopped
	@$(PY) benchmarks/paper.py $(BENCH_ARGS)

bench-real: $(STAMP)-bench  ## real labelled data beside other methods: minutes to an hour; goes on likewise
	@$(PY) benchmarks/real.py $(BENCH_ARGS)

bench-reach: $(STAMP)-bench  ## ten kinds of problems, the default fit beside the one from the true labels: an hour
	@OMP_NUM_THREADS=1 $(PY) benchmarks/bench_reach.py $(BENCH_ARGS)

docs: $(STAMP)-docs  ## build the documentation into docs/_build/html and check it, warnings are errors
	@$(PY) -m sphinx -b html $(SPHINX_ARGS) docs docs/_build/html
	@$(PY) tools/check_site.py docs/_build/html

clean:  ## remove what was built, keep the environment
	rm -rf build dist docs/_build docs/api docs/gallery docs/sg_execution_times.rst output .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -path "./$(VENV)" -prune -o -type d -name __pycache__ -exec rm -rf {} +

distclean: clean  ## remove the environment too
	rm -rf "$(VENV)" "$(VENV)-lowest" "$(VENV)-minimal"

# A stamp is older than pyproject.toml when dependencies may have changed: install again.
$(STAMP)-%: pyproject.toml tools/setup_env.sh
	@$(SETUP) $*
	@touch $@
# The extra "dev" contains "test" and "bench".
	@if [ $* = dev ]; then touch $(STAMP)-test $(STAMP)-bench; fi
