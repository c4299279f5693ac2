"""PROTOCOL.md sections 6 and 10: what is cancelled in its holder's hands, against real brokers."""

from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.peer import Answer, MakePeer, Peer, traced


def in_hand(peer: Peer, holder: Peer, name: str, *words: str, **hello: Any) -> tuple[str, Answer]:
    """Send `name` a message that its holder has; return its id and delivery."""
    holder.hello(**hello)
    holder.ask("register", name=name)
    id = peer.send(name)["id"]
    delivery = holder.take()
    for word in words:
        holder.say(word, delivery)
    return id, delivery


@pytest.mark.parametrize("words", [(), ("got",), ("got", "started")])
def test_its_holder_is_told(peer: Peer, other: Peer, name: str, words: tuple[str, ...]) -> None:
    """PROTOCOL-6.14, PROTOCOL-10.11: at once; it is dead when the holder says that it has ended."""
    id, delivery = in_hand(peer, other, name, *words, cancel=True)
    waiting = peer.request("wait", {"id": id, "state": "handled", "timeout": 60})
    assert peer.ask("cancel", id=id, by="ci") == {
        "id": id,
        "state": "delivered",
        "reason": "cancelled by ci",
        "to": name,
        "told": True,
    }
    told = {"to": name, "id": id, "epoch": delivery["epoch"], "reason": "cancelled by ci"}
    assert other.next("cancel") == told
    assert traced(peer, id)["state"] in ("queued", "delivered")
    other.say("refused", delivery, reason="ended", outcome={"turn": "half"})
    receipt = peer.answer(waiting)
    assert (receipt["state"], receipt["reason"]) == ("dead", "cancelled by ci")
    assert receipt["outcome"] == {"turn": "half"}
    assert [(s["what"], s.get("by")) for s in traced(peer, id)["steps"][-2:]] == [
        ("cancelled", "ci"),
        ("dead", name),
    ]


@pytest.mark.parametrize("word", ["handled", "refused", "later"])
def test_a_holder_that_does_not_know_it(peer: Peer, other: Peer, name: str, word: str) -> None:
    """PROTOCOL-6.14: it is not told, runs on, and whatever it says then is the message's death."""
    id, delivery = in_hand(peer, other, name, "got", "started")
    assert peer.ask("cancel", id=id)["told"] is False
    assert "cancel" not in other.silence()
    more = {"after_s": 60} if word == "later" else {"outcome": {"n": 1}}
    other.say(word, delivery, **more)
    found = traced(peer, id)
    assert (found["state"], "cancelled by" in found["reason"]) == ("dead", True)
    assert peer.error("cancel", id=id).code == "refused"
    peer.send(name, "next")
    assert other.take()["message"]["body"]["text"] == "next"


def test_twice_and_by_two(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.11: the first one's name counts; each is told how far it is."""
    id, delivery = in_hand(peer, other, name, cancel=True)
    for by in ("one", "two"):
        assert peer.ask("cancel", id=id, by=by)["reason"] == "cancelled by one"
    other.say("later", delivery, after_s=0)
    assert traced(peer, id)["reason"] == "cancelled by one"


@pytest.mark.parametrize("how", ["leaves", "says nothing of it", "lost"])
def test_it_comes_to_nobody_else(peer: Peer, other: Peer, name: str, how: str) -> None:
    """PROTOCOL-6.14: its holder goes, or knows nothing of it: dead, not delivered again."""
    id, _ = in_hand(peer, other, name, "got", cancel=True)
    peer.ask("cancel", id=id, by="ci")
    if how == "leaves":
        other.ask("unregister", name=name)
    elif how == "lost":
        peer.register(name, takeover=True)
    else:
        other.ask("register", name=name, holding=[])
    until(lambda: traced(peer, id)["state"] == "dead")
    assert traced(peer, id)["reason"] == "cancelled by ci"
    peer.register(name, takeover=True)
    peer.send(name, "next", sender=name)
    assert peer.take()["message"]["body"]["text"] == "next"


def test_a_holder_that_comes_back_is_told_again(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.14: with what it holds."""
    id, delivery = in_hand(peer, other, name, "got", cancel=True)
    peer.ask("cancel", id=id, by="ci")
    for _ in range(2):
        assert other.next("cancel")["id"] == id
        other.ask("register", name=name, holding=[{"id": id}])
    other.say("handled", delivery)
    assert traced(peer, id)["state"] == "dead"


def test_who_is_told(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.14, PROTOCOL-6.11: its sender, unless that took it back itself."""
    asker, worker = peers(broker), peers(broker)
    asker.register("asker")
    worker.hello(cancel=True)
    worker.ask("register", name="worker")
    for by in ("asker", "boss"):
        id = asker.send("worker", sender="asker")["id"]
        delivery = worker.take()
        asker.ask("cancel", id=id, by=by)
        worker.say("refused", delivery)
    notice = asker.take()["message"]
    assert notice["body"]["about"]["reason"] == "cancelled by boss"


def test_a_new_broker_remembers_what_its_holder_was_told(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.14: who comes back is told again, and whatever it says is the death of it."""
    worker = peers(broker)
    id, _ = in_hand(peers(broker), worker, "worker", "got", cancel=True)
    worker.ask("cancel", id=id, by="ci")
    assert worker.next("cancel")["reason"] == "cancelled by ci"
    broker.restart()
    again = peers(broker, worker.instance)
    again.hello(cancel=True)
    epoch = again.ask("register", name="worker", holding=[{"id": id}])["epoch"]
    assert again.next("cancel")["reason"] == "cancelled by ci"
    again.ask("handled", to="worker", id=id, epoch=epoch)
    found = traced(again, id)
    assert (found["state"], found["reason"]) == ("dead", "cancelled by ci")


@pytest.mark.parametrize("words", [(), ("got", "started")])
def test_what_was_cancelled_is_not_begun_after_a_restart(
    broker: Broker, peers: MakePeer, words: tuple[str, ...]
) -> None:
    """PROTOCOL-6.14: its holder is gone with the broker; the next one does not get it."""
    peer = peers(broker)
    id, _ = in_hand(peer, peers(broker), "worker", *words)
    peer.ask("cancel", id=id, by="ci")
    broker.restart()
    successor = peers(broker)
    successor.hello()
    successor.ask("register", name="worker", takeover=True)
    until(lambda: traced(successor, id)["state"] == "dead")
    assert traced(successor, id)["reason"] == "cancelled by ci"
    successor.send("worker", "next", sender="worker")
    assert successor.take()["message"]["body"]["text"] == "next"
