"""The client, with a real broker, and with brokers that are absent, frozen or silent."""

import inspect
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes.broker import Broker, until
from fakes.program import frozen
from fakes.router import Router
from wakebus.broker import Client, Delivery, Later, Outcome, Refusal
from wakebus.broker.address import ADDRESS_FILE
from wakebus.broker.client.calls import BrokerRequest, Call, Calls, PagedCall
from wakebus.broker.errors import (
    BadFrame,
    BadMessage,
    BadName,
    Conflict,
    Loop,
    NameTaken,
    NotRegistered,
    NotRunning,
    Refused,
    TimedOut,
    TooBig,
    Undecided,
    UnknownId,
    UnknownTarget,
    WakebusError,
)

TIMEOUT = 0.4
SLACK = 8.0  # for a machine that does much else; a call without an end would take for ever


def nothing(delivery: Delivery) -> Outcome:
    return None


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[Client]:
    with Client(shared_broker.address, timeout=30) as found:
        yield found


@pytest.fixture
def worker(shared_broker: Broker) -> Iterator[Client]:
    with Client(shared_broker.address, timeout=30) as found:
        yield found


# --- sending ----------------------------------------------------------------------------------


def test_a_receipt_tells_where_it_stands(client: Client, worker: Client, name: str) -> None:
    """Queued for one who is away, with how many are ahead; handled, with the outcome."""
    client.declare(name)
    first = client.send(name, "one")
    second = client.send(name, {"text": "two", "extra": [1]}, type="directive", channel="console:x")
    assert (first.state, first.to, first.live, first.ahead) == ("queued", name, False, 0)
    assert second.ahead == 1
    got: list[Delivery] = []

    def handle(delivery: Delivery) -> Outcome:
        got.append(delivery)
        return {"turn": len(got)}

    worker.register(name, handle)
    done = client.wait(second.id, 30)
    assert (done.state, done.outcome) == ("handled", {"turn": 2})
    message = got[1].message
    assert message.body["extra"] == [1]
    assert (message.text, message.type, message.channel) == ("two", "directive", "console:x")
    assert message.sender == "cli"


def test_a_thousand_threads_get_their_receipts(broker: Broker, name: str) -> None:
    """PROTOCOL-3.4: of one client, at once."""
    with Client(broker.address, timeout=60) as client, ThreadPoolExecutor(1_000) as pool:
        client.declare(name)
        start = threading.Barrier(1_000)

        def send(number: int) -> str:
            start.wait()
            return client.send(name, str(number)).state

        assert Counter(pool.map(send, range(1_000))) == {"queued": 1_000}


def test_waiting_for_handled_gives_the_outcome(client: Client, worker: Client, name: str) -> None:
    """`wait` makes the receipt the last one."""
    worker.register(name, lambda d: {"said": d.message.text})
    done = client.send(name, "hello", wait=30)
    assert (done.state, done.outcome, done.to) == ("handled", {"said": "hello"}, name)


def test_what_is_not_handled_in_time_is_not_lost(client: Client, name: str) -> None:
    """TimedOut names the id and how far it came; the message stays."""
    client.declare(name)
    with pytest.raises(TimedOut) as caught:
        client.send(name, "x", wait=0.1)
    assert caught.value.data["state"] == "queued"
    assert client.trace(caught.value.data["id"])[0]["state"] == "queued"


def test_the_same_id_is_the_same_message(client: Client, name: str) -> None:
    """Sent again it has the same receipt, marked as a duplicate; with other content, Conflict."""
    client.declare(name)
    one = client.send(name, "x", id=f"id-{name}")
    again = client.send(name, "x", id=f"id-{name}")
    assert (again.id, again.duplicate, one.duplicate) == (one.id, True, False)
    with pytest.raises(Conflict):
        client.send(name, "y", id=f"id-{name}")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"to": "no name"}, BadName),
        ({"sender": "x.y"}, BadName),
        ({"body": "x" * (1 << 20)}, TooBig),
        ({"body": {"x": float("nan")}}, BadMessage),
        ({"body": {"x": object()}}, BadMessage),
        ({"body": "a\ud800"}, BadMessage),
        ({"body": "a\0b"}, BadMessage),
        ({"type": ""}, BadMessage),
        ({"wake": "now"}, BadMessage),
        ({"session": "s" * 257}, TooBig),
        ({"ttl_s": -1}, BadMessage),
        ({"id": "no id"}, BadMessage),
        ({"token": float("nan")}, BadFrame),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_wrong_message_is_refused_before_anything_is_written(
    client: Client, name: str, fields: dict[str, Any], error: type[WakebusError]
) -> None:
    """The error says which field; the broker hears nothing of it."""
    with pytest.raises(error):
        client.send(**{"to": name, "body": "x", **fields})


