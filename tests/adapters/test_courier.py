"""The courier: its decisions, then the real thing with a broker."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from wakebus.adapters import courier as module
from wakebus.adapters.base import Capabilities, Request, Response
from wakebus.adapters.console import Console
from wakebus.adapters.courier import Courier, backoff, hold, persist, run
from wakebus.adapters.errors import Throttled, Unavailable, Uncertain
from wakebus.broker import Client, Delivery, Later, Refusal
from wakebus.broker.errors import Busy, NotRegistered, NotRunning, WakebusError

NOW = 1_795_824_843.0


class Taken(Delivery):
    """A delivery that keeps what was said of it instead of telling a broker."""

    def __init__(self, body: dict[str, Any], error: WakebusError | None = None, **head: Any):
        message = {"id": "m1", "ts": NOW - 5, "from": "lead-agent", "to": "courier", "body": body}
        super().__init__({"message": message, "epoch": 1, **head}, "courier", None)  # type: ignore[arg-type]
        self.error, self.starts = error, 0

    def started(self, token: str | None = None) -> None:
        self.starts += 1
        if self.error:
            raise self.error


class Wire:
    """Answers one after the other: an error, or None for success; keeps the requests."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers, self.seen = list(answers), []  # type: ignore[var-annotated]

    def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        if self.answers and (error := self.answers.pop(0)):
            raise error
        return Response(200, b'{"id": "k"}')


class Chat(Console):
    """The console as a platform on which no key helps."""

    capabilities: ClassVar = Capabilities(max_text=100)


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "capabilities", Chat.capabilities)


def courier(wire: Wire, **env: str) -> Courier:
    return Courier({"console": wire}, env=lambda: env, now=lambda: NOW, jitter=lambda: 1.0)


def say(text: str = "build done", channel: str = "console:alice", **head: Any) -> Taken:
    return Taken({"type": "say", "text": text, "channel": channel}, **head)


@pytest.mark.parametrize("type", ["say", "task_done", "anything at all", None])
def test_sent(type: str | None) -> None:
    """ADP-6.1, ADP-6.4: channel and text go out whatever the type; the outcome has the id."""
    wire = Wire()
    body = {"text": "build done", "channel": "console:alice"} | ({"type": type} if type else {})
    assert courier(wire).handle(Taken(body)) == {
        "channel": {
            "result": "sent",
            "platform": "console",
            "chat": "console:alice",
            "id": "k",
            "at": NOW,
        }
    }
    assert wire.seen[0].body == b"build done"


def test_the_key_is_the_messages_id() -> None:
    """ADP-6.8: each attempt of one message has the same key."""
    wire = Wire(Unavailable("disk full"), None)
    one = courier(wire)
    one.handle(say())
    one.handle(say())
    assert [request.headers["key"] for request in wire.seen] == ["m1", "m1"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"text": "hi"}, "names no channel"),
        ({"channel": "console:alice"}, "no text"),
        ({"text": " \n", "channel": "console:alice"}, "no text"),
        ({"text": "hi", "channel": "consol:alice"}, "did you mean console"),
        ({"text": "hi", "channel": "console:a/b"}, "a/b"),
        ({"text": "hi", "channel": "console:"}, "no chat id"),
        ({"text": "hi", "channel": "console"}, "CONSOLE_HOME_CHANNEL is not set"),
        ({"text": "hi", "channel": "console:a?thread=1"}, "no threads"),
    ],
)
def test_refused_before_anything(body: dict[str, Any], named: str) -> None:
    """ADP-6.1, ADP-6.2: refused with what is wrong, in reason and outcome; nothing was begun."""
    wire, delivery = Wire(), Taken(body)
    refusal = courier(wire).handle(delivery)
    assert isinstance(refusal, Refusal) and refusal.outcome
    assert named in refusal.reason and named in refusal.outcome["channel"]["reason"]
    assert refusal.outcome["channel"]["result"] == "rejected"
    assert (delivery.starts, wire.seen) == (0, [])


def test_home_channel() -> None:
    """ADP-7.3: a bare platform goes to the home channel of the courier's environment."""
    outcome = courier(Wire(), CONSOLE_HOME_CHANNEL="bob").handle(say(channel="console"))
    assert isinstance(outcome, dict) and outcome["channel"]["chat"] == "console:bob"


def test_started_comes_first() -> None:
    """ADP-6.3: the broker has stored that work began before the request is performed."""
    order: list[str] = []
    delivery, wire = say(), Wire()

    def begin(token: str | None = None) -> None:
        order.append("started")

    def perform(request: Request) -> Response:
        order.append("sent")
        return wire(request)

    delivery.started = begin  # type: ignore[method-assign]
    Courier({"console": perform}, env=dict).handle(delivery)
    assert order == ["started", "sent"]


