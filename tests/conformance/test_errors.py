"""PROTOCOL.md section 3: answers and errors, against a real broker."""

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.broker import Broker
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


def test_a_peer_that_never_reads_its_answers(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-3.1, PROTOCOL-3.3: its answers are dropped, the next peer's are not."""
    deaf, lively = peers(broker), peers(broker)
    for n in range(64):
        lively.ask("declare", name=f"{n:064}")
    before = psutil.Process(broker.pid).memory_info().rss
    for number in range(1, 5_001):  # 50 MB of answers
        deaf.raw(wire.encode("list", number, {}))
    assert len(lively.ask("list")["endpoints"]) == 64
    assert psutil.Process(broker.pid).memory_info().rss - before < 40 << 20
