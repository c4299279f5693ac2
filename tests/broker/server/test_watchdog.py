"""A look at the folder; tests/faults/test_folder.py has the real broker under it."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fakes.broker import until
from wakebus.broker.address import read_address
from wakebus.broker.server.connection_limit import ConnectionLimit
from wakebus.broker.server.router import Router
from wakebus.broker.server.watchdog import Watchdog, write_address
from wakebus.broker.store.recovery import close_store, open_store
from wakebus.broker.system.lock_file import lock_folder, take_lock
from wakebus.broker.system.private_files import CannotStart
from wakebus.broker.system.processes import start_of

ADDRESS: dict[str, Any] = {"router": "ipc:///nowhere", "pid": 1}


class Asked:
    """Stands for the router thread: does what it is asked at once."""

    def __init__(self) -> None:
        self.stopped = False

    def call_soon(self, act: Callable[[], None]) -> None:
        """Do it."""
        act()

    def stop(self) -> None:
        """Remember it."""
        self.stopped = True


def bind(path: Path) -> None:
    """Make a socket's file."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


class Scene:
    """A folder as a running broker has it, and a watch over it that has not started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.guard, self.lock = lock_folder(folder), take_lock(folder)
        self.store = open_store(folder / "bus.db", "boot")
        self.sockets = [folder / "broker.sock", folder / "pub.sock"]
        for path in self.sockets:
            bind(path)
        write_address(folder, ADDRESS)
        self.router = Asked()
        self.bind: Callable[[], None] = lambda: bind(self.sockets[0])
        self.watch = Watchdog(
            folder,
            self.guard,
            self.lock,
            ADDRESS,
            ConnectionLimit(self.sockets, 1_000),
            self.store,
            cast(Router, self.router),
            lambda: self.bind(),
            lambda: bind(self.sockets[1]),
        )

    def close(self) -> None:
        """Let everything go."""
        self.watch.stop()
        close_store(self.store)
        os.close(self.lock)
        os.close(self.guard)


@pytest.fixture
def scene(bus_root: Path) -> Iterator[Scene]:
    """A watch that looks."""
    folder = bus_root / "bus"
    folder.mkdir()
    found = Scene(folder)
    found.watch.start()
    yield found
    found.close()


@pytest.mark.parametrize("name", ["broker.sock", "pub.sock", "broker.lock", "address.json"])
def test_it_is_made_again(scene: Scene, name: str) -> None:
    """PROTOCOL-1.13: and the broker goes on."""
    (scene.folder / name).unlink()
    until((scene.folder / name).exists)
    assert not scene.router.stopped and not scene.watch.lost


@pytest.mark.parametrize("text", ["", "nonsense", "1 5.0\n", "x" * 5000])
def test_a_lock_file_that_names_another(scene: Scene, text: str) -> None:
    """PROTOCOL-1.20: the broker writes its own number again, in the same file."""
    lock = scene.folder / "broker.lock"
    own, file = lock.read_text(), lock.stat().st_ino
    assert own == f"{os.getpid()} {start_of(os.getpid())}\n"
    lock.write_text(text)
    until(lambda: lock.read_text() == own)
    assert lock.stat().st_ino == file and not scene.watch.lost


def test_a_foreign_address_is_ours_again(scene: Scene) -> None:
    """PROTOCOL-1.13: whoever wrote it; this folder has one broker."""
    (scene.folder / "address.json").write_text('{"router": "ipc:///elsewhere"}')
    until(lambda: read_address(scene.folder) == ADDRESS)


def test_what_cannot_be_made_again(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL-1.13: it is told, tried again, and keeps nothing else from being made."""
    tried: list[None] = []

    def fail() -> None:
        tried.append(None)
        raise CannotStart("no socket can be made")

    scene.bind = fail
    (scene.folder / "address.json").unlink()
    (scene.folder / "address.json").mkdir()  # nor can this
    for path in scene.sockets:
        path.unlink()
    until(lambda: len(tried) >= 3 and scene.sockets[1].exists())
    assert "no socket can be made" in caplog.text and "address.json" in caplog.text
    assert not scene.router.stopped
    (scene.folder / "address.json").rmdir()
    scene.bind = lambda: bind(scene.sockets[0])
    until(lambda: scene.sockets[0].exists() and (scene.folder / "address.json").is_file())


@pytest.mark.parametrize("number", [0, 1])
def test_something_else_in_a_sockets_place(
    scene: Scene, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """PROTOCOL-1.13: it is told and left alone; once it is away the socket is made again."""
    path = scene.sockets[number]
    path.unlink()
    path.write_text("a user's file")
    until(lambda: f"{path} is no socket any more" in caplog.text)
    assert path.read_text() == "a user's file"
    path.unlink()
    until(path.is_socket)


@pytest.mark.parametrize("name", ["bus.db", "bus.db-wal"])
def test_a_store_that_went_ends_the_broker(scene: Scene, name: str) -> None:
    """PROTOCOL-8.11: with its name."""
    (scene.folder / name).unlink()
    until(lambda: scene.router.stopped)
    assert f"{name} was removed" in scene.watch.lost
    scene.watch.remove_address()
    assert not (scene.folder / "address.json").exists()


def test_what_another_broker_has_made_is_left(scene: Scene) -> None:
    """PROTOCOL-1.12: in a folder that took the place of ours."""
    scene.folder.rename(scene.folder.with_name("moved"))
    scene.folder.mkdir()
    write_address(scene.folder, {**ADDRESS, "pid": 2})
    until(lambda: scene.router.stopped)
    scene.watch.remove_address()
    assert "folder" in scene.watch.lost
    assert read_address(scene.folder)["pid"] == 2
