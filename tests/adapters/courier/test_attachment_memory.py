"""The files of messages in flight to the courier."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from wakebus.adapters.courier import attachment_memory
from wakebus.adapters.courier.attachment_memory import OUTLIVE_S, AttachmentMemory
from wakebus.adapters.delivery import attachments
from wakebus.adapters.errors import Rejected


def spooled(folder: Path, text: str = "rows") -> dict[str, Any]:
    """Return the body of a message whose file lies in the memory."""
    path = folder / "a.txt"
    path.write_text(text)
    return {"file": attachments.store(path, folder)}


def test_read(tmp_path: Path) -> None:
    """ADP-6.21: what was stored; None for a message without a file."""
    found = attachments.load(spooled(tmp_path), tmp_path)
    assert found and found.data == b"rows" and found.name == "a.txt"
    assert attachments.load({"text": "hi"}, tmp_path) is None


def test_removed_an_hour_after_the_end(tmp_path: Path) -> None:
    """ADP-6.21: not before: the message may come again, its end being not stored yet."""
    memory, body = AttachmentMemory(tmp_path), spooled(tmp_path)
    memory.expire(body, 1000.0)
    memory.expire({"text": "without"}, 1000.0)
    memory.sweep(1000.0 + OUTLIVE_S - 1)
    assert attachments.load(body, tmp_path)
    memory.sweep(1000.0 + OUTLIVE_S)
    with pytest.raises(Rejected, match="its copy is gone"):
        attachments.load(body, tmp_path)


def test_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.24: a file over the bound waits, a smaller one and a text do not; it is given back."""
    monkeypatch.setattr(attachment_memory, "MOST", 10)
    memory, large, small = (
        AttachmentMemory(tmp_path),
        spooled(tmp_path, "1234"),
        spooled(tmp_path, "12"),
    )
    with ExitStack() as held:
        rooms = [held.enter_context(memory.reserve(body)) for body in (large, large, large, small)]
        assert rooms == [True, True, False, True]
        assert not held.enter_context(memory.reserve(small))
        assert held.enter_context(memory.reserve({"text": "hi"}))
    for _ in range(3):
        with pytest.raises(RuntimeError), ExitStack() as held:
            assert held.enter_context(memory.reserve(large)) and held.enter_context(
                memory.reserve(large)
            )
            raise RuntimeError


@pytest.mark.parametrize("held", [None, "x", {}, {"size": 1 << 60}, {"size": -5}, {"size": "4"}])
def test_room_for_what_is_no_file(tmp_path: Path, held: object) -> None:
    """ADP-6.24: it takes none, and is refused when it is read."""
    with AttachmentMemory(tmp_path).reserve({"file": held}) as room:
        assert room


def test_what_a_crash_left(tmp_path: Path) -> None:
    """ADP-6.21: swept at the first look, and each hour."""
    memory, body = AttachmentMemory(tmp_path), spooled(tmp_path)
    copy = tmp_path / "files" / body["file"]["copy"]
    os.utime(copy, (0, 0))
    memory.sweep(1000.0)
    assert copy.exists()
    memory.sweep(9 * 86_400.0)
    assert not copy.exists()


def test_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.21: what is over is remembered for ten thousand messages; the sweep has the rest."""
    memory = AttachmentMemory(tmp_path)
    for _ in range(attachment_memory.MAX_SPENT + 5):
        memory.expire({"file": {"copy": "x"}}, 0.0)
    assert len(memory._spent) == attachment_memory.MAX_SPENT
