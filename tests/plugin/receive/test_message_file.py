"""RULES-6.2: files of messages, and what a killed process leaves of them."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from wakebus.plugin.receive.message_file import message_file, remove_stale_files

KILLED = """
import os
from wakebus.plugin.receive.message_file import message_file
with message_file(b"secret") as path:
    print(path, flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bus folder; not made yet."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    return tmp_path / "bus"


def test_a_killed_process_leaves_a_file_until_the_next_listener(bus: Path) -> None:
    """What a process that runs has there, and what is not ours, stays."""
    remove_stale_files()
    bus.mkdir()
    remove_stale_files()
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, timeout=60)
    left = Path(done.stdout.decode().strip())
    assert left.read_bytes() == b"secret" and left.parent == bus / "tmp"
    others = [bus / "tmp" / name for name in ("notes-x.json", "1-x.json", "-x.json", "x")]
    for other in others:
        other.touch()
    (bus / "tmp" / f"{2**70}-x.json").touch()
    with message_file(b"mine") as mine:
        remove_stale_files()
        assert Path(mine).read_bytes() == b"mine"
    assert sorted((bus / "tmp").iterdir()) == sorted(others)


def test_a_file_of_another_container_stays(bus: Path) -> None:
    """RULES-6.2: its pid is nobody's here; it is in use as long as it is locked."""
    bus.mkdir()
    with message_file(b"theirs") as path:
        theirs = Path(path).rename(bus / "tmp" / f"{2**22 + 1}-x.json")
        remove_stale_files()
        assert theirs.read_bytes() == b"theirs"
        theirs.rename(path)
    theirs.write_bytes(b"left")
    remove_stale_files()
    assert not theirs.exists()


def test_a_temporary_folder_that_others_may_write(
    bus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RULES-6.2, PROTOCOL-1.18: what a command reads there could be another user's words."""
    (temp := tmp_path / "temp").mkdir()
    temp.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    with pytest.raises(OSError, match=f"o-w {temp} .*TMPDIR"):
        with message_file(b"x"):
            pass
    temp.chmod(0o1777)
    with message_file(b"x") as path:
        assert Path(path).parent == temp


def test_a_bus_folder_that_takes_nothing(bus: Path) -> None:
    """The temporary folder serves."""
    bus.mkdir(parents=True, exist_ok=True)
    (bus / "tmp").write_text("a file where the folder belongs")
    with message_file(b"x") as path:
        assert Path(path).read_bytes() == b"x" and Path(path).parent != bus / "tmp"


def test_no_bus_folder(bus: Path) -> None:
    """It is not made: who has no bus gets none by this."""
    with message_file(b"x") as path:
        assert Path(path).stat().st_mode & 0o777 == 0o600
    bus.write_text("a file")
    with message_file(b"x") as path:
        assert Path(path).exists()
