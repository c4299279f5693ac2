"""`wakebus tail`: events and message states, as they happen."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from fakes.broker import until
from fakes.desk import BIN, Desk, running
from fakes.terminal import Terminal
from wakebus.broker import Event, Gap
from wakebus.plugin.cli.bus.tail import LineFormat, as_json


class Tail:
    """A running `wakebus tail`."""

    def __init__(self, desk: Desk, *words: str) -> None:
        number = len(list(desk.root.glob("tail*.out")))
        self._out, self._err = desk.root / f"tail{number}.out", desk.root / f"tail{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [str(BIN / "wakebus"), "tail", *words], stdout=out, stderr=err, env=desk.env
            )
        self.says("following")

    def says(self, text: str) -> None:
        """Wait until it has said `text` on standard error."""
        until(lambda: text in self._err.read_text() or self.process.poll() is not None, 30)
        assert text in self._err.read_text(), self._err.read_text()

    def shows(self, text: str) -> str:
        """Wait until it has printed `text`; return all it has printed."""
        until(lambda: text in self._out.read_text(), 30)
        return self._out.read_text()

    @property
    def errors(self) -> str:
        """What it has said on standard error."""
        return self._err.read_text()

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send it a signal; return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def tail(desk: Desk) -> Iterator[Callable[..., Tail]]:
    """Return a maker of tails that end with the test."""
    started: list[Tail] = []

    def start(*words: str) -> Tail:
        started.append(Tail(desk, *words))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(30)


def test_events_one_line_each(desk: Desk, tail: Callable[..., Tail], name: str) -> None:
    """Time, topic, fields; a pattern chooses; Ctrl-C ends it with 0 and without a word."""
    one = tail(f"{name}.*")
    with desk.client() as bus:
        bus.publish(f"{name}.a.b", {"x": 1})
        bus.publish(f"{name}.a", {"x": 2, "type": "other", "text": "two\nlines\x1b[2J\u202e"})
        bus.publish(f"{name}.b")
        lines = one.shows(f"{name}.b\n").splitlines()
    assert len(lines) == 2 and re.fullmatch(rf"\d\d:\d\d:\d\d\.\d{{3}}  {name}\.b", lines[1])
    assert lines[0].endswith("  type other, x 2, text two lines") and "ts" not in lines[0]
    assert not {"\x1b", "\u202e"} & set(lines[0])
    assert one.end() == 0 and "Traceback" not in one.errors


def test_very_many_patterns(desk: Desk, tail: Callable[..., Tail], name: str) -> None:
    """EVENTS-4.3: all of them are followed; three are named."""
    one = tail(*(f"{name}.n{n}" for n in range(3_000)))
    assert f"{name}.n2 and 2997 more" in one.errors and "n3 " not in one.errors
    with desk.client() as bus:
        bus.publish(f"{name}.n2999", confirm=True)
    one.shows(f"{name}.n2999\n")


def test_the_states_of_messages_are_shown(desk: Desk, tail: Callable[..., Tail], name: str) -> None:
    """Without a pattern all that happens: endpoints, messages with sender and target, no body."""
    one = tail()
    with desk.client() as holder, desk.client() as bus:
        holder.register(name, lambda delivery: None)
        bus.send(name, "hush-hush", type="ack", sender="ci", wait=30, id=f"{name}-1")
    shown = one.shows("bus.message.handled")
    assert re.search(rf"bus\.endpoint\.up  .*{name}", shown)
    for state in ("queued", "delivered", "handled"):
        assert re.search(rf"bus\.message\.{state}  {name}-1 ci → {name}", shown), shown
    assert "hush" not in shown and "bus.probe" not in shown
    assert one.end(signal.SIGTERM) == 0


def test_json_and_count(desk: Desk, tail: Callable[..., Tail], name: str) -> None:
    """JSON lines with the whole event; it ends by itself after N."""
    one = tail("--json", "--count", "2", name)
    with desk.client() as bus:
        for number in range(3):
            bus.publish(name, {"x": number, "text": "ä\x1b"})
    assert one.process.wait(30) == 0
    found = [json.loads(line) for line in one.shows("").splitlines()]
    assert [line["event"]["x"] for line in found] == [0, 1]
    assert found[0]["topic"] == name and found[0]["n"] == 1 and found[0]["event"]["text"] == "ä\x1b"
    assert one.shows("").isascii()


def test_colour_in_a_terminal(desk: Desk, name: str) -> None:
    """A dim time, a bold topic; Ctrl-C ends it."""
    terminal = Terminal(desk, "wakebus", "tail", f"{name}.**")
    terminal.shows("following")
    assert desk.wakebus("publish", f"{name}.a", '{"text": "\\u001b[31mred"}').status == 0
    terminal.shows(f"{name}.a")
    terminal.shows("red")
    assert terminal.end() == 0
    assert f"\x1b[1m{name}.a\x1b[0m" in terminal.shown and "\x1b[31m" not in terminal.shown


def test_it_outlives_the_broker(own_desk: Desk, name: str) -> None:
    """It says that the broker is away and back, and goes on."""
    own_desk.start()
    one = Tail(own_desk, name)
    own_desk.kill_broker()
    one.says("the broker is away")
    own_desk.start()
    one.says("the broker is back")
    with own_desk.client() as bus:

        def shown() -> bool:
            bus.publish(name)
            return name in one.shows("")

        until(shown, 30)
    assert one.end() == 0


def test_a_reader_that_went_away_ends_it_quietly(desk: Desk, name: str) -> None:
    """As `| head -1`: exit 0, no word."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [str(BIN / "wakebus"), "tail", name],
        stdout=write,
        stderr=subprocess.PIPE,
        env=desk.env,
        text=True,
    )
    os.close(write)
    assert process.stderr is not None
    said = process.stderr.readline()
    os.close(read)
    with desk.client() as bus:

        def ended() -> bool:
            bus.publish(name)
            return process.poll() is not None

        until(ended, 30)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.returncode == 0 and said.startswith("following") and rest == ""


