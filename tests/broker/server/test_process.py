"""The broker's process: lock, folder, socket, signals, log."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import zmq

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import MakePeer, posting
from wakebus.broker import errors
from wakebus.broker.server import process, socket_paths
from wakebus.broker.server.process import prepare
from wakebus.broker.server.watchdog import write_address
from wakebus.broker.system.lock_file import AlreadyRunning, lock_holder, take_lock
from wakebus.broker.system.private_files import CannotStart
from wakebus.broker.system.processes import start_of


def test_the_lock_has_one_holder(tmp_path: Path) -> None:
    """PROTOCOL-1.2: the file tells its pid; a free lock tells none."""
    assert lock_holder(tmp_path) is None
    lock = take_lock(tmp_path)
    assert lock_holder(tmp_path) == os.getpid()
    with pytest.raises(AlreadyRunning, match=str(tmp_path)):
        take_lock(tmp_path)
    os.close(lock)
    assert lock_holder(tmp_path) is None
    os.close(take_lock(tmp_path))


def test_an_older_longer_pid_leaves_nothing(tmp_path: Path) -> None:
    """PROTOCOL-1.2: the file of a killed broker is written over; it has pid and start."""
    (tmp_path / "broker.lock").write_text(f"{'9' * 99}\n")
    lock = take_lock(tmp_path)
    start = start_of(os.getpid())
    assert (tmp_path / "broker.lock").read_text() == f"{os.getpid()} {start}\n"
    os.close(lock)


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    """PROTOCOL-1.2: it is not followed, and what it points to is not touched."""
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "broker.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"broker\.lock"):
        take_lock(tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_wide_folder_is_narrowed(tmp_path: Path) -> None:
    """PROTOCOL-1.1: 0700, also where it existed before."""
    folder = tmp_path / "a" / "bus"
    prepare(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    prepare(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_is_no_folder_of_ours(tmp_path: Path) -> None:
    """PROTOCOL-1.1: a link to a folder, and a file."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("mine")
    for name in ("link", "file"):
        with pytest.raises(CannotStart, match=name):
            prepare(tmp_path / name)


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its locks do not hold: the error says what to set."""
    monkeypatch.setattr(process, "_file_system", lambda folder: "nfs4")
    with pytest.raises(CannotStart, match="HERMES_BUS_ROOT"):
        prepare(tmp_path)


@pytest.mark.parametrize("kind", ["file", "link", "folder", "dangling"])
def test_a_users_file_at_the_socket(bus_root: Path, kind: str) -> None:
    """PROTOCOL-1.3: an error that names it; it survives."""
    bus = Broker(bus_root)
    bus.folder.mkdir()
    path, mine = bus.folder / "broker.sock", bus_root / "mine"
    mine.write_text("mine")
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(mine if kind == "link" else bus_root / "nothing")
    before = path.lstat()
    assert str(path) in bus.start().word
    assert path.lstat().st_ino == before.st_ino and mine.read_text() == "mine"


def test_a_socket_that_was_left(bus_root: Path, peers: MakePeer) -> None:
    """PROTOCOL-1.3: of a killed broker or anybody else of this user: it is replaced."""
    bus = Broker(bus_root)
    bus.folder.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(bus.folder / "broker.sock"))
    assert bus.start().word == "ready"
    assert "endpoints" in peers(bus).ask("list")
    bus.kill()
    assert bus.start().word == "ready"
    bus.stop()


def test_a_path_that_is_too_long(bus_root: Path, peers: MakePeer) -> None:
    """PROTOCOL-1.4: the socket lies in a private temporary folder, which goes with the broker."""
    root = bus_root / ("long" * 25)
    root.mkdir()
    bus = Broker(root).start()
    assert bus.word == "ready"
    path = Path(bus.address.removeprefix("ipc://"))
    assert len(str(path)) <= zmq.IPC_PATH_MAX_LEN and path.parent != bus.folder
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "endpoints" in peers(bus).ask("list")
    assert bus.command("status").returncode == 0
    assert bus.stop() == 0 and not path.parent.exists()


@pytest.mark.parametrize("kind", ["gone", "full"])
def test_a_socket_folder_that_cannot_be_removed(bus_root: Path, kind: str) -> None:
    """PROTOCOL-1.6, PROTOCOL-1.4: whatever became of it, the broker ends in order."""
    root = bus_root / ("long" * 25)
    root.mkdir()
    bus = Broker(root).start()
    short = Path(bus.address.removeprefix("ipc://")).parent
    os.kill(bus.pid, signal.SIGSTOP)  # it makes nothing again meanwhile
    shutil.rmtree(short) if kind == "gone" else (short / "more").write_text("mine")
    bus.process.send_signal(signal.SIGTERM) if bus.process else None
    os.kill(bus.pid, signal.SIGCONT)
    try:
        assert bus.stop() == 0 and "Traceback" not in (root / "output").read_text()
        assert "cannot be removed" in bus.log
    finally:
        shutil.rmtree(short, ignore_errors=True)


def test_the_socket_folder_of_a_killed_broker(bus_root: Path) -> None:
    """PROTOCOL-1.4: it goes at the next start."""
    root = bus_root / ("long" * 25)
    root.mkdir()
    bus = Broker(root).start()
    left = Path(bus.address.removeprefix("ipc://")).parent
    bus.kill()
    assert left.exists()
    assert bus.start().word == "ready" and not left.exists()
    assert bus.stop() == 0


@pytest.mark.parametrize("kind", ["elsewhere", "unnamed", "full", "link", "no socket"])
def test_no_other_folder_is_removed(bus_root: Path, kind: str) -> None:
    """PROTOCOL-1.4: an address is only a file's text: it names what is ours, or nothing goes."""
    parent = bus_root if kind == "elsewhere" else Path(tempfile.gettempdir())
    folder = parent / f"{'' if kind == 'unnamed' else 'wakebus-'}{bus_root.name}-x"
    real = bus_root / "real" if kind == "link" else folder
    real.mkdir()
    if kind == "link":
        folder.symlink_to(real)
    if kind == "no socket":
        (real / "broker.sock").write_text("mine")
    else:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(real / "broker.sock"))
    if kind == "full":
        (real / "more").write_text("mine")
    write_address(bus_root, {"router": f"ipc://{folder}/broker.sock"})
    try:
        socket_paths.remove_left_folder(bus_root)
        assert real.exists() and (kind == "full" or (real / "broker.sock").exists())
    finally:
        shutil.rmtree(real)
        folder.unlink(missing_ok=True)


