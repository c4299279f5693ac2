"""The courier: its decisions, then the real thing with a broker."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fakes.broker import Broker
from wakebus.adapters import courier as module
from wakebus.adapters.base import Capabilities, Request, Response, Transport
from wakebus.adapters.console import Console
from wakebus.adapters.courier import Courier, backoff, hold, persist, run, session_webhook
from wakebus.adapters.errors import Rejected, Throttled, Unavailable, Uncertain
from wakebus.adapters.progress import Book
from wakebus.broker import Client, Delivery, Later, Outcome, Refusal
from wakebus.broker.errors import Busy, NotRegistered, NotRunning, WakebusError

NOW = 1_795_824_843.0


class Taken(Delivery):
    """A delivery that keeps what was said of it instead of telling a broker."""

    def __init__(self, body: dict[str, Any], error: WakebusError | None = None, **head: Any):
        ts = head.pop("ts", NOW - 5)
        message = {"id": "m1", "ts": ts, "from": "lead-agent", "to": "courier", "body": body}
        super().__init__({"message": message, "epoch": 1} | head, "courier", None)  # type: ignore[arg-type]
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


class Halt(threading.Event):
    """What a handler waits by: no time passes, unless it is set."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    found = Book(tmp_path / "courier.db")
    yield found
    found.close()


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "capabilities", Chat.capabilities)


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that helps for half a minute."""
    monkeypatch.setattr(Console, "capabilities", Capabilities(max_text=100, idempotent_s=30))


class Desk:
    """A courier without a broker: `take` hands it a delivery."""

    def __init__(self, book: Book, wire: Transport, **env: str) -> None:
        self.at, self.halt = NOW, Halt()
        self.one = Courier(
            {"console": wire}, book, env=lambda: env, now=lambda: self.at, jitter=lambda: 1.0
        )

    def take(self, delivery: Delivery) -> Outcome:
        return self.one.handle(delivery, self.halt)


@pytest.fixture
def courier(book: Book) -> Callable[..., Desk]:
    return partial(Desk, book)


MakeDesk = Callable[..., Desk]


def say(text: str = "build done", channel: str = "console:alice", **head: Any) -> Taken:
    return Taken({"type": "say", "text": text, "channel": channel}, **head)


@pytest.mark.parametrize("type", ["say", "task_done", "anything at all", None])
def test_sent(courier: MakeDesk, type: str | None) -> None:
    """ADP-6.1, ADP-6.4: channel and text go out whatever the type; the outcome has the id."""
    wire = Wire()
    body = {"text": "build done", "channel": "console:alice"} | ({"type": type} if type else {})
    assert courier(wire).take(Taken(body)) == {
        "channel": {
            "result": "sent",
            "platform": "console",
            "chat": "console:alice",
            "id": "k",
            "at": NOW,
        }
    }
    assert wire.seen[0].body == b"build done"


def test_the_key_is_the_messages_id(courier: MakeDesk) -> None:
    """ADP-6.8: each attempt of one message has the same key, whichever process makes it."""
    wire = Wire(*[Unavailable("disk full")] * 3)
    courier(wire).take(say())
    courier(wire).take(say())
    assert [request.headers["key"] for request in wire.seen] == ["m1"] * 4


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
def test_refused_before_anything(courier: MakeDesk, body: dict[str, Any], named: str) -> None:
    """ADP-6.1, ADP-6.2: refused with what is wrong, in reason and outcome; nothing was begun."""
    wire, delivery = Wire(), Taken(body)
    refusal = courier(wire).take(delivery)
    assert isinstance(refusal, Refusal) and refusal.outcome
    assert named in refusal.reason and named in refusal.outcome["channel"]["reason"]
    assert refusal.outcome["channel"]["result"] == "rejected"
    assert (delivery.starts, wire.seen) == (0, [])


def test_home_channel(courier: MakeDesk) -> None:
    """ADP-7.3: a bare platform goes to the home channel of the courier's environment."""
    outcome = courier(Wire(), CONSOLE_HOME_CHANNEL="bob").take(say(channel="console"))
    assert isinstance(outcome, dict) and outcome["channel"]["chat"] == "console:bob"


def test_started_comes_first(courier: MakeDesk) -> None:
    """ADP-6.3: the broker has stored that work began before the request is performed."""
    order: list[str] = []
    delivery, wire = say(), Wire()

    def begin(token: str | None = None) -> None:
        order.append("started")

    def perform(request: Request) -> Response:
        order.append("sent")
        return wire(request)

    delivery.started = begin  # type: ignore[method-assign]
    courier(perform).take(delivery)
    assert order == ["started", "sent"]


