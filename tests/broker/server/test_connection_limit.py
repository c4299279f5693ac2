"""The sockets' files are there while new clients may come."""

import os
import resource
from pathlib import Path

import pytest

from wakebus.broker.server import connection_limit as doors
from wakebus.broker.server.connection_limit import Door, away


@pytest.fixture
def sockets(tmp_path: Path) -> list[Path]:
    """Two files that stand for sockets."""
    found = [tmp_path / "a.sock", tmp_path / "b.sock"]
    for path in found:
        path.touch()
    return found


def there(sockets: list[Path]) -> list[bool]:
    """Whether each is in its place."""
    return [path.exists() for path in sockets]


def test_it_closes_behind_one_of_the_last_and_opens_again(sockets: list[Path]) -> None:
    """PROTOCOL-1.11: all at once; what is open now leaves room enough."""
    door = Door(sockets, 1_000)
    door.entered(499)
    assert there(sockets) == [True, True] and not door.closed
    door.entered(500)
    assert there(sockets) == [False, False] and door.closed
    assert all(away(path).exists() for path in sockets)
    door.look()
    assert there(sockets) == [True, True] and not door.closed


def test_files_that_no_client_opened_count_too(
    sockets: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-1.11: it looks for itself, and stays closed while there is no room."""
    door = Door(sockets, 1_000)
    monkeypatch.setattr(os, "listdir", lambda _: [""] * 600)
    door.look()
    assert door.closed
    door.look()
    assert door.closed


def test_a_socket_that_was_removed(sockets: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    """It harms neither the closing nor the opening."""
    door = Door(sockets, 1_000)
    sockets[0].unlink()
    door.entered(999)
    door.look()
    assert there(sockets) == [False, True] and not door.closed
    assert "cannot be moved" not in caplog.text


def test_the_reserve_is_larger_than_what_waits() -> None:
    """PROTOCOL-1.11: all that stand at the door when it closes still get in."""
    for limit in (256, 1_024, 65_536):
        assert Door([Path("s")], limit).backlog < min(4_096, limit // 2)


def test_the_limit_is_raised() -> None:
    """PROTOCOL-1.11: never lowered."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert doors.raise_limit() >= min(before[0], doors.WANTED)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert os.listdir("/dev/fd")  # noqa: PTH208
