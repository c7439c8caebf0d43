# Everything a person types: setup demo demo-spark test lint bench. Each does its own set-up in
# .venv, from a fresh clone on, and only what it needs; a second run finds it done.

VENV := .venv
BIN := $(VENV)/bin
CHECKED := streamlet tests examples bench

# The first Python that runs and is new enough; PYTHON=... says otherwise.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-spark test lint bench
.SUFFIXES:

help:
	@echo 'make demo    real flights through a real Kafka, tasks handed over live, checked with pandas'
	@echo 'make demo-spark  the same application as one query in Spark; no Java needed'
	@echo 'make test    all tests'
	@echo 'make lint    format, lint, types, order of imports'
	@echo 'make bench   word count against a bare loop; BENCH="restore --runs 5" for another'
	@echo 'make setup   everything the others need, into $(VENV)'

setup: $(VENV)/.setup-all
	@echo 'set up in $(VENV)'

demo: $(VENV)/.setup-demo
	$(BIN)/python -m examples.flights.demo

demo-spark: $(VENV)/.setup-spark
	$(BIN)/python -m examples.flights.demo_spark

# Side by side: most of a broker test is waiting for time-outs. See tests/conftest.py for the order.
# Not more than processors: each brings brokers and JVMs of its own, and what starves is no test.
WORKERS ?= 2
test: $(VENV)/.setup-all
	@$(BIN)/python -m pytest -ra --durations=15 -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

lint: $(VENV)/.setup-all
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/lint-imports

BENCH ?= wordcount
bench: $(VENV)/.setup-demo $(if $(findstring spark,$(BENCH)),$(VENV)/.setup-spark)
	$(BIN)/python -m bench $(BENCH) --json

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer is needed; PYTHON=/path/to/it' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.setup-all: pyproject.toml | $(BIN)/python
	@echo 'installing everything into $(VENV), once ...'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo,spark]'
	@touch $@

$(VENV)/.setup-demo: pyproject.toml | $(BIN)/python
	@test -e $(VENV)/.setup-all || { echo 'installing into $(VENV), once ...'; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'; }
	@touch $@

$(VENV)/.setup-spark: pyproject.toml | $(BIN)/python
	@test -e $(VENV)/.setup-all || { echo 'installing Spark into $(VENV), once ...'; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,spark]'; }
	@touch $@
