# Every target sets up what it needs, says what it does, and reuses .venv when it is there.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest -q
# Two workers, whole files each: a file's tests may share a store or a port.
PARALLEL := -n 2 --dist loadfile
# Tests that run in real time, with browsers, peers and processes of their own, get a second try on a busy machine; what
# fails twice has failed. Everything on virtual time has one.
REAL_TIME := --reruns 1
# Extra words for pytest or for a command, e.g. `make unit ARGS="-k ledger"`.
ARGS ?=

.PHONY: help setup demo test check faults examples lint format types unit pipeline packaging peers browser pythons orders soak soak-short fuzz fuzz-short properties bench bot clean

help: ## what there is
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) ## build .venv with the voicectx command in it

$(STAMP): pyproject.toml tools/setup.sh
	@tools/setup.sh $(VENV)
	@touch $(STAMP)

demo: $(STAMP) ## one recorded call, told twice: stock Pipecat, then with our processors
	@$(BIN)/voicectx demo $(ARGS)

test: check faults examples peers browser pythons soak-short fuzz-short ## everything that runs on one machine
	@echo "== all tests passed"

check: lint types unit pipeline packaging ## lint, types, unit, pipeline and packaging; a few minutes

lint: $(STAMP)
	@echo "== lint: ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . --exclude "*.md"

format: $(STAMP) ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

types: $(STAMP)
	@echo "== types: mypy --strict"
	@$(BIN)/mypy

CORE_TESTS := tests/signals tests/states tests/playback tests/orchestrator tests/projection tests/memory
unit: $(STAMP)
	@echo "== unit: pure cores, no event loop"
	@$(PYTEST) $(PARALLEL) $(CORE_TESTS) $(ARGS)

pipeline: $(STAMP)
	@echo "== pipeline: processors, sources and stores on virtual time"
	@$(PYTEST) $(PARALLEL) tests --ignore tests/peers --ignore tests/browser --ignore tests/packaging --ignore tests/soak \
	  --ignore tests/fuzz --ignore tests/examples --ignore tests/bots $(foreach dir,$(CORE_TESTS) $(FAULT_TESTS),--ignore $(dir)) $(ARGS)

FAULT_TESTS := tests/faults tests/compat tests/properties tests/bench
faults: $(STAMP) ## everything that can go wrong, in whole calls; the benches in small
	@echo "== faults: fault matrix, hostile callers, moved private attributes, properties, small benches"
	@$(PYTEST) $(PARALLEL) $(FAULT_TESTS) $(ARGS)

packaging: $(STAMP)
	@echo "== packaging: layout, exports, wheel, README"
	@$(PYTEST) tests/packaging $(ARGS)

examples: $(STAMP) ## every example and bot, as a user runs it
	@echo "== examples and bots"
	@$(PYTEST) tests/examples tests/bots $(REAL_TIME) $(ARGS)

peers: $(STAMP) ## real WebRTC peers over loopback
	@echo "== peers: real aiortc connections, real time"
	@$(PYTEST) tests/peers $(REAL_TIME) $(ARGS)

browser: $(STAMP) ## real Chromium, where it is installed
	@echo "== browser: real Chromium (skipped with a reason where it is not installed)"
	@$(PYTEST) tests/browser $(REAL_TIME) $(ARGS)

pythons: $(STAMP) ## the unit tests on every other supported Python that is installed
	@tools/other_pythons.sh $(BIN) $(CORE_TESTS)

orders: $(STAMP) ## the unit tests in 20 random orders
	@tools/random_orders.sh $(BIN) 20 $(PARALLEL) $(CORE_TESTS) $(ARGS)

fuzz: $(STAMP) ## 100,000 hostile inputs for every parser of outside data
	@echo "== fuzz: 100,000 mutated inputs and 2,000 drawn ones each"
	@VOICECTX_FUZZ_INPUTS=100000 VOICECTX_FUZZ_EXAMPLES=2000 $(PYTEST) tests/fuzz -o faulthandler_timeout=0 $(ARGS)

fuzz-short: $(STAMP)
	@echo "== fuzz, short form"
	@$(PYTEST) tests/fuzz $(ARGS)

soak: $(STAMP) ## four simulated hours of one call, and a thousand short ones
	@echo "== soak: four simulated hours, a thousand calls"
	@VOICECTX_SOAK_HOURS=4 VOICECTX_SOAK=1 VOICECTX_SOAK_CALLS=1000 $(PYTEST) tests/soak -o faulthandler_timeout=0 $(ARGS)

soak-short: $(STAMP)
	@echo "== soak, short form"
	@$(PYTEST) tests/soak $(ARGS)

properties: $(STAMP) ## whole calls, stores and lifecycles at random, many times over; hours
	@echo "== properties: 2,000 examples, 160 whole calls"
	@HYPOTHESIS_PROFILE=soak $(PYTEST) tests/properties -o faulthandler_timeout=0 $(ARGS)

bench: $(STAMP) ## quick form of every bench
	@$(BIN)/voicectx bench all --quick $(ARGS)

bot: $(STAMP) ## the bot of the demo, for your microphone: http://localhost:7860
	@$(BIN)/python bots/local_bot.py -t webrtc $(ARGS)

clean: ## remove .venv and caches
	@rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist .build
