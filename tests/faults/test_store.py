"""A store that is newer, damaged, or not ours: said, kept, and never silently empty."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.broker import Broker
from fakes.peer import MakePeer

PAGE = 4096


def killed(broker: Broker, peers: MakePeer, count: int = 40) -> Path:
    """Return the store of a broker that was killed with `count` messages in it."""
    peer = peers(broker)
    for number in range(count):
        peer.send("e", "x" * 3000, queue=True, session=str(number))
    broker.kill()
    return broker.folder / "bus.db"


def moved_in(path: Path) -> None:
    """Move the log into the file."""
    sqlite3.connect(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def head(path: Path) -> None:
    """Garbage where the file begins."""
    moved_in(path)
    with path.open("r+b") as file:
        file.write(b"\xa5" * 100)


def root(path: Path) -> None:
    """Garbage in the pages behind the first, which the start reads."""
    moved_in(path)
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\xa5" * 12 * PAGE)


def half(path: Path) -> None:
    """A file that was cut off."""
    moved_in(path)
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


def log(path: Path) -> None:
    """Garbage instead of the write-ahead log, in which all is."""
    Path(f"{path}-wal").write_bytes(b"\xa5" * 50_000)


@pytest.mark.parametrize("damage", [head, root, half, log])
def test_a_damaged_store(broker: Broker, peers: MakePeer, damage: Callable[[Path], None]) -> None:
    """PROTOCOL-8.4: found at the start, kept whole, told in log and status; the bus works."""
    path = killed(broker, peers)
    damage(path)
    before = path.read_bytes()
    assert broker.start().word == "ready"
    status = peers(broker).ask("status")
    (name,) = status["set_aside"]
    assert (broker.folder / name).read_bytes() == before
    assert status["messages"] == 0
    assert "damaged" in broker.log and name in broker.log
    assert name in broker.command("status").stdout
    for verb in ("trace", "wait"):
        assert name in peers(broker).error(verb, id="m1", state="handled").text
    assert peers(broker).send("e", queue=True)["state"] == "queued"


def test_a_newer_store_that_was_killed(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.5: neither the file nor its log is touched, byte for byte."""
    path = killed(broker, peers, 5)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.commit()
    wal = Path(f"{path}-wal")
    before = path.read_bytes(), wal.read_bytes()
    kept = [broker.folder / "kept", broker.folder / "kept-wal"]
    for file, data in zip(kept, before, strict=True):
        file.write_bytes(data)
    db.close()
    path.write_bytes(before[0])  # as a newer broker leaves it when it is killed
    wal.write_bytes(before[1])
    word = broker.start().word
    assert "newer wakebus" in word and "install that version" in word
    assert (path.read_bytes(), wal.read_bytes()) == before
    assert not list(broker.folder.glob("bus.db.corrupt-*"))


def test_an_empty_file(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.12: it is a store, but not without a word."""
    path = killed(broker, peers)
    path.write_bytes(b"")
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    assert broker.start().word == "ready"
    assert "bus.db is empty" in broker.log and "gone" in broker.log


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_file_of_ours(broker: Broker, kind: str) -> None:
    """PROTOCOL-8.12: the start stops, names it, and leaves it alone."""
    broker.stop()
    path = broker.folder / "bus.db"
    path.rename(broker.folder / "elsewhere")
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("elsewhere")
    else:
        os.mkfifo(path)
    word = broker.start().word
    assert "bus.db is not a file of this user" in word and "move it away" in word
    assert path.is_symlink() or (path.exists() and not path.is_file())


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written(broker: Broker) -> None:
    """PROTOCOL-8.12: told with what to do; nothing is set aside."""
    broker.stop()
    path = broker.folder / "bus.db"
    path.chmod(0o400)
    word = broker.start().word
    assert "cannot be written" in word and "chmod" in word
    path.chmod(0o600)
    assert broker.start().word == "ready"
