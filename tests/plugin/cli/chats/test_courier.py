"""`wakebus courier`: the courier in this terminal."""

import signal

from fakes.desk import Desk
from fakes.terminal import Terminal


def test_in_the_foreground(desk: Desk) -> None:
    """Console chats are shown here as well as kept; Ctrl-C ends it."""
    terminal = Terminal(desk, "wakebus", "courier")
    done = desk.wakebus(
        "send", "console:here", "look\x1b]0;evil\x07", "--from", "ci", "--wait", "30"
    )
    assert done.status == 0, (done, terminal.shown)
    terminal.shows("look")
    assert (
        "evil" not in terminal.shown
        and "look" in (desk.root / "bus" / "console-here.log").read_text()
    )
    assert terminal.end(signal.SIGINT) == 0 and "Traceback" not in terminal.shown


def test_without_a_bus(own_desk: Desk) -> None:
    """It waits for one, and says so; Ctrl-C ends it."""
    terminal = Terminal(own_desk, "wakebus", "courier")
    terminal.shows("broker")
    assert terminal.end(signal.SIGTERM) == 0 and "Traceback" not in terminal.shown
