"""PROTOCOL.md section 3: answers and errors, against a real broker."""

import itertools
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import psutil
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import MakePeer, Peer, posting
from wakebus.broker.errors import UnknownVerb, from_wire
from wakebus.broker.protocol import wire
from wakebus.broker.verbs import VERBS

FAULT = "the broker has a fault"

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(["fuzz", "m1", "answer", "handled", "0123456789abcdef", "x" * 300, "\0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "text", "more", "body"]) | st.text(max_size=4), inner
        )
    ),
    max_leaves=6,
)
KEYS = [
    "id",
    "to",
    "epoch",
    "name",
    "state",
    "timeout",
    "message",
    "token",
    "takeover",
    "holding",
    "after_s",
    "outcome",
    "reason",
    "more",
    "hops",
    "path",
    "queue",
    "asks",
    "meta",
    "min",
    "max",
    "instance",
    "pid",
    "topic",
    "event",
    "pub",
    "n",
    "missed",
]


def _soon(payload: dict[str, Any]) -> bool:
    """A wait that is in order and lasts is no fault, but it would hold up the test."""
    timeout = payload.get("timeout")
    return not isinstance(timeout, int | float) or timeout < 0.01


payloads: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(KEYS), anything
).filter(_soon)


def test_an_unknown_verb(peer: Peer) -> None:
    """PROTOCOL-3.2: `unknown_verb`, and it says which version this is."""
    error = peer.error("dance")
    assert isinstance(error, UnknownVerb) and "dance" in error.text and "0." in error.text


def test_answers_carry_their_sequence(peer: Peer, name: str) -> None:
    """PROTOCOL-3.1: each request is answered once, whatever the order."""
    numbers = [peer.request("send", posting(name, str(n), queue=True)) for n in range(50)]
    numbers += [peer.request("list") for _ in range(10)]
    answers = [peer.answer(n) for n in reversed(numbers)]
    assert sum("state" in a for a in answers) == 50
    peer.ask("list")
    assert not peer._answers


def test_the_shape_of_an_error(peer: Peer) -> None:
    """PROTOCOL-3.2: code, text and retry are always there."""
    peer.raw(b'[1,"trace",3,{}]')
    _, verb, _, payload = peer.raw_answer()
    assert verb == "err"
    assert (payload["code"], payload["retry"]) == ("bad_message", False)
    assert "`id`" in payload["text"]


@pytest.fixture(scope="module")
def fuzzed(shared_broker: Broker) -> Any:
    """A registered peer with a delivery in hand that the fuzz may speak of."""
    peer = Peer(shared_broker.address, "0123456789abcdef")
    peer.register("fuzz")
    yield peer
    peer.close()


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_no_payload_makes_a_fault(shared_broker: Broker, fuzzed: Peer, verb: str) -> None:
    """PROTOCOL-3.2: any payload of any verb is answered, and never with a fault of the broker."""

    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=[*HealthCheck])
    @given(payloads)
    def any_payload(payload: dict[str, Any]) -> None:
        number = fuzzed.request(verb, payload)
        while number not in fuzzed._answers:
            fuzzed._read(time.monotonic() + 15)
        word, answer = fuzzed._answers.pop(number)
        assert word == "ok" or from_wire(answer).code not in ("error", "unavailable"), answer

    any_payload()
    assert shared_broker.alive and FAULT not in shared_broker.log
    assert "a step failed" not in shared_broker.log and "Traceback" not in shared_broker.log