def test_an_unknown_target_is_refused_with_near_names(client: Client, name: str) -> None:
    """Unless `queue` says that somebody will come."""
    client.declare(f"{name}-alpha")
    with pytest.raises(UnknownTarget) as caught:
        client.send(f"{name}-alpa", "x")
    assert f"{name}-alpha" in caught.value.data["near"]
    assert client.send(f"{name}-alpa", "x", queue=True).state == "queued"


def test_asking_gives_the_answer(client: Client, worker: Client, name: str) -> None:
    """A directive by default; the answer is a message of type `answer` with `reply_to`."""

    def answer(delivery: Delivery) -> Outcome:
        message = delivery.message
        assert (delivery.asks, delivery.sender_known) == (True, False)
        text = f"{message.type}: {message.text}"
        worker.send(message.sender, text, type="answer", reply_to=message.id)
        return None

    worker.register(name, answer)
    found = client.ask(name, "done?", wait=30, sender=f"{name}-asker")
    assert found.message is not None
    assert (found.message.text, found.message.sender) == ("directive: done?", name)


def test_asking_one_who_will_not_answer_ends(client: Client, worker: Client, name: str) -> None:
    """An outcome that says so ends the wait; a silent one lasts until the time is over."""
    worker.register(name, lambda d: {"answered": False} if d.message.text == "a" else None)
    assert client.ask(name, "a", wait=30).message is None
    with pytest.raises(TimedOut) as caught:
        client.ask(name, "b", wait=0.2)
    with pytest.raises(TimedOut):
        client.wait_answer(caught.value.data["id"], 0.1)


def test_waiting_for_what_nobody_knows_is_an_error(client: Client) -> None:
    """UnknownId, at once."""
    with pytest.raises(UnknownId):
        client.wait("no-such-id", 30)


def test_the_known_endpoints_are_listed(client: Client, worker: Client, name: str) -> None:
    """Who holds them and since when; declared ones can be forgotten."""
    worker.register(name, nothing)
    client.declare(f"{name}-2")
    listed = {one["name"]: one for one in client.list()}
    assert (listed[name]["state"], listed[name]["pid"]) == ("live", os.getpid())
    assert listed[f"{name}-2"]["state"] == "away"
    client.forget(f"{name}-2")
    assert f"{name}-2" not in {one["name"] for one in client.list()}
    with pytest.raises(Refused):
        client.forget(name)
    assert client.status()["pid"] > 0


# --- handlers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "state", "found"),
    [
        (None, "handled", None),
        ({"a": 1}, "handled", {"a": 1}),
        ("nonsense", "handled", {"note": "the handler returned a str, no mapping"}),
        ({"x": float("inf")}, "handled", "not JSON"),
        ({"x": "y" * 20_000}, "handled", "dropped"),
        (Refusal("not mine", {"why": "x"}), "dead", {"why": "x"}),
        (ZeroDivisionError("boom"), "dead", {"failed": True}),
        (SystemExit(1), "dead", {"failed": True}),
    ],
    ids=["none", "mapping", "nonsense", "inf", "big", "refusal", "raises", "exits"],
)
def test_every_handlers_end_is_told(
    client: Client, worker: Client, name: str, outcome: Any, state: str, found: Any
) -> None:
    """Whatever a handler returns or raises: the sender is told, and the lane goes on."""

    def handle(delivery: Delivery) -> Outcome:
        if delivery.message.text == "next":
            return {"next": True}
        if isinstance(outcome, BaseException):
            raise outcome
        value: Outcome = outcome
        return value

    worker.register(name, handle)
    done = client.send(name, "first", wait=30)
    assert done.state == state
    if isinstance(found, str):
        assert found in str(done.outcome)
    else:
        assert done.outcome == found
    if isinstance(outcome, BaseException):
        assert f"the handler failed: {type(outcome).__name__}" in done.reason
    assert done.failed is isinstance(outcome, BaseException)
    assert client.send(name, "next", wait=30).outcome == {"next": True}


class OddError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError


