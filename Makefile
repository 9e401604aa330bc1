# `make` alone lists the targets. Each one sets up .venv first, with git, make and Python 3.11 or newer.

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all bench check format lock sbom wheels image release generate screenshots clean
.DELETE_ON_ERROR:

BIN := .venv/bin
# In a checkout that was moved or copied .venv has wrong paths, so the names of the stamps contain the path.
HERE := $(shell pwd | cksum | cut -d' ' -f1)
RUN := .venv/ready-to-run-$(HERE)
DEV := .venv/ready-to-develop-$(HERE)
ARGS ?=
export PYTHON MAKECMDGOALS
# Bytecode is always cached, in .venv: otherwise each process that the tests start would compile every module.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: $(RUN) ## Start the service for development and make a payment; ARGS="--port 9000" is passed on
	@$(BIN)/python scripts/run.py $(ARGS)

setup: $(DEV) ## Set up .venv and the programs that the tests use

PYTEST := $(BIN)/pytest --numprocesses 4 --dist worksteal --quiet --durations 10 --durations-min 1
# A case takes 5 s at most. One that hangs fails after this time, and shows where it was.
HANGING_SECONDS := 240

test: $(DEV) ## Run the tests, in about 5 min on two cores; ARGS="-k cancel" is passed on
	@$(PYTEST) --timeout $(HANGING_SECONDS) -m "not slow" $(ARGS)

test-all: $(DEV) ## Run every test in its longest form, with unlucky ids and beside busy loops too; takes hours
	@HYPOTHESIS_PROFILE=random $(PYTEST) $(ARGS)
	@$(PYTEST) -m "not slow" --unlucky-ids $(ARGS)
	@$(BIN)/python -m tests.loaded

bench: $(DEV) ## Measure requests per second, beside other servers, in about 11 min; ARGS="--runs 1 --no-peers" is passed on
	@$(BIN)/python -m bench $(ARGS)

check: $(DEV) ## Check lint, format, types, imports, generated files and the bill of materials
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/lint-imports --no-cache --config imports.toml
	@$(BIN)/python -m tools.docs.generated --check
	@$(BIN)/python scripts/sbom.py --check
	@$(BIN)/python -m tests.openapi_tools

format: $(DEV) ## Format all files
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format

generate: $(DEV) ## Write the generated files: pages of docs/, versions, the list of common passwords
	@$(BIN)/python -m tools.docs.generated
	@$(BIN)/python scripts/common_passwords.py

screenshots: $(DEV) ## Write the screenshots in docs/; needs Chromium
	@$(BIN)/python -m tests.browser

LOCK_ALONE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --upgrade
LOCK := $(LOCK_ALONE) pyproject.toml --no-emit-package paydesk --no-emit-package paydesk-dev --group build

lock: $(DEV) ## Update the lock files and the bill of materials
	@$(LOCK) --output-file requirements.lock
	@$(LOCK) --extra otel --constraints requirements.lock --output-file requirements-otel.lock
	@$(LOCK) src/pyproject.toml --constraints requirements.lock --output-file requirements-kit.lock
	@$(LOCK) src/pyproject.toml --extra otel --group dev --constraints requirements-kit.lock \
		--constraints requirements-otel.lock --output-file requirements-dev.lock
	@$(LOCK_ALONE) --group deploy --output-file tests/deploy/requirements.lock
	@$(LOCK_ALONE) --group openapi --output-file tests/openapi/requirements.lock
	@$(MAKE) --no-print-directory sbom

# The installed packages must match the lock: their licences are read.
sbom: $(DEV) ## Write sbom.cdx.json, the bill of materials, from the lock file
	@$(BIN)/python scripts/sbom.py

wheels: $(RUN) ## Build the wheels of paydesk and of its development kit into dist/
	@rm -f dist/*.whl
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-index \
		--no-build-isolation --wheel-dir dist . ./src
	@ls dist/*.whl

image: wheels ## Build the image into dist/, as root on Debian; ARGS=--kit adds the development kit, ARGS=--otel traces
	@deploy/image/build $(ARGS) dist

release: $(DEV) ## Build the release of this commit into dist/: wheels, locks, image, notes, SHA256SUMS
	@$(BIN)/python scripts/release.py $(ARGS)

clean: ## Remove .venv and all caches, but not the data in .paydesk
	@rm -rf .venv dist bench/peers/node_modules tests/clients/node/node_modules tests/openapi/node_modules
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests -name __pycache__ -prune -exec rm -rf {} +

$(RUN): requirements-kit.lock pyproject.toml src/pyproject.toml scripts/setup
	@scripts/setup run
	@touch $@

$(DEV): requirements-dev.lock requirements-kit.lock pyproject.toml src/pyproject.toml scripts/setup scripts/programs
	@scripts/setup dev
	@touch $(RUN) $@
