# The README's two commands are `make demo` and `make test`. Both install into .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all lint format docs references bench torture clean

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "labeldp needs Python 3.10 or newer; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,dev]'
	@touch $@

demo: .venv/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

test: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow'

test-all: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, into ./site; any warning ends it.
docs: .venv/installed
	$(BIN)/python -W error -m properdocs build --strict

# docs/reference/: written from the commands and the docstrings.
references: .venv/installed
	$(BIN)/python -m tools.docs

bench: .venv/installed
	$(BIN)/python benchmarks/train.py --out benchmarks/results/train.json
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/release.py --out benchmarks/results/release.json
	$(BIN)/python benchmarks/document.py

torture: .venv/installed
	$(BIN)/python -m tests.torture --kills 100 --races 200 --out benchmarks/results/torture.json
	$(BIN)/python benchmarks/document.py

clean:
	rm -rf .venv demo site