def test_a_reader_that_stands_still_does_not_hold_up_the_end(desk: Desk, name: str) -> None:
    """With a full pipe, too, SIGTERM ends it."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [str(BIN / "wakebus"), "tail", "--json", name],
        stdout=write,
        stderr=subprocess.PIPE,
        env=desk.env,
        text=True,
    )
    os.close(write)
    assert process.stderr is not None and process.stderr.readline().startswith("following")
    with desk.client() as bus:
        for _ in range(50):
            bus.publish(name, {"x": "x" * 20_000})
    until(lambda: os.path.exists(f"/proc/{process.pid}") and _is_full(read))  # noqa: PTH110
    process.terminate()
    assert process.wait(30) == 0
    process.stderr.close()
    os.close(read)
    assert not running(process.pid)


def _is_full(read: int) -> bool:
    import fcntl
    import struct
    import termios

    (waiting,) = struct.unpack("i", fcntl.ioctl(read, termios.FIONREAD, b"\0" * 4))
    return bool(waiting >= 60_000)


def test_wrong_words_and_no_broker(desk: Desk, own_desk: Desk) -> None:
    """2 for usage, 1 and how to start it without a broker."""
    for words in (("a.**b",), ("--count", "0")):
        done = desk.wakebus("tail", *words)
        assert done.status == 2 and done.out == "" and "Traceback" not in done.err
    done = own_desk.wakebus("tail")
    assert done.status == 1 and "hermes-busd start" in done.err


def test_gaps_and_odd_events_in_words() -> None:
    """A gap stands where it is; what a peer wrote cannot break a line."""
    plain = LineFormat(color=False)
    pub = "a" * 16
    assert "missed 3 events of a.b" in plain(Gap("a.b", pub, 3, 9))
    assert "missed 1 event of a.b" in plain(Gap("a.b", pub, 1, 9))
    assert json.loads(as_json(Gap("a.b", pub, 3, 9))) == {
        "gap": {"topic": "a.b", "pub": pub, "missed": 3, "n": 9}
    }
    assert plain(Event("a", pub, 1, {"ts": 1e300, "type": "a", "src": "a"})).startswith("--:--")
    assert plain(Event("a", pub, 1, {"ts": -1e9, "x": None})).endswith("  x none")
    assert len(plain(Event("a", pub, 1, {"x": "x" * 60_000}))) < 2_200
    dead = {"id": "i", "from": "a", "to": "b", "type": "ack", "state": "dead", "reason": "old"}
    loop = {"id": "i", "from": "a", "to": "b", "reason": "too much", "until": 0.0}
    line = plain(Event("bus.loop.paused", pub, 1, loop))
    assert re.search(r"bus.loop.paused  i a → b until \d\d:00:00: too much$", line)
    line = plain(Event("bus.message.dead", pub, 1, {**dead, "claimed": True}))
    assert line.endswith("bus.message.dead  i a → b (claimed) ack: old")
    assert "\x1b[31m" in LineFormat(color=True)(Event("bus.message.dead", pub, 1, dead))
