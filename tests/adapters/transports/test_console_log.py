"""The files of `console:`."""

import fcntl
import io
import json
import os
import re
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.base import Request
from wakebus.adapters.errors import Rejected, Unavailable
from wakebus.adapters.transports import console_log
from wakebus.adapters.transports.console_log import (
    ConsoleLogs,
    has_entry,
    missing_bytes,
    stuffed,
)

NOW = 1_795_824_843.0
STAMP = "2026-11-28T00:14:03Z"


def append(folder: Path, text: str, key: str, name: str = "alice") -> bool:
    """Append, and return whether it was new."""
    request = Request(f"console:{name}", text.encode(), {"key": key}, "APPEND")
    answer = json.loads(ConsoleLogs(folder, now=lambda: NOW)(request).body)
    assert answer["id"] == key
    return not answer["again"]


def log(folder: Path, name: str = "alice") -> Path:
    return folder / f"console-{name}.log"


def whole(data: bytes) -> list[tuple[str, bytes]]:
    """Read a file as a person would: each header and as much text as it says, on its lines."""
    parts = re.split(rb"^\[\d{4}-\d\d-\S* (\S+) (.*)\]\n", data, flags=re.MULTILINE)[1:]
    found = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    counted = [(key, int(size), body) for key, size, body in found if size.isdigit()]
    return [(k.decode(), b[:n]) for k, n, b in counted if b[n : n + 1] == b"\n"]


def test_an_entry(tmp_path: Path) -> None:
    """ADP-8.3: a header with time, key and size, then the text."""
    append(tmp_path, "build done\nall green", "k1")
    assert log(tmp_path).read_text() == f"[{STAMP} k1 20]\nbuild done\nall green\n"


def test_private(tmp_path: Path) -> None:
    """ADP-8.4: the file is this user's alone, whatever the umask."""
    before = os.umask(0)
    try:
        append(tmp_path, "hi", "k1")
    finally:
        os.umask(before)
    assert stat.S_IMODE(log(tmp_path).stat().st_mode) == 0o600


def test_a_key_stands_once(tmp_path: Path) -> None:
    """ADP-8.2: the same key again writes nothing, also with others between; keys are exact."""
    assert append(tmp_path, "one", "k1")
    assert append(tmp_path, "two", "k2")
    assert not append(tmp_path, "one", "k1")
    assert append(tmp_path, "one", "k11")
    assert append(tmp_path, "one", "k1", name="bob")
    assert [key for key, _ in whole(log(tmp_path).read_bytes())] == ["k1", "k2", "k11"]


def test_a_text_cannot_forge_a_key(tmp_path: Path) -> None:
    """ADP-8.3: a line that looks like a header is set off by a space and stands for no key."""
    append(tmp_path, f"look:\n[{STAMP} k2 3]\none\n[{STAMP} torn", "k1")
    assert append(tmp_path, "one", "k2")
    assert [key for key, _ in whole(log(tmp_path).read_bytes())] == ["k1", "k2"]
    assert f"\n [{STAMP} k2 3]\n" in log(tmp_path).read_text()


TEXTS = ["x", "second\nline\n", f"\n[{STAMP} k1 1]", "中" * 10]


@pytest.mark.parametrize("text", TEXTS)
def test_a_torn_entry_is_completed(tmp_path: Path, text: str) -> None:
    """ADP-8.5: cut at any byte, the same key makes it whole, once; what was before stays."""
    append(tmp_path, "before", "k0")
    start = log(tmp_path).stat().st_size
    append(tmp_path, text, "k1")
    data = log(tmp_path).read_bytes()
    for cut in range(start, len(data)):
        log(tmp_path).write_bytes(data[:cut])
        assert append(tmp_path, text, "k1")
        assert not append(tmp_path, text, "k1")
        again = log(tmp_path).read_bytes()
        assert whole(again) == [("k0", b"before"), ("k1", stuffed(text.encode()))]
        # Once the header stood whole, the text is simply continued.
        assert again == data or cut < start + data[start:].index(b"\n") + 1


