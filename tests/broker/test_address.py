"""The address file, and where a client finds the events."""

import json
import os
import stat
from pathlib import Path

import pytest

from wakebus.broker.address import TopicAddresses, read_address, topic_addresses
from wakebus.broker.errors import NotRunning
from wakebus.broker.server.watchdog import write_address

ROUTER = "ipc:///x/broker.sock"
FACTS = {"router": ROUTER, "events_in": "ipc:///i", "events_out": "ipc:///o", "bus_pub": "b" * 16}
ADDRESSES = TopicAddresses("ipc:///i", "ipc:///o", "b" * 16)


def write(root: Path, facts: object) -> None:
    """Be a broker that wrote this."""
    (root / "bus").mkdir(exist_ok=True)
    (root / "bus" / "address.json").write_text(json.dumps(facts))


def test_the_address_is_private_and_whole(tmp_path: Path) -> None:
    """PROTOCOL-1.5: 0600, in one step, nothing else left."""
    write_address(tmp_path, {"router": "ipc:///x", "pid": 5})
    assert read_address(tmp_path) == {"router": "ipc:///x", "pid": 5}
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", " \n", "\0" * 99, "{", "[]", "{}", '{"router": 5}', "\udcff", "[" * 99_999]
)
def test_a_bad_address_file_is_named(tmp_path: Path, text: str) -> None:
    """PROTOCOL-1.14: whatever it holds, as after a cut of power, no broker runs here."""
    (tmp_path / "address.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(
        NotRunning, match=r"no broker runs here \(.*/address\.json holds no address"
    ):
        read_address(tmp_path)


def test_no_address_file(tmp_path: Path) -> None:
    """The commonest case: none has started here, or it was stopped."""
    with pytest.raises(NotRunning, match="no broker runs here"):
        read_address(tmp_path)
    with pytest.raises(NotRunning):
        read_address(tmp_path / "missing")


def test_the_file_holds_json(tmp_path: Path) -> None:
    """PROTOCOL-1.5: other languages read it too."""
    write_address(tmp_path, {"router": "ipc:///ü"})
    assert json.loads((tmp_path / "address.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_an_address_that_is_no_file(tmp_path: Path, kind: str) -> None:
    """PROTOCOL-1.5: a link is not followed, a pipe holds nobody."""
    path = tmp_path / "address.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        (tmp_path / "other").write_text('{"router": "ipc:///evil"}')
        path.symlink_to(tmp_path / "other")
    with pytest.raises(NotRunning, match=r"address\.json"):
        read_address(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_somebody_elses_address(tmp_path: Path, whose: str) -> None:
    """PROTOCOL-1.5: it is not trusted, and named."""
    folder = tmp_path / "bus"
    folder.mkdir()
    write_address(folder, {"router": "ipc:///x"})
    theirs = folder / "address.json" if whose == "file" else folder
    os.chown(theirs, 12345, 12345)
    with pytest.raises(NotRunning, match=f"{theirs} is not"):
        read_address(folder)


def test_a_planted_draft_is_not_followed(tmp_path: Path) -> None:
    """PROTOCOL-1.5: nor is a link at the address itself."""
    (tmp_path / "mine").write_text("mine")
    for name in (f".address.json.{os.getpid()}", "address.json"):
        (tmp_path / name).symlink_to(tmp_path / "mine")
    write_address(tmp_path, {"router": "ipc:///x"})
    assert (tmp_path / "mine").read_text() == "mine"
    assert read_address(tmp_path) == {"router": "ipc:///x"}


# --- the topic plane ------------------------------------------------------------------------


def test_it_is_what_the_broker_wrote(bus_root: Path) -> None:
    """Of the running broker; nothing is computed."""
    write(bus_root, FACTS)
    assert topic_addresses(ROUTER, explicit=False) == ADDRESSES
    assert topic_addresses("ipc:///moved", explicit=False) == ADDRESSES


def test_an_address_that_was_given_must_be_the_same_broker(
    bus_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found beside its socket, or in this user's folder (long paths); never another one's."""
    write(bus_root, FACTS)
    assert topic_addresses(ROUTER, explicit=True) == ADDRESSES
    with pytest.raises(NotRunning, match="has written nowhere"):
        topic_addresses("ipc:///y/broker.sock", explicit=True)
    router = f"ipc://{bus_root}/bus/broker.sock"
    write(bus_root, {**FACTS, "router": router})
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    assert topic_addresses(router, explicit=True) == ADDRESSES


@pytest.mark.parametrize("missing", TopicAddresses._fields)
def test_an_older_broker_has_no_events(bus_root: Path, missing: str) -> None:
    """Which is said, with the next step."""
    write(bus_root, {k: v for k, v in FACTS.items() if k != missing})
    with pytest.raises(NotRunning, match="older than this client") as caught:
        topic_addresses(ROUTER, explicit=False)
    assert "hermes-busd restart" in caught.value.data["step"]


def test_no_broker(bus_root: Path) -> None:
    """The usual words."""
    with pytest.raises(NotRunning, match="no broker runs here"):
        topic_addresses(ROUTER, explicit=False)
