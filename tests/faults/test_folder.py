"""The bus folder, or a part of it, is removed under the daemon."""

import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from fakes.broker import Broker, MakeBroker, until
from fakes.desk import Desk
from fakes.peer import MakePeer
from wakebus.broker import Client
from wakebus.broker.errors import NotRunning
from wakebus.broker.server.watchdog import LOOK_S


def ended(broker: Broker) -> int:
    """Wait for the broker's end; return its exit status."""
    until(lambda: not broker.alive)
    assert broker.process is not None
    return int(broker.process.returncode)


def rescued(broker: Broker) -> Path:
    """Return the store that was kept."""
    (found,) = broker.folder.glob("bus.db.rescued-*Z")
    return found


@pytest.mark.parametrize("name", ["broker.sock", "address.json", "broker.log", "broker.lock"])
def test_what_can_be_made_again(broker: Broker, peers: MakePeer, name: str) -> None:
    """PROTOCOL-1.13: it is, within seconds; who is connected notices nothing, others get in."""
    peer = peers(broker)
    peer.register("e")
    (broker.folder / name).unlink()
    until((broker.folder / name).exists)
    assert peers(broker).send("e", "found", sender="ci")["state"] == "queued"
    assert peer.finish() == ["found"]
    assert broker.command("status").returncode == 0
    if name != "broker.log":
        until(lambda: f"{name} was" in broker.log)
    assert broker.stop() == 0


@pytest.mark.parametrize("names", [["pub.sock"], ["sub.sock"], ["pub.sock", "sub.sock"]])
def test_sockets_of_the_topic_plane(broker: Broker, names: list[str]) -> None:
    """PROTOCOL-1.13, PROTOCOL-11.6: made again; who is connected goes on, figures count on."""
    with Client() as before, Client() as publisher:
        came: list[str] = []
        before.subscribe("a.**", lambda event: came.append(f"old {event.topic}"))
        publisher.publish("a.one")
        until(lambda: came == ["old a.one"])
        counted = before.status()["events"]["in"]
        assert counted
        for _ in range(2):
            for name in names:
                (broker.folder / name).unlink()
            until(lambda: all((broker.folder / name).exists() for name in names))
        publisher.publish("a.two")
        until(lambda: "old a.two" in came)
        with Client() as after:
            after.subscribe("a.**", lambda event: came.append(f"new {event.topic}"))
            after.publish("a.three")
            until(lambda: {"old a.three", "new a.three"} <= {*came})
            assert after.status()["events"]["in"] > counted
    assert len(came) == len(set(came))
    for name in names:
        assert broker.log.count(f"{name} was gone; made again") == 1  # told once a minute
    assert broker.stop() == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes folders of others")
