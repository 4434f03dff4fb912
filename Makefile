# Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Half of all the tests wait for processes, so two workers on each core.
WORKERS = $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')

.PHONY: install demo test test-fast test-thorough mutants check bench figures replications league hooks ci clean

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/treadle demo

# Every worker loads all tests: first they are compiled, so that only one of them does that.
test: export PYTHONDONTWRITEBYTECODE =
test: $(STAMP)
	$(BIN)/pytest -q --collect-only tests/unit >/dev/null & \
	  $(BIN)/pytest -q --collect-only --ignore=tests/unit >/dev/null; wait
	$(BIN)/pytest -q -n $(WORKERS) --durations=20 --durations-min=15

# As many crashes, kills and readers as a release should stand, and other examples each time.
test-thorough: $(STAMP)
	TREADLE_THOROUGH=1 $(BIN)/pytest -q -n $(WORKERS) --hypothesis-profile=thorough

# The inner loop: no processes, no browser, nothing slow, few examples of each property.
test-fast: $(STAMP)
	$(BIN)/pytest -q -n auto --hypothesis-profile=fast \
	  -p no:schemathesis --ignore-glob='*/test_schemathesis*' \
	  -m "not slow and not engine and not browser"

# SAMPLE and SEED choose what is changed.
mutants: $(STAMP)
	$(BIN)/python -m tools.mutants --sample $(or $(SAMPLE),450) --seed $(or $(SEED),1)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Is this tree slower than the commit before?
bench: $(STAMP)
	$(BIN)/python -m benchmarks.before

# Measure the tables of README and docs and write them; FIGURES='fast league' chooses, CHECK=1 checks.
figures: $(STAMP)
	$(BIN)/python -m benchmarks.figures $(if $(CHECK),--check,--write) $(FIGURES)

replications: $(STAMP)
	$(BIN)/python replications/run.py
	$(BIN)/treadle replicate afs
	$(BIN)/treadle replicate aiturbo
	$(BIN)/treadle replicate muri
	$(BIN)/treadle replicate rubick
	$(BIN)/treadle replicate philly

# Results are cached by content: a second run only computes what has changed.
league: $(STAMP)
	$(BIN)/treadle league --html league.html --json league.json

hooks:
	printf '#!/bin/sh\nexec make check\n' > .git/hooks/pre-commit
	chmod +x .git/hooks/pre-commit

ci: check test

clean:
	rm -rf $(VENV) build dist

$(STAMP): pyproject.toml
	@echo "setting up $(VENV): a few minutes, most of it downloads"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/python -m compileall -q src
	touch $(STAMP)