def noted() -> Exception:
    """Return an error with a note."""
    error = KeyError("x")
    error.add_note("a note\nof two lines")
    return error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo\x1b[31m\u2028three\x00"), "ValueError: one two [31m three"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 5000), f"ValueError: {'x' * 287}…"),
        (noted(), "KeyError: 'x'"),
        (OddError(), "OddError: <exception str() failed>"),
    ],
    ids=["lines", "empty", "long", "note", "odd"],
)
def test_what_a_handler_raises_is_logged_and_told_in_a_line(
    client: Client,
    worker: Client,
    name: str,
    error: Exception,
    line: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PROTOCOL-6.17: the traceback is for its owner, the reason for everybody."""

    def handle(delivery: Delivery) -> Outcome:
        raise error

    worker.register(name, handle)
    done = client.send(name, "x", wait=30)
    assert re.fullmatch(r"the handler failed: (.*) \(test_client.py:\d+\)", done.reason)
    assert done.reason.startswith(f"the handler failed: {line} (")
    (record,) = [one for one in caplog.records if one.name == "wakebus.client"]
    assert record.levelname == "ERROR" and record.exc_info and record.exc_info[1] is error
    assert record.getMessage() == f"the handler of {name} failed on {done.id}"


def test_lanes_run_side_by_side_and_each_in_order(
    client: Client, worker: Client, name: str
) -> None:
    """Two sessions are handled at the same time; one session's messages one after the other."""
    meet = threading.Barrier(2)
    order: list[str] = []

    def handle(delivery: Delivery) -> Outcome:
        if delivery.message.text == "meet":
            meet.wait(30)
        order.append(delivery.message.text)
        return None

    worker.register(name, handle)
    client.send(name, "meet", session="a")
    last = [client.send(name, f"{n}", session="a").id for n in range(10)][-1]
    client.send(name, "meet", session="b")
    client.wait(last, 30)
    assert order[:2] == ["meet", "meet"]
    assert order[2:] == [f"{n}" for n in range(10)]


def test_later_holds_only_its_lane(client: Client, worker: Client, name: str) -> None:
    """It comes again, keeps its place, and is no attempt; other lanes go on."""
    calls: list[tuple[str, int]] = []

    def handle(delivery: Delivery) -> Outcome:
        calls.append((delivery.message.text, delivery.attempt))
        return Later(0.3) if calls.count(("a1", 1)) == 1 and calls[-1][0] == "a1" else None

    worker.register(name, handle)
    client.send(name, "a1", session="a")
    until(lambda: calls)
    second = client.send(name, "a2", session="a")
    client.send(name, "b", session="b", wait=30)
    client.wait(second.id, 30)
    assert calls == [("a1", 1), ("b", 1), ("a1", 1), ("a2", 1)]


def test_the_last_word_of_one_that_is_put_off_often(
    client: Client, worker: Client, name: str
) -> None:
    """PROTOCOL-10.4: told also when its steps are too many to be kept; none once it has ended."""
    calls: list[str] = []

    def handle(delivery: Delivery) -> Outcome:
        calls.append(f"try {len(calls) + 1}: {'x' * 180}")
        return Later(0.0 if len(calls) < 80 else 600.0, calls[-1])

    worker.register(name, handle)
    sent = client.send(name, "never")
    (told,) = until(lambda: [one for one in client.trace(sent.id) if len(calls) == 80])
    until(lambda: client.trace(sent.id)[0].get("put_off") == calls[-1], 30)
    assert told["steps"][-1]["reason"] != calls[-1]
    client.cancel(sent.id)
    until(lambda: "put_off" not in client.trace(sent.id)[0], 30)


def test_take_more_gives_the_next_of_the_lane(client: Client, worker: Client, name: str) -> None:
    """While one is in hand its lane's next comes too, as coalescing needs it."""
    both, seen = threading.Event(), []

    def handle(delivery: Delivery) -> Outcome:
        seen.append(delivery.message.text)
        if len(seen) == 1:
            delivery.take_more()
            both.wait(30)
        else:
            both.set()
        return {"seen": len(seen)}

    worker.register(name, handle)
    first = client.send(name, "one", session="a")
    client.send(name, "two", session="a")
    assert client.wait(first.id, 30).outcome == {"seen": 2}


def test_a_turns_token_proves_the_sender(client: Client, worker: Client, name: str) -> None:
    """What shows the token comes from this endpoint, caused by this message."""
    token = f"{name}-the-turn-of-this-test"

    def handle(delivery: Delivery) -> Outcome:
        delivery.started(token)
        client.send(f"{name}-2", "report", token=token, sender="somebody", queue=True)
        return None

    worker.register(name, handle)
    asked = client.send(name, "go", wait=30)
    assert asked.state == "handled", asked  # else the handler's own error stands in the outcome
    report = next(one for one in client.trace(asked.id) if one["to"] == f"{name}-2")
    assert (report["from"], report["cause"], report["claimed"]) == (name, asked.id, False)


# --- names ------------------------------------------------------------------------------------


def test_a_name_has_one_holder(client: Client, worker: Client, name: str) -> None:
    """A second client is refused and told who holds it; the first one is not disturbed."""
    worker.register(name, lambda _: {"by": "worker"})
    with pytest.raises(NameTaken, match=str(os.getpid())):
        client.register(name, nothing)
    assert client.send(name, "x", wait=30).outcome == {"by": "worker"}


def test_a_takeover_is_final(client: Client, worker: Client, name: str) -> None:
    """The loser is told once and does not fight back; what it had goes to the new holder."""
    lost: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def slow(delivery: Delivery) -> Outcome:
        begun.set()
        go.wait(30)
        return {"by": "old"}

    with Client(timeout=30, socket=worker.address) as sender:
        old = worker.register(name, slow, on_lost=lost.append)
        id = sender.send(name, "x").id
        begun.wait(30)
        new = client.register(name, lambda d: {"by": "new", "r": d.redelivered}, takeover=True)
        assert new == old + 1
        until(lambda: lost)
        done = sender.wait(id, 30)
        go.set()
        assert (done.outcome, len(lost)) == ({"by": "new", "r": True}, 1)
        assert sender.send(name, "y", wait=30).outcome == {"by": "new", "r": False}


def test_giving_a_name_up_gives_its_messages_back(
    client: Client, worker: Client, name: str
) -> None:
    """What the handlers have not finished waits for the next holder; no attempt is counted."""
    begun, go = threading.Event(), threading.Event()

    def slow(delivery: Delivery) -> Outcome:
        begun.set()
        go.wait(30)
        return {"by": "old"}

    with Client(worker.address, timeout=30) as sender:
        worker.register(name, slow)
        id = sender.send(name, "x").id
        begun.wait(30)
        worker.unregister(name)
        client.register(name, lambda d: {"attempt": d.attempt})
        assert sender.wait(id, 30).outcome == {"attempt": 1}
        go.set()
    with pytest.raises(NotRegistered):
        worker.unregister(name)


def test_registered_again_with_work_in_hand_it_is_not_called_twice(
    client: Client, worker: Client, name: str
) -> None:
    """The handler that still runs ends the message, under the new registration."""
    begun, go = threading.Event(), threading.Event()
    calls: list[str] = []

    def slow(delivery: Delivery) -> Outcome:
        calls.append(delivery.message.id)
        begun.set()
        go.wait(30)
        return {"calls": len(calls)}

    worker.register(name, slow)
    id = client.send(name, "x").id
    begun.wait(30)
    worker.unregister(name)
    worker.register(name, slow)
    go.set()
    assert client.wait(id, 30).outcome == {"calls": 1}


def test_a_second_session_gets_a_suffix(client: Client, worker: Client, name: str) -> None:
    """PROTOCOL-5.13: `names` tells which, as does each delivery; the epoch is returned as ever."""
    assert client.names == {}
    assert client.register(name, nothing, suffix=True) == 1
    assert worker.register(name, lambda d: {"as": d.name}, suffix=True) == 1
    assert (client.names, worker.names) == ({name: name}, {name: f"{name}-2"})
    assert client.send(f"{name}-2", "x", wait=30).outcome == {"as": f"{name}-2"}
    worker.unregister(name)
    assert worker.names == {}
    with pytest.raises(NameTaken):
        worker.register(name, nothing)


def test_takeover_and_suffix_are_refused(client: Client, name: str) -> None:
    """PROTOCOL-5.13: the broker says why; nothing is held."""
    with pytest.raises(BadMessage, match="say one"):
        client.register(name, nothing, suffix=True, takeover=True)
    assert client.names == {}


# --- the broker goes and comes ----------------------------------------------------------------


def test_a_client_survives_the_brokers_restart(broker: Broker) -> None:
    """Sender and receiver go on: same epoch, nothing lost, nothing handled twice."""
    seen: Counter[str] = Counter()

    def handle(delivery: Delivery) -> Outcome:
        seen[delivery.message.text] += 1
        return None

    with Client(timeout=30) as sender, Client(timeout=30) as receiver:
        epoch = receiver.register("w", handle)
        for turn in range(3):
            broker.restart()
            assert sender.send("w", str(turn), wait=30).state == "handled"
        assert seen == {"0": 1, "1": 1, "2": 1}
        listed = {one["name"]: one for one in sender.list()}
        assert (listed["w"]["state"], listed["w"]["epoch"]) == ("live", epoch)


def test_a_broker_that_moved_is_found(broker: Broker) -> None:
    """The address file names another socket after a restart: clients read it again."""
    with Client(timeout=30) as sender, Client(timeout=30) as receiver:
        receiver.register("w", lambda d: {"said": d.message.text})
        broker.kill()
        address = broker.folder / ADDRESS_FILE
        wrong = address.read_text().replace("broker.sock", "elsewhere.sock")
        address.write_text(wrong)
        with Client(timeout=30) as late:  # starts at the wrong address
            assert broker.start().word == "ready"
            assert sender.send("w", "a", wait=30).outcome == {"said": "a"}
            assert late.send("w", "b", wait=30).outcome == {"said": "b"}


def test_unknown_is_settled_by_sending_the_same_id(broker: Broker) -> None:
    """A frozen broker may still store what was written: the id tells, one message comes of it."""
    with Client(timeout=30) as sender:
        sender.declare("w")
        with frozen(broker.pid), pytest.raises(Undecided) as caught:
            sender.send("w", "x", id="my-id", timeout=TIMEOUT)
        assert caught.value.id == "my-id"
        assert sender.send("w", "x", id="my-id").duplicate
        assert next(one for one in sender.list() if one["name"] == "w")["queued"] == 1


# --- a broker that does not answer ------------------------------------------------------------

AnyCall = Callable[[Client], Any]
CALLS: dict[str, AnyCall] = {
    "send": lambda c: c.send("w", "x"),
    "send and wait": lambda c: c.send("w", "x", wait=TIMEOUT),
    "ask": lambda c: c.ask("w", "x", wait=TIMEOUT),
    "wait": lambda c: c.wait("id", TIMEOUT),
    "wait for the answer": lambda c: c.wait_answer("id", TIMEOUT),
    "register": lambda c: c.register("v", nothing),
    "unregister": lambda c: c.unregister("v"),
    "list": lambda c: c.list(),
    "declare": lambda c: c.declare("v"),
    "forget": lambda c: c.forget("v"),
    "trace": lambda c: c.trace("id"),
    "status": lambda c: c.status(),
}
SENDS = ("send", "send and wait", "ask")
WAITS = ("wait", "wait for the answer")
WRITTEN = {call: Undecided if call in SENDS else TimedOut for call in CALLS}
UNWRITTEN = {call: TimedOut if call in WAITS else NotRunning for call in CALLS}


def _within(act: Callable[[], Any], seconds: float) -> Any:
    started = time.monotonic()
    try:
        return act()
    finally:
        assert time.monotonic() - started < seconds + SLACK


def _ends(client: Client) -> dict[str, type[BaseException] | None]:
    """Make every call at the same time; return how each one ended, within its time."""

    def end(call: str) -> type[BaseException] | None:
        try:
            _within(lambda: CALLS[call](client), 2 * TIMEOUT + 1)
        except WakebusError as exc:
            return type(exc)
        return None

    with ThreadPoolExecutor(len(CALLS)) as pool:
        return dict(zip(CALLS, pool.map(end, CALLS), strict=True))


def test_without_a_broker_no_call_lasts(bus_root: Path) -> None:
    """Nothing was written: NotRunning; a wait, which is for what is stored, is TimedOut."""
    with Client(str(bus_root / "nobody"), timeout=TIMEOUT) as client:
        assert _ends(client) == UNWRITTEN


def test_a_silent_broker_holds_no_call(bus_root: Path) -> None:
    """Written and never answered: Undecided for what is stored by it, TimedOut for the others."""
    router = Router(bus_root / "s")
    with Client(str(router.path), timeout=TIMEOUT) as client:
        assert _ends(client) == WRITTEN
        _within(client.close, 2)
    router.close()


def test_a_frozen_broker_holds_no_call(broker: Broker) -> None:
    """A client that was connected has written; one that comes now has not, and is told so."""
    with Client(timeout=TIMEOUT) as client, Client(timeout=30) as patient:
        client.timeout = 30
        client.register("w", nothing)
        client.timeout = TIMEOUT
        with frozen(broker.pid):
            assert _ends(client) == WRITTEN
            with Client(timeout=TIMEOUT) as late:
                assert _ends(late) == UNWRITTEN
            _within(client.close, 2)
        assert patient.status()["pid"] == broker.pid


def test_a_broker_that_never_started_is_said_so(bus_root: Path) -> None:
    """Without an address file there is nothing to wait for; the error names the file."""
    with pytest.raises(NotRunning, match=r"address\.json"):
        Client()


def test_an_impossible_socket_is_said_so() -> None:
    """A path that no socket can have is an error with that path."""
    with pytest.raises(NotRunning, match="xxx"):
        Client("/" + "x" * 200)


# --- closing ----------------------------------------------------------------------------------


def test_closing_waits_for_no_handler(shared_broker: Broker, client: Client, name: str) -> None:
    """A handler that runs on is left behind; its message goes back to the mailbox."""
    begun, go = threading.Event(), threading.Event()

    def stuck(delivery: Delivery) -> Outcome:
        begun.set()
        go.wait(60)
        return None

    receiver = Client(shared_broker.address, timeout=30)
    receiver.register(name, stuck)
    id = client.send(name, "x").id
    begun.wait(30)
    _within(receiver.close, 2)
    _within(receiver.close, 0)
    client.register(name, lambda d: {"attempt": d.attempt})
    assert client.wait(id, 30).outcome == {"attempt": 1}
    go.set()


def test_a_handler_may_close_its_client(shared_broker: Broker, client: Client, name: str) -> None:
    """Closed from within: no deadlock, and the message is not lost."""
    receiver = Client(shared_broker.address, timeout=30)
    closed = threading.Event()

    def handle(delivery: Delivery) -> Outcome:
        receiver.close()
        closed.set()
        return None

    receiver.register(name, handle)
    id = client.send(name, "x").id
    assert closed.wait(30)
    client.register(name, lambda _: {"by": "the next"})
    assert client.wait(id, 30).outcome == {"by": "the next"}


def test_a_closed_client_says_so(shared_broker: Broker) -> None:
    """Every call afterwards is NotRunning, at once."""
    client = Client(shared_broker.address, timeout=60)
    client.close()
    for call in CALLS:
        with pytest.raises(NotRunning, match="closed"):
            _within(lambda c=call: CALLS[c](client), 0)  # type: ignore[misc]


def test_closing_tells_the_truth_to_a_send_on_its_way(bus_root: Path) -> None:
    """It was written: its fate is unknown, not "nothing was written"."""
    router = Router(bus_root / "s")
    client = Client(str(router.path), timeout=30)
    with ThreadPoolExecutor(2) as pool:
        sent = pool.submit(client.send, "w", "x", id="my-id")
        listed = pool.submit(client.list)
        router.next()
        router.next()
        client.close()
        with pytest.raises(Undecided) as caught:
            sent.result(10)
        assert caught.value.id == "my-id"
        with pytest.raises(TimedOut):
            listed.result(10)
    router.close()


def test_eight_threads_send_ask_and_close_at_once(client: Client, broker: Broker) -> None:
    """No deadlock, no lost answer, and no other error than the documented ones."""
    ours, counts = Client(timeout=30), Counter[str]()
    answers: list[tuple[str, str]] = []

    def answer(delivery: Delivery) -> Outcome:
        message = delivery.message
        if message.type == "directive":
            receiver.send(message.sender, message.text, type="answer", reply_to=message.id)
        return None

    def work(number: int) -> None:
        try:
            for turn in range(100):
                text = f"{number}-{turn}"
                if turn % 2:
                    found = ours.ask("w", text, wait=30, sender=f"asker-{number}").message
                    assert found is not None
                    answers.append((text, found.text))
                else:
                    ours.send("w", text, session=text)
                counts["done"] += 1
                if counts["done"] > 400:
                    ours.close()
        except (NotRunning, Undecided, TimedOut) as exc:
            assert "closed" in str(exc)
            counts["closed"] += 1

    with Client(timeout=30) as receiver:
        receiver.register("w", answer)
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(work, number) for number in range(8)]:
                done.result(60)
    assert counts["closed"] == 8
    assert len(answers) > 100
    assert all(asked == answered for asked, answered in answers)


