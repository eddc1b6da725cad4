# Needs python3 >= 3.11 and nothing else: everything is installed by pip into $(VENV).

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

DISTRIBUTIONS := $(patsubst %/pyproject.toml,%,$(wildcard contrib_plugins/*/pyproject.toml examples/*/pyproject.toml))
PYPROJECTS := pyproject.toml $(DISTRIBUTIONS:%=%/pyproject.toml)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start hundreds of processes: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check slow long real lint mypy pyright site conformance bench clean

demo: $(VENV)/.demo-installed
	$(BIN)/kframework simulate -f examples/clusters/demo.yaml --config examples/configs/demo.yaml

test: $(VENV)/.dev-installed
	@# Without what is marked slow or long.
	$(BIN)/pytest -n auto

check: test lint slow

slow: $(VENV)/.dev-installed
	@# What is marked slow and nothing else; tests/conftest.py refuses slow tests in modules that are not looked into.
	@# They use two thirds of a core each, and wait for other processes the rest of the time.
	$(BIN)/pytest -n $$($(BIN)/python -c 'import os; print(os.cpu_count() * 3 // 2)') -m 'slow and not long' \
	  $$(grep -rlE --include='test_*.py' --include='*_test.py' 'mark\.slow|support\.scale' tests contrib_plugins examples)

long: $(VENV)/.dev-installed
	KFRAMEWORK_EXAMPLES=$${KFRAMEWORK_EXAMPLES:-1000} $(BIN)/pytest -n auto -m 'slow or long or hypothesis'

real: $(VENV)/.dev-installed
	@# Only the tests that need the kube-apiserver and etcd in KUBE_ASSETS.
	$(BIN)/pytest -m real

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@# Either takes a minute of one core.
	$(MAKE) --no-print-directory --jobs 2 --output-sync mypy pyright

mypy: $(VENV)/.dev-installed
	$(BIN)/mypy

pyright: $(VENV)/.dev-installed
	@# With --verifytypes pyright asks the python on PATH, not --pythonpath, where packages are.
	PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes kframework --ignoreexternal

site: $(VENV)/.dev-installed
	@# Offline; tests/docs/test_site.py holds it to the same.
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/site
	@echo "open build/site/index.html"

conformance: $(VENV)/.dev-installed
	@# All recorded cases, as the table that the command prints; the tests replay them too.
	$(BIN)/kframework conformance tests/conformance/vectors/*.jsonl.gz

bench: $(VENV)/.dev-installed
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.demo-installed: pyproject.toml examples/fewest_pods/pyproject.toml examples/together/pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet --editable . --editable examples/fewest_pods --editable examples/together
	@touch $@

$(VENV)/.dev-installed: $(PYPROJECTS) | $(BIN)/pip
	@# pip 25.1 is the first that knows --group.
	$(BIN)/pip install --quiet 'pip>=25.1'
	$(BIN)/pip install --quiet --group dev --editable '.[otlp]' $(DISTRIBUTIONS:%=--editable %)
	@touch $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: kframework needs Python 3.11 or newer, and $(PYTHON) is not; try: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: $(PYTHON) comes without the venv module; on Debian: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
