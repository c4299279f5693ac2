"""`wakebus logs`: where they are, their last lines, and what comes."""

from pathlib import Path

from fakes.desk import Desk
from fakes.terminal import Terminal
from wakebus.plugin.cli.setup.logs import FollowedLog, last_lines


def test_where_the_logs_are(own_desk: Desk) -> None:
    """Their paths and last lines; the broker need not run."""
    done = own_desk.wakebus("logs")
    assert done.status == 1 and "no log yet" in done.err and "broker.log" in done.err
    own_desk.start()
    own_desk.run("hermes-busd", "stop")
    path = own_desk.root / "bus" / "broker.log"
    done = own_desk.wakebus("logs", "-n", "1")
    head, last = done.out.splitlines()[:2]
    assert head == f"==> {path} <==" and "stopped: pid" in last
    assert own_desk.wakebus("logs", "--json").json["logs"][0]["path"] == str(path)


def test_one_of_them(own_desk: Desk) -> None:
    """The word may stand behind an option."""
    own_desk.start()
    assert "courier" not in own_desk.wakebus("logs", "-n", "0", "broker").out
    assert own_desk.wakebus("logs", "-n", "-3").status == 2
    assert own_desk.wakebus("logs", "--json", "--follow").status == 2


def test_follow(own_desk: Desk) -> None:
    """What is written appears; Ctrl-C ends it."""
    own_desk.start()
    shown = Terminal(own_desk, "wakebus", "logs", "broker", "-f")
    shown.shows("started: pid")
    own_desk.run("hermes-busd", "stop")
    shown.shows("stopped: pid")
    assert shown.end() == 130


def test_a_log_that_rotates(tmp_path: Path) -> None:
    """Nothing is lost at the change, a line that is not whole waits for its end."""
    path = tmp_path / "broker.log"
    path.write_text("old\n")
    log = FollowedLog(path)
    assert [*log.new_lines()] == []
    with path.open("a") as file:
        file.write("one\ntw")
    assert [*log.new_lines()] == ["one"]
    with path.open("a") as file:
        file.write("o\nlast\n")
    path.rename(tmp_path / "broker.log.1")
    path.write_text("new\n")
    assert [*log.new_lines()] == ["two", "last", "new"]
    path.unlink()
    assert [*log.new_lines()] == []
    log.close()


def test_the_last_lines_of_a_long_log(tmp_path: Path) -> None:
    """Whole lines of its end only; what is no UTF-8 is shown."""
    path = tmp_path / "x.log"
    lines = b"".join(b"%06d " % n + b"x" * 90 + b"\n" for n in range(2000))
    path.write_bytes(lines + b"\xff end\n")
    found = last_lines(path, 3)
    assert found[-1] == "\ufffd end" and found[0].startswith("001998 ") and len(found) == 3
    assert last_lines(path, 0) == [] and len(last_lines(path, 10**6)) < 2000
