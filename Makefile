# Two commands matter: `make quickstart` and `make test`. Each does its own set-up.
BIN := .venv/bin
# Everything below runs the tools of .venv, also in the scripts it calls.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Without compiled files every process of every test parses the whole tree again.
unexport PYTHONDONTWRITEBYTECODE

# The unit tests in two halves of about the same length, each in one process: two workers would both collect all.
HALF := $(addprefix tests/unit/,rl train models pipeline reward cluster rollout data track)
OTHER_HALF := tests/unit $(HALF:%=--ignore=%)

# The tests that start whole runs or engines, in three parts: most of a run's time is spent waiting for its processes.
RUNS := $(addprefix tests/integration/,test_training_run.py test_training_ends.py test_learning.py \
	deepgym/test_openrlhf_client.py)
RESUMED_RUNS := $(addprefix tests/integration/,test_resume.py test_two_turn_game.py)

.PHONY: help setup quickstart test test-resumed-runs test-runs test-engines test-others test-all check lint types unit unit-half unit-other-half docs-check docs bench soak clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup:  ## fill .venv for this machine; nothing to do when it is up to date
	@tools/setup.sh

quickstart: setup  ## train SmolLM2-135M on a small task and score it before and after
	@examples/quickstart/run.sh

test: setup  ## docs, unit, contract and integration tests (real Ray, vLLM, DeepSpeed, bubblewrap and podman)
	@$(MAKE) --no-print-directory --output-sync=target -j 3 unit docs-check
	@$(MAKE) --no-print-directory -j 3 test-resumed-runs test-others test-runs test-engines
	@echo "make test: every part has passed"

# Three side by side on two cores: starting processes and waiting for sandboxes leave each other room.
test-resumed-runs:
	pytest -q -m "engine and not slow and not gpu" $(RESUMED_RUNS)

test-runs:
	pytest -q -m "engine and not slow and not gpu" $(RUNS)

test-engines:
	pytest -q -m "engine and not slow and not gpu" $(addprefix --ignore=,$(RUNS) $(RESUMED_RUNS)) tests/integration

test-others:
	pytest -q -m "not engine and not slow and not gpu" --ignore=tests/unit tests

test-all: setup  ## everything, the long proofs too; keeps what they print in docs/proofs
	@mkdir -p runs
	@tools/setup_vision.sh
	VISION_MODELS=idefics3,qwen2_5_vl,qwen3_vl KEEP_PROOFS=yes bash -o pipefail -c 'pytest -q -rA tests 2>&1 | tee runs/test-all.txt'
	@tail -n 400 runs/test-all.txt | grep -E '^(PASSED|FAILED|ERROR|=)' > docs/proofs/test-all.txt

check: setup  ## ruff, types, architecture, unit tests: no engine; a minute
	@$(MAKE) --no-print-directory --output-sync=target -j 3 unit types lint

lint:
	ruff check .
	ruff format --check .

types:
	mypy openrlhf deepgym tools examples/quickstart
	mypy --explicit-package-bases deepgym/envs/*/verifier.py

unit: unit-half unit-other-half

unit-half:
	pytest -q $(HALF)

unit-other-half:
	pytest -q $(OTHER_HALF)

docs: setup  ## write docs/reference/cli.md from the configuration schema
	python3 -m openrlhf.config.reference --write

docs-check: setup  ## every command and snippet in README and docs still parses
	python3 tools/docs_check.py

bench: setup  ## rollout and training speed beside bare vLLM and a bare loop
	@for script in benchmarks/*.py; do echo "== $$script"; python3 $$script; done

soak: setup  ## 100,000 reward requests at a served environment: processes, files and memory stay what they were
	python3 -m tests.integration.deepgym.soak --requests 100000

clean:  ## remove caches; keeps .venv, .models and runs
	rm -rf .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info
	find openrlhf deepgym tests examples tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
