"""PROTOCOL.md sections 4 and 10: turns that cause each other, against real brokers."""

import time
from typing import Any

import pytest

from fakes.broker import Broker, MakeBroker
from fakes.peer import Answer, MakePeer, Peer, posting
from wakebus.broker import errors
from wakebus.broker.errors import WakebusError


def open_turn(holder: Peer, sender: Peer, name: str, **started: Any) -> Answer:
    """Send `name` a message and begin its turn; return the delivery."""
    sender.send(name, session=f"s{time.monotonic_ns()}", outside_turn=True)
    delivery = holder.take()
    holder.say("started", delivery, **started)
    return delivery


def loop(peer: Peer, to: str, sender: str, **fields: Any) -> WakebusError:
    """Send what must be refused as a loop."""
    error = peer.error("send", **posting(to, sender=sender, **{"hops": 1, **fields}))
    assert error.code == "loop", error
    return error


def filled(peer: Peer, sender: str, to: str, count: int) -> None:
    """Send as many as are accepted within the window."""
    for _ in range(count):
        peer.send(to, sender=sender, hops=1)


@pytest.fixture
def pair(peer: Peer, name: str) -> tuple[str, str]:
    """Two known endpoints that nobody holds."""
    for end in ("a", "b"):
        peer.ask("declare", name=f"{name}-{end}")
    return f"{name}-a", f"{name}-b"