@pytest.mark.parametrize("text", TEXTS)
def test_a_torn_entry_is_marked(tmp_path: Path, text: str) -> None:
    """ADP-8.5: cut at any byte, another key is never glued to it, and the cut one can follow."""
    append(tmp_path, text, "k1")
    data = log(tmp_path).read_bytes()
    for cut in range(1, len(data) - 1):
        log(tmp_path).write_bytes(data[:cut])
        append(tmp_path, "next", "k2")
        assert whole(log(tmp_path).read_bytes()) == [("k2", b"next")]
        # Eight bytes of a header say nothing yet; they only get a line of their own.
        assert log(tmp_path).read_bytes().count(b"is not whole") == (cut >= len("[2026-11-"))
        assert append(tmp_path, text, "k1")
        assert not append(tmp_path, "next", "k2")
        assert [key for key, _ in whole(log(tmp_path).read_bytes())] == ["k2", "k1"]


def test_only_the_last_newline_is_missing(tmp_path: Path) -> None:
    """ADP-8.5: a text that stands there in full is not called torn, and not written twice."""
    append(tmp_path, "one", "k1")
    log(tmp_path).write_bytes(log(tmp_path).read_bytes()[:-1])
    append(tmp_path, "two", "k2")
    assert not append(tmp_path, "one", "k1")
    assert "not whole" not in log(tmp_path).read_text()


def test_a_torn_mark_is_marked() -> None:
    """ADP-8.5: a second crash, in the middle of the mark, is no harm either."""
    data = b"[2026-11-28T00:14:03Z k1 5]\nab"
    data += missing_bytes(data, "k2", b"x", STAMP)[:30]
    data += missing_bytes(data, "k2", b"x", STAMP)
    assert whole(data) == [("k2", b"x")]


def test_lines_added_by_hand(tmp_path: Path) -> None:
    """What a person added to the file stays, on its own line."""
    append(tmp_path, "one", "k1")
    with log(tmp_path).open("a") as file:
        file.write("a note")
    append(tmp_path, "two", "k2")
    assert "\none\na note\n[2026" in log(tmp_path).read_text()
    assert "not whole" not in log(tmp_path).read_text()


@given(
    tail=st.binary(max_size=60)
    | st.lists(
        st.sampled_from([b"[2026-11-28T00:14:03Z k1 3]\n", b"abc\n", b"abc", b"[2026-", b"\n"])
    ).map(b"".join),
    text=st.binary(max_size=20),
)
def test_any_file(tail: bytes, text: bytes) -> None:
    """ADP-8.5: after any bytes, what is appended makes the key stand whole, exactly once."""
    data = tail + missing_bytes(tail, "k1", text, STAMP)
    assert missing_bytes(data, "k1", text, STAMP) == b""
    assert data.startswith(tail)


def test_look_back_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-8.2: only the end of a long file is read; a key within it is found."""
    monkeypatch.setattr(console_log, "LOOK_BACK", 200)
    for number in range(20):
        append(tmp_path, "x" * 10, f"k{number}")
    assert not append(tmp_path, "x" * 10, "k19")
    assert append(tmp_path, "x" * 10, "k0")


def test_many_at_once(tmp_path: Path) -> None:
    """Lanes append in parallel: every entry is whole, and a key given twice stands once."""
    with ThreadPoolExecutor(8) as pool:
        new = list(pool.map(lambda n: append(tmp_path, "y" * 5000, f"k{n // 2}"), range(80)))
    assert sum(new) == 40
    assert len(whole(log(tmp_path).read_bytes())) == 40


@pytest.mark.parametrize("kind", ["symlink", "dangling", "folder", "pipe", "hard link"])
def test_what_is_not_ours(tmp_path: Path, kind: str) -> None:
    """ADP-8.4: links, folders and pipes are refused by name and left as they were."""
    other = tmp_path / "other"
    if kind != "dangling":
        other.write_text("mine")
    if kind in ("symlink", "dangling"):
        log(tmp_path).symlink_to(other)
    elif kind == "hard link":
        log(tmp_path).hardlink_to(other)
    elif kind == "folder":
        log(tmp_path).mkdir()
    else:
        os.mkfifo(log(tmp_path))
    with pytest.raises(Rejected, match=re.escape(str(log(tmp_path)))):
        append(tmp_path, "hi", "k1")
    assert not other.exists() or other.read_text() == "mine"
    assert other.exists() is (kind != "dangling")


def test_no_folder(tmp_path: Path) -> None:
    """ADP-8.6: a missing folder is `not_sent` (it may come back), named."""
    with pytest.raises(Unavailable, match=r"gone/console-alice\.log cannot be opened: No such"):
        append(tmp_path / "gone", "hi", "k1")


def test_no_permission(tmp_path: Path) -> None:
    """ADP-8.6: a folder that cannot be written is `not_sent`, named."""
    tmp_path.chmod(0o500)
    me = os.geteuid()
    if me == 0:  # root may write everywhere; nobody may not
        os.seteuid(65534)
    try:
        with pytest.raises(Unavailable, match="Permission denied"):
            append(tmp_path, "hi", "k1")
    finally:
        os.seteuid(me)


FULL = """
import resource, sys
from pathlib import Path
from wakebus.adapters.base import Request
from wakebus.adapters.transports.console_log import ConsoleLogs
from wakebus.adapters.errors import Unavailable
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
try:
    ConsoleLogs(Path(sys.argv[1]))(Request("console:alice", b"x" * 9000, {"key": "k1"}))
