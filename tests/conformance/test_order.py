"""PROTOCOL.md section 7: order, lanes and windows, against a real broker."""

from fakes.broker import MakeBroker
from fakes.peer import MakePeer, Peer


def texts(peer: Peer, count: int) -> list[str]:
    """Take `count` deliveries without ending them; return their texts."""
    return [peer.take()["message"]["body"]["text"] for _ in range(count)]


def test_a_lane_keeps_its_order(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-7.1: the order of the receipts, whatever came between."""
    for n in range(30):
        peer.send(name, str(n), queue=True)
    other.register(name)
    assert other.finish(30) == [str(n) for n in range(30)]


def test_one_of_a_lane_at_a_time(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-7.1: the next one after the end of the one before; other lanes go on."""
    other.register(name)
    for text, fields in (
        ("s1", {"session": "s"}),
        ("s2", {"session": "s", "body": {"channel": "c:2"}}),
        ("c1", {"body": {"channel": "c:1"}}),
        ("c2", {"body": {"channel": "c:1"}}),
        ("n1", {}),
        ("n2", {}),
        ("x1", {"sender": "another"}),
    ):
        peer.send(name, text, **fields)
    assert texts(other, 4) == ["s1", "c1", "n1", "x1"]
    assert other.silence() == []


def test_lanes_take_turns(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-7.2: one message of another chat does not wait for two hundred."""
    broker = make_broker(window_lanes=1)
    peer = peers(broker)
    for n in range(200):
        peer.send("e", str(n), queue=True, session="busy")
    peer.send("e", "other", session="quiet")
    peer.register("e")
    assert "other" in peer.finish(2)


def test_the_window(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-7.3: lanes beyond it wait until one ends."""
    broker = make_broker(window_lanes=3)
    peer = peers(broker)
    for n in range(5):
        peer.send("e", str(n), queue=True, session=str(n))
    peer.register("e")
    first = peer.take()
    assert texts(peer, 2) == ["1", "2"]
    assert peer.silence() == []
    (row,) = peer.ask("list")["endpoints"]
    assert (row["in_hand"], row["queued"]) == (3, 2)
    peer.say("handled", first)
    assert texts(peer, 1) == ["3"]


def test_later_makes_room(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-7.3, PROTOCOL-6.7: what was given back needs no place in the window."""
    broker = make_broker(window_lanes=1)
    peer = peers(broker)
    for n in range(2):
        peer.send("e", str(n), queue=True, session=str(n))
    peer.register("e")
    peer.say("later", peer.take(), after_s=60)
    assert texts(peer, 1) == ["1"]


def test_the_window_in_bytes(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-7.3: large messages fill it before the lanes do."""
    broker = make_broker(window_bytes=100_000)
    peer = peers(broker)
    for n in range(4):
        peer.send("e", str(n) + "x" * 40_000, queue=True, session=str(n))
    peer.register("e")
    first = peer.take()
    assert texts(peer, 1)[0].startswith("1")
    assert peer.silence() == []
    peer.say("handled", first)
    assert texts(peer, 1)[0].startswith("2")


def test_more(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-7.4: each `got` with `more` brings the next one of the lane."""
    other.register(name)
    for n in range(4):
        peer.send(name, str(n))
    first = other.take()
    other.say("got", first, more=True)
    second = other.take()
    other.say("got", second)
    assert other.silence() == []
    other.say("got", second, more=True)
    assert texts(other, 1) == ["2"]
    other.say("handled", first)
    other.say("handled", second)
    assert other.silence() == []


def test_a_message_that_comes_while_its_lane_is_busy(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-7.1: it waits on disk and comes with its body."""
    other.register(name)
    peer.send(name, "first")
    delivery = other.take()
    peer.send(name, "x" * 100_000)
    other.say("handled", delivery)
    assert texts(other, 1) == ["x" * 100_000]
