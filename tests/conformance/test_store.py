"""PROTOCOL.md section 8: what survives, against real brokers that are killed."""

import sqlite3
import stat
import time

import pytest

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import MakePeer, Peer, posting


def test_what_has_a_receipt_survives(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.1, PROTOCOL-8.2, PROTOCOL-1.6: SIGKILL in mid-load; order kept, nothing twice."""
    sender = peers(broker)
    numbers = {sender.request("send", posting("e", str(n), queue=True)): n for n in range(120)}
    receipts = [n for number, n in numbers.items() if n < 60 and sender.answer(number)]
    broker.kill()
    sender.close()
    broker.start()
    peer = peers(broker)
    count = peer.ask("status")["messages"]
    peer.register("e")
    seen = [int(text) for text in peer.finish(count)]
    assert seen == list(range(count)) and set(receipts) <= set(seen)


def test_the_store_is_private(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.1: nobody else reads what agents say to each other."""
    peers(broker).send("e", queue=True)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) & 0o077 for p in broker.folder.iterdir()}
    assert {name: mode for name, mode in modes.items() if mode} == {}
    assert {"bus.db", "bus.db-wal", "address.json", "broker.lock"} <= modes.keys()


def test_what_is_kept_over_a_restart(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.2: names, epoch, states, labels, order, tokens and declarations."""
    peer = peers(broker, "a" * 16)
    peer.register("e")
    peer.ask("declare", name="declared")
    for text in ("1", "2"):
        peer.send("e", text, sender="e")
    delivery = peer.take()
    peer.say("started", delivery, token="t" * 20, hops=1, path=["human"])
    broker.restart()
    again = peers(broker, "a" * 16)
    again.hello()
    held = [{"id": delivery["message"]["id"]}]
    assert again.ask("register", name="e", holding=held)["epoch"] == 1
    assert again.silence() == [], "it is in hand, and its lane waits"
    sub = again.send("declared", "sub", token="t" * 20)
    (traced,) = [m for m in again.ask("trace", id=sub["id"])["messages"] if m["id"] == sub["id"]]
    assert (traced["from"], traced["cause"]) == ("e", delivery["message"]["id"])
    again.say("handled", delivery)
    assert again.finish() == ["2"]


def test_a_death_that_nobody_saw(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.2, PROTOCOL-6.8: another instance gets it with its labels."""
    peer = peers(broker)
    peer.register("e")
    peer.send("e", "work", sender="e")
    peer.say("started", peer.take())
    broker.restart()
    other = peers(broker)
    other.hello()
    other.ask("register", name="e", takeover=True)
    again = other.take()
    assert (again["redelivered"], again["started"], again["attempt"]) == (True, True, 1)


def test_attempts_are_kept(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.2: a poison does not get five more by killing the broker too."""
    peer = peers(broker)
    peer.send("e", "work", queue=True)
    broker.stop()
    with sqlite3.connect(broker.folder / "bus.db") as db:
        db.execute("UPDATE message SET deaths=3, redelivered=1")
    db.close()
    broker.start()
    other = peers(broker)
    other.register("e")
    delivery = other.take()
    assert (delivery["attempt"], delivery["redelivered"]) == (4, True)


def test_what_merely_came_back_is_not_quarantined(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.9, PROTOCOL-8.2: after a restart too, only a death makes messages go singly."""
    first, sender = peers(broker), peers(broker)
    first.register("e")
    for lane in "abc":
        sender.send("e", session=lane)
        first.take()
    first.ask("unregister", name="e")
    broker.restart()
    second = peers(broker)
    second.register("e")
    assert [second.take()["redelivered"] for _ in "abc"] == [True] * 3


def test_messages_of_a_name_without_a_record(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.2, PROTOCOL-4.9: they wait for whoever comes."""
    peers(broker).send("nobody-yet", "hi", queue=True)
    broker.restart()
    peer = peers(broker)
    assert peer.send("nobody-yet", "again")["state"] == "queued"
    peer.register("nobody-yet")
    assert peer.finish(2) == ["hi", "again"]


def test_a_disk_that_is_full(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.3: sends are `unavailable`; an ack is kept and stored when there is room."""
    peer = peers(broker)
    peer.register("e")
    id = peer.send("e", "work", sender="e")["id"]
    delivery = peer.take()
    # Another process that holds the write lock is, for SQLite, a disk that takes nothing.
    lock = sqlite3.connect(broker.folder / "bus.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    ack = peer.request("handled", {"to": "e", "id": id, "epoch": 1})
    error = peer.error("send", **posting("e", "no", sender="e"))
    assert (error.code, error.retry) == ("unavailable", True)
    peer.ask("beat")
    lock.execute("ROLLBACK")
    lock.close()
    assert peer.answer(ack) == {"id": id}
    assert peer.send("e", "yes", sender="e")["state"] == "queued"
    assert delivery["message"]["id"] == id
    assert peer.take()["message"]["body"]["text"] == "yes"


def test_an_ack_that_waits_for_the_disk_survives_its_holder(
    broker: Broker, peers: MakePeer
) -> None:
    """PROTOCOL-8.3: the next holder does not get what has been handled."""
    first, second = peers(broker), peers(broker)
    first.register("e")
    for n in range(2):
        first.send("e", str(n), sender="e", session=str(n))
    one, two = first.take(), first.take()
    second.hello()
    lock = sqlite3.connect(broker.folder / "bus.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    first.request("handled", {"to": "e", "id": one["message"]["id"], "epoch": 1})
    first.ask("beat")  # the broker has read the ack: two connections keep no common order
    claim = second.request("register", {"name": "e", "takeover": True})
    first.next("fenced")
    lock.execute("ROLLBACK")
    lock.close()
    try:
        second.answer(claim)
    except Exception:  # the grant met the full disk: it is asked for again
        second.ask("register", name="e", takeover=True)
    again = second.take()
    assert again["message"]["id"] == two["message"]["id"]
    second.say("handled", again)
    assert second.silence() == []


def test_a_damaged_store(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.4: set aside, and said in log and status; the broker starts empty."""
    peers(broker).send("e", queue=True)
    broker.stop()
    (broker.folder / "bus.db").write_bytes(b"this was a database" * 500)
    assert broker.start().word == "ready"
    status = peers(broker).ask("status")
    (name,) = status["set_aside"]
    assert name.startswith("bus.db.corrupt-") and (broker.folder / name).exists()
    assert status["messages"] == 0 and name in broker.log
    assert name in broker.command("status").stdout


def test_a_store_that_breaks_while_it_runs(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.4: the broker ends at once, and sets the file aside at the next start."""
    peer = peers(broker)
    for n in range(50):
        peer.send("e", "x" * 20_000, queue=True, session=str(n))
    broker.stop()
    file = broker.folder / "bus.db"
    pages = [file.read_bytes()[at : at + 4096] for at in range(0, file.stat().st_size, 4096)]
    # Only pages that hold nothing but a body: what the start reads is in order.
    file.write_bytes(b"".join(b"\xa5" * 4096 if p.count(b"x") > 4000 else p for p in pages))
    assert broker.start().word == "ready" and not peers(broker).ask("status")["set_aside"]
    reader = peers(broker)
    reader.hello()
    reader.request("register", {"name": "e"})
    until(lambda: not broker.alive)
    assert broker.process is not None and broker.process.returncode == 70
    assert "damaged" in broker.log
    broker.start()
    assert broker.word == "ready" and peers(broker).ask("status")["set_aside"]


def test_a_newer_store(broker: Broker) -> None:
    """PROTOCOL-8.5: the start stops and says why; the file is as it was."""
    broker.stop()
    db = sqlite3.connect(broker.folder / "bus.db")
    db.execute("PRAGMA user_version=9")
    db.close()
    before = (broker.folder / "bus.db").read_bytes()
    assert "newer wakebus" in broker.start().word
    result = broker.command("start")
    assert result.returncode == 1 and "newer wakebus" in result.stderr
    assert (broker.folder / "bus.db").read_bytes() == before


@pytest.mark.parametrize("days", [0.0000001])
def test_what_has_ended_is_deleted(make_broker: MakeBroker, peers: MakePeer, days: float) -> None:
    """PROTOCOL-8.6: after the retention time; what is open stays."""
    broker = make_broker(retention_days=days)
    peer = peers(broker)
    peer.register("e")
    ids = [peer.send("e", str(n), sender="e")["id"] for n in range(2)]
    peer.finish()
    broker.restart()  # housekeeping is done at once, then every 30 s
    reader = peers(broker)
    until(lambda: gone(reader, ids[0]))
    assert not gone(reader, ids[1])


def gone(peer: Peer, id: str) -> bool:
    """Whether a message is stored no more."""
    number = peer.request("trace", {"id": id})
    while number not in peer._answers:
        peer._read(time.monotonic() + 15)
    word, payload = peer._answers.pop(number)
    return word == "err" and payload["code"] == "unknown_id"
