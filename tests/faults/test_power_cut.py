"""
A cut of power leaves small files whole: the order in which each of them reaches the disk.

What is written is fsynced, only then it gets its name, and then the folder is fsynced. The calls
are recorded as they are made; what the disk does with them is the kernel's word.
"""

import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from powercut.traced import cannot_trace

from fakes.broker import Broker
from fakes.peer import MakePeer, posting
from wakebus.adapters.base import Request
from wakebus.adapters.courier import status_file
from wakebus.adapters.transports.console_log import ConsoleLogs
from wakebus.broker.server.watchdog import write_address
from wakebus.broker.store import recovery
from wakebus.broker.system import durable_file, sqlite_file
from wakebus.plugin.cli.chats import send
from wakebus.plugin.install import hermes_home
from wakebus.plugin.prompt.journal import Journal
from wakebus.plugin.rules.load import write_default

ROOT = Path(__file__).parents[2]


class Step(NamedTuple):
    """`what`: "fsync" or "name"; `file`: the inode; `size`: in bytes; `name`: the new one."""

    what: str
    file: int
    size: int = 0
    name: Path | None = None


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Step]]:
    """All that is fsynced or renamed, in its order."""
    found: list[Step] = []

    def fsync(descriptor: int) -> None:
        known = os.fstat(descriptor)
        size = 0 if stat.S_ISDIR(known.st_mode) else known.st_size
        found.append(Step("fsync", known.st_ino, size))

    def naming(real: Any) -> Any:
        def name(old: Any, new: Any, **more: Any) -> None:
            inode = Path(old).stat().st_ino
            real(old, new, **more)
            found.append(Step("name", inode, name=Path(new)))

        return name

    monkeypatch.setattr(durable_file, "_FULL", None)
    monkeypatch.setattr(os, "fsync", fsync)
    for call in ("replace", "rename", "link"):
        monkeypatch.setattr(os, call, naming(getattr(os, call)))
    yield found


def order(steps: list[Step], path: Path, *, made_in_place: bool = False) -> None:
    """Check that the file at `path` was fsynced whole, got its name, and then its folder was."""
    found, folder = path.stat(), path.parent.stat().st_ino
    written = steps.index(Step("fsync", found.st_ino, found.st_size))
    named = written if made_in_place else steps.index(Step("name", found.st_ino, name=path))
    assert written <= named, f"{path} had its name before it was on disk"
    assert Step("fsync", folder) in steps[named:], f"the name of {path} may be lost"


def new_folder(steps: list[Step], folder: Path) -> None:
    """Check that a folder that was made is on disk too."""
    assert Step("fsync", folder.parent.stat().st_ino) in steps


@pytest.mark.parametrize("force", [True, False])
def test_rules_init(tmp_path: Path, steps: list[Step], force: bool) -> None:
    """RULES-1.10: also over rules that a user had."""
    path = tmp_path / "home" / "bus-rules.yaml"
    if force:
        path.parent.mkdir()
        path.write_text("- match_type: mine")
    write_default(path, force=force)
    order(steps, path)
    if not force:
        new_folder(steps, path.parent)


def test_the_address(tmp_path: Path, steps: list[Step]) -> None:
    """PROTOCOL-1.14."""
    write_address(tmp_path, {"router": "ipc:///x"})
    order(steps, tmp_path / "address.json")


def test_the_status_of_the_courier(tmp_path: Path, steps: list[Step]) -> None:
    """ADP-6.19: nothing rests on it: renamed, not fsynced; what a cut leaves is no status."""
    one = status_file.StatusFile(tmp_path, lambda _: {}, 1.0)
    one.claim()
    one.write(1000.0)
    assert [step.what for step in steps] == ["name"]
    path = tmp_path / status_file.FILE
    for torn in (b"", b"\0" * 99, path.read_bytes()[:20]):
        path.write_bytes(torn)
        assert status_file.read_status(tmp_path) is None


def test_what_the_installer_writes(tmp_path: Path, steps: list[Step]) -> None:
    """The user's config.yaml, its backup, the gateway hook and the skill."""
    (tmp_path / "config.yaml").write_text("model: {default: m}\n")
    before = hermes_home.inspect_home(tmp_path)
    changes = hermes_home.to_install(before, turns=None, force=False)
    hermes_home.apply_changes(before, changes)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        order(steps, path)
    for folder in (path for path in tmp_path.rglob("*") if path.is_dir()):
        new_folder(steps, folder)