# --- the process ------------------------------------------------------------------------------


def _python(broker: Broker, code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", code],
        env=broker.env,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    "code",
    [
        "c = Client(); c.declare('w')",
        "c = Client(); c.register('w', lambda d: None)",
        "c = Client(); c.declare('w'); del c",
        "c = Client(); began = threading.Event(); s = Client();"
        " c.register('w', lambda d: began.set() or threading.Event().wait());"
        " s.send('w', 'x'); began.wait(30)",
        "c = Client(); atexit.register(c.close); c.register('w', lambda d: None)",
        "c = Client('/tmp/nobody-listens-here')",
    ],
    ids=["unclosed", "holding a name", "dropped", "handler runs", "at exit", "no broker"],
)
def test_an_unclosed_client_does_not_keep_the_process(broker: Broker, code: str) -> None:
    """The program ends at its end, without a word and without an error."""
    done = _python(broker, f"import atexit, threading\nfrom wakebus.broker import Client\n{code}\n")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


def test_two_hundred_clients_leave_nothing(shared_broker: Broker) -> None:
    """No descriptor and no thread is left of clients that were opened, used and closed."""

    def use() -> None:
        with Client(shared_broker.address, timeout=30) as client:
            client.status()

    use()
    process = psutil.Process()
    before = process.num_fds(), threading.active_count()
    for _ in range(200):
        use()
    until(lambda: (process.num_fds(), threading.active_count()) <= before)


