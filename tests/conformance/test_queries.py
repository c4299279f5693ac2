"""PROTOCOL.md section 10: queries and declarations, against real brokers."""

import json
import os
from typing import Any

import pytest

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import MakePeer, Peer
from wakebus.broker import __version__


def row(peer: Peer, name: str) -> dict[str, Any]:
    """Return what `list` says of an endpoint."""
    found = [e for e in peer.ask("list")["endpoints"] if e["name"] == name]
    return found[0] if found else {}


def test_list(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.1: every field, live and away."""
    other.register(name)
    for n in range(3):
        peer.send(name, str(n))
    other.take()
    found = row(peer, name)
    assert found.pop("seen") > 1.7e9 and 0 <= found.pop("beat_age_s") < 60
    assert found == {
        "name": name,
        "state": "live",
        "declared": False,
        "ephemeral": False,
        "epoch": 1,
        "queued": 2,
        "in_hand": 1,
        "pid": os.getpid(),
    }
    other.ask("unregister", name=name)
    found = row(peer, name)
    assert (found["state"], found["queued"], found["in_hand"]) == ("away", 3, 0)
    assert "pid" not in found


def test_a_declared_name(peer: Peer, name: str) -> None:
    """PROTOCOL-10.2: known before anybody came; twice is harmless."""
    for _ in range(2):
        assert peer.ask("declare", name=name) == {"name": name}
    found = row(peer, name)
    assert (found["state"], found["declared"], found["epoch"]) == ("away", True, 0)
    assert peer.send(name)["state"] == "queued"
    assert peer.error("declare", name="a.b").code == "bad_name"


def test_a_declared_name_is_kept(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.2: over a restart, and however long ago that was."""
    peers(broker).ask("declare", name="e")
    broker.restart()
    assert row(peers(broker), "e")["declared"] is True


def test_reading(peer: Peer, name: str) -> None:
    """PROTOCOL-10.6: the message with its body, and only for an id that is stored."""
    peer.ask("declare", name=name)
    id = peer.send(name, "the whole text")["id"]
    message = peer.ask("read", id=id)["message"]
    assert (message["id"], message["body"]["text"]) == (id, "the whole text")
    assert peer.error("read", id="nobody").code == "unknown_id"
    assert peer.error("read", id=7).code == "bad_message"


def test_forgetting(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.3: not while it is held or has messages; then it is unknown."""
    other.register(name)
    peer.send(name)
    assert peer.error("forget", name=name).code == "refused"
    assert str(os.getpid()) in peer.error("forget", name=name).text
    other.ask("unregister", name=name)
    assert "waiting" in peer.error("forget", name=name).text
    other.register(name)
    other.finish()
    other.ask("unregister", name=name)
    assert peer.ask("forget", name=name) == {"name": name}
    assert not row(peer, name)
    assert peer.error("forget", name=name).code == "unknown_target"
    assert peer.error("send", message={}).code == "bad_message"


def test_forgetting_a_silent_holder(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-10.3: a client that lives but holds on to nothing keeps no name for ever."""
    broker = make_broker(stale_s=0.2)
    peer, ghost = peers(broker), peers(broker)
    ghost.register("e")
    until(lambda: row(peer, "e")["state"] == "silent")
    peer.ask("forget", name="e")
    assert ghost.error("beat").code == "not_registered"
    assert peer.register("e") == 1


def test_a_trace(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.4: up and down the links, oldest first, with steps and without bodies."""
    other.register(name)
    first = peer.send(name, "secret text", body={"type": "t", "channel": "c:1"})["id"]
    other.say("handled", other.take(), outcome={"rule": "r"})
    second = peer.send(name, "x", reply_to=first)["id"]
    third = peer.send(name, "x", cause=second, session="s")["id"]
    peer.send(name, "unrelated")
    answer = peer.ask("trace", id=third)
    assert answer["left_out"] == 0
    assert [m["id"] for m in answer["messages"]] == [first, second, third]
    one = answer["messages"][0]
    assert "secret text" not in json.dumps(answer)
    assert (one["type"], one["channel"], one["state"]) == ("t", "c:1", "handled")
    assert (one["outcome"], one["claimed"], one["from"]) == ({"rule": "r"}, True, "tester")
    assert [step["what"] for step in one["steps"]] == ["accepted", "queued", "handled"]
    assert one["steps"][0]["pid"] == os.getpid() and one["steps"][0]["by"] == "tester"
    assert all(step["t"] > 1.7e9 for step in one["steps"])


@pytest.mark.parametrize("id", [None, 5, ["m"]])
def test_a_trace_of_no_id(peer: Peer, id: Any) -> None:
    """PROTOCOL-10.4: by kind, and of a message that is not there."""
    assert peer.error("trace", id=id).code == "bad_message"
    assert peer.error("trace", id="never-was").code == "unknown_id"


def test_a_long_lineage_fits_into_a_frame(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.4, PROTOCOL-2.4: the newest are left out, and counted."""
    peer = peers(broker)
    peer.register("e")
    first = peer.send("e", sender="e")["id"]
    peer.say("handled", peer.take())
    for n in range(90):
        peer.send("e", sender="e", cause=first, session=str(n))
        peer.say("handled", peer.take(), outcome={"x": "y" * 16_000})
    answer = peer.ask("trace", id=first)
    assert answer["messages"][0]["id"] == first
    assert answer["left_out"] > 0 and len(answer["messages"]) + answer["left_out"] == 91


def test_status(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.5: the broker's own state."""
    peer = peers(broker)
    peer.register("e")
    peer.send("e", sender="e")
    peer.say("refused", peer.take())
    found = peer.ask("status")
    (endpoint,) = found.pop("endpoints")
    assert endpoint["name"] == "e" and found.pop("uptime_s") >= 0
    assert found.pop("boot") and found.pop("store_bytes") > 4096
    assert found == {
        "pid": broker.pid,
        "version": __version__,
        "protocol": 1,
        "accepted": 1,
        "dead_letters": 1,
        "messages": 1,
        "set_aside": [],
        "store_limit": 2 << 30,
        "purged_early": 0,
        "notices_lost": 0,
        "paused": [],
        "events": dict.fromkeys(("in", "bytes_in", "out", "bytes_out", "missed", "dropped"), 0),
    }


def test_what_waits_behind_another_says_so(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.13: which one and why, in inbox, trace, status, list and a wait that ends."""
    other.register(name)
    first = peer.send(name, "first")["id"]
    delivery = other.take()
    second, third = (peer.send(name, text)["id"] for text in ("second", "third"))
    (row,) = (row for row in peer.ask("inbox", name=name)["messages"] if row["id"] == third)
    assert row["behind"] == first and "behind_why" not in row
    other.say("later", delivery, after_s=600, reason="no route to host")
    said = {"behind": first, "behind_why": "no route to host"}
    rows = peer.ask("inbox", name=name)["messages"]
    assert [row.get("behind") for row in rows] == [None, first, first]
    assert rows[0]["put_off"] == "no route to host" and said.items() <= rows[2].items()
    (traced,) = peer.ask("trace", id=second)["messages"]
    assert said.items() <= traced.items()
    error = peer.error("wait", id=third, state="handled", timeout=0)
    assert f"waits behind {first}" in error.text and "no route to host" in error.text
    assert error.data["behind"] == first
    for verb in ("status", "list"):
        (one,) = (one for one in peer.ask(verb)["endpoints"] if one["name"] == name)
        assert one["held_up"] == {
            "behind": first,
            "why": "no route to host",
            "waiting": 2,
            "lanes": 1,
        }
    peer.ask("cancel", id=first)
    assert other.take()["message"]["id"] == second
    (traced,) = peer.ask("trace", id=second)["messages"]
    assert "behind" not in traced
