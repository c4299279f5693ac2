"""What a terminal shows while a command waits, and what it does not leave behind."""

import io
import os
import pty
import re
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakes.broker import until
from fakes.desk import Desk, Listener
from fakes.terminal import Terminal
from wakebus.broker.system.text_width import display_width
from wakebus.plugin.cli.progress import ProgressLine, cut_to_width, progress_text

Listen = Callable[..., Listener]


def row(state: str, *steps: str, **more: Any) -> dict[str, Any]:
    """Return a row of a trace, a step each second."""
    told = [{"t": float(n), "what": what} for n, what in enumerate(steps)]
    return {"to": "worker", "type": "directive", "state": state, "steps": told, **more}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (row("queued", "accepted", "queued"), "queued for worker"),
        (row("queued", why="worker is away"), "queued for worker: worker is away"),
        (row("queued", "held", "later", put_off="x"), "queued for worker: x"),
        (row("delivered", "held"), "held by worker: its turn has not begun yet"),
        (row("delivered", "held", why="Hermes is paused"), "held by worker: Hermes is paused"),
        (row("delivered", "held", "started"), "worker: its turn has begun, 9 s ago"),
        (row("delivered", "held", "started", type="say"), "worker: sending has begun, 9 s ago"),
        (row("delivered", "started", "held"), "held by worker: its turn has not begun yet"),
        (row("queued", not_before=70.0), "for worker: goes out "),
        (row("handled", outcome={"awaits": "reply"}), "shown at worker: no person has replied yet"),
        (row("handled", outcome=None), "handled: its answer is not here yet"),
        ({}, "None: its answer is not here yet"),
    ],
)
def test_how_far_a_message_is(found: dict[str, Any], says: str) -> None:
    """Queued, held and why, begun and since when, shown: by its trace."""
    told = progress_text(found, 10.0)
    assert told.startswith(says) if "goes out" in says else told == says


def test_a_line_is_one_line() -> None:
    """Of the terminal's width at most, whatever a peer wrote; a shorter one covers a longer one."""
    main, inner = pty.openpty()
    with os.fdopen(inner, "w", encoding="utf-8") as stream:
        line = ProgressLine(stream)
        for text in ("x" * 500, "中文" * 100, "a\nb\x1b[2Jc", "é"):
            line.draw(text)
        line.take_away()
        line.draw("late")
        read = b""
        while not read.endswith(b" " * 79 + b"\r"):
            read += os.read(main, 65536)
    os.close(main)
    shown = read.decode()
    drawn = shown.split("\r")
    assert drawn[0] == drawn[-1] == "" and drawn[-2] == " " * 79
    assert all(display_width(one) <= 77 for one in drawn[:-2]) and "\n" not in shown
    assert "\x1b" not in shown and "a b" in drawn[3] and drawn[4].rstrip() == "é"
    assert display_width(drawn[4]) >= display_width(drawn[3].rstrip())


def test_a_line_in_a_stream_that_has_gone() -> None:
    """Nothing is raised."""
    stream = io.StringIO()
    stream.close()
    ProgressLine(stream).draw("x")


@pytest.mark.parametrize(("text", "cut"), [("abc", "abc"), ("abcd", "ab…"), ("中文", "中…")])
def test_cut_to_width(text: str, cut: str) -> None:
    """By columns, not by characters."""
    assert cut_to_width(text, 3) == cut


# --- in a real terminal ---------------------------------------------------------------------


def shown_at_the_end(terminal: Terminal) -> str:
    """Return what is left to be read on the terminal: what \\r has not been written over."""
    lines = []
    for line in terminal.shown.replace("\r\n", "\n").split("\n"):
        left = ""
        for part in line.split("\r"):
            left = part + left[len(part) :]
        lines.append(left.rstrip())
    return "\n".join(lines)


@pytest.fixture
def agent(desk: Desk, name: str, listen: Listen) -> Iterator[Callable[[], object]]:
    """Listen with an agent whose turn goes on until it is let end: return what does that."""
    go = desk.root / f"{name}.go"
    os.mkfifo(go)
    listen(name, "--agent", f"cat >/dev/null; read x < {go}; echo fine")
    yield lambda: go.write_text("x\n")


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=str)
def test_a_turn_is_seen_to_begin(
    desk: Desk, name: str, agent: Callable[[], object], env: dict[str, str]
) -> None:
    """It has begun, and seconds; then the answer, and nothing else is left."""
    terminal = Terminal(desk, "wakebus", "ask", name, "x", "--from", "ci", env=env)
    terminal.shows("its turn has begun, ")
    terminal.shows("(2 of 300 s)")
    agent()
    assert terminal.wait() == 0
    asked, *rest = shown_at_the_end(terminal).split("\n")
    assert asked.startswith(f"asked {name} by ") and rest == ["fine", ""]
    assert "\x1b" not in terminal.shown