def test_a_sender_imports_nothing_of_weight(broker: Broker) -> None:
    """zmq, json, threading, struct and re: what a command that sends one message has to pay."""
    found = _python(
        broker,
        "import zmq, json, sys\nbefore = set(sys.modules)\nfrom wakebus.broker import Client\n"
        "with Client() as c: c.declare('w'); c.send('w', 'x')\n"
        "print(' '.join(sorted(set(sys.modules) - before)))",
    )
    ours = {name for name in found.stdout.split() if name.startswith("wakebus")}
    others = set(found.stdout.split()) - ours
    assert ours == {
        "wakebus",
        "wakebus.broker",
        *(f"wakebus.broker.{room}" for room in ("client", "protocol", "system")),
        *(f"wakebus.broker.{name}" for name in ("address", "errors", "folder_trust", "paths")),
        *(f"wakebus.broker.system.{name}" for name in ("fork_safety", "zmq_options")),
        *(f"wakebus.broker.client.{name}" for name in ("calls", "client", "connection", "core")),
        "wakebus.broker.client.pending_request",
        *(f"wakebus.broker.protocol.{name}" for name in ("message", "receipt", "wire")),
    }
    assert others <= {"pwd"}


# --- how calls are run ------------------------------------------------------------------------


class Told(Client):
    """Answers what it is told to; raises what is an error."""

    def __init__(self, *answers: Any) -> None:
        self.answers: Iterator[Any] = iter(answers)
        self.asked: list[BrokerRequest] = []

    def _answer(self, asked: BrokerRequest) -> dict[str, Any]:
        self.asked.append(asked)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return {"answer": answer}


