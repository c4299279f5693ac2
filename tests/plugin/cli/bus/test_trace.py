"""`wakebus trace`: what became of a message."""

import re
from collections.abc import Callable

import pytest

from fakes.desk import Desk, Listener
from fakes.terminal import in_terminal

Listen = Callable[..., Listener]


def test_the_whole_story(desk: Desk, name: str, listen: Listen) -> None:
    """Accepted, queued, held, started, rule, turn, answer: each with time and process."""
    listener = listen(name, "--agent", "echo fine")
    desk.wakebus("ask", name, "how?", "--from", "ci", "--id", f"{name}-1")
    desk.handled(f"{name}-1")
    out = desk.wakebus("trace", f"{name}-1").out
    head, *steps = out.splitlines()
    assert head.startswith(f"{name}-1  ci (claimed) → {name}  directive  handled ◀")
    words = [step.split()[1] for step in steps if step[2:3].isdigit()]
    assert words[:3] == ["accepted", "queued", "held"]
    assert {"rule", "started", "turn", "answer", "handled"} <= {*words}
    assert f"pid {listener.process.pid}" in out
    assert f"  {name} → ci" in out  # the answer stands below, indented
    found = desk.wakebus("trace", f"{name}-1", "--json").json
    assert found["id"] == f"{name}-1" and len(found["messages"]) == 2
    answer = found["messages"][1]
    assert answer["reply_to"] == f"{name}-1" and answer["type"] == "answer"
    assert "fine" not in str(answer)  # no bodies


def test_an_unknown_id(desk: Desk) -> None:
    """Exit 1 and where ids come from; with --json one object."""
    done = desk.wakebus("trace", "never-was")
    assert done.status == 1 and "no message never-was is stored" in done.err
    assert "receipt" in done.err and done.out == ""
    done = desk.wakebus("trace", "--json", "never-was")
    assert done.status == 1 and done.json["error"]["code"] == "unknown_id"
    assert desk.wakebus("trace").status == 2
    done = desk.wakebus("trace", "x\x1b[2J\n")
    assert done.status == 1 and "\x1b" not in done.both and "Traceback" not in done.err


@pytest.mark.parametrize("verb", ["trace", "cancel", "reply", "dead show"])
def test_an_id_that_is_far_too_long(desk: Desk, verb: str) -> None:
    """It is named by its beginning: the terminal is not filled with it."""
    done = desk.wakebus(*verb.split(), "9" * 3000)
    assert done.status == 1 and f"no message {'9' * 64}… is stored" in done.err
    assert len(done.err) < 400


def test_colour_only_for_a_terminal_that_wants_it(desk: Desk, name: str) -> None:
    """Bold heads in a terminal, none in a pipe or with NO_COLOR."""
    desk.sent("--to", name, "--queue", "--from", "ci", "--id", name, "x")
    command = ("wakebus", "trace", name)
    assert "\033[1m" in in_terminal(desk, *command)
    assert "\033" not in in_terminal(desk, *command, env={"NO_COLOR": "1"})
    assert "\033" not in desk.run(*command).out


def test_what_a_peer_wrote_steers_nothing(desk: Desk, name: str) -> None:
    """Only our own bold is left of all escapes; nobody who reads it is no traceback."""
    odd = {"type": "t→\u202e\u200b", "channel": "console:x\u202e→"}  # no command sends that
    with desk.client() as bus:
        bus.send(name, {"text": "text", **odd}, sender="ci", id=name, queue=True)
    shown = in_terminal(desk, "wakebus", "trace", name)
    assert "t→" in shown and not {"\u202e", "\u200b"} & set(shown)
    assert set(re.findall("\x1b[^m]*m", shown)) == {"\x1b[1m", "\x1b[0m"}
    assert desk.run("/bin/sh", "-c", f"exec wakebus trace {name} >&-") == (0, "", "")