def test_one_open_turn_is_the_cause(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.14: of what its endpoint sends without saying a cause."""
    other.register(name)
    turn = open_turn(other, peer, name, hops=4, path=["human"])
    peer.ask("declare", name=f"{name}-to")
    id = other.send(f"{name}-to", sender=name)["id"]
    message = peer.ask("read", id=id)["message"]
    assert (message["cause"], message["hops"]) == (turn["message"]["id"], 5)
    assert message["path"] == ["human", name]
    said = other.send(f"{name}-to", sender=name, cause="mine")["id"]
    assert "hops" not in peer.ask("read", id=said)["message"]


@pytest.mark.parametrize("why", ["two turns", "outside", "held", "over", "claimed"])
def test_no_one_turn_no_cause(peer: Peer, other: Peer, name: str, why: str) -> None:
    """PROTOCOL-4.14: none or several open, none begun, who says that none caused it."""
    other.register(name)
    peer.ask("declare", name=f"{name}-to")
    if why == "held":
        peer.send(name)
        other.say("got", other.take())
    else:
        turn = open_turn(other, peer, name)
    if why == "two turns":
        open_turn(other, peer, name)
    if why == "over":
        other.say("handled", turn)
    sender = peer if why == "claimed" else other
    id = sender.send(f"{name}-to", sender=name, outside_turn=why == "outside")["id"]
    message = peer.ask("read", id=id)["message"]
    assert "cause" not in message and "hops" not in message


def test_of_several_begun_the_one_with_the_token(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.14: what is done together in one turn, or a command beside it."""
    other.register(name)
    open_turn(other, peer, name)
    turn = open_turn(other, peer, name, token=f"{name}-a-token")
    peer.ask("declare", name=f"{name}-to")
    id = other.send(f"{name}-to", sender=name)["id"]
    assert peer.ask("read", id=id)["message"]["cause"] == turn["message"]["id"]


def test_ten_to_one_target(peer: Peer, pair: tuple[str, str]) -> None:
    """PROTOCOL-4.15: the eleventh is refused, and told why, until when, and how to go on."""
    a, b = pair
    filled(peer, a, b, 10)
    error = loop(peer, b, a, id=f"{a}-x")
    assert error.data["from"] == a and error.data["to"] == b
    assert 1700 < error.data["until"] - time.time() < 1900
    assert error.data["reason"] == f"its turns sent 10 messages to {b} within 60 s"
    assert f"wakebus resume {a} {b}" in error.text and error.data["reason"] in error.text
    assert peer.error("read", id=f"{a}-x").code == "unknown_id"
    assert loop(peer, b, a).text == error.text


def test_three_to_oneself(peer: Peer, pair: tuple[str, str]) -> None:
    """PROTOCOL-4.15: the fourth is refused."""
    filled(peer, pair[0], pair[0], 3)
    assert "to itself" in loop(peer, pair[0], pair[0]).text


def test_what_is_passed_on(peer: Peer, other: Peer, pair: tuple[str, str], name: str) -> None:
    """PROTOCOL-4.15: twelve turns that each send one, and one turn that sends twelve."""
    other.register(name)
    for number in range(12):
        turn = open_turn(other, peer, name, token=f"{name}-{number}-token")
        peer.send(pair[0], token=f"{name}-{number}-token")
        other.say("handled", turn)
    open_turn(other, peer, name, token=f"{name}-a-token")
    for _ in range(12):
        peer.send(pair[1], token=f"{name}-a-token")
    assert not [one for one in peer.ask("status")["paused"] if one["from"] == name]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_what_comes_back(broker: Broker, peers: MakePeer, length: int) -> None:
    """PROTOCOL-4.15: turns that send to each other in a circle, of any length, come to an end."""
    names = "abc"[:length]
    holders = {name: peers(broker) for name in names}
    for name, holder in holders.items():
        holder.register(name)
    peers(broker).send("a", sender="ci")
    sent, error = 0, None
    while error is None:
        name = names[sent % length]
        delivery = holders[name].take()
        message, token = delivery["message"], f"token-{sent:016}"
        turn = {"hops": message.get("hops", 0), "path": message.get("path", [])}
        holders[name].say("started", delivery, token=token, **turn)
        try:
            holders[name].send(names[(sent + 1) % length], token=token)
        except WakebusError as exc:
            error = exc
        holders[name].say("handled", delivery)
        sent += error is None
    assert error.code == "loop"
    # Of two: ten come back to each; the first message to `b` is none of them.
    assert sent == {1: 3, 2: 21, 3: 32}[length]


def test_by_a_turns_token(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.15: a model that sends to its own endpoint, whatever it says of itself."""
    other.register(name)
    open_turn(other, peer, name, token=f"{name}-a-token")
    for _ in range(3):
        peer.send(name, token=f"{name}-a-token", sender="somebody")
    loop(peer, name, "somebody", token=f"{name}-a-token", hops=0)


def test_a_chain_of_turns(peer: Peer, pair: tuple[str, str]) -> None:
    """PROTOCOL-4.15: 32 of them."""
    a, b = pair
    peer.send(b, sender=a, hops=32)
    error = loop(peer, b, a, hops=33, path=[a, b])
    assert f"more than 32 turns caused each other ({a} → {b} → {b})" in error.text
    loop(peer, b, a, hops=1)


def test_what_goes_on(peer: Peer, pair: tuple[str, str]) -> None:
    """PROTOCOL-4.15: the four types, the other direction, what no turn caused, what is stored."""
    a, b = pair
    filled(peer, a, b, 9)
    tenth = posting(b, sender=a, hops=1)
    peer.ask("send", **tenth)
    loop(peer, b, a)
    for word in ("ack", "progress", "answer", "say"):
        peer.send(b, sender=a, hops=99, body={"type": word})
    assert peer.ask("send", **tenth)["duplicate"] is True
    peer.send(a, sender=b, hops=1)
    peer.send(a, sender="x", hops=1)
    loop(peer, b, a)


def test_what_is_not_stored_is_not_counted(peer: Peer, pair: tuple[str, str]) -> None:
    """PROTOCOL-4.15: resends, and what was refused for another reason."""
    a, b = pair
    same = posting(b, sender=a, hops=1)
    for _ in range(30):
        peer.ask("send", **same)
        assert peer.error("send", **posting(f"{b}-never", sender=a, hops=1)).code != "loop"
    filled(peer, a, b, 9)
    loop(peer, b, a)


def test_its_limits_are_settings(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-4.15: and a pause ends in its time; a new broker begins anew."""
    broker = make_broker(loop_messages=1, loop_pause_s=0.2, loop_self=1, loop_hops=2)
    peer = peers(broker)
    peer.ask("declare", name="b")
    peer.send("b", sender="a", hops=1)
    error = loop(peer, "b", "a")
    while time.time() < error.data["until"]:
        time.sleep(0.01)
    peer.send("b", sender="a", hops=2)
    loop(peer, "b", "a")
    broker.restart()
    again = peers(broker)
    again.send("b", sender="a", hops=1)
    loop(again, "b", "x", hops=3)


def test_a_persons_message(peer: Peer, other: Peer, pair: tuple[str, str]) -> None:
    """PROTOCOL-4.16: to either of the two; nobody else's, and no `ack`."""
    a, b = pair
    for to in (a, b):
        filled(peer, a, b, 10)
        loop(peer, b, a)
        peer.send(to, sender="cli", body={"type": "progress"})
        peer.send(to, sender=to)
        peer.send(to, sender="x", hops=1)
        assert peer.error("send", **posting(f"{b}-never")).code == "unknown_target"
        loop(peer, b, a)
        peer.send(to, sender="cli")
    filled(peer, a, b, 10)


def test_resuming(peer: Peer, pair: tuple[str, str]) -> None:
    """PROTOCOL-10.12: a pair, a name, and what it does not take."""
    a, b = pair
    filled(peer, a, b, 10)
    loop(peer, b, a)
    assert peer.ask("resume", **{"from": b, "to": a}) == {"resumed": []}
    lifted = {"resumed": [{"from": a, "to": b}]}
    assert peer.ask("resume", **{"from": a, "to": b}) == lifted
    filled(peer, a, b, 10)
    loop(peer, b, a)
    assert peer.ask("resume", name=b) == lifted
    filled(peer, a, b, 1)
    for wrong in ({"from": a}, {"to": a}, {"name": a, "from": a, "to": b}):
        assert peer.error("resume", **wrong).code == "bad_message"
    assert peer.error("resume", name="a.b").code == "bad_name"


def test_all_is_resumed_and_status_shows_what_is_paused(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.5, PROTOCOL-10.12: without a name it is all."""
    peer = peers(broker)
    for name in ("a", "b"):
        peer.ask("declare", name=name)
        filled(peer, name, name, 3)
        loop(peer, name, name)
    shown = peer.ask("status")["paused"]
    assert [(one["from"], one["to"]) for one in shown] == [("a", "a"), ("b", "b")]
    assert "to itself" in shown[0]["reason"] and shown[0]["until"] > time.time()
    page = broker.command("status").stdout
    assert "PAUSED:   a → a until" in page and "wakebus resume b b" in page
    assert len(peer.ask("resume")["resumed"]) == 2
    assert peer.ask("status")["paused"] == []


def test_a_client_knows_the_error() -> None:
    """PROTOCOL-3.2: it is a kind of Refused."""
    assert issubclass(errors.Loop, errors.Refused) and not errors.Loop.retry


def test_a_turn_retries_nothing_into_a_loop(peer: Peer, pair: tuple[str, str]) -> None:
    """PROTOCOL-10.8: while a pair is paused, of both its ends; a person may."""
    a, b = pair
    id = peer.send(b, sender="ci")["id"]
    peer.ask("cancel", id=id)
    filled(peer, a, b, 10)
    loop(peer, b, a)
    kept = peer.ask("retry", ids=[id], token="t" * 20, force=True)["kept"]
    assert kept[0]["id"] == id and "a loop that is paused" in kept[0]["why"]
    assert peer.ask("retry", ids=[id])["retried"] == [id]


def test_the_next_step_is_not_cut_off(peer: Peer, name: str) -> None:
    """PROTOCOL-4.15: it is among the first 200 characters, which is what a reason keeps."""
    ends = (f"{name}-{'a' * 50}"[:50], f"{name}-{'b' * 50}"[:50])
    for end in ends:
        peer.ask("declare", name=end)
    filled(peer, *ends, 10)
    assert f"wakebus resume {ends[0]} {ends[1]};" in loop(peer, ends[1], ends[0]).text[:200]