def test_a_short_folder_that_another_user_has_made(
    bus_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-1.13, PROTOCOL-1.18: the broker binds nothing there, and says so once."""
    long = bus_root / ("x" * 100)
    long.mkdir(mode=0o700)
    broker = Broker(long).start()
    monkeypatch.setenv("HERMES_BUS_ROOT", str(long))
    short = Path(broker.address.removeprefix("ipc://")).parent
    looks = 3 * LOOK_S
    try:
        moved = short.rename(short.with_name(f"{short.name}-moved"))
        short.mkdir()
        os.chown(short, 12345, 12345)
        until(lambda: "belongs to uid 12345" in broker.log)
        began = time.monotonic()
        until(lambda: time.monotonic() > began + looks)
        assert list(short.iterdir()) == [] and broker.log.count("belongs to uid 12345") <= 2
        with pytest.raises(NotRunning, match="belongs to uid 12345"):
            Client()
        shutil.rmtree(short)
        until(lambda: (short / "sub.sock").exists())
        shutil.rmtree(moved)
        assert broker.stop() == 0
    finally:
        if broker.alive:
            broker.kill()
            shutil.rmtree(short, ignore_errors=True)


def test_a_lock_file_that_is_removed_lets_nobody_in(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.2: the folder is locked too; never two brokers on one store."""
    (broker.folder / "broker.lock").unlink()
    second = Broker(broker.root)
    assert second.start().word == "already_running"
    assert peers(broker).send("e", queue=True)["state"] == "queued"
    until(lambda: "locked again" in broker.log)
    assert broker.command("stop").returncode == 0
    assert broker.process is not None and broker.process.wait(15) == 0


def test_the_whole_folder(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.12: the broker ends and says so; what waits in it is kept; a new one can start."""
    peer = peers(broker)
    peer.send("e", "accepted", queue=True)
    shutil.rmtree(broker.folder)
    assert ended(broker) == 70
    assert "was removed" in broker.log and rescued(broker).name in broker.log
    with sqlite3.connect(rescued(broker)) as db:
        assert db.execute("SELECT count(*) FROM message WHERE done IS NULL").fetchone() == (1,)
    db.close()
    assert broker.start().word == "ready"
    assert peers(broker).ask("status")["set_aside"] == [rescued(broker).name]
    broker.stop()
    rescued(broker).rename(broker.folder / "bus.db")
    broker.start()
    back = peers(broker)
    back.register("e")
    assert back.finish() == ["accepted"]


def test_a_folder_in_which_nothing_waited(broker: Broker) -> None:
    """PROTOCOL-1.12: who removes it on purpose does not find it again."""
    shutil.rmtree(broker.folder)
    assert ended(broker) == 70
    assert not broker.folder.exists()


def test_another_broker_in_the_meantime(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.12: the one that lost the folder takes nothing from the one that came after it."""
    moved = broker.root / "moved"
    broker.folder.rename(moved)
    second = Broker(broker.root).start()
    try:
        assert second.word == "ready"
        assert ended(broker) == 70
        assert peers(second).send("e", queue=True)["state"] == "queued"
        assert second.command("status").returncode == 0
    finally:
        second.kill()


@pytest.mark.parametrize("end", ["", "-wal"])
def test_the_store_alone(broker: Broker, peers: MakePeer, end: str) -> None:
    """PROTOCOL-8.11: the broker ends loudly, and all that it accepted is on disk afterwards."""
    peers(broker).send("e", "accepted", queue=True)
    (broker.folder / f"bus.db{end}").unlink()
    assert ended(broker) == 70
    assert f"bus.db{end} was removed under the broker" in broker.log
    if not end:
        rescued(broker).rename(broker.folder / "bus.db")
        (broker.folder / "bus.db-wal").unlink(missing_ok=True)
    broker.start()
    peer = peers(broker)
    peer.register("e")
    assert peer.finish() == ["accepted"]


def test_a_store_that_is_replaced(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.11: a backup put back under the running broker is used by the next one."""
    peers(broker).send("e", "old", queue=True)
    broker.stop()
    backup = (broker.folder / "bus.db").read_bytes()
    broker.start()
    peers(broker).send("e", "new", queue=True)
    draft = broker.folder / "draft"
    draft.write_bytes(backup)
    draft.replace(broker.folder / "bus.db")
    assert ended(broker) == 70 and rescued(broker).stat().st_size
    for left in ("-wal", "-shm"):
        (broker.folder / f"bus.db{left}").unlink(missing_ok=True)
    assert broker.start().word == "ready"
    peer = peers(broker)
    peer.register("e")
    assert peer.finish() == ["old"]


def test_a_socket_in_a_temporary_folder(
    make_broker: MakeBroker, bus_root: Path, peers: MakePeer
) -> None:
    """PROTOCOL-1.13, PROTOCOL-1.4: whoever tidies up there harms nobody."""
    long = bus_root / ("x" * 100)
    long.mkdir(mode=0o700)
    broker = Broker(long)
    try:
        assert broker.start().word == "ready"
        socket = Path(broker.address.removeprefix("ipc://"))
        assert socket.parent.parent != long
        shutil.rmtree(socket.parent)
        until(socket.exists)
        assert peers(broker).send("e", queue=True)["state"] == "queued"
    finally:
        if broker.alive:
            broker.stop()


def test_a_listener_brings_a_new_one_up(own_desk: Desk) -> None:
    """PROTOCOL-1.12: it starts a broker in a new folder, and goes on under its name."""
    own_desk.start()
    listener = own_desk.listen("worker")
    old = own_desk.broker_pid
    shutil.rmtree(own_desk.root / "bus")
    until(lambda: _is_another(own_desk, old), 30)
    until(lambda: own_desk.notify("--to", "worker", "--from", "ci", "found again").status == 0, 30)
    listener.shows("found again")
    listener.end()


def _is_another(desk: Desk, old: int) -> bool:
    try:
        return desk.broker_pid != old
    except OSError:  # no address at the moment
        return False
