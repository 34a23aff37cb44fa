# The README's two commands are `make demo` and `make test`. Both install into .venv first.
PYTHON ?= python3
BIN := .venv/bin
FLOORS := .venv-floors

.PHONY: demo test test-all test-floors lint format docs references bench torture clean

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

# Everything at the oldest version that pyproject.toml allows: the core, and one path from labels to a report. Old libraries warn of
# what newer ones changed; that is theirs.
$(FLOORS)/installed: pyproject.toml tools/floors.py src/labeldp/requirements.py
	$(PYTHON) -m venv $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	$(FLOORS)/bin/python -m tools.floors > $(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check -c $(FLOORS)/floors.txt \
	  -e '.[train,sklearn,lightgbm,tensorboard,figures]' pytest pytest-xdist hypothesis scipy mpmath dp-accounting
	@touch $@

test-floors: $(FLOORS)/installed
	$(FLOORS)/bin/python -m pytest -n 2 -m 'not slow' -o filterwarnings=default \
	  tests/test_path.py tests/test_requirements.py tests/estimators tests/runs/test_tables.py tests/accounting tests/release tests/mechanisms tests/data tests/cli/test_main.py tests/cli/test_commands.py

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
	rm -rf .venv $(FLOORS) demo site