def test_the_address(broker: Broker) -> None:
    """PROTOCOL-1.5: what clients read, private; it goes with the broker."""
    file = broker.folder / "address.json"
    data = json.loads(file.read_text())
    events = {"events_in", "events_out", "bus_pub"}
    assert data.keys() == {"router", "pid", "boot", "version", "protocol", *events}
    assert data["pid"] == broker.pid and stat.S_IMODE(file.stat().st_mode) == 0o600
    broker.restart()
    again = json.loads(file.read_text())
    assert again["boot"].split("/")[0] == data["boot"].split("/")[0] and again != data
    assert broker.stop() == 0
    assert not file.exists()


def test_sigterm_under_load(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.6: every receipt given is in the store; exit 0; holders are told."""
    holder, sender = peers(broker), peers(broker)
    holder.register("held")
    numbers = [sender.request("send", posting("e", str(n), queue=True)) for n in range(400)]
    sender.answer(numbers[0])
    assert broker.stop() == 0
    holder.next("going")
    receipts = set()
    try:
        for number in numbers[1:]:
            receipts.add(sender.answer(number, timeout=0.5)["id"])
    except (AssertionError, errors.WakebusError):
        pass  # the rest was not accepted
    with sqlite3.connect(broker.folder / "bus.db") as db:
        stored = {row[0] for row in db.execute("SELECT id FROM message WHERE done IS NULL")}
    db.close()
    assert receipts <= stored and "Traceback" not in broker.log


def test_sigterm_twice_and_sighup(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.6: a closed terminal is no order to stop; a second SIGTERM changes nothing."""
    os.kill(broker.pid, signal.SIGHUP)
    assert "endpoints" in peers(broker).ask("list")
    for _ in range(5):
        os.kill(broker.pid, signal.SIGTERM)
    assert broker.stop() == 0
    assert "Traceback" not in (broker.root / "output").read_text()


def test_sigterm_with_a_frozen_peer(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.6, PROTOCOL-3.3: what it does not read does not hold the exit."""
    deaf = peers(broker)
    deaf.register("e")
    for n in range(64):
        deaf.request("send", posting("e", "x" * 60_000, sender="e", session=str(n)))
    deaf.ask("status")
    before = time.monotonic()
    assert broker.stop() == 0
    assert time.monotonic() - before < 15


def test_the_log_rotates(make_broker: MakeBroker) -> None:
    """PROTOCOL-1.8: by size, with a number of old files."""
    broker = make_broker(log_bytes=300, log_files=2)
    for _ in range(4):
        broker.restart()
    names = {p.name for p in broker.folder.glob("broker.log*")}
    assert names == {"broker.log", "broker.log.1", "broker.log.2"}
    assert all(p.stat().st_size <= 300 for p in broker.folder.glob("broker.log*"))


def test_no_body_is_logged(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.8: whatever happens to a message, nor what an error quotes of it."""
    peer = peers(broker)
    peer.register("e")
    for verb in ("handled", "refused"):
        peer.send("e", "SECRET", sender="e", body={"x": "SECRET"})
        peer.say(verb, peer.take(), outcome={"x": "SECRET"})
    peer.send("e", "SECRET", sender="e", ttl_s=0.01, session="s")
    peer.send("e", "SECRET", sender="e", ttl_s=0.01, session="s")
    peer.raw(b'[1,"send",5,{"message":{"body":{"text":"SECRET')
    peer.error("send", message={"body": {"text": ["SECRET"]}})
    until(lambda: peer.ask("status")["dead_letters"] == 2)
    broker.stop()
    assert "SECRET" not in broker.log + (broker.root / "output").read_text()


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("proc", ["none", "another's"])
def test_without_proc(bus_root: Path, peers: MakePeer, proc: str) -> None:
    """PROTOCOL-1.19: it starts, says what it does not check, serves, and stops."""
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    hide = "mount -t tmpfs none /proc && " if proc == "none" else ""
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"]).returncode:
        pytest.skip("this system allows no namespaces")
    bus = Broker(bus_root)
    line = f"{hide}{sys.executable} -P -m wakebus.broker run"
    run = subprocess.Popen(
        [*unshare, "sh", "-c", line],
        env=bus.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: bus.command("status").returncode == 0)
        peer = peers(bus)
        peer.register("e")
        peer.send("e", "hi", sender="e")
        assert peer.finish() == ["hi"]
        assert bus.log.count("/proc") == 1 and "is not checked whether" in bus.log
        assert bus.command("stop").returncode == 0
    finally:
        run.kill()
        run.wait()
    assert "Traceback" not in bus.log