def test_a_start_that_cannot_be_stored(courier: MakeDesk) -> None:
    """ADP-6.3: a broker that cannot store now makes it come again; nothing was performed."""
    wire = Wire()
    assert isinstance(courier(wire).take(say(error=Busy("queue full"))), Later)
    assert wire.seen == []


def test_a_delivery_that_is_no_longer_ours(courier: MakeDesk) -> None:
    """ADP-6.3: when the name went to another, nothing is performed and nothing is claimed."""
    wire = Wire()
    with pytest.raises(NotRegistered):
        courier(wire).take(say(error=NotRegistered("gone")))
    assert wire.seen == []


def test_rejected(courier: MakeDesk) -> None:
    """ADP-6.4: what the platform rejects is refused with the channel result."""
    answer = Response(400, b'{"error": "no such chat"}')
    refusal = courier(lambda _: answer).take(say())
    assert isinstance(refusal, Refusal) and refusal.outcome
    assert refusal.reason == "no such chat"
    assert refusal.outcome["channel"]["result"] == "rejected"


def test_not_sent_comes_again(courier: MakeDesk) -> None:
    """ADP-6.5: 1, 2, 4 … 60 s, or what the platform says; a success starts over."""
    wire = Wire(*[Unavailable("down")] * 24, Throttled("fast", retry_after=75))
    desk = courier(wire)
    waits = [desk.take(say()) for _ in range(9)]
    assert [w.after_s for w in waits if isinstance(w, Later)] == [1, 2, 4, 8, 16, 32, 60, 60, 75]
    assert waits[0] == Later(1.0, "down")
    assert isinstance(desk.take(say()), dict)
    wire.answers = [Unavailable("down")] * 3
    assert desk.take(say()) == Later(1.0, "down")


def test_waits_are_spread() -> None:
    """ADP-6.5: jitter shortens a wait by up to a quarter, and never below a second."""
    assert [backoff(4, jitter) for jitter in (0.0, 0.5, 1.0)] == [12, 14, 16]
    assert backoff(0, 0.0) == 1 and backoff(10**6, 1.0) == 60


def test_uncertain_under_a_key(courier: MakeDesk) -> None:
    """ADP-6.6: where the key makes it safe, uncertain is sent again with the same key."""
    wire = Wire(Uncertain("reset"), Uncertain("reset"), None)
    desk = courier(wire)
    assert isinstance(desk.take(say()), Later)
    assert isinstance(desk.take(say()), dict)
    assert [request.headers["key"] for request in wire.seen] == ["m1"] * 3


@pytest.mark.usefixtures("keyless")
def test_uncertain_without_a_key(courier: MakeDesk) -> None:
    """ADP-6.6: where no key helps, uncertain is the end, said so."""
    wire = Wire(Uncertain("reset"))
    outcome = courier(wire).take(say())
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert outcome["channel"]["reason"] == "reset" and len(wire.seen) == 1


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("ts", [NOW - 1e6, NOW + 1e6])
def test_a_key_that_has_aged(courier: MakeDesk, ts: float) -> None:
    """ADP-6.6: its time counts from the first try, not from the message's clock."""
    wire = Wire(*[Uncertain("reset")] * 9)
    desk = courier(wire)
    assert isinstance(desk.take(say(ts=ts)), Later)
    desk.at += 29
    assert isinstance(desk.take(say(ts=ts)), Later)
    before = len(wire.seen)
    desk.at += 2
    outcome = desk.take(say(ts=ts))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert len(wire.seen) == before == 4


AFTER_A_DEATH: dict[str, Any] = {"redelivered": True, "started": True, "attempt": 2}


def dies(request: Request) -> Response:
    """A transport in which the process ends (whoever handles the message sees none of it)."""
    raise SystemExit