def two(first: str, second: str = "b") -> Call[list[Any]]:
    """Ask twice."""
    one = yield BrokerRequest(first, {})
    try:
        other = yield BrokerRequest(second, {}, 2.0)
    except TimedOut as exc:
        raise ValueError("too late") from exc
    return [one["answer"], other["answer"]]


def pairs(count: int) -> PagedCall:
    """Ask for each page of two rows."""
    for _ in range(count):
        page = yield BrokerRequest("page", {})
        yield {"row": page["answer"]}
        yield {"row": -page["answer"]}


def test_each_answer_leads_to_the_next_question() -> None:
    """The call's own result is what is returned."""
    told = Told(1, 2)
    assert told._run(two("a", second="c")) == [1, 2]
    assert told.asked == [BrokerRequest("a", {}), BrokerRequest("c", {}, 2.0)]


def test_an_error_is_raised_where_it_was_asked() -> None:
    """So the call may make another one of it, or let it pass."""
    with pytest.raises(ValueError, match="too late"):
        Told(1, TimedOut("x"))._run(two("a"))
    with pytest.raises(TimedOut):
        Told(TimedOut("x"))._run(two("a"))


def test_rows_are_asked_for_as_they_are_needed() -> None:
    """The first page at once, so that an error comes where the call stands; then one by one."""
    told = Told(1, 2)
    rows = told._rows(pairs(2))
    assert len(told.asked) == 1
    assert [next(rows), next(rows)] == [{"row": 1}, {"row": -1}] and len(told.asked) == 1
    assert [*rows] == [{"row": 2}, {"row": -2}] and len(told.asked) == 2
    assert [*Told()._rows(pairs(0))] == []
    with pytest.raises(TimedOut):
        Told(TimedOut("x"))._rows(pairs(1))