def test_almost_right_payloads_of_deliveries(shared_broker: Broker, fuzzed: Peer) -> None:
    """PROTOCOL-3.2: fields mutated one at a time, on a delivery that exists."""
    luck = random.Random(1)
    odd: list[Any] = [None, True, -1, 2**70, 0.5, "", "\0", "x" * 2000, [], [None], {}, {"a": []}]
    for _ in range(80):
        verb = luck.choice(["got", "started", "later", "handled", "refused", "register"])
        id = secrets.token_hex(8)
        fuzzed.send("fuzz", sender="fuzz", id=id, session=id, outside_turn=True)
        good: dict[str, Any] = {"to": "fuzz", "id": id, "epoch": 1, "name": "fuzz"}
        good |= {"holding": [{"id": id}], "after_s": 0, "token": "t" * 16, "hops": 0, "path": []}
        good[luck.choice([*good, "more", "outcome", "reason"])] = luck.choice(odd)
        number = fuzzed.request(verb, good)
        while number not in fuzzed._answers:
            fuzzed._read(time.monotonic() + 15)
        word, answer = fuzzed._answers.pop(number)
        assert word == "ok" or answer["code"] not in ("error", "unavailable"), answer
    assert "a step failed" not in shared_broker.log and "Traceback" not in shared_broker.log


def frozen_receiver(broker: Broker, name: str) -> "subprocess.Popen[bytes]":
    """Start a process that registers and is stopped: it reads nothing more."""
    script = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from fakes.peer import Peer\n"
        f"p = Peer({broker.address!r}); p.register({name!r}); print('up', flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    os.kill(child.pid, signal.SIGSTOP)
    return child


