"""`bus/courier.json`: what people are shown of the courier."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from wakebus.adapters.courier.status_file import FILE, StatusFile, elsewhere, read_status

NUMBERS = ("1e999", "NaN", "-Infinity", "9" * 400, "9" * 5000)  # JSON's, and no number of ours
STATE = {"feishu": {"circuit": "closed", "sent": 1}}


def status_file(folder: Path, state: dict[str, Any] | None = None) -> StatusFile:
    """Return a status file of this process, whose file is its own."""
    found = StatusFile(folder, lambda _: STATE if state is None else state, time.time())
    found.claim()
    return found


def test_written_and_read(tmp_path: Path) -> None:
    """ADP-6.19: whole, 0600, with the pid; alive while the process lives."""
    status_file(tmp_path).write(1000.0)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    found = read_status(tmp_path)
    assert found and found.alive and found.platforms == STATE
    assert (found.pid, found.at) == (os.getpid(), 1000.0)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_whose_settings(tmp_path: Path) -> None:
    """ADP-6.33: the `.env` that a running courier reads, where it is not one's own by any name."""
    assert elsewhere(None, tmp_path / ".env") == ""
    for said, own, other in (
        ("", "b", ""),
        ("a", "a", ""),
        ("a", "link", ""),
        ("a", "b", str(tmp_path / "a" / ".env")),
    ):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to("a")
        settings = tmp_path / said / ".env" if said else ""
        one = StatusFile(tmp_path, lambda _: STATE, time.time(), settings)
        one.claim()
        one.write(1000.0)
        found = read_status(tmp_path)
        assert found and elsewhere(found, tmp_path / own / ".env") == other
        assert elsewhere(found._replace(alive=False), tmp_path / "b" / ".env") == ""


@pytest.mark.parametrize("odd", [7, None, ["x"], {}])
def test_settings_that_are_no_path(tmp_path: Path, odd: object) -> None:
    """Nothing in the file is trusted."""
    status_file(tmp_path).write(1000.0)
    held = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**held, "settings": odd}))
    found = read_status(tmp_path)
    assert found and found.settings == ""


def test_at_most_once_a_second(tmp_path: Path) -> None:
    """ADP-6.19: and only what has changed; the end is written in any case."""
    state: dict[str, Any] = {"feishu": {"sent": 1}}
    one = status_file(tmp_path, state)

    def at() -> float:
        found = read_status(tmp_path)
        assert found
        return found.at

    one.write(1000.0)
    state["feishu"] = {"sent": 2}
    one.write(1000.9)
    assert at() == 1000.0
    one.write(1001.0)
    assert at() == 1001.0
    one.write(1005.0)
    assert at() == 1001.0
    state["feishu"] = {"sent": 3}
    one.write(1001.2, anew=True)
    assert at() == 1001.2


def test_the_end_is_written(tmp_path: Path) -> None:
    """ADP-6.19: also where nothing has changed: `at` is when it was there last."""
    one = status_file(tmp_path)
    one.write(1000.0)
    one.write(5000.0, anew=True)
    found = read_status(tmp_path)
    assert found and found.at == 5000.0


def test_the_file_is_the_name_holders(tmp_path: Path) -> None:
    """ADP-6.19: without its name a courier writes nothing; with it again, all."""
    one = status_file(tmp_path)
    one.write(1000.0)
    one.release()
    (tmp_path / FILE).write_text("another's")
    one.write(2000.0, anew=True)
    assert (tmp_path / FILE).read_text() == "another's"
    one.claim()
    one.write(2000.1)
    assert read_status(tmp_path)


def test_a_dead_couriers(tmp_path: Path) -> None:
    """ADP-6.19: what it left is told as such, also where another process has its pid now."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    assert gone.wait(60) == 0
    for pid in (gone.pid, os.getpid()):
        text = json.dumps({"pid": pid, "started": 1.0, "at": 2.0, "platforms": STATE})
        (tmp_path / FILE).write_text(text)
        found = read_status(tmp_path)
        assert found and not found.alive and found.platforms == STATE


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", "[" * 100_000),
        '{"pid": "x", "started": 1, "at": 1, "platforms": {}}',
        '{"pid": 1, "started": 1, "at": 1, "platforms": []}',
        '{"pid": 1, "started": 1, "at": 1, "platforms": {"a": 1}}',
        *(f'{{"pid": {n}, "started": 1, "at": 1, "platforms": {{}}}}' for n in NUMBERS),
        *(f'{{"pid": 1, "started": {n}, "at": 1, "platforms": {{}}}}' for n in NUMBERS),
        *(f'{{"pid": 1, "started": 1, "at": {n}, "platforms": {{}}}}' for n in NUMBERS),
    ],
)
def test_no_such_file(tmp_path: Path, text: str) -> None:
    """ADP-6.19: nothing, or something else in its place, is no state."""
    assert read_status(tmp_path) is None
    (tmp_path / FILE).write_text(text)
    assert read_status(tmp_path) is None


def test_fields_that_cannot_be_shown(tmp_path: Path) -> None:
    """ADP-6.19: no number, no words: they are left out, and the others are shown."""
    wrong = ",".join(f'"n{at}": {n}' for at, n in enumerate((*NUMBERS[:4], "null", "[1]", "{}")))
    text = '{"pid": 1, "started": 1, "at": 1, "platforms": {"a": {"sent": 1, "why": "x", %s}}}'
    (tmp_path / FILE).write_text(text % wrong)
    found = read_status(tmp_path)
    assert found and found.platforms == {"a": {"sent": 1, "why": "x"}}


def test_a_link_or_a_pipe(tmp_path: Path) -> None:
    """ADP-6.19: is not followed, and nobody waits for it; it is replaced."""
    (tmp_path / "secret").write_text("keep")
    (tmp_path / FILE).symlink_to(tmp_path / "secret")
    assert read_status(tmp_path) is None
    status_file(tmp_path).write(1000.0)
    assert read_status(tmp_path) and (tmp_path / "secret").read_text() == "keep"
    (tmp_path / FILE).unlink()
    os.mkfifo(tmp_path / FILE)
    assert read_status(tmp_path) is None


def test_a_folder_that_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.19: said once; nothing rests on the file."""
    one = status_file(tmp_path / "gone")
    for now in (1000.0, 1002.0, 1004.0):
        one.write(now)
    assert caplog.text.count("cannot be written") == 1
