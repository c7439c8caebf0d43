# Everything a person types: setup demo demo-spark test lint docs bench. Each does its own set-up in
# .venv, from a fresh clone on, and only what it needs; a second run finds it done.

VENV := .venv
BIN := $(VENV)/bin
CHECKED := hatch_build.py streamlet tests examples bench docs/hooks

# The first Python that runs and is new enough; PYTHON=... says otherwise.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

OLDEST ?= $(shell for p in $(BIN)/python python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && echo $$p && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup installed compiled demo demo-spark test test-long test-pythons test-lowest test-sanitized lint docs bench
.SUFFIXES:

help:
	@echo 'make demo    real flights through a real Kafka, tasks handed over live, a kill -9, checked with pandas'
	@echo 'make demo-spark  the same application as one query in Spark; no Java needed'
	@echo 'make test    all tests; ROOM=assignor for those of one room: $(ROOMS)'
	@echo 'make test-long     tests that say in minutes what others say one by one'
	@echo 'make test-pythons  the demo and tests on each Python found here; PYTHONS="..." names others'
	@echo 'make test-lowest   unit tests with the lowest versions that pyproject.toml allows'
	@echo 'make test-sanitized  tests of the extension in C, built to tell of wrong accesses to memory'
	@echo 'make lint    format, lint, types, order of imports'
	@echo 'make docs    the documentation with the API reference, into build/site'
	@echo 'make bench   word count against a bare loop; BENCH="restore --runs 5" for another'
	@echo 'make setup   everything the others need, into $(VENV)'

setup: $(VENV)/.setup-all $(VENV)/.setup-starts
	@echo 'set up in $(VENV)'

# What lint and docs need of it.
installed: $(VENV)/.setup-all

# Tests as bytecode, which else each process of the first run makes of all of them.
compiled: $(VENV)/.setup-all
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq > /dev/null \
		|| echo 'some tests cannot be collected; their run says why'

demo: $(VENV)/.setup-demo
	$(BIN)/python -m examples.flights.demo

demo-spark: $(VENV)/.setup-spark
	$(BIN)/python -m examples.flights.demo_spark

# Side by side: a broker test waits for time-outs in three quarters of its time, so three of them keep
# two processors busy. Not many more: each brings brokers and JVMs of its own, and what starves is no
# test. See tests/conftest.py for the order.
# Tests start the package in hundreds of processes; without bytecode each would compile it again.
# OPTIONS are further ones of pytest's.
WORKERS ?= 3
test: $(VENV)/.setup-all $(VENV)/.setup-starts
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -ra --durations=15 -n $(WORKERS) --dist loadgroup $(OPTIONS) --no-loadscope-reorder $(TESTS)

# What `make test` leaves out.
test-long: $(VENV)/.setup-all $(VENV)/.setup-starts
	@$(BIN)/python -m pytest -ra -n $(WORKERS) --dist loadgroup -m long

# ROOM=assignor tests one room: tests/unit/assignor and the suites that are listed for it here.
# Suites of several rooms (chaos, learners, modes, static) are in none: see docs/CONTRIBUTING.md.
SUITES_admin := tests/integration/test_status_command.py
SUITES_app := tests/unit/test_app.py tests/unit/test_answer_time.py tests/unit/test_logs.py tests/unit/test_retries.py tests/unit/test_user_code.py tests/typing tests/integration/test_app_run.py
SUITES_assignor := tests/unit/test_assignor_examples.py tests/spec \
	tests/simulation/test_assignor_convergence.py tests/simulation/test_model_assignor.py \
	tests/integration/test_assignor.py
SUITES_bench := tests/unit/test_bench*.py tests/unit/test_handover_picture.py tests/integration/test_bench.py \
	tests/integration/test_peers.py
SUITES_broker := tests/integration/test_broker.py tests/integration/test_brokers.py tests/integration/test_broker_commands.py
SUITES_config := tests/unit/test_config*.py tests/unit/kafka/test_client_properties.py \
	tests/integration/test_internal_topic_settings.py
SUITES_consumer := tests/unit/test_consumer*.py tests/integration/test_consumer.py
SUITES_control := tests/unit/runtime/test_control_link.py tests/unit/runtime/test_reporting.py
SUITES_coordinator := tests/spec tests/simulation/test_random_histories.py \
	tests/integration/test_session.py tests/integration/test_connections.py tests/integration/test_coordinator_contract.py \
	tests/integration/test_unreadable_answers.py
SUITES_docs := tests/unit/test_*_page.py tests/unit/test_rooms.py tests/unit/test_pythons.py tests/test_tidy.py tests/test_site.py \
	tests/oracle tests/typing tests/integration/test_readme.py tests/integration/test_guides.py tests/integration/test_package.py
SUITES_dsl := tests/unit/test_user_code.py tests/typing tests/oracle tests/integration/test_headers.py
SUITES_examples := tests/unit/test_flights_*.py tests/unit/test_*_examples.py \
	tests/unit/test_kubernetes.py tests/integration/test_examples.py
SUITES_hosting := tests/unit/test_forks.py tests/integration/test_app_run.py tests/integration/test_run_command*.py
SUITES_kafka := tests/integration/test_native.py tests/integration/test_rights.py tests/integration/test_client.py tests/integration/test_slow_links.py tests/integration/test_transactions.py tests/integration/test_farewell.py \
	tests/integration/test_fenced_broker.py tests/integration/test_small_topics.py
SUITES_partitions := tests/unit/test_consumer*.py tests/integration/test_consumer.py
SUITES_processing := tests/oracle tests/integration/test_global_tables.py
SUITES_rebalance := tests/spec tests/simulation/test_model*.py tests/simulation/test_random_histories.py
SUITES_registry := tests/integration/test_registry.py
SUITES_records := tests/unit/test_origins.py tests/integration/test_topics_commands.py
SUITES_queries := tests/integration/test_queries.py
SUITES_web := tests/integration/test_queries.py
SUITES_reset := tests/integration/test_reset.py
SUITES_letters := tests/integration/test_operator_commands.py
SUITES_runtime := tests/oracle tests/integration/test_metrics.py
SUITES_scaling := tests/integration/scaling
SUITES_serdes := tests/typing
SUITES_spark := tests/integration/spark
SUITES_state := tests/oracle tests/simulation/test_model_numbers.py tests/integration/test_restore.py \
	tests/integration/test_window_retention.py
SUITES_tasks := tests/spec tests/simulation/test_model*.py tests/simulation/test_random_histories.py \
	tests/integration/test_restore.py
SUITES_testing := tests/spec tests/oracle tests/simulation/test_random_histories.py tests/integration/test_fault_proxy.py
SUITES_tools := tests/integration/test_*_command*.py tests/integration/test_package.py tests/integration/test_run_terminal.py
SUITES_topology := tests/unit/dsl tests/oracle tests/integration/test_read_topics.py

FOLDERS := $(notdir $(patsubst %/,%,$(sort $(dir $(wildcard tests/unit/*/test_*.py)))))
ROOMS := $(sort $(FOLDERS) $(patsubst SUITES_%,%,$(filter SUITES_%,$(.VARIABLES))))
ifneq ($(filter-out $(ROOMS),$(ROOM)),)
$(error there is no room $(filter-out $(ROOMS),$(ROOM)); ROOM is one of: $(ROOMS))
endif
TESTS := $(strip $(foreach room,$(ROOM),$(patsubst %,tests/unit/%,$(filter $(room),$(FOLDERS))) $(SUITES_$(room))))

# Each Python of this machine in an environment of its own; a table at the end says what ran where.
test-pythons: $(VENV)/.setup-all
	@$(BIN)/python -m tests.pythons $(if $(STEPS),--steps $(STEPS))

# The lower bounds of pyproject.toml hold on the oldest Python. What uv resolves is installed into an
# environment of its own.
LOWEST := build/lowest
test-lowest: $(VENV)/.setup-all
	@test -n '$(OLDEST)' || { echo 'Python 3.11 is needed; OLDEST=/path/to/it' >&2; exit 2; }
	$(OLDEST) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[dev,docs,demo,spark]'
	$(LOWEST)/bin/python -m pytest -q -p no:cacheprovider -n 2 tests/unit

# The extension with AddressSanitizer and UndefinedBehaviorSanitizer, in a copy of the checkout.
test-sanitized: $(VENV)/.setup-all
	@$(BIN)/python -m tests.sanitized

lint: $(VENV)/.setup-all
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.setup-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

BENCH ?= wordcount
bench: $(VENV)/.setup-demo $(if $(findstring spark,$(BENCH)),$(VENV)/.setup-spark)
	$(BIN)/python -m bench $(BENCH) --json

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer is needed; PYTHON=/path/to/it' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# The extension, which is built again when one of these changes.
NATIVE := hatch_build.py $(wildcard streamlet/kafka/native/extension/*)
$(VENV)/.setup-all: pyproject.toml $(NATIVE) | $(BIN)/python
	@echo 'installing everything into $(VENV), once ...'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs,demo,spark]'
	@touch $@

$(VENV)/.setup-starts: $(VENV)/.setup-all
	@echo 'running a broker once, so that others start quickly ...'
	@$(BIN)/python -m streamlet.testing.broker_cache || echo 'brokers start without what that leaves'
	@echo 'running Spark once, for the same reason ...'
	@$(BIN)/python -m tests.integration.spark.archive || echo 'Spark starts without what that leaves'
	@touch $@

$(VENV)/.setup-demo: pyproject.toml | $(BIN)/python
	@test $(VENV)/.setup-all -nt $< || { echo 'installing into $(VENV), once ...'; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'; }
	@touch $@

$(VENV)/.setup-docs: pyproject.toml | $(BIN)/python
	@test $(VENV)/.setup-all -nt $< || { echo 'installing into $(VENV), once ...'; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'; }
	@touch $@

$(VENV)/.setup-spark: pyproject.toml | $(BIN)/python
	@test $(VENV)/.setup-all -nt $< || { echo 'installing Spark into $(VENV), once ...'; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,spark]'; }
	@touch $@
