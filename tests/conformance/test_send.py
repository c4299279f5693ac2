"""PROTOCOL.md section 4: sending, against a real broker."""

import secrets
from typing import Any

import pytest

from fakes.broker import Broker, MakeBroker
from fakes.peer import MakePeer, Peer, posting
from wakebus.broker import errors
from wakebus.broker.protocol import wire


@pytest.fixture
def target(peer: Peer, name: str) -> str:
    """An endpoint that is known and away."""
    peer.ask("declare", name=name)
    return name


def test_a_receipt(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.1: with what is known of the target at this moment."""
    other.register(name)
    first = peer.send(name, "one", id=f"{name}-1")
    assert first == {"id": f"{name}-1", "state": "queued", "to": name, "live": True, "ahead": 0}
    assert peer.send(name, "two")["ahead"] == 1


def test_the_message_arrives_unchanged(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.2, PROTOCOL-4.4: every field, own fields of the body, odd text."""
    other.register(name)
    body = {"type": "directive", "channel": "feishu:oc_1", "x": [1, 2.5, None, {"ü": 2**60}]}
    text = "{type} $(rm -rf) \x1b[31m \u202e 漢字 \U0001f600 \\ud800 \"'\n"
    fields: dict[str, Any] = {"session": "s 1", "wake": "next_turn", "reply_to": "r1", "hops": 2}
    fields |= {
        "cause": "c1",
        "path": ["a", "b"],
        "ttl_s": 60.5,
        "key": "k",
        "id": secrets.token_hex(5),
    }
    peer.send(name, text, body=body, **fields)
    message = other.take()["message"]
    assert message.pop("body") == {"text": text, **body}
    assert message == {**fields, "ts": 1764288000.5, "from": "tester", "to": name}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"id": "a b"}, "bad_message"),
        ({"ts": "now"}, "bad_message"),
        ({"from": "a.b"}, "bad_name"),
        ({"to": "a b"}, "bad_name"),
        ({"to": ""}, "bad_name"),
        ({"body": "text"}, "bad_message"),
        ({"body": {"type": ""}}, "bad_message"),
        ({"body": {"text": "a\0b"}}, "bad_message"),
        ({"body": {"text": "x" * wire.MAX_BODY}}, "too_big"),
        ({"session": "x" * 257}, "too_big"),
        ({"wake": "loud"}, "bad_message"),
        ({"priority": 1}, "bad_message"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_bad_message_is_refused_by_field(
    peer: Peer, target: str, change: dict[str, Any], code: str
) -> None:
    """PROTOCOL-4.2, PROTOCOL-4.3, PROTOCOL-4.4: the broker checks what a client did not."""
    payload = posting(target)
    payload["message"] |= change
    error = peer.error("send", **payload)
    assert error.code == code
    assert next(iter(change)) in error.text
    assert [e["queued"] for e in peer.ask("list")["endpoints"] if e["name"] == target] == [0]


def test_a_body_that_is_nested_too_deeply(peer: Peer, target: str) -> None:
    """PROTOCOL-4.4: refused at 33 levels; 32 survive a resend, which compares them."""
    value: Any = 1
    for _ in range(31):
        value = [value]
    payload = posting(target, body={"v": value})
    assert peer.ask("send", **payload)["state"] == "queued"
    assert peer.ask("send", **payload)["duplicate"] is True
    assert peer.error("send", **posting(target, body={"v": [value]})).code == "bad_message"


def test_the_same_id_again(peer: Peer, other: Peer, target: str) -> None:
    """PROTOCOL-4.5: the receipt as it stands; nothing is stored, stamps do not matter."""
    payload = posting(target, "once")
    assert "duplicate" not in peer.ask("send", **payload)
    payload["message"] |= {"ts": 5.0, "hops": 3, "path": ["x"], "ttl_s": 9}
    assert peer.ask("send", **payload)["duplicate"] is True
    other.register(target)
    assert other.finish() == ["once"]
    again = peer.ask("send", **payload)
    assert (again["state"], again["duplicate"]) == ("handled", True)


@pytest.mark.parametrize(
    "change", [{"body": {"text": "else"}}, {"from": "another"}, {"session": "s"}]
)
def test_the_same_id_with_other_content(peer: Peer, target: str, change: dict[str, Any]) -> None:
    """PROTOCOL-4.6: `conflict`, and the first one stays."""
    payload = posting(target, "first")
    peer.ask("send", **payload)
    payload["message"] |= change
    assert isinstance(peer.error("send", **payload), errors.Conflict)


def test_the_same_key_again(peer: Peer, other: Peer, target: str) -> None:
    """PROTOCOL-4.7: the first one's receipt, with its id; another sender's key is another."""
    first = peer.send(target, "one", key="build-7")
    again = peer.send(target, "two", key="build-7")
    assert (again["id"], again["duplicate"]) == (first["id"], True)
    assert peer.send(target, "three", key="build-7", sender="another")["id"] != first["id"]
    other.register(target)
    assert other.finish(2) == ["one", "three"]


def test_a_key_of_a_claimed_sender(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.7: it swallows nothing that the true one sends, nor the other way."""
    other.register(name)
    forged = peer.send(name, "forged", sender=name, key="build-42")
    true = other.send(name, "true", sender=name, key="build-42")
    assert "duplicate" not in true and true["id"] != forged["id"]
    for one, id in ((peer, forged["id"]), (other, true["id"])):
        assert one.send(name, "again", sender=name, key="build-42")["id"] == id


def test_a_known_target_that_is_away(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.8: queued, and delivered when it comes."""
    other.register(name)
    other.ask("unregister", name=name)
    assert peer.send(name, "later")["live"] is False
    other.register(name)
    assert other.finish() == ["later"]


def test_an_unknown_target_has_near_names(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.8: refused, with names that are known and look like it."""
    other.register(f"worker-{name}-alpha")
    error = peer.error("send", **posting(f"worker-{name}-alhpa"))
    assert isinstance(error, errors.UnknownTarget)
    assert error.data["near"] == [f"worker-{name}-alpha"] and "did you mean" in error.text
    # A refused name has not become known, nor near.
    assert peer.error("send", **posting(f"worker-{name}-alhpb")).data["near"] == error.data["near"]
    assert peer.error("send", **posting("qqqqqqqqqqqqqqq")).data["near"] == []


def test_queueing_for_whoever_comes(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.9: stored for a name that nobody had; known while something waits."""
    assert peer.send(name, "one", queue=True)["state"] == "queued"
    assert peer.send(name, "two")["state"] == "queued"
    other.register(name)
    assert other.finish(2) == ["one", "two"]


@pytest.mark.parametrize("queue", [1, "true", None, []])
def test_only_true_queues(peer: Peer, name: str, queue: Any) -> None:
    """PROTOCOL-4.9: nothing else is taken for it."""
    assert peer.error("send", **posting(name, queue=queue)).code == "unknown_target"


def test_a_full_mailbox(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-4.10: by number; a resend of what is stored still has its receipt (4.5)."""
    broker = make_broker(mailbox_messages=3)
    sender, receiver = peers(broker), peers(broker)
    first = posting("box", "0", queue=True)
    sender.ask("send", **first)
    for n in (1, 2):
        sender.send("box", str(n))
    error = sender.error("send", **posting("box", "3"))
    assert isinstance(error, errors.MailboxFull) and error.retry
    assert sender.ask("send", **first)["duplicate"] is True
    receiver.register("box")
    assert receiver.finish(3) == ["0", "1", "2"]
    assert sender.send("box", "4")["state"] == "queued"


def test_a_full_mailbox_by_bytes(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-4.10: what is on its way to the disk counts too."""
    broker = make_broker(mailbox_bytes=50_000)
    sender = peers(broker)
    numbers = [sender.request("send", posting("box", "x" * 9_000, queue=True)) for _ in range(10)]
    codes = []
    for number in numbers:
        try:
            codes.append(sender.answer(number)["state"])
        except errors.MailboxFull as exc:
            codes.append(exc.code)
    assert codes == ["queued"] * 5 + ["mailbox_full"] * 5


def test_an_unregistered_sender_is_claimed(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.11: any name, shown as such to the receiver and in the trace."""
    other.register(name)
    receipt = peer.send(name, sender="somebody")
    delivery = other.take()
    assert (delivery["message"]["from"], delivery["claimed"]) == ("somebody", True)
    (traced,) = peer.ask("trace", id=receipt["id"])["messages"]
    assert traced["claimed"] is True


def test_a_registered_sender_is_itself_and_nothing_else(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.11: not claimed; another name is refused."""
    other.register(name)
    peer.register(f"{name}-s")
    peer.send(name, sender=f"{name}-s")
    assert other.take()["claimed"] is False
    error = peer.error("send", **posting(name, sender="somebody"))
    assert error.code == "not_registered" and f"{name}-s" in error.text
    peer.ask("unregister", name=f"{name}-s")
    peer.send(name, sender="somebody", session="s")
    assert other.take()["claimed"] is True


def test_two_names_on_one_connection(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.11, PROTOCOL-5.1: a second hello takes no name away."""
    other.register(name)
    for one in ("a", "b"):
        peer.register(f"{name}-{one}")
    for one in ("a", "b"):
        peer.send(name, sender=f"{name}-{one}")
        assert other.take()["claimed"] is False


def test_a_token_proves_the_sender(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.12: sender, cause, hops and path come from the turn, whatever is claimed."""
    other.register(name)
    receiver_message = peer.send(name, "work")["id"]
    delivery = other.take()
    other.say("started", delivery, token=f"{name}-its-turn", hops=4, path=["human"])
    peer.send(name, "sub", sender="liar", cause="c", hops=0, path=["p"], token=f"{name}-its-turn")
    sub = other.take()
    assert sub["claimed"] is False
    message = sub["message"]
    assert (message["from"], message["cause"]) == (name, receiver_message)
    assert (message["hops"], message["path"]) == (5, ["human", name])


@pytest.mark.parametrize("end", ["handled", "refused", "later", "unregister"])
def test_a_token_ends_with_its_delivery(peer: Peer, other: Peer, name: str, end: str) -> None:
    """PROTOCOL-4.12: afterwards `bad_token`."""
    other.register(name)
    peer.send(name, "work")
    delivery = other.take()
    other.say("started", delivery, token=f"{name}-token-1")
    assert peer.send(name, token=f"{name}-token-1")["state"] == "queued"
    if end == "unregister":
        other.ask("unregister", name=name)
    else:
        other.say(end, delivery, **({"after_s": 60} if end == "later" else {}))
    assert peer.error("send", **posting(name, token=f"{name}-token-1")).code == "bad_token"


@pytest.mark.parametrize("token", ["never-was-a-token", "", 5, [], True])
def test_a_token_that_never_was(peer: Peer, target: str, token: Any) -> None:
    """PROTOCOL-4.12: of any kind."""
    assert peer.error("send", **posting(target, token=token)).code == "bad_token"


def test_a_new_token_replaces_the_old_one(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.12: one turn, one token."""
    other.register(name)
    peer.send(name, "work")
    delivery = other.take()
    for number in (1, 2):
        other.say("started", delivery, token=f"{name}-token-{number}")
    assert peer.error("send", **posting(name, token=f"{name}-token-1")).code == "bad_token"
    assert peer.send(name, token=f"{name}-token-2")


def test_a_token_of_another_turn(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.4: it is refused, and stays its turn's."""
    other.register(name)
    peer.register(f"{name}-b")
    deliveries = []
    for session in ("s1", "s2"):
        other.send(name, sender=name, session=session)
        deliveries.append(other.take())
    other.send(f"{name}-b", sender=name)
    other.say("started", deliveries[0], token=f"{name}-token")
    other.say("started", deliveries[0], token=f"{name}-token")  # resent
    for peer_, delivery in ((other, deliveries[1]), (peer, peer.take())):
        with pytest.raises(errors.BadToken):
            peer_.say("started", delivery, token=f"{name}-token")
        peer_.say("handled", delivery)
    sent = other.send(f"{name}-b", token=f"{name}-token")
    assert peer.take()["message"]["from"] == name and sent["state"] == "queued"


def test_a_token_is_not_stored_in_clear(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.4: only its digest."""
    peer = peers(broker)
    peer.register("e")
    peer.send("e", sender="e")
    peer.say("started", peer.take(), token="a-very-secret-token")
    files = b"".join(p.read_bytes() for p in broker.folder.iterdir() if p.is_file())
    assert b"a-very-secret-token" not in files


def test_the_receiver_learns_that_the_sender_waits(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.13, PROTOCOL-6.2: `asks`, and whether the sender is an endpoint."""
    other.register(name)
    peer.send(name, asks=True)
    delivery = other.take()
    assert (delivery["asks"], delivery["sender_known"]) == (True, False)
    peer.send(name, sender=name)
    delivery = other.take()
    assert (delivery["asks"], delivery["sender_known"]) == (False, True)
