"""A town with a gateway, its endpoint on the bus; processes of Hermes that end with their test."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import hermes
from fakes.broker import Broker
from fakes.gateway import Gateway
from fakes.hermes import Town
from fakes.hermes_process import Station
from wakebus.broker import Client

MakeGateway = Callable[..., Gateway]
MakeStation = Callable[[], Station]


@pytest.fixture
def town(monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    """A gateway of Hermes with people (fakes/hermes.py)."""
    hermes.modules(monkeypatch)
    with hermes.town() as found:
        yield found


@pytest.fixture
def make_gateway(shared_broker: Broker, tmp_path: Path, town: Town) -> Iterator[MakeGateway]:
    """Return a maker of the town's endpoint: `make_gateway(rule, …, environ=…, address=…)`."""
    tmp_path.chmod(0o700)
    made: list[Gateway] = []

    def make(*callbacks: Any, **fields: Any) -> Gateway:
        name, address = f"gw-{secrets.token_hex(5)}", fields.pop("address", shared_broker.address)
        made.append(Gateway(address, tmp_path, name, town, *callbacks, **fields))
        return made[-1]

    yield make
    for gateway in made:
        gateway.close()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> Path:
    """A HERMES_HOME of its own; HERMES_BUS_ENDPOINT is `name`."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_BUS_ENDPOINT", name)
    return tmp_path


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch, shared_broker: Broker, home: Path) -> Iterator[Client]:
    """A client of the bus that stations find."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(shared_broker.root))
    with Client() as client:
        yield client


@pytest.fixture
def station() -> Iterator[MakeStation]:
    """Return a maker of processes of Hermes; they end with the test."""
    made: list[Station] = []

    def make() -> Station:
        made.append(Station())
        return made[-1]

    yield make
    for one in made:
        one.runtime.stop()
