# make demo   sets up everything and shows the whole of wakebus in half a minute
# make test   sets up everything and passes the tests
# The rest is for people who change wakebus: lint, types, unit, wheel, bench, clean.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types unit wheel bench clean

demo: .venv/ready
	$(BIN)/python deploy/demo/demo.py .demo/run

test: lint types unit wheel
	@echo "all checks passed"

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "wakebus needs Python 3.11 or newer; yours: $$($(PYTHON) -V). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy
	$(BIN)/mypy tests deploy

unit: .venv/ready
	$(BIN)/pytest -n 2 -q

# Editable installs hide packaging faults: the wheel is built and used in an environment of its own.
wheel: .venv/ready
	rm -rf .wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir .wheel .
	$(PYTHON) -m venv .wheel/venv
	.wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check .wheel/*.whl
	.wheel/venv/bin/python -P tests/wheel_smoke.py

bench: .venv/ready
	$(BIN)/python tests/bench/start_notify.py

clean:
	rm -rf .venv .demo .wheel build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
