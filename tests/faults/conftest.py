"""What the fault tests share: programs beside these files, and where a receiver records."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.broker import Broker
from fakes.program import Program, Run


@pytest.fixture
def run(broker: Broker) -> Iterator[Run]:
    """Return `run(script, *args)`; what still runs at the end of the test is killed."""
    running: list[Program] = []

    def start(script: str, *args: object) -> Program:
        running.append(Program(broker, Path(__file__).with_name(script), *args))
        return running[-1]

    yield start
    for program in running:
        program.close()


@pytest.fixture
def record(bus_root: Path) -> Path:
    """The file that a receiver writes its record to."""
    return bus_root / "record"