@pytest.mark.usefixtures("keyless")
def test_a_predecessor_died_in_the_middle(courier: MakeDesk) -> None:
    """ADP-6.7: a part had begun, no key: not sent again, `uncertain`, with what was sent."""
    words = say("a" * 90 + "\n\n" + "b" * 90)
    wire = Wire()
    with pytest.raises(SystemExit):
        courier(lambda request: wire(request) if not wire.seen else dies(request)).take(words)
    outcome = courier(wire).take(say(words.message.text, **AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert (outcome["channel"]["parts"], outcome["channel"]["done"]) == (2, 1)
    assert len(wire.seen) == 1


@pytest.mark.usefixtures("keyless")
@pytest.mark.parametrize("started", [True, False])
def test_a_predecessor_died_before_it_began(courier: MakeDesk, started: bool) -> None:
    """ADP-6.7: work may have been announced; no part had begun, so it is sent."""
    courier(Wire()).take(say(error=Busy("died here")))
    outcome = courier(Wire()).take(say(redelivered=True, started=started, attempt=2))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


@pytest.mark.usefixtures("keyless")
def test_the_notes_of_a_predecessor_are_lost(courier: MakeDesk) -> None:
    """ADP-6.7: begun, and nothing is known of it: not sent again, and no start is told."""
    wire, delivery = Wire(), say(**AFTER_A_DEATH)
    outcome = courier(wire).take(delivery)
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert outcome["channel"]["chat"] == "console:alice"
    assert (delivery.starts, wire.seen) == (0, [])


@pytest.mark.usefixtures("keyed")
def test_a_predecessor_died_and_the_key_helps(courier: MakeDesk) -> None:
    """ADP-6.7: with a key it is sent again."""
    with pytest.raises(SystemExit):
        courier(dies).take(say())
    outcome = courier(Wire()).take(say(**AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


def test_where_a_key_always_helps_nothing_is_noted(courier: MakeDesk, book: Book) -> None:
    """ADP-6.8: a console chat needs no notes, also where they cannot be written."""
    book.close()
    outcome = courier(Wire()).take(say(**AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


@pytest.mark.usefixtures("keyless")
def test_notes_that_cannot_be_written(courier: MakeDesk, book: Book) -> None:
    """ADP-6.12: nothing is sent, it comes again, and the reason names the file."""
    book.close()
    wire, delivery = Wire(), say()
    later = courier(wire).take(delivery)
    assert isinstance(later, Later) and "courier.db" in later.reason
    assert (delivery.starts, wire.seen) == (0, [])


@pytest.mark.usefixtures("keyless")
def test_killed_before_the_broker_stored_the_end(courier: MakeDesk) -> None:
    """ADP-6.8: sent, and it comes again: nothing goes out, and the outcome is the same."""
    wire = Wire()
    told = [courier(wire).take(say()), courier(wire).take(say(**AFTER_A_DEATH))]
    assert told[0] == told[1] and len(wire.seen) == 1


@pytest.mark.usefixtures("keyless")
def test_a_refused_text_that_is_retried(courier: MakeDesk) -> None:
    """ADP-6.8: a dead letter that comes again goes on at the part that was refused."""
    text, wire = "a" * 90 + "\n\n" + "b" * 90, Wire(None, Rejected("blocked"))
    refusal = courier(wire).take(say(text))
    assert isinstance(refusal, Refusal) and refusal.outcome
    assert (refusal.outcome["channel"]["done"], refusal.outcome["channel"]["parts"]) == (1, 2)
    outcome = courier(wire).take(say(text))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"
    assert [request.body[:1] for request in wire.seen] == [b"a", b"b", b"b"]


@pytest.mark.usefixtures("keyless")
def test_the_older_of_two_couriers(courier: MakeDesk) -> None:
    """ADP-6.10: what the newer one has taken, the older one does not begin; the broker decides."""
    wire = Wire()
    assert isinstance(courier(Wire(*[Unavailable("down")] * 9)).take(say(epoch=2)), Later)
    with pytest.raises(NotRegistered):
        courier(wire).take(say(error=NotRegistered("taken over")))
    assert wire.seen == []
    assert isinstance(courier(wire).take(say()), dict)  # the broker says that it is ours


@pytest.mark.usefixtures("keyless")
def test_overtaken_between_two_parts(courier: MakeDesk, book: Book) -> None:
    """ADP-6.10: the answer to its running request is kept; it begins no other."""
    text, wire = "a" * 90 + "\n\n" + "b" * 90, Wire()

    def slow(request: Request) -> Response:
        book.take("m1", 2)
        return wire(request)

    assert isinstance(courier(slow).take(say(text)), Later)
    outcome = courier(wire).take(say(text, epoch=2, **AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["done"] == 2
    assert [request.body[:1] for request in wire.seen] == [b"a", b"b"]


@pytest.mark.usefixtures("keyless")
def test_told_to_stop(courier: MakeDesk) -> None:
    """ADP-6.11: it waits no longer, begins no other part and takes no other message."""
    text, wire = "a" * 90 + "\n\n" + "b" * 90, Wire()
    desk = courier(wire)

    def stopping(request: Request) -> Response:
        desk.halt.set()
        return wire(request)

    desk.one._performers = {"console": stopping}
    assert isinstance(desk.take(say(text)), Later)
    assert isinstance(desk.take(say()), Later)
    assert len(wire.seen) == 1 and desk.one.drain(0)


@pytest.mark.parametrize(
    ("held", "good"),
    [
        ({"url": "https://a/b", "expires_at": NOW + 1}, True),
        ({"url": "https://a/b", "expires_at": NOW}, False),
        ({"url": "https://a/b", "expires_at": "9e9"}, False),
        ({"url": "https://a/b", "expires_at": True}, False),
        ({"url": "https://a/b"}, False),
        ({"url": 7, "expires_at": NOW + 1}, False),
        ("https://a/b", False),
        (None, False),
    ],
)
def test_session_webhook(held: object, good: bool) -> None:
    """ADP-6.13: an object with a URL and the time when it ends, and only until then."""
    found = session_webhook({"session_webhook": held}, NOW)
    assert found == ("https://a/b" if good else None)


def test_memory_is_bounded(courier: MakeDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.5: lanes that wait for ever do not fill the memory."""
    monkeypatch.setattr(module, "MAX_LANES", 3)
    desk = courier(Wire(*[Unavailable("down")] * 27))
    for number in range(9):
        desk.take(say(channel=f"console:c{number}"))
    assert len(desk.one._waiting) == 3


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


def test_taken_over(bus: Path, courier: MakeDesk) -> None:
    """ADP-6.9: a courier whose name was taken notices it, so that it can wait for it again."""
    one = courier(Wire()).one
    with Client() as first, Client() as second:
        lost = hold(first, one, False)
        assert not lost.is_set()
        hold(second, one, True)
        assert lost.wait(5)


def test_notes_of_a_newer_version(bus: Path, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.12, ADP-6.9: said once; the name is not held, so that texts wait in the mailbox."""
    with closing(sqlite3.connect(bus / "courier.db")) as db:
        db.execute("PRAGMA user_version=99")
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,))
    thread.start()
    until(lambda: "written by a newer wakebus" in caplog.text)
    with Client() as client:
        assert client.list() == []
    stop.set()
    thread.join(10)
    assert caplog.text.count("newer wakebus") == 1


def test_many_hanging_chats(
    courier: MakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyless: None
) -> None:
    """ADP-6.14: chats that hang fill the window; the next one goes out when one gives up."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    free, seen = threading.Event(), []

    def hangs(request: Request) -> Response:
        seen.append(request.url)
        if request.url.startswith("console:hangs"):
            assert free.wait(30)
            raise Uncertain("no answer")
        return Response(200, b'{"id": "k"}')

    broker = Broker(tmp_path, window_lanes=8).start()
    try:
        with Client() as bus, Client() as holder:
            hold(holder, courier(hangs).one, False)
            hung = [bus.send("courier", "x", channel=f"console:hangs{n}").id for n in range(8)]
            until(lambda: len(seen) == 8)
            last = bus.send("courier", "x", channel="console:last").id
            free.set()
            done = bus.wait(last, 30)
            assert done.outcome and done.outcome["channel"]["result"] == "sent"
            for id in hung:
                told = bus.wait(id, 30).outcome
                assert told and told["channel"]["result"] == "uncertain"
    finally:
        broker.kill()


def test_a_throttled_chat_holds_no_other(
    courier: MakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyless: None
) -> None:
    """ADP-6.5: put off for an hour, it takes no place: more lanes than the window go out."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))

    def throttles(request: Request) -> Response:
        if request.url.startswith("console:slow"):
            raise Throttled("too fast", retry_after=3600)
        return Response(200, b'{"id": "k"}')

    broker = Broker(tmp_path, window_lanes=4).start()
    try:
        with Client() as bus, Client() as holder:
            hold(holder, courier(throttles).one, False)
            for number in range(12):
                bus.send("courier", "x", channel=f"console:slow{number}")
            done = bus.send("courier", "x", channel="console:fine", wait=30)
            assert done.outcome and done.outcome["channel"]["result"] == "sent"
    finally:
        broker.kill()
