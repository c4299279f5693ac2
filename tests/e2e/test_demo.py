"""`make demo`: the walk-through, without a terminal."""

import os
import pwd
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.desk import Desk

DEMO = Path(__file__).parents[2] / "deploy" / "demo" / "demo.py"


@pytest.fixture
def demo(own_desk: Desk) -> list[str]:
    """The command; its folder is the desk's, so that the desk finds what is left."""
    return [sys.executable, str(DEMO), str(own_desk.root)]


def around(folder: Path) -> dict[str, str]:
    """An environment whose HOME and temporary folder are empty ones of this test."""
    for part in ("home", "tmp", "cwd"):
        (folder / part).mkdir()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("WAKEBUS_", "HERMES_"))}
    return {**clean, "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}


def test_the_whole_of_it(own_desk: Desk, demo: list[str], tmp_path: Path) -> None:
    """Exit 0; everything is shown; nothing is left running and nothing lies outside its folder."""
    env = around(tmp_path)
    hermes = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".hermes"
    there = hermes.exists()
    done = subprocess.run(
        demo,
        env={**env, "WAKEBUS_TOKEN": "of somebody else", "HERMES_BUS_ENDPOINT": "me"},
        cwd=tmp_path / "cwd",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
    )
    out = done.stdout
    assert (done.returncode, done.stderr) == (0, ""), (out, done.stderr)
    for name in ("lead-agent", "worker-alpha", "worker-beta"):
        assert re.search(rf"^  {name} +live +\d+ ", out, re.MULTILINE)
    assert re.search(r"worker-alpha is busy, [1-9]\d* message", out)
    killed = re.search(r"killed pid (\d+)", out)
    back = re.search(r"back with pid (\d+)", out)
    assert killed and back and killed[1] != back[1]
    assert "Done. worker-alpha: Auth middleware refactor complete" in out  # the chat
    assert "worker-beta is idle and ready." in out
    trace = (own_desk.root / "trace.txt").read_text()
    for step in ("accepted", "queued", "held", "started", "rule", "turn", "answer", "handled"):
        assert f"  {step} " in trace
    story = out.partition("== 6. The whole story")[2]
    for type_ in ("directive", "ack", "progress", "task_done", "need_decision", "say"):
        assert f"  {type_} [console:demo]" in trace
        assert re.search(rf" {type_} +handled$", story, re.MULTILINE)
    assert out.count("\n  proves: ") == 7
    assert [line for line in out.splitlines() if len(line) > 80] == []
    assert out.rstrip().endswith("one channel from end to end: {'console:demo'}")
    assert "\x1b" not in out  # no terminal, no colour
    assert until(lambda: not own_desk.left(), 10)
    assert [p for part in ("home", "tmp", "cwd") for p in (tmp_path / part).iterdir()] == []
    assert hermes.exists() == there


def test_ctrl_c(own_desk: Desk, demo: list[str], tmp_path: Path) -> None:
    """In the middle of it: ends soon, leaves nothing running."""
    process = subprocess.Popen(
        demo, env=around(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until(lambda: sum("wakebus listen" in line for line in own_desk.left()) == 3, 30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    until(lambda: not own_desk.left(), 10)


def test_a_folder_with_other_things(own_desk: Desk, demo: list[str]) -> None:
    """The demo empties its folder, and so takes none that is somebody's."""
    (own_desk.root / "thesis.txt").write_text("ten years")
    done = subprocess.run(demo, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "holds other things" in done.stderr
    assert (own_desk.root / "thesis.txt").read_text() == "ten years"
    done = subprocess.run(demo[:2], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("usage:")