except Unavailable as exc:
    sys.exit(str(exc.text))
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """ADP-8.6: a write that the disk ends half-way is `not_sent`, and nothing of it stays."""
    append(tmp_path, "before", "k0")
    before = log(tmp_path).read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=20
    )
    assert "cannot be written: File too large" in done.stderr
    assert log(tmp_path).read_bytes() == before


def test_a_held_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-8.6: a process that holds the file costs a bounded wait, then `not_sent`."""
    monkeypatch.setattr(console_log, "LOCK_S", 0.05)
    append(tmp_path, "hi", "k1")
    with log(tmp_path).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="locked by another process"):
            append(tmp_path, "hi", "k2")
    assert append(tmp_path, "hi", "k2")


@pytest.mark.parametrize(
    ("url", "key"), [("console:../x", "k"), ("file:/x", "k"), ("console:a", ""), ("console:a", "]")]
)
def test_a_wrong_request(tmp_path: Path, url: str, key: str) -> None:
    """The transport checks name and key itself: a file's name and a header are made of them."""
    with pytest.raises(Rejected):
        ConsoleLogs(tmp_path)(Request(url, b"x", {"key": key}))
    assert not list(tmp_path.iterdir())


def test_echo(tmp_path: Path) -> None:
    """ADP-8.7: in the foreground an entry is shown too, once; a closed terminal is no harm."""
    shown = io.StringIO()
    chats = ConsoleLogs(tmp_path, echo=shown, now=lambda: NOW)
    for _ in range(2):
        chats(Request("console:alice", b"hi", {"key": "k1"}))
    assert shown.getvalue() == f"[{STAMP} console:alice k1]\nhi\n"
    shown.close()
    assert chats(Request("console:alice", b"hi", {"key": "k2"})).status == 200


def test_echo_where_a_character_is_missing(tmp_path: Path) -> None:
    """ADP-8.7: it is shown as `?`, and the file has it."""
    shown = io.BytesIO()
    chats = ConsoleLogs(tmp_path, echo=io.TextIOWrapper(shown, "ascii"), now=lambda: NOW)
    chats(Request("console:alice", "→ hi".encode(), {"key": "k1"}))
    assert b"? hi" in shown.getvalue() and "→ hi".encode() in log(tmp_path, "alice").read_bytes()


def test_no_descriptor_leaks(tmp_path: Path) -> None:
    """Refusals and appends close what they opened."""
    log(tmp_path, "bad").mkdir()
    before = len(list(Path("/dev/fd").iterdir()))
    for number in range(20):
        append(tmp_path, "hi", f"k{number}")
        with pytest.raises(Rejected):
            append(tmp_path, "hi", "k", name="bad")
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_text_full_of_a_key_costs_no_more_than_another() -> None:
    """A sender cannot hold up a chat: every place is looked at once, never its whole line."""
    tail = missing_bytes(b"", "b", b" a" * 500_000, "2026-11-28T00:14:03Z")
    begun = time.process_time()
    assert not has_entry(tail, b"a")
    assert time.process_time() - begun < 3  # it was 7 s; now 0.1 s
    assert has_entry(tail, b"b")
