"""Why a message is not worked on yet, for who asks (PROTOCOL.md sections 7 and 9)."""

import os
import re

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import Answer, MakePeer, Peer, reference

FLOOD = "more than 5 turns a minute"
DIRECTIVE: Answer = {"body": {"type": "directive"}, "session": "s"}


def waiting(peer: Peer, id: str) -> str:
    """What `wait` says of it; `trace` and `inbox` say the same."""
    error = peer.error("wait", id=id, state="handled", timeout=0)
    why = str(error.data.get("why", ""))
    assert f"not yet handled; {why}".rstrip("; ") in error.text, error.text
    traced: Answer = next(m for m in peer.ask("trace", id=id)["messages"] if m["id"] == id)
    listed = next(m for m in peer.ask("inbox", name=traced["to"])["messages"] if m["id"] == id)
    assert _form(traced.get("why", "")) == _form(listed.get("why", "")) == _form(why)
    return why


def _form(why: str) -> str:
    return re.sub(r"[\d.]+ s", "N s", why)  # seconds go by


def test_what_rests_says_so(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-7.7, PROTOCOL-9.11, PROTOCOL-4.20: in wait, trace, inbox, and the next receipt."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    first = peer.send("e", **DIRECTIVE)["id"]
    delivery = holder.take()
    holder.say("got", delivery, why=FLOOD, for_s=50)
    assert re.fullmatch(rf"resting (50|4\d) s: {FLOOD}", waiting(peer, first))
    receipt = peer.send("e", **DIRECTIVE)
    assert _form(receipt["why"]) == f"resting N s: {FLOOD}"
    behind = peer.error("wait", id=receipt["id"], state="handled", timeout=0)
    assert f"; it waits behind {first}, put off by its receiver: resting " in behind.text
    assert behind.data["behind"] == first and behind.data["behind_why"].endswith(FLOOD)
    others: list[Answer] = [{"session": "t"}, {"body": {"type": "ack"}}, {"asks": True}]
    for other in others:
        assert "why" not in peer.send("e", **{**DIRECTIVE, **other})
    holder.say("started", delivery)
    assert waiting(peer, first) == ""
    assert "why" in peer.send("e", **DIRECTIVE, sender="another")


def test_a_rest_ends_by_itself(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-7.7: with its seconds, or when its receiver says so."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    id = peer.send("e", session="s")["id"]
    delivery = holder.take()
    holder.say("got", delivery, why="x" * 300, for_s=50)
    assert "x" * 200 in waiting(peer, id) and "x" * 201 not in waiting(peer, id)
    holder.say("got", delivery, why="x", for_s=0.01)
    until(lambda: "why" not in peer.error("wait", id=id, state="handled", timeout=0).data)
    assert "why" not in peer.send("e", session="s")
    holder.say("got", delivery, why="no place")
    assert waiting(peer, id) == "no place"
    holder.say("got", delivery, why="")
    assert waiting(peer, id) == ""
    error = holder.error("got", **reference(delivery), why="x", for_s=-1)
    assert error.code == "bad_message"


def test_what_its_receiver_put_off(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-9.11: in the receiver's words, and when it comes again."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    id = peer.send("e", session="s", sender="ci")["id"]
    holder.say("later", holder.take(), after_s=50, reason="Hermes is paused")
    assert _form(waiting(peer, id)) == "Hermes is paused; again in N s"
    again = peer.send("e", session="s", sender="ci", id=id)
    assert again["duplicate"] and _form(again["why"]) == "Hermes is paused; again in N s"


def test_a_busy_session(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-9.11: the turn that goes on there, until it ends."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    running = peer.send("e", session="s", sender="a")["id"]
    turn = holder.take()
    holder.say("started", turn)
    id = peer.send("e", session="s", sender="b")["id"]
    holder.say("got", holder.take(), behind=running)
    assert waiting(peer, id) == (
        f"its session is in the turn on {running} (wakebus cancel ends that)"
    )
    holder.say("handled", turn)
    assert waiting(peer, id) == ""


def test_behind_a_lane_that_rests(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-9.11, PROTOCOL-10.13: also where its receiver has as many of the lane as it may."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    for _ in range(66):
        peer.send("e", **DIRECTIVE)
    for _ in range(64):
        holder.say("got", holder.take(), more=True, why=FLOOD, for_s=50)
    last = peer.send("e", **DIRECTIVE)["id"]
    error = peer.error("wait", id=last, state="handled", timeout=0)
    assert error.data["behind_why"].startswith("resting ") and FLOOD in error.text


def test_a_receiver_that_is_frozen(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-9.11: it is there, and says nothing: that is another thing than away."""
    broker = make_broker(stale_s=0.3)
    peer, holder = peers(broker), peers(broker)
    peer.ask("declare", name="e")
    id = peer.send("e")["id"]
    assert waiting(peer, id) == "e is away and gets it when it comes"
    holder.register("e")
    until(lambda: [one["state"] for one in peer.ask("list")["endpoints"]] == ["silent"])
    id = peer.send("e")["id"]
    assert waiting(peer, id).startswith(f"e, process {os.getpid()}, says nothing (stopped or")
