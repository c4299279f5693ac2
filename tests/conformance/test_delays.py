"""PROTOCOL.md section 4: what does not go out before a time, and what goes first, over the wire."""

import time
from typing import Any

import pytest

from fakes.broker import Broker, MakeBroker
from fakes.peer import MakePeer, Peer, traced
from wakebus.broker import errors


def soon(seconds: float) -> float:
    """Return the wall seconds of then."""
    return time.time() + seconds


def box(peer: Peer, name: str) -> list[dict[str, Any]]:
    """Return what `inbox` tells of an endpoint."""
    rows: list[dict[str, Any]] = peer.ask("inbox", name=name)["messages"]
    return rows


def test_a_delayed_message(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.18, PROTOCOL-10.10: queued, listed with its time, then delivered; each step."""
    other.register(name)
    then = soon(1.2)
    receipt = peer.send(name, "late", not_before=then)
    assert receipt["state"] == "queued"
    assert receipt["not_before"] == pytest.approx(then, abs=0.1)
    (row,) = box(peer, name)
    assert row["not_before"] == pytest.approx(then, abs=0.1)
    assert not {"why", "behind"} & row.keys(), "it waits for its time alone"
    peer.send(name, "now")
    assert other.finish() == ["now"]
    delivery = other.take()
    assert time.time() >= then - 0.1
    assert delivery["message"]["not_before"] == then
    assert (delivery["redelivered"], delivery["attempt"]) == (False, 1)
    other.say("handled", delivery)
    steps = traced(peer, receipt["id"])["steps"]
    assert [step["what"] for step in steps] == ["accepted", "queued", "due", "handled"]
    assert steps[1]["not_before"] == then


def test_what_is_not_due_is_ahead_of_nothing(peer: Peer, name: str) -> None:
    """PROTOCOL-4.1: `ahead` counts what goes out before, not what goes out at its own time."""
    peer.ask("declare", name=name)
    peer.send(name, "late", not_before=soon(60))
    assert peer.send(name, "now")["ahead"] == 0
    assert peer.send(name, "then")["ahead"] == 1


def test_the_same_id_with_another_time(peer: Peer, name: str) -> None:
    """PROTOCOL-4.5, PROTOCOL-4.18: a resend counts from later on, and is the same message."""
    peer.ask("declare", name=name)
    first = peer.send(name, "late", id=f"{name}-1", not_before=soon(60))
    again = peer.send(name, "late", id=f"{name}-1", not_before=soon(90), priority="high")
    assert again["duplicate"] is True
    assert again["not_before"] == pytest.approx(first["not_before"], abs=0.1)


@pytest.mark.parametrize("value", ["18:00", True, -1, 1e15, [1]])
def test_a_time_that_is_none(peer: Peer, name: str, value: Any) -> None:
    """PROTOCOL-4.18: refused by its name; also milliseconds."""
    peer.ask("declare", name=name)
    with pytest.raises(errors.BadMessage, match="not_before"):
        peer.send(name, not_before=value)
    with pytest.raises(errors.BadMessage, match="not_before: at most 366 days"):
        peer.send(name, not_before=soon(367 * 86400))


def test_a_delayed_message_is_taken_back(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.18, PROTOCOL-10.11, PROTOCOL-10.8: and waits for its time again when retried."""
    other.register(name)
    id = peer.send(name, "late", not_before=soon(60))["id"]
    assert peer.ask("cancel", id=id, by="ci")["state"] == "dead"
    assert box(peer, name) == []
    assert peer.ask("retry", ids=[id])["retried"] == [id]
    assert other.silence() == []
    (row,) = box(peer, name)
    assert row["not_before"] == pytest.approx(soon(60), abs=5)


def test_who_waits_for_a_delayed_message(peer: Peer, name: str) -> None:
    """PROTOCOL-4.18, PROTOCOL-9.2: in vain, it is told when that goes out."""
    peer.ask("declare", name=name)
    id = peer.send(name, "late", not_before=soon(3600))["id"]
    error = peer.error("wait", id=id, state="handled", timeout=0)
    assert isinstance(error, errors.TimedOut)
    assert "it goes out in 60 min" in error.text
    assert error.data["not_before"] == pytest.approx(soon(3600), abs=5)


def test_a_delayed_message_survives_a_kill(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-4.18, PROTOCOL-8.2: before its time and after it; no delivery is a second one."""
    sender = peers(broker)
    sender.ask("declare", name="e")
    sender.send("e", "far", not_before=soon(3600))
    sender.send("e", "near", not_before=soon(1))
    broker.restart()
    peer = peers(broker)
    assert [row["text"] for row in box(peer, "e") if "not_before" in row] == ["far", "near"]
    peer.register("e")
    delivery = peer.take()
    assert delivery["message"]["body"]["text"] == "near"
    assert delivery["redelivered"] is False
    peer.say("handled", delivery)
    broker.restart()
    (row,) = box(peers(broker), "e")
    assert row["text"] == "far" and row["not_before"] > soon(3000)


def test_words_of_what_has_not_gone_out(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.18, PROTOCOL-6.1: a holder that says it has it breaks nothing."""
    epoch = other.register(name)
    id = peer.send(name, "late", not_before=soon(1))["id"]
    said = {"to": name, "id": id, "epoch": epoch}
    for verb in ("got", "started", "later", "got", "handled"):
        other.ask(verb, **said, **({"after_s": 0.01} if verb == "later" else {}))
    assert traced(peer, id)["state"] == "handled"
    assert peer.send(name, "next")["state"] == "queued"


def test_what_goes_first(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-4.19: high before normal before low; in order within each; the message says it."""
    broker = make_broker(window_lanes=1)
    peer, other = peers(broker), peers(broker)
    peer.ask("declare", name="e")
    sent = [("a", "low"), ("b", None), ("c", "high"), ("d", "normal"), ("f", "high"), ("g", "low")]
    for text, priority in sent:
        peer.send("e", text, **({"priority": priority} if priority else {}))
    other.register("e")
    first = other.take()
    assert (first["message"]["body"]["text"], first["message"]["priority"]) == ("c", "high")
    other.say("handled", first)
    assert other.finish(5) == ["f", "b", "d", "a", "g"]


@pytest.mark.parametrize("value", ["urgent", 1, True, ["high"]])
def test_a_priority_that_is_none(peer: Peer, name: str, value: Any) -> None:
    """PROTOCOL-4.19: refused, with the words that there are."""
    peer.ask("declare", name=name)
    with pytest.raises(errors.BadMessage, match="one of low, normal, high"):
        peer.send(name, priority=value)
