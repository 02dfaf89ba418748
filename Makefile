# Two commands: `make table` measures, `make test` tests. Each makes its own virtual environment in .venv
# and installs all that it needs; Python 3.11 or newer is all that must be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Packages are installed without bytecode: what is imported is compiled once, not by every process.
unexport PYTHONDONTWRITEBYTECODE
# Neighbours run on one worker and share what their module has made.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: table test coverage fuzz mutants browser-test lowest lint docs verify-all clean

table: $(VENV)/table.stamp  ## measure the twelve starter instructions (simulated where there is no GPU)
	$(BIN)/ptxbench table

test: $(VENV)/dev.stamp  ## every test that needs no GPU
	$(PYTEST)

coverage: $(VENV)/dev.stamp  ## the same tests, and which lines and branches they run
	$(PYTEST) --cov --cov-report=term:skip-covered

fuzz: $(VENV)/dev.stamp  ## the same tests, each property tried by two thousand fresh examples
	$(PYTEST) --hypothesis-profile=fuzz

mutants: $(VENV)/dev.stamp  ## slips made one at a time, and which of them no test notices (MUTANTS="--count 40 --seed 2 FILE")
	$(BIN)/python runners/mutants.py $(MUTANTS)

browser-test: $(VENV)/dev.stamp  ## the HTML page in headless Chromium
	$(BIN)/python -m pytest -m browser

lowest: $(VENV)/bin/python  ## the same tests with the oldest releases of each dependency that is allowed
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check uv
	UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --resolution lowest-direct -e '.[dev]'
	$(PYTEST) -W ignore::DeprecationWarning  # of what they import in newer releases

lint: $(VENV)/dev.stamp  ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers auto
	$(BIN)/lint-imports

docs: $(VENV)/dev.stamp  ## the documentation as a site in site/, without a warning
	$(BIN)/python runners/build_site.py

verify-all: $(VENV)/table.stamp  ## check the loops of the whole catalogue on every target
	$(BIN)/ptxbench verify --target sm_75 --target sm_80 --target sm_86 --target sm_89 --target sm_90a \
		--target sm_100a --target sm_120a

clean:  ## remove the virtual environment
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("ptxbench needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/table.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[cuda,plot]'
	touch $@

# uv takes a third of pip's time; where it cannot reach an index that pip knows, pip does it.
$(VENV)/dev.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check uv \
		&& UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]' \
		|| $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[dev]'
	touch $@