def test_a_start_that_cannot_be_stored() -> None:
    """ADP-6.3: a broker that cannot store now makes it come again; nothing was performed."""
    wire = Wire()
    assert isinstance(courier(wire).handle(say(error=Busy("queue full"))), Later)
    assert wire.seen == []


def test_a_delivery_that_is_no_longer_ours() -> None:
    """ADP-6.3: when the name went to another, nothing is performed and nothing is claimed."""
    wire = Wire()
    with pytest.raises(NotRegistered):
        courier(wire).handle(say(error=NotRegistered("gone")))
    assert wire.seen == []


def test_rejected() -> None:
    """ADP-6.4: what the platform rejects is refused with the channel result."""
    answer = Response(400, b'{"error": "no such chat"}')
    refusal = Courier({"console": lambda _: answer}, env=dict, now=lambda: NOW).handle(say())
    assert isinstance(refusal, Refusal) and refusal.outcome
    assert refusal.reason == "no such chat"
    assert refusal.outcome["channel"]["result"] == "rejected"


def test_not_sent_comes_again() -> None:
    """ADP-6.5: 1, 2, 4 … 60 s, or what the platform says; a success starts over."""
    wire = Wire(*[Unavailable("down")] * 8, Throttled("fast", retry_after=7.5), None)
    one = courier(wire)
    waits = [one.handle(say()) for _ in range(9)]
    assert [w.after_s for w in waits if isinstance(w, Later)] == [1, 2, 4, 8, 16, 32, 60, 60, 7.5]
    assert waits[0] == Later(1.0, "down")
    assert isinstance(one.handle(say()), dict)
    wire.answers = [Unavailable("down")]
    assert one.handle(say()) == Later(1.0, "down")


def test_waits_are_spread() -> None:
    """ADP-6.5: jitter shortens a wait by up to a quarter, and never below a second."""
    assert [backoff(4, jitter) for jitter in (0.0, 0.5, 1.0)] == [12, 14, 16]
    assert backoff(0, 0.0) == 1 and backoff(10**6, 1.0) == 60


def test_uncertain_under_a_key() -> None:
    """ADP-6.6: where the key makes it safe, uncertain is sent again with the same key."""
    wire = Wire(Uncertain("reset"), None)
    one = courier(wire)
    assert isinstance(one.handle(say()), Later)
    assert isinstance(one.handle(say()), dict)
    assert len(wire.seen) == 2


@pytest.mark.usefixtures("keyless")
def test_uncertain_without_a_key() -> None:
    """ADP-6.6: where no key helps, uncertain is the end, said so."""
    outcome = courier(Wire(Uncertain("reset"))).handle(say())
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert outcome["channel"]["reason"] == "reset"


def test_a_key_that_has_aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.6: once the platform has forgotten the key, an uncertain text is not sent again."""
    monkeypatch.setattr(Console, "capabilities", Capabilities(max_text=100, idempotent_s=30))
    wire, clock = Wire(Uncertain("reset")), [NOW]
    one = Courier({"console": wire}, env=dict, now=lambda: clock[0])
    assert isinstance(one.handle(say()), Later)
    clock[0] += 60
    outcome = one.handle(say())
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert len(wire.seen) == 1


AFTER_A_DEATH: dict[str, Any] = {"redelivered": True, "started": True, "attempt": 2}


@pytest.mark.usefixtures("keyless")
def test_a_predecessor_died_in_the_middle() -> None:
    """ADP-6.7: started before, no key: not sent again, `uncertain`, and no start is told."""
    wire, delivery = Wire(), say(**AFTER_A_DEATH)
    outcome = courier(wire).handle(delivery)
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert outcome["channel"]["chat"] == "console:alice"
    assert (delivery.starts, wire.seen) == (0, [])


@pytest.mark.usefixtures("keyless")
def test_a_predecessor_died_before_it_began() -> None:
    """ADP-6.7: redelivered but not started before: nothing was performed, so it is sent."""
    outcome = courier(Wire()).handle(say(redelivered=True, attempt=2))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


def test_a_predecessor_died_and_the_key_helps() -> None:
    """ADP-6.7: with a key it is sent again."""
    outcome = courier(Wire()).handle(say(**AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


@pytest.mark.usefixtures("keyless")
def test_what_this_courier_sent_back_is_known() -> None:
    """ADP-6.7: after `not_sent` in this process, a message marked started is sent all the same."""
    wire = Wire(Unavailable("down"), None)
    one = courier(wire)
    assert isinstance(one.handle(say(redelivered=True)), Later)
    outcome = one.handle(say(**AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that wait for ever do not fill the memory."""
    monkeypatch.setattr(module, "MAX_LANES", 3)
    one = courier(Wire(*[Unavailable("down")] * 9))
    for number in range(9):
        one.handle(say(channel=f"console:c{number}"))
    assert len(one._waiting) == 3