def test_wait_shows_it_too(desk: Desk, name: str, agent: Callable[[], object]) -> None:
    """`notify-hermes --wait`, in which nobody asks."""
    words = ("--to", name, "--from", "ci", "--type", "directive", "--wait", "60", "x")
    terminal = Terminal(desk, "notify-hermes", *words)
    terminal.shows("its turn has begun, ")
    agent()
    assert terminal.wait() == 0
    assert re.fullmatch(r"handled [^\n]*\n", shown_at_the_end(terminal))


def test_what_is_queued_says_why(desk: Desk, name: str) -> None:
    """A receiver that is away; Ctrl-C names the id and the next steps, on lines of their own."""
    desk.declare(name)
    terminal = Terminal(desk, "wakebus", "ask", name, "x", "--from", "ci")
    terminal.shows(f"queued for {name}")
    assert terminal.end(signal.SIGINT) == 130
    asked, *told = shown_at_the_end(terminal).split("\n")
    id = asked.split()[3].strip(";")
    assert told == [
        f"{id} goes on without you.",
        f"Its answer, now or later: the same command with --id {id}",
        f"To take it back: wakebus cancel {id}",
        "",
    ]
    assert desk.wakebus("cancel", id).status == 0


@pytest.mark.parametrize("more", [("--json",), ()])
def test_nothing_of_it_in_a_pipe_or_json(desk: Desk, name: str, more: tuple[str, ...]) -> None:
    """In a pipe the id alone; with --json, in a terminal too, nothing but the object."""
    desk.declare(name)
    words = ("wakebus", "ask", name, "x", "--from", "ci", "--wait", "1.5", *more)
    if more:
        terminal = Terminal(desk, *words)
        assert terminal.wait() == 4 and "queued for" not in terminal.shown
    else:
        done = desk.run(*words)
        assert "\r" not in done.both and "queued for" not in done.both


def test_a_broker_that_goes_is_told_at_once(own_desk: Desk, name: str) -> None:
    """And that it is back; the wait goes on."""
    own_desk.start()
    own_desk.declare(name)
    terminal = Terminal(own_desk, "wakebus", "ask", name, "x", "--from", "ci")
    terminal.shows(f"queued for {name}")
    assert own_desk.run("hermes-busd", "stop").status == 0
    terminal.shows("the broker does not answer")
    own_desk.start()
    before = len(terminal.shown)
    until(lambda: f"queued for {name}" in terminal.shown[before:], 30)
    assert terminal.end(signal.SIGINT) == 130


def test_a_job_in_the_background_writes_into_no_others_line(desk: Desk, name: str) -> None:
    """It says its id, and draws nothing."""
    desk.declare(name)
    ask = f"wakebus ask {name} x --from ci --wait 1.5"
    # A terminal of its own session, in which a shell has jobs.
    spawn = "import pty, sys; pty.spawn(sys.argv[1:])"
    for line, drawn in ((f"{ask} & wait", False), (ask, True)):
        command = (sys.executable, "-c", spawn, "/bin/bash", "--norc", "-ic", line)
        shown = desk.run(*command, env={"TERM": "xterm"}).out
        assert f"asked {name} by " in shown and "not yet answered" in shown
        assert ("queued for" in shown) is drawn, shown


def test_a_frozen_broker_holds_up_no_ctrl_c(own_desk: Desk, name: str) -> None:
    """The line says that it does not answer; the command ends at once."""
    pid = own_desk.start()
    own_desk.declare(name)
    terminal = Terminal(own_desk, "wakebus", "ask", name, "x", "--from", "ci")
    terminal.shows(f"queued for {name}")
    os.kill(pid, signal.SIGSTOP)
    try:
        terminal.shows("the broker does not answer")
        assert terminal.end(signal.SIGINT) == 130
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "goes on without you" in terminal.shown


def test_a_chat(own_desk: Desk) -> None:
    """`wakebus send`: the id first, then what is shown while nobody takes it."""
    own_desk.start()
    own_desk.declare("courier")
    terminal = Terminal(own_desk, "wakebus", "send", "console:demo", "x", "--wait", "60")
    terminal.shows("queued for courier")
    assert terminal.end(signal.SIGINT) == 130
    first, second, third, fourth, rest = shown_at_the_end(terminal).split("\n")
    assert first.startswith("queued 1") and first.endswith(" for the courier") and rest == ""
    assert second.endswith(" goes on without you.")
    assert third.startswith("The courier goes on: wakebus trace 1")
    assert fourth.startswith("To take it back: wakebus cancel 1")
