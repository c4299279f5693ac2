"""`plane`: where a client finds the events."""

import json
from pathlib import Path

import pytest

from wakebus.broker.address import Plane, plane
from wakebus.broker.errors import NotRunning

ROUTER = "ipc:///x/broker.sock"
FACTS = {"router": ROUTER, "events_in": "ipc:///i", "events_out": "ipc:///o", "bus_pub": "b" * 16}
PLANE = Plane("ipc:///i", "ipc:///o", "b" * 16)


def write(root: Path, facts: object) -> None:
    """Be a broker that wrote this."""
    (root / "bus").mkdir(exist_ok=True)
    (root / "bus" / "address.json").write_text(json.dumps(facts))


def test_it_is_what_the_broker_wrote(bus_root: Path) -> None:
    """Of the running broker; nothing is computed."""
    write(bus_root, FACTS)
    assert plane(ROUTER, explicit=False) == PLANE
    assert plane("ipc:///moved", explicit=False) == PLANE


def test_an_address_that_was_given_must_be_the_same_broker(
    bus_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found beside its socket, or in this user's folder (long paths); never another one's."""
    write(bus_root, FACTS)
    assert plane(ROUTER, explicit=True) == PLANE
    with pytest.raises(NotRunning, match="has written nowhere"):
        plane("ipc:///y/broker.sock", explicit=True)
    router = f"ipc://{bus_root}/bus/broker.sock"
    write(bus_root, {**FACTS, "router": router})
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    assert plane(router, explicit=True) == PLANE


@pytest.mark.parametrize("missing", Plane._fields)
def test_an_older_broker_has_no_events(bus_root: Path, missing: str) -> None:
    """Which is said, with the next step."""
    write(bus_root, {k: v for k, v in FACTS.items() if k != missing})
    with pytest.raises(NotRunning, match="older than this client") as caught:
        plane(ROUTER, explicit=False)
    assert "hermes-busd restart" in caught.value.data["step"]


def test_no_broker(bus_root: Path) -> None:
    """The usual words."""
    with pytest.raises(NotRunning, match="no broker runs here"):
        plane(ROUTER, explicit=False)
