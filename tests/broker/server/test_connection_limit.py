"""The sockets' files are there while new clients may come."""

import os
import resource
from pathlib import Path

import pytest

from wakebus.broker.server import connection_limit
from wakebus.broker.server.connection_limit import ConnectionLimit, moved_path


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
    limit = ConnectionLimit(sockets, 1_000)
    limit.on_accept(499)
    assert there(sockets) == [True, True] and not limit.closed
    limit.on_accept(500)
    assert there(sockets) == [False, False] and limit.closed
    assert all(moved_path(path).exists() for path in sockets)
    limit.check()
    assert there(sockets) == [True, True] and not limit.closed


def test_files_that_no_client_opened_count_too(
    sockets: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-1.11: it looks for itself, and stays closed while there is no room."""
    limit = ConnectionLimit(sockets, 1_000)
    monkeypatch.setattr(os, "listdir", lambda _: [""] * 600)
    limit.check()
    assert limit.closed
    limit.check()
    assert limit.closed


def test_files_are_counted_without_proc(
    sockets: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-1.11, PROTOCOL-1.19: /dev/fd leads there; the limit holds all the same."""

    def listdir(path: str) -> list[str]:
        raise FileNotFoundError(path)

    used = len(list(Path("/dev/fd").iterdir()))
    monkeypatch.setattr(os, "listdir", listdir)
    for limit, closed in ((used + 300, False), (used + used // 2, True)):
        found = ConnectionLimit(sockets, limit)
        found._reserve = limit // 2
        found.check()
        assert found.closed == closed


def test_a_socket_that_was_removed(sockets: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    """It harms neither the closing nor the opening."""
    limit = ConnectionLimit(sockets, 1_000)
    sockets[0].unlink()
    limit.on_accept(999)
    limit.check()
    assert there(sockets) == [False, True] and not limit.closed
    assert "cannot be moved" not in caplog.text


def test_the_reserve_is_larger_than_what_waits() -> None:
    """PROTOCOL-1.11: all that stand at the limit when it closes still get in."""
    for files in (256, 1_024, 65_536):
        assert ConnectionLimit([Path("s")], files).backlog < min(4_096, files // 2)


def test_the_limit_is_raised() -> None:
    """PROTOCOL-1.11: never lowered."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert connection_limit.raise_file_limit() >= min(before[0], connection_limit.WANTED)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert os.listdir("/dev/fd")  # noqa: PTH208
