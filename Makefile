# `make` alone says what there is. Every target sets .venv up by itself, from git, make and Python 3.11 or newer.

.DEFAULT_GOAL := help
.PHONY: help run test test-slow bench check format lock sbom generate screenshots clean
.DELETE_ON_ERROR:

BIN := .venv/bin
# A checkout that was moved or copied has a .venv that points elsewhere, so the stamps know where they were made.
HERE := $(shell pwd | cksum | cut -d' ' -f1)
RUN := .venv/ready-to-run-$(HERE)
DEV := .venv/ready-to-develop-$(HERE)
ARGS ?=
export PYTHON MAKECMDGOALS
# Bytecode is kept whatever the shell says, and kept in .venv: each process that the tests start would compile all anew.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: $(RUN) ## Start the service for development and watch one payment; ARGS="--port 9000" is passed on
	@$(BIN)/python scripts/run.py $(ARGS)

PYTEST := $(BIN)/pytest --numprocesses 4 --dist worksteal --quiet

test: $(DEV) ## Run the tests but for the slow ones, in about 5 min; ARGS="-k cancel" is passed on
	@$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(DEV) ## Run the slow tests: more rounds, kills, faults, both databases; ARGS="-k cancel" is passed on
	@$(PYTEST) -m slow $(ARGS)

bench: $(DEV) ## Measure what a node does a second, beside others, in about 11 min; ARGS="--runs 1 --no-peers" is passed on
	@$(BIN)/python -m bench $(ARGS)

check: $(DEV) ## Lint, format, types, who imports whom, generated files, the bill of materials
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m paydesk.docs.generated --check
	@$(BIN)/python scripts/sbom.py --check

format: $(DEV) ## Put every file into the project's format
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format

generate: $(DEV) ## Write the generated files anew: pages of docs/, the list of common passwords
	@$(BIN)/python -m paydesk.docs.generated
	@$(BIN)/python scripts/common_passwords.py

screenshots: $(DEV) ## Take the pictures of the pages in docs/ anew; needs Chromium
	@$(BIN)/python -m tests.browser

LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --upgrade --group build

lock: $(DEV) ## Resolve the dependencies anew into the two locks, and write the bill of materials
	@$(LOCK) --output-file requirements.lock
	@$(LOCK) --group dev --constraints requirements.lock --output-file requirements-dev.lock
	@$(MAKE) --no-print-directory sbom

# What is installed must be what the lock says: licences are read from it.
sbom: $(DEV) ## Write sbom.cdx.json, the bill of materials, from the lock
	@$(BIN)/python scripts/sbom.py

clean: ## Remove .venv and every cache; the data in .paydesk stays
	@rm -rf .venv bench/peers/node_modules tests/clients/node/node_modules
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build src/*.egg-info
	@find src tests -name __pycache__ -prune -exec rm -rf {} +

$(RUN): requirements.lock pyproject.toml scripts/setup
	@scripts/setup run
	@touch $@

$(DEV): requirements-dev.lock requirements.lock pyproject.toml scripts/setup scripts/programs
	@scripts/setup dev
	@touch $(RUN) $@
