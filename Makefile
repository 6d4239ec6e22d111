# The few words of this repository. `make` alone lists them.

PYTHON      ?= python3
# One more than the two cores the tests are made for: they often wait for a disk or for a child process.
WORKERS     ?= 3
PYTEST_ARGS ?=

VENV   := .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# The tests start hundreds of processes; without bytecode each would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup test check bench torture demo docs newcomer clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.stamp-dev ## make .venv and install everything needed to develop

test: $(VENV)/.stamp-dev ## run the tests (PYTEST_ARGS="tests/schema -k key" narrows it)
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10 $(PYTEST_ARGS)

check: $(VENV)/.stamp-dev ## lint, format check and types; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.stamp-bench ## measure, and compare with other systems
	$(BIN)/python -m benchmarks

torture: $(VENV)/.stamp-dev ## the long crash, race, fault and model runs
	HYPOTHESIS_PROFILE=torture $(PYTEST) -m torture --timeout 3600 --durations=10 $(PYTEST_ARGS)

demo: $(VENV)/.stamp-dev ## a tour on a small library, with Spark where Java is installed
	$(BIN)/python examples/demo.py

docs: $(VENV)/.stamp-dev ## run every example in the documentation
	$(PYTEST) tests/docs $(PYTEST_ARGS)

newcomer: $(VENV)/.stamp-dev ## the README's two commands on a clean clone with a fresh environment (network, half an hour)
	$(PYTEST) tests/newcomer -m torture $(PYTEST_ARGS)

clean: ## remove what the other targets made, .venv included
	rm -rf $(VENV) build dist demo-out bench-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "OmniGraph needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1); run: make PYTHON=/path/to/python3.11 setup" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments; on Debian or Ubuntu run: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e ".[dev]"
	@touch $@

$(VENV)/.stamp-bench: $(VENV)/.stamp-dev
	$(PIP) install --quiet -c constraints.txt -e ".[dev,bench]"
	@touch $@
