"""PROTOCOL.md section 9: waiting, against real brokers."""

import secrets
from typing import Any

import pytest

from fakes.broker import Broker
from fakes.peer import MakePeer, Peer
from wakebus.broker import errors


def waiting(peer: Peer, id: str, state: str, timeout: float = 30) -> int:
    """Start a wait; return its sequence once the broker knows of it."""
    number = peer.request("wait", {"id": id, "state": state, "timeout": timeout})
    peer.ask("status")  # answered by the writer thread, so behind the wait
    return number


def answer_of(peer: Peer, delivery: dict[str, Any], text: str, **fields: Any) -> dict[str, Any]:
    """Send the answer to a delivery."""
    message = delivery["message"]
    return peer.send(
        message["from"],
        text,
        body={"type": "answer"},
        sender=delivery["to"],
        reply_to=message["id"],
        **fields,
    )


def test_waits_before_the_fact(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.1, PROTOCOL-9.5: every wait is answered when it happens, from any connection."""
    other.register(name)
    id = peer.send(name)["id"]
    delivered = [waiting(peer, id, "delivered") for _ in range(2)]
    handled = waiting(peer, id, "handled")
    delivery = other.take()
    mine = waiting(other, id, "handled")
    other.say("got", delivery)
    assert [peer.answer(n) for n in delivered] == [{"id": id, "state": "delivered"}] * 2
    other.say("handled", delivery, outcome={"rule": "r"})
    end = {"id": id, "state": "handled", "outcome": {"rule": "r"}}
    assert peer.answer(handled) == other.answer(mine) == end


def test_waits_after_the_fact(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.1: answered at once, also with a timeout of 0."""
    other.register(name)
    id = peer.send(name)["id"]
    other.finish()
    for state in ("delivered", "handled"):
        assert peer.ask("wait", id=id, state=state, timeout=0)["state"] == "handled"


@pytest.mark.parametrize("state", ["delivered", "handled", "answer"])
def test_a_dead_message_answers_every_wait(peer: Peer, other: Peer, name: str, state: str) -> None:
    """PROTOCOL-9.1: with its reason, before and after."""
    other.register(name)
    id = peer.send(name)["id"]
    number = waiting(peer, id, state)
    other.say("refused", other.take(), reason="never")
    end = {"id": id, "state": "dead", "reason": "never"}
    assert peer.answer(number) == peer.ask("wait", id=id, state=state, timeout=0) == end


def test_a_wait_that_is_too_long(peer: Peer, name: str) -> None:
    """PROTOCOL-9.2: `timeout` with the state so far; the message waits on."""
    id = peer.send(name, queue=True)["id"]
    error = peer.error("wait", id=id, state="handled", timeout=0.05)
    assert isinstance(error, errors.TimedOut) and error.retry
    why = f"{name} is away and gets it when it comes"
    assert error.data == {"id": id, "state": "queued", "why": why}
    peer.register(name)
    assert peer.finish() == ["hi"]


def test_the_same_wait_twice_in_one_frame_shape(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.5: a resent wait is another wait; each ends on its own."""
    other.register(name)
    id = peer.send(name)["id"]
    short = waiting(peer, id, "handled", timeout=0.1)
    long = waiting(peer, id, "handled")
    with pytest.raises(errors.TimedOut):
        peer.answer(short)
    other.finish()
    assert peer.answer(long)["state"] == "handled"


@pytest.mark.parametrize(
    "fields",
    [
        {"id": None},
        {"id": ["m"]},
        {"state": "queued"},
        {"state": []},
        {"state": {}},
        {"state": None},
        {"timeout": -1},
        {"timeout": "5"},
        {"timeout": True},
        {"timeout": None},
    ],
    ids=repr,
)
def test_a_wrong_wait(peer: Peer, fields: dict[str, Any]) -> None:
    """PROTOCOL-9.1, PROTOCOL-9.2: by field."""
    error = peer.error("wait", **{"id": "m1", "state": "handled", "timeout": 1, **fields})
    assert error.code == "bad_message" and next(iter(fields)) in error.text


def test_a_wait_for_nothing(peer: Peer) -> None:
    """PROTOCOL-3.2: `unknown_id`."""
    error = peer.error("wait", id=secrets.token_hex(5), state="handled", timeout=5)
    assert error.code == "unknown_id"


@pytest.mark.parametrize("early", [True, False])
def test_an_answer_for_an_asker_without_a_name(
    peer: Peer, other: Peer, name: str, early: bool
) -> None:
    """PROTOCOL-9.3, PROTOCOL-9.4: before its wait and after, it goes to no mailbox."""
    other.register(name)
    asker = f"{name}-asker"
    id = peer.send(name, "well?", sender=asker, asks=True)["id"]
    number = waiting(peer, id, "answer") if early else 0
    delivery = other.take()
    assert answer_of(other, delivery, "yes")["state"] == "handled"
    other.say("handled", delivery)
    found = peer.answer(number) if early else peer.ask("wait", id=id, state="answer", timeout=0)
    assert found["answer"]["body"] == {"type": "answer", "text": "yes"}
    assert (found["id"], found["answer"]["reply_to"], found["answer"]["from"]) == (id, id, name)
    assert asker not in {e["name"] for e in peer.ask("list")["endpoints"]}


def test_an_answer_without_a_question(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.4: nobody asked under this name, so the target is unknown."""
    other.register(name)
    peer.send(name, "just so", sender=f"{name}-a")
    with pytest.raises(errors.UnknownTarget):
        answer_of(other, other.take(), "yes")


def test_a_known_asker_gets_it_both_ways(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.4: as the answer of its wait and as a message."""
    other.register(name)
    peer.register(f"{name}-a")
    id = peer.send(name, "well?", sender=f"{name}-a", asks=True)["id"]
    number = waiting(peer, id, "answer")
    answer_of(other, other.take(), "yes")
    assert peer.answer(number)["answer"]["body"]["text"] == "yes"
    assert peer.take()["message"]["body"]["text"] == "yes"


def test_the_first_answer_counts(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.3: other types and later answers do not."""
    other.register(name)
    id = peer.send(name, "well?", sender=f"{name}-a", asks=True)["id"]
    delivery = other.take()
    other.send(name, "progress", sender=name, reply_to=id, body={"type": "progress"})
    answer_of(other, delivery, "one")
    answer_of(other, delivery, "two")
    found = peer.ask("wait", id=id, state="answer", timeout=0)
    assert found["answer"]["body"]["text"] == "one"


def test_a_receiver_that_will_not_answer(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.3: `answered: false` in the outcome ends the wait without one."""
    other.register(name)
    id = peer.send(name, asks=True)["id"]
    number = waiting(peer, id, "answer")
    other.say("handled", other.take(), outcome={"answered": False})
    found = peer.answer(number)
    assert found["state"] == "handled" and "answer" not in found


def test_handled_is_no_answer(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.3: the wait goes on, an answer may come from a later turn."""
    other.register(name)
    id = peer.send(name, sender=f"{name}-a", asks=True)["id"]
    number = waiting(peer, id, "answer")
    delivery = other.take()
    other.say("handled", delivery)
    peer.ask("status")
    assert number not in peer._answers
    answer_of(other, delivery, "after all")
    assert peer.answer(number)["answer"]["body"]["text"] == "after all"


def test_an_answer_is_kept_over_a_restart(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-9.4, PROTOCOL-8.2: the wait is asked again, the answer is there."""
    asker, worker = peers(broker), peers(broker)
    worker.register("e")
    id = asker.send("e", "well?", asks=True)["id"]
    answer_of(worker, worker.take(), "yes")
    broker.restart()
    found = peers(broker).ask("wait", id=id, state="answer", timeout=0)
    assert found["answer"]["body"]["text"] == "yes"


@pytest.mark.parametrize("known", [True, False])
def test_a_claimed_answer_ends_no_wait(
    peer: Peer, other: Peer, shared_broker: Broker, peers: MakePeer, name: str, known: bool
) -> None:
    """PROTOCOL-9.6: stored and shown, before the true one and after; the wait goes on."""
    other.register(name)
    stranger, asker = peers(shared_broker), f"{name}-a"
    if known:
        peer.register(asker)
    id = peer.send(name, "well?", sender=asker, asks=True)["id"]
    number, delivery = waiting(peer, id, "answer"), other.take()
    forged = answer_of(stranger, delivery, "forged")
    assert forged["claimed"] is True
    late = peer.error("wait", id=id, state="answer", timeout=0)
    assert late.data == {"id": id, "state": "queued", "claimed": forged["id"]}
    assert forged["id"] in late.text and number not in peer._answers
    traced = {one["id"]: one["claimed"] for one in peer.ask("trace", id=id)["messages"]}
    assert traced[forged["id"]] is True
    if known:
        assert peer.take()["claimed"] is True
    true = answer_of(other, delivery, "true")
    assert "claimed" not in true
    answer_of(stranger, delivery, "forged again")
    after = stranger.ask("wait", id=id, state="answer", timeout=0)
    for found in (peer.answer(number), after):
        assert (found["answer"]["id"], found["answer"]["body"]["text"]) == (true["id"], "true")


def test_a_turns_token_proves_an_answer(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.6: also from a connection without a name, whatever it calls itself."""
    other.register(name)
    id = peer.send(name, "well?", sender=f"{name}-a", asks=True)["id"]
    number, delivery, token = waiting(peer, id, "answer"), other.take(), secrets.token_hex(16)
    other.say("started", delivery, token=token)
    given = answer_of(peer, {**delivery, "to": "somebody"}, "yes", token=token)
    assert "claimed" not in given
    assert peer.answer(number)["answer"]["body"]["text"] == "yes"


def test_another_endpoints_proof_is_none(
    peer: Peer, other: Peer, shared_broker: Broker, peers: MakePeer, name: str
) -> None:
    """PROTOCOL-9.6: registered under another name, or by the token of another one's turn."""
    other.register(name)
    third, asker = peers(shared_broker), f"{name}-a"
    third.register(f"{name}-b")
    id = peer.send(name, "well?", sender=asker, asks=True)["id"]
    delivery = other.take()
    with pytest.raises(errors.NotRegistered):
        answer_of(third, delivery, "forged")
    peer.send(f"{name}-b", "work", sender=asker)
    third.say("started", third.take(), token=(token := secrets.token_hex(16)))
    for sender in (f"{name}-b", name):
        answer = {**delivery, "to": sender}
        answer_of(third, answer, "forged", token=token, queue=True)
    late = peer.error("wait", id=id, state="answer", timeout=0)
    assert late.code == "timeout" and "claimed" not in late.data


def test_an_endpoint_that_never_registers_proves_nothing(peer: Peer, name: str) -> None:
    """PROTOCOL-9.6: what is said in its name is kept and shown, and ends no wait."""
    id = peer.send(name, "well?", sender=f"{name}-a", asks=True, queue=True)["id"]
    asked = {"to": name, "message": {"id": id, "from": f"{name}-a"}}
    given = answer_of(peer, asked, "yes")
    assert (given["state"], given["claimed"]) == ("handled", True)
    late = peer.error("wait", id=id, state="answer", timeout=0)
    assert late.data["claimed"] == given["id"]
    assert "claimed" not in peer.error("wait", id=id, state="handled", timeout=0).data
    assert peer.ask("read", id=given["id"])["message"]["body"]["text"] == "yes"


def test_nobody_elses_answer_counts(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.3, PROTOCOL-9.4: neither from a third one nor to a third one."""
    other.register(name)
    peer.ask("declare", name=f"{name}-b")
    for asker in (f"{name}-a", f"{name}-b"):  # unknown, and known
        id = peer.send(name, "well?", sender=asker, asks=True)["id"]
        answer = {"body": {"type": "answer"}, "reply_to": id, "queue": True}
        peer.send(asker, "forged", sender=f"{name}-mallory", **answer)
        other.send(name, "to another", sender=name, **answer)
        assert peer.error("wait", id=id, state="answer", timeout=0).code == "timeout"
        other.send(asker, "true", sender=name, **answer)
        found = peer.ask("wait", id=id, state="answer", timeout=0)
        assert found["answer"]["body"]["text"] == "true"


def test_a_connection_has_a_thousand_waits(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.5: one more is `busy`; others wait on, and each that ends makes room."""
    id = peer.send(name, queue=True)["id"]
    wait = {"id": id, "state": "handled"}
    short = peer.request("wait", {**wait, "timeout": 0.5})
    for _ in range(999):
        peer.request("wait", {**wait, "timeout": 60})
    assert peer.error("wait", **wait, timeout=60).code == "busy"
    assert other.error("wait", **wait, timeout=0).code == "timeout"
    with pytest.raises(errors.TimedOut):
        peer.answer(short)
    assert peer.error("wait", **wait, timeout=0).code == "timeout"


def test_a_receiver_that_is_away(peer: Peer, name: str) -> None:
    """PROTOCOL-9.2: the text says that it is."""
    peer.ask("declare", name=name)
    id = peer.send(name)["id"]
    error = peer.error("wait", id=id, state="handled", timeout=0)
    assert error.text == (
        f"{id} is queued, not yet handled; {name} is away and gets it when it comes"
    )