def test_a_call_keeps_its_name_and_words() -> None:
    """As they stand in calls.py; `self` is the client."""
    assert Client.trace.__name__ == "trace" and Client.trace.__doc__ == Calls.trace.__doc__
    assert [*inspect.signature(Client.trace).parameters] == ["self", "id"]


# --- what is cancelled ----------------------------------------------------------------------


def test_a_handler_learns_that_its_message_was_cancelled(client: Client, worker: Client) -> None:
    """PROTOCOL-6.14: at once, and whatever it returns, the message is dead."""
    name, at_work = f"c{os.urandom(5).hex()}", threading.Event()
    reasons: list[str] = []

    def work(delivery: Delivery) -> Outcome:
        cancelled = threading.Event()
        delivery.on_cancel(cancelled.set)
        at_work.set()
        assert cancelled.wait(30)
        delivery.on_cancel(lambda: reasons.append(delivery.cancelled))
        if delivery.message.text == "raise":
            raise ValueError("cut off")
        return {"n": 1}

    worker.register(name, work)
    for text in ("return", "raise"):
        at_work.clear()
        id = client.send(name, text).id
        assert at_work.wait(30)
        receipt = client.cancel(id, by="ci")
        assert (receipt.state, receipt.told, receipt.to) == ("delivered", True, name)
        ended = client.wait(id, 30)
        assert (ended.state, ended.reason, ended.failed) == ("dead", "cancelled by ci", False)
        assert ended.outcome == ({"n": 1} if text == "return" else {})
    assert reasons == ["cancelled by ci"] * 2


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_handlers_that_ask_each_other(
    shared_broker: Broker, client: Client, name: str, length: int, begun: bool
) -> None:
    """PROTOCOL-4.17, PROTOCOL-9.8: a circle of handlers is refused at once; the others go on."""
    names = [f"{name}-{number}" for number in range(length)]
    agents = [Client(shared_broker.address, timeout=30) for _ in names]
    refused: list[str] = []

    def work(number: int, delivery: Delivery) -> Outcome:
        if delivery.message.type != "directive":
            return None
        if begun:
            delivery.started()
        bus, text = agents[number], "done"
        try:
            bus.ask(names[(number + 1) % length], "and you?", wait=60)
        except Loop as exc:
            refused.append(exc.text)
            text = "without"
        bus.send(delivery.message.sender, text, type="answer", reply_to=delivery.message.id)
        return None

    for number, agent in enumerate(agents):
        agent.register(names[number], partial(work, number))
    began = time.monotonic()
    client.register(f"{name}-asker", nothing)
    answer = client.ask(names[0], "go", wait=60)
    assert answer.message is not None and answer.message.text == "done"
    assert time.monotonic() - began < 30 and len(refused) == 1
    traced = client.trace(answer.receipt.id)
    assert len(traced) >= length + 1, "it shows what led to what"
    for agent in agents:
        agent.close()


