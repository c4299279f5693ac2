"""The files of messages in the courier's hands."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from wakebus.adapters.courier import attachment_memory as module
from wakebus.adapters.courier.attachment_memory import OUTLIVE_S, Spool
from wakebus.adapters.delivery import attachments as files
from wakebus.adapters.errors import Rejected


def spooled(folder: Path, text: str = "rows") -> dict[str, Any]:
    """Return the body of a message whose file lies in the spool."""
    path = folder / "a.txt"
    path.write_text(text)
    return {"file": files.store(path, folder)}


def test_read(tmp_path: Path) -> None:
    """ADP-6.21: what was stored; None for a message without a file."""
    found = Spool(tmp_path).load(spooled(tmp_path))
    assert found and found.data == b"rows" and found.name == "a.txt"
    assert Spool(tmp_path).load({"text": "hi"}) is None


def test_removed_an_hour_after_the_end(tmp_path: Path) -> None:
    """ADP-6.21: not before: the message may come again, its end being not stored yet."""
    spool, body = Spool(tmp_path), spooled(tmp_path)
    spool.over(body, 1000.0)
    spool.over({"text": "without"}, 1000.0)
    spool.tidy(1000.0 + OUTLIVE_S - 1)
    assert spool.load(body)
    spool.tidy(1000.0 + OUTLIVE_S)
    with pytest.raises(Rejected, match="its copy is gone"):
        spool.load(body)


def test_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.24: a file over the bound waits, a smaller one and a text do not; it is given back."""
    monkeypatch.setattr(module, "MOST", 10)
    spool, large, small = Spool(tmp_path), spooled(tmp_path, "1234"), spooled(tmp_path, "12")
    with ExitStack() as held:
        rooms = [held.enter_context(spool.room(body)) for body in (large, large, large, small)]
        assert rooms == [True, True, False, True]
        assert not held.enter_context(spool.room(small))
        assert held.enter_context(spool.room({"text": "hi"}))
    for _ in range(3):
        with pytest.raises(RuntimeError), ExitStack() as held:
            assert held.enter_context(spool.room(large)) and held.enter_context(spool.room(large))
            raise RuntimeError


@pytest.mark.parametrize("held", [None, "x", {}, {"size": 1 << 60}, {"size": -5}, {"size": "4"}])
def test_room_for_what_is_no_file(tmp_path: Path, held: object) -> None:
    """ADP-6.24: it takes none, and is refused when it is read."""
    with Spool(tmp_path).room({"file": held}) as room:
        assert room


def test_what_a_crash_left(tmp_path: Path) -> None:
    """ADP-6.21: swept at the first look, and each hour."""
    spool, body = Spool(tmp_path), spooled(tmp_path)
    copy = tmp_path / "files" / body["file"]["copy"]
    os.utime(copy, (0, 0))
    spool.tidy(1000.0)
    assert copy.exists()
    spool.tidy(9 * 86_400.0)
    assert not copy.exists()


def test_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.21: what is over is remembered for ten thousand messages; the sweep has the rest."""
    spool = Spool(tmp_path)
    for _ in range(module.MAX_SPENT + 5):
        spool.over({"file": {"copy": "x"}}, 0.0)
    assert len(spool._spent) == module.MAX_SPENT