def test_the_copy_before_a_migration(tmp_path: Path, steps: list[Step]) -> None:
    """PROTOCOL-1.14: it is on disk before the first table changes."""
    first, second = "CREATE TABLE t (a);", "ALTER TABLE t ADD COLUMN b;"
    path = tmp_path / "bus.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        sqlite_file.migrate(db, path, sqlite_file.FileSchema((first,)))
        assert steps == []
        sqlite_file.migrate(db, path, sqlite_file.FileSchema((first, second)))
    order(steps, tmp_path / "bus.db.version-1")


def test_a_damaged_store_set_aside(tmp_path: Path, steps: list[Step]) -> None:
    """PROTOCOL-8.4: its new name is known before the first rename, and all of them at the end."""
    path = tmp_path / "bus.db"
    path.write_bytes(b"damaged")
    aside = sqlite_file.set_aside(path)
    folder = Step("fsync", tmp_path.stat().st_ino)
    names = [step.name for step in steps if step.name]
    assert names == [tmp_path / "bus.db.setting-aside", aside]
    assert [step.what for step in steps] == ["fsync", "name", "fsync", "name", "fsync", "fsync"]
    assert [steps[2], *steps[4:]] == [folder] * 3


def test_a_new_store(tmp_path: Path, steps: list[Step]) -> None:
    """PROTOCOL-8.12: it is whole before it has its name; an empty one of that name was more."""
    path = tmp_path / "bus.db"
    recovery._make(path)
    order(steps, path)


def test_the_copy_of_a_file_that_is_sent(tmp_path: Path, steps: list[Step]) -> None:
    """Before the message that names it has its receipt."""
    (tmp_path / "photo.png").write_bytes(b"pixels")
    bus = tmp_path / "bus"
    bus.mkdir()
    held, _ = send._stored(tmp_path / "photo.png", "m1", bus)
    order(steps, bus / "files" / held["copy"])
    new_folder(steps, bus / "files")


def test_a_new_console_log(tmp_path: Path, steps: list[Step]) -> None:
    """Its name with its first entry; later ones are appended."""
    for key, names in (("k1", 1), ("k2", 0)):
        steps.clear()
        ConsoleLogs(tmp_path)(Request("console:alice", b"hi", {"key": key}, "APPEND"))
        if names:
            order(steps, tmp_path / "console-alice.log", made_in_place=True)
        assert steps.count(Step("fsync", tmp_path.stat().st_ino)) == names


def test_what_waits_for_a_session(tmp_path: Path, steps: list[Step]) -> None:
    """The journal, when it is written anew."""
    journal = Journal(tmp_path / "context" / "a.jsonl")
    journal.append({"n": 1}, list)
    (file,) = (tmp_path / "context").iterdir()
    order(steps, file)
    new_folder(steps, file.parent)


def test_one_function_writes_small_files() -> None:
    """Nobody else asks for an fsync, and nobody writes a file in place."""
    other = re.compile(r"\bos\.(fsync|fdatasync)\b|\.write_(text|bytes)\(|\bmkstemp\(")
    users = {
        path.relative_to(ROOT).as_posix()
        for room in ("broker", "adapters", "plugin")
        for path in (ROOT / room).rglob("*.py")
        if other.search(path.read_text(encoding="utf-8"))
    }
    assert users == {"broker/system/durable_file.py"}


@pytest.mark.skipif(bool(cannot_trace()), reason=cannot_trace())
def test_what_a_killed_broker_wrote_is_synced_before_anybody_is_told(
    broker: Broker, peers: MakePeer
) -> None:
    """PROTOCOL-8.14: a resend is a `duplicate` only after the log with the first is on disk."""
    message, trace = posting("e", queue=True), broker.root / "trace"
    peers(broker).ask("send", **message)
    broker.kill()
    strace = ("strace", "-f", "-y", "-e", "trace=fsync,fdatasync,bind", "-o", str(trace))
    again = (sys.executable, "-P", "-m", "wakebus.broker", "run")
    with subprocess.Popen([*strace, *again], env=broker.env, stdin=subprocess.DEVNULL) as process:
        try:
            assert peers(broker).ask("send", **message)["duplicate"] is True
        finally:
            broker.command("stop")
            process.wait(30)
    calls = trace.read_text().splitlines()
    synced = [n for n, call in enumerate(calls) if "sync(" in call and "bus.db-wal>" in call]
    reached = [n for n, call in enumerate(calls) if "bind(" in call and "broker.sock" in call]
    assert synced and reached and synced[0] < reached[0], calls