def test_a_frozen_receiver_slows_nobody(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-3.3, PROTOCOL-7.5: others are served, and memory stays bounded."""
    child = frozen_receiver(broker, "frozen")
    try:
        sender, receiver = peers(broker), peers(broker)
        receiver.register("lively")
        before = psutil.Process(broker.pid).memory_info().rss
        numbers = []
        for n in range(300):  # 30 MB for the frozen one, each in a lane of its own
            numbers.append(sender.request("send", posting("frozen", "x" * 100_000, session=str(n))))
            if len(numbers) == 20:
                for number in numbers:
                    sender.answer(number)
                numbers = []
        sender.send("lively", "quick")
        assert receiver.finish() == ["quick"]
        grown = psutil.Process(broker.pid).memory_info().rss - before
        assert grown < 40 << 20, f"{grown >> 20} MiB for 30 MB to a peer that reads nothing"
        (row,) = [e for e in sender.ask("list")["endpoints"] if e["name"] == "frozen"]
        assert row["queued"] > 200 and row["in_hand"] <= 64
    finally:
        os.kill(child.pid, signal.SIGCONT)
        child.communicate(b"\n")


def slow_reader(broker: Broker) -> "zmq.Socket[bytes]":
    """Return a DEALER with room for one answer, which writes as much as it wants."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    for option, value in {zmq.LINGER: 0, zmq.SNDHWM: 0, zmq.RCVHWM: 1}.items():
        socket.setsockopt(option, value)
    socket.connect(broker.address)
    return socket


def answers_of(socket: "zmq.Socket[bytes]", last: int) -> list[wire.Frame]:
    """Return what comes until request `last` is answered."""
    found: list[wire.Frame] = []
    while not found or found[-1].sequence != last:
        assert socket.poll(15_000), f"only {len(found)} answers came"
        found.append(wire.decode(socket.recv()))
    return found


def test_twenty_thousand_sends_before_the_first_receipt_is_read(
    broker: Broker, peers: MakePeer, name: str
) -> None:
    """PROTOCOL-3.4: each has its receipt, once; others are served meanwhile."""
    count, lively = 20_000, peers(broker)
    lively.ask("declare", name=name)
    with slow_reader(broker) as socket:
        for number in range(1, count + 1):  # the mailbox takes half of them: that is an answer, too
            socket.send(wire.encode("send", number, posting(name)))
        socket.send(wire.encode("list", 0, {}))
        until(lambda: lively.ask("status")["messages"] == 10_000)
        answers = answers_of(socket, count)
    got = Counter(answer.sequence for answer in answers)
    assert set(got.values()) == {1} and len(got) == count + 1
    assert Counter(answer.verb for answer in answers) == {"ok": 10_001, "err": 10_000}


def test_answers_and_deliveries_keep_their_order(
    broker: Broker, peers: MakePeer, name: str
) -> None:
    """PROTOCOL-3.4, PROTOCOL-5.2: nothing overtakes what waits for a slow reader."""
    other = peers(broker)
    with slow_reader(broker) as socket:
        for number in range(1, 10_001):
            socket.send(wire.encode("probe", number, {"instance": "5be1c2a09d6f4711"}))
        for number, verb, payload in (
            (10_001, "hello", {"min": 1, "max": 1, "instance": "5be1c2a09d6f4711"}),
            (10_002, "register", {"name": name, "holding": []}),
        ):
            socket.send(wire.encode(verb, number, payload))
        until(lambda: [e for e in other.ask("list")["endpoints"] if e["name"] == name])
        for n in range(3):
            other.send(name, str(n), session=str(n))
        answers = answers_of(socket, 10_002)
        assert [answer.sequence for answer in answers] == list(range(1, 10_003))
        texts = [wire.decode(socket.recv()).payload["message"]["body"]["text"] for _ in range(3)]
        assert texts == ["0", "1", "2"]


def test_a_slow_reader_that_beats_is_not_silent(
    make_broker: MakeBroker, peers: MakePeer, name: str
) -> None:
    """PROTOCOL-3.4, PROTOCOL-5.7: its beats are heard, however many answers wait for it."""
    broker = make_broker(stale_s=1)
    other = peers(broker)

    def state() -> Any:
        rows = other.ask("list")["endpoints"]
        return [row["state"] for row in rows if row["name"] == name]

    with slow_reader(broker) as socket:
        numbers = itertools.count(1)

        def request(verb: str, **payload: Any) -> None:
            socket.send(wire.encode(verb, next(numbers), payload))

        request("hello", min=1, max=1, instance="5be1c2a09d6f4711")
        request("register", name=name, holding=[])
        for _ in range(10_000):
            request("probe", instance="5be1c2a09d6f4711")
        until(lambda: state() == ["live"])
        start = other.ask("status")["uptime_s"]
        while other.ask("status")["uptime_s"] < start + 3:
            request("beat")
            assert state() == ["live"]
        last = next(numbers) - 1
        assert len(answers_of(socket, last)) == last


def test_a_peer_that_never_reads_its_answers(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-3.3, PROTOCOL-3.4: its connection is closed; the next peer's answers come."""
    lively = peers(broker)
    for n in range(64):
        lively.ask("declare", name=f"{n:064}")
    before = psutil.Process(broker.pid).memory_info().rss
    with slow_reader(broker) as deaf, deaf.get_monitor_socket(zmq.EVENT_DISCONNECTED) as monitor:
        for number in range(1, 5_001):  # 50 MB of answers
            deaf.send(wire.encode("list", number, {}))
        until(lambda: "its connection is closed" in broker.log)
        assert len(lively.ask("list")["endpoints"]) == 64
        assert psutil.Process(broker.pid).memory_info().rss - before < 40 << 20
        while not monitor.poll(10):  # seen by who reads
            while deaf.poll(0):
                assert wire.decode(deaf.recv()).sequence < 5_000
        deaf.send(wire.encode("list", 6_000, {}))  # it connects again
        answers_of(deaf, 6_000)
        assert broker.log.count("its connection is closed") == 1
        deaf.disable_monitor()


def test_a_peer_that_goes_with_its_answers_unread(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-3.4: what waited for it is let go, and stops nothing."""
    lively = peers(broker)
    with slow_reader(broker) as socket:
        for number in range(1, 20_001):
            socket.send(wire.encode("probe", number, {"instance": "5be1c2a09d6f4711"}))
        answers_of(socket, 1)
    lively.send("gone", queue=True)
    assert broker.stop() == 0