def test_what_a_handler_sends(
    shared_broker: Broker, client: Client, worker: Client, name: str
) -> None:
    """PROTOCOL-4.17: the cause, also beside another; what is said wins; no thread of its own."""
    both, sent = threading.Barrier(2), dict[str, str]()

    def work(delivery: Delivery) -> Outcome:
        both.wait(30)
        text = delivery.message.text
        if text == "other":
            both.wait(30)
            return None
        more: dict[str, dict[str, Any]] = {"own": {}, "said": {"cause": "m-1"}}
        more |= {"outside": {"outside_turn": True}, "hops": {"hops": 7}}
        for kind, fields in more.items():
            sent[kind] = worker.send(name + "-to", kind, **fields).id
        with ThreadPoolExecutor() as pool:
            sent["thread"] = pool.submit(lambda: worker.send(name + "-to", "thread").id).result()
        with Client(shared_broker.address) as stranger:
            sent["stranger"] = stranger.send(name + "-to", "stranger").id
        both.wait(30)
        return None

    client.declare(f"{name}-to")
    worker.register(name, work)
    ids = [
        client.send(name, text, session=text, hops=2, path=("x",)).id for text in ("it", "other")
    ]
    for id in ids:
        assert client.wait(id, 30).state == "handled"
    read = {kind: client.read(id) for kind, id in sent.items()}
    told = {kind: (one.cause, one.hops, one.path) for kind, one in read.items()}
    assert told["own"] == (ids[0], 3, ("x", name))
    assert told["said"] == ("m-1", 0, ())
    assert told["hops"] == (None, 7, ())
    assert {told[kind] for kind in ("outside", "thread", "stranger")} == {(None, 0, ())}
    assert worker.send(f"{name}-to", "later").state == "queued"


def test_handlers_that_send_to_each_other(
    shared_broker: Broker, client: Client, worker: Client, name: str
) -> None:
    """PROTOCOL-4.15, PROTOCOL-4.17: two handlers in a ping-pong come to an end."""
    paused = threading.Event()

    def work(bus: Client, to: str, delivery: Delivery) -> Outcome:
        try:
            bus.send(to, "your turn", sender=delivery.name)
        except Loop:
            paused.set()
        return None

    with Client(shared_broker.address, timeout=30) as other:
        worker.register(f"{name}-a", partial(work, worker, f"{name}-b"))
        other.register(f"{name}-b", partial(work, other, f"{name}-a"))
        client.send(f"{name}-a", "begin")
        assert paused.wait(60)
