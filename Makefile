# `make help` lists the targets. Each brings what it needs first; where all is there, that takes a blink.

# Processes for the tests without a JVM, and for those on Spark: each of the latter starts a JVM.
WORKERS ?= 2
SPARK_WORKERS ?= 2
# Handed on to pytest, bench or demo, as in: make test-fast ARGS='-k names'
ARGS ?=

RUN := scripts/run.sh
export WORKERS SPARK_WORKERS
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test test-fast fuzz soak check fmt bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## virtual environment, Java, Spark's jars (demo and test do this by themselves)
	@scripts/setup.sh spark

demo: setup ## the main job, end to end, on a fresh lake
	@$(RUN) scripts/demo.sh $(ARGS)

test: ## every check and every test
	@scripts/setup.sh tests
	@$(MAKE) --no-print-directory check
	@$(RUN) scripts/test.sh $(ARGS)

test-fast: ## the tests that need no JVM, without the long ones
	@scripts/setup.sh python
	@$(RUN) pytest --quiet -m "not spark and not slow and not faults" --hypothesis-profile=quick -n $(WORKERS) $(wildcard tests/unit tests/golden tests/contract tests/lake) $(ARGS)

fuzz: setup ## search further for changes that are derived, read or applied wrongly: make fuzz N=20000 SPARK_N=300
	@NEVE_FUZZ=$(or $(N),20000) $(RUN) pytest --quiet -n $(WORKERS) tests/property $(ARGS)
	@FUZZ_SPARK=$(or $(SPARK_N),300) $(RUN) pytest --quiet -n $(SPARK_WORKERS) \
		tests/spark/test_dynamic_fuzz.py tests/spark/test_changes_histories.py tests/spark/test_range_model.py \
		tests/spark/test_parquet_model.py tests/spark/test_table_rows.py $(ARGS)

soak: ## tests that take minutes each: all of TPC-H as dynamic tables, and everything at once
	@scripts/setup.sh spark
	@$(RUN) pytest --quiet -m soak tests/spark $(ARGS)

check: ## form, lint, types, layers
	@scripts/setup.sh python
	$(RUN) ruff format --check --quiet --diff
	$(RUN) ruff check --quiet
	$(RUN) mypy --no-error-summary $(wildcard src tests scripts bench)
	$(RUN) lint-imports --no-logo
	$(RUN) uv pip check --quiet

fmt: ## format, and mend what the linter can
	@scripts/setup.sh python
	$(RUN) ruff check --quiet --fix-only
	$(RUN) ruff format

bench: setup ## cold and warm start, beside a bare Spark session
	@$(RUN) python bench/cold_start.py $(ARGS)

lock: ## refresh requirements.lock from pyproject.toml
	@scripts/setup.sh python
	$(RUN) uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --upgrade --all-extras --group dev --output-file requirements.lock pyproject.toml

clean: ## remove all that set-up and tests have made here
	rm -rf .venv .reports .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