def test_persist() -> None:
    """ADP-6.9: an error is logged once per reason and tried again; stop ends it."""
    stop = threading.Event()
    tries: list[int] = []

    def step() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise NotRunning("no broker")
        return "held"

    assert persist(step, stop) == "held"
    stop.set()
    assert persist(step, stop) is None


# ---- with a broker ---------------------------------------------------------------------------


def until(true: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def spawn(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", "-c", code], stdin=subprocess.DEVNULL)


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A broker of its own, without services; the folder of its files."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("WAKEBUS_SERVICES", "false")
    monkeypatch.delenv("CONSOLE_HOME_CHANNEL", raising=False)
    broker = spawn("from wakebus.broker.busd import main; main(['run'])")
    until((tmp_path / "bus" / "address.json").exists)
    yield tmp_path / "bus"
    broker.terminate()
    assert broker.wait(10) == 0


@pytest.fixture
def served(bus: Path) -> Iterator[Path]:
    """That broker with a courier in a thread of this process."""
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,))
    thread.start()
    with Client() as client:
        until(lambda: any(e["name"] == "courier" for e in client.list()))
    yield bus
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_end_to_end(served: Path) -> None:
    """ADP-6.4: a message to `courier` ends in the chat's file, and its sender learns the result."""
    with Client() as client:
        sent = client.send("courier", "build done", channel="console:alice", wait=10)
        refused = client.send("courier", "build done", channel="consol:alice", wait=10)
    assert sent.outcome and sent.outcome["channel"]["id"] == sent.id
    assert refused.state == "dead" and "did you mean console" in refused.reason
    assert refused.outcome and refused.outcome["channel"]["result"] == "rejected"
    text = (served / "console-alice.log").read_text()
    assert text.splitlines()[1:] == ["build done"] and sent.id in text


def test_a_new_home_channel_needs_no_restart(served: Path) -> None:
    """ADP-7.3: `.env` is read when it changed."""
    with Client() as client:
        assert client.send("courier", "hi", channel="console", wait=10).state == "dead"
        (served.parent / ".env").write_text("CONSOLE_HOME_CHANNEL=bob\n")
        done = client.send("courier", "hi", channel="console", wait=10)
    assert done.outcome and done.outcome["channel"]["chat"] == "console:bob"


DIES = """
import os, signal
from wakebus.adapters import chatlog, courier
append = chatlog._append
def die(*args):
    append(*args)
    os.kill(os.getpid(), signal.SIGKILL)
chatlog._append = die
courier.serve(__import__("threading").Event())
"""


def test_killed_between_effect_and_ack(bus: Path) -> None:
    """ADP-8.2: a courier killed after the append, before the ack: its successor doubles nothing."""
    first = spawn(DIES)
    with Client() as client:
        sent = client.send("courier", "once", channel="console:alice", queue=True)
        assert first.wait(20) == -signal.SIGKILL
        stop = threading.Event()
        second = threading.Thread(target=run, args=(stop,))
        second.start()
        done = client.wait(sent.id, 15)
        stop.set()
        second.join(10)
    assert done.outcome and done.outcome["channel"]["result"] == "sent"
    assert (bus / "console-alice.log").read_text().count("once") == 1


def test_the_name_is_held_by_another(
    bus: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.9: a second courier waits, saying so once, and serves when the first has gone."""
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.05)
    stop = threading.Event()
    with Client() as client:
        with Client() as other:
            other.register("courier", lambda _: Later(60.0))
            thread = threading.Thread(target=run, args=(stop,))
            thread.start()
            until(lambda: "not yet (name_taken)" in caplog.text)
        done = client.send("courier", "hi", channel="console:alice", wait=10)
        assert done.outcome and done.outcome["channel"]["result"] == "sent"
        stop.set()
        thread.join(10)
    assert caplog.text.count("name_taken") == 1


def test_no_broker_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.9: without a broker a courier waits, starts none, and stops at once when told to."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,))
    thread.start()
    time.sleep(0.2)
    stop.set()
    thread.join(5)
    assert not thread.is_alive() and not (tmp_path / "bus").exists()


FOREGROUND = "from wakebus.adapters.courier import run_foreground as f; raise SystemExit(f())"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_foreground(bus: Path, number: signal.Signals) -> None:
    """ADP-8.7: in the foreground chats are shown on stdout; Ctrl-C and SIGTERM end it with 0."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", FOREGROUND], stdout=subprocess.PIPE, text=True
    )
    with Client() as client:
        client.send("courier", "build done", channel="console:alice", queue=True, wait=15)
    os.kill(process.pid, number)
    shown, _ = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "console:alice" in shown and "build done" in shown


def test_taken_over(bus: Path) -> None:
    """ADP-6.9: a courier whose name was taken notices it, so that it can wait for it again."""
    with Client() as first, Client() as second:
        lost = hold(first, courier(Wire()), False)
        assert not lost.is_set()
        hold(second, courier(Wire()), True)
        assert lost.wait(5)
