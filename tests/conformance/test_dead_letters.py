"""PROTOCOL.md: dead letters, inboxes, bounces, and the store's bounds, against real brokers."""

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import MakePeer, Peer, posting, reference, traced
from wakebus.broker.errors import BrokerUnavailable, WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.broker.store import schema

OLD = Path(__file__).with_name("store-version-1.sql")


def letters(peer: Peer, **asked: Any) -> list[dict[str, Any]]:
    """Return the dead letters of one page."""
    found: list[dict[str, Any]] = peer.ask("dead", **asked)["letters"]
    return found


def either(peer: Peer, verb: str, payload: dict[str, Any]) -> Any:
    """Return the answer, or the error."""
    try:
        return peer.ask(verb, **payload)
    except WakebusError as exc:
        return exc


def refuse(peer: Peer, **fields: Any) -> dict[str, Any]:
    """Take a delivery and refuse it; return it."""
    delivery = peer.take()
    peer.say("refused", delivery, **{"reason": "not mine", **fields})
    return delivery


def box(peer: Peer, name: str, **fields: Any) -> list[dict[str, Any]]:
    """Return the first page of a box."""
    found: list[dict[str, Any]] = peer.ask("inbox", name=name, **fields)["messages"]
    return found


# --- the bus's own name ---------------------------------------------------------------------


def test_the_name_bus_is_the_brokers(peer: Peer, name: str) -> None:
    """PROTOCOL-5.12: not registered, declared, sent as or sent to; what looks like it is free."""
    peer.ask("declare", name=name)
    peer.hello()
    for verb, payload in (
        ("register", {"name": "bus"}),
        ("declare", {"name": "bus"}),
        ("send", posting(name, sender="bus")),
        ("send", posting("bus", queue=True)),
    ):
        error = peer.error(verb, **payload)
        assert error.code == "bad_name" and "broker itself" in error.text
    assert peer.send(name, sender="Bus")["state"] == "queued"


# --- dead letters ---------------------------------------------------------------------------


def test_dead_letters_are_listed(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.7: refused, cancelled; newest first, by pages, without bodies."""
    other.register(name)
    first = peer.send(name, "secret", body={"type": "t"})["id"]
    refuse(other, reason="x" * 900, outcome={"channel": {"result": "uncertain"}})
    other.ask("unregister", name=name)
    second = peer.send(name)["id"]
    peer.ask("cancel", id=second, by="ci")
    found = letters(peer, to=name)
    assert [row["id"] for row in found] == [second, first]
    assert "secret" not in json.dumps(found)
    one = found[1]
    assert (one["from"], one["to"], one["type"], one["claimed"]) == ("tester", name, "t", True)
    assert one["reason"] == "x" * 300 and one["in_doubt"] is True and one["retried"] == 0
    assert one["accepted"] <= one["ended"] <= peer.ask("dead", limit=1)["now"]
    assert letters(peer, to=name, **{"from": "nobody"}) == []
    page = peer.ask("dead", to=name, oldest=True, limit=1)
    assert [row["id"] for row in page["letters"]] == [first]
    rest = letters(peer, to=name, oldest=True, after=page["next"])
    assert [row["id"] for row in rest] == [second]


def test_a_retry(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.8, PROTOCOL-6.2: last of its lane, same id, marked; over a restart too."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    cause = peer.send("e", "cause")["id"]
    holder.finish()
    first = peer.send("e", "first", cause=cause, key="k")["id"]
    refuse(holder)
    holder.ask("unregister", name="e")
    peer.send("e", "second")
    answer = peer.ask("retry", ids=[first, first, "never"], by="ci")
    assert answer["retried"] == [first] and answer["left"] == []
    assert [(one["id"], one["state"]) for one in answer["kept"]] == [("never", "unknown")]
    assert letters(peer) == []
    broker.restart()
    peer, holder = peers(broker), peers(broker)
    assert [row["text"] for row in box(peer, "e")] == ["second", "first"]
    holder.register("e")
    assert holder.finish() == ["second"]
    delivery = holder.take()
    message = delivery["message"]
    assert (message["id"], message["cause"], message["body"]["text"]) == (first, cause, "first")
    assert (delivery["retried"], delivery["attempt"]) == (1, 1)
    assert (delivery["redelivered"], delivery["started"]) == (True, False)
    holder.say("handled", delivery)
    said = traced(peer, first)
    assert said["state"] == "handled" and "reason" not in said
    steps = [step["what"] for step in said["steps"]]
    assert steps == ["accepted", "queued", "refused", "retried", "handled"]
    assert said["steps"][3]["by"] == "ci"
    assert peer.ask("retry", ids=[first])["kept"][0]["why"] == "it is handled, not a dead letter"


def test_what_may_have_been_done_needs_force(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.8: work that had begun, unless a channel says that it took nothing."""
    other.register(name)
    ids = {}
    for word in ("begun", "rejected", "uncertain"):
        ids[word] = peer.send(name, word)["id"]
        delivery = other.take()
        other.say("started", delivery)
        outcome = {} if word == "begun" else {"outcome": {"channel": {"result": word}}}
        other.say("refused", delivery, **outcome)
    answer = peer.ask("retry", ids=[*ids.values()])
    assert answer["retried"] == [ids["rejected"]]
    assert [one["id"] for one in answer["kept"]] == [ids["begun"], ids["uncertain"]]
    assert all("--force" in one["why"] for one in answer["kept"])
    assert other.take()["started"] is False
    assert peer.ask("retry", ids=[ids["begun"]], force=True)["retried"] == [ids["begun"]]
    other.ask("unregister", name=name)
    other.register(name)
    taken = {d["message"]["id"]: d["started"] for d in (other.take() for _ in range(1))}
    assert taken in ({ids["rejected"]: False}, {ids["begun"]: True})


def test_a_wait_for_what_is_retried(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.8, PROTOCOL-9.1: waits again, as for a new one."""
    other.register(name)
    id = peer.send(name)["id"]
    refuse(other)
    assert peer.ask("wait", id=id, state="handled", timeout=30)["state"] == "dead"
    peer.ask("retry", ids=[id])
    waiting = peer.request("wait", {"id": id, "state": "handled", "timeout": 60})
    other.finish()
    assert peer.answer(waiting)["state"] == "handled"


def test_purging(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.9: body and steps are gone, dead or handled; what is open is kept."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    payload = posting("e", "needle-in-the-store")
    dead = peer.ask("send", **payload)["id"]
    refuse(holder)
    handled = peer.send("e")["id"]
    holder.finish()
    open_ = peer.send("e")["id"]
    answer = peer.ask("purge", ids=[dead, handled, open_, "never"])
    assert answer["purged"] == [dead, handled] and answer["left"] == []
    assert [one["id"] for one in answer["kept"]] == [open_, "never"]
    assert peer.error("read", id=dead).code == "unknown_id"
    assert peer.ask("send", **payload).get("duplicate") is None
    peer.ask("purge", ids=[dead])
    holder.finish(2)
    peer.ask("purge", ids=[dead])
    assert broker.stop() == 0
    assert b"needle-in-the-store" not in (broker.folder / "bus.db").read_bytes()


def test_what_is_purged_is_in_none_of_the_stores_files(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.9: when the answer comes, the broker running; of much the log holds nothing."""

    def holding() -> list[str]:
        files = [file for file in broker.folder.iterdir() if file.is_file()]
        return [file.name for file in files if b"needle-in-the-store" in file.read_bytes()]

    peer = peers(broker)
    ids = []
    for _ in range(100):
        ids.append(peer.send("e", "needle-in-the-store" * 10_000, queue=True)["id"])
        peer.ask("cancel", id=ids[-1])
    assert holding()
    left = ids
    while left:
        answer = peer.ask("purge", ids=left)
        assert (broker.folder / "bus.db-wal").stat().st_size == 0
        left = answer["left"]
    assert holding() == []
    kept = peer.send("e", "needle-in-the-store", queue=True)["id"]
    assert holding()
    peer.ask("cancel", id=kept)
    assert peer.ask("purge", ids=[kept])["purged"] == [kept] and holding() == []


# --- inboxes --------------------------------------------------------------------------------


def test_an_inbox(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.10: waiting, in hand, silent; nothing is taken; `all` shows what has ended."""
    other.register(name)
    silent = peer.send(name, "for the inbox\nand more")["id"]
    other.say("handled", other.take(), outcome={"rule": "r", "wake": "silent"})
    loud = peer.send(name, "loud")["id"]
    other.finish()
    held = peer.send(name, "in hand", body={"type": "t"})["id"]
    delivery = other.take()
    waiting = peer.send(name, "waiting")["id"]
    other.say("started", delivery)
    for _ in range(2):
        found = box(peer, name)
        assert [(row["id"], row["state"]) for row in found] == [
            (held, "started"),
            (waiting, "queued"),
            (silent, "handled"),
        ]
    assert found[0].items() >= {"from": "tester", "type": "t", "claimed": True}.items()
    assert [row["text"] for row in found] == ["in hand", "waiting", "for the inbox"]
    assert found[2]["silent"] is True and found[2]["ended"] > 1.7e9
    everything = box(peer, name, all=True)
    assert [row["id"] for row in everything] == [held, waiting, silent, loud]
    assert [row.get("silent") for row in everything] == [None, None, True, False]
    assert peer.ask("read", id=silent)["message"]["body"]["text"] == "for the inbox\nand more"
    error = peer.error("inbox", name=f"{name}x")
    assert error.data["near"][0] == name and "did you mean" in error.text


def test_cancelling(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.11: what waits is dead, and who waits for it is told; its lane goes on."""
    peer.ask("declare", name=name)
    one, two = (peer.send(name, text)["id"] for text in ("one", "two"))
    waiting = other.request("wait", {"id": one, "state": "handled", "timeout": 60})
    other.ask("list")
    found = peer.ask("cancel", id=one, by="ci")
    assert found == {"id": one, "state": "dead", "reason": "cancelled by ci"}
    assert other.answer(waiting)["reason"] == "cancelled by ci"
    step = traced(peer, one)["steps"][-1]
    assert (step["what"], step["by"], step["claimed"]) == ("dead", "ci", True)
    other.register(name)
    assert other.finish() == ["two"]
    for id, word in ((one, "dead"), (two, "handled")):
        error = peer.error("cancel", id=id)
        assert error.code == "refused" and f"{id} is {word} already" in error.text
    assert peer.error("cancel", id="never").code == "unknown_id"
    assert peer.error("cancel", id=5).code == "bad_message"


# --- notices --------------------------------------------------------------------------------


def test_a_sender_with_an_endpoint_is_told(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.11: refused, by whoever sent as it, proven or claimed; once; with the links."""
    asker = f"{name}-asker"
    peer.register(asker)
    other.register(name)
    body = {"type": "directive", "channel": "console:x"}
    id = peer.send(name, "do it", sender=asker, session="s", hops=2, body=body)["id"]
    refuse(other, reason="no\nsuch tool")
    delivery = peer.take()
    message = delivery["message"]
    assert (message["from"], message["to"], delivery["claimed"]) == ("bus", asker, False)
    assert (message["reply_to"], message["cause"], message["hops"]) == (id, id, 3)
    assert (message["body"]["type"], message["body"]["channel"]) == ("notice", "console:x")
    assert (message["session"], message["wake"]) == ("s", "next_turn")
    assert "is a dead letter: no such tool." in message["body"]["text"]
    assert f"wakebus dead retry {id}" in message["body"]["text"]
    assert message["body"]["about"]["to"] == name
    peer.say("refused", delivery)  # of a notice there is none
    assert peer.silence() == []
    assert [m["id"] for m in peer.ask("trace", id=id)["messages"]] == [id, message["id"]]
    assert messages.from_wire(message).type == "notice"


def test_whose_message_a_dead_text_for_a_chat_was_sent_for(
    shared_broker: Broker, peer: Peer, other: Peer, name: str, peers: MakePeer
) -> None:
    """PROTOCOL-6.12: whose note no chat has is told, whatever the endpoint itself does with it."""
    peer.register(f"{name}-asker")
    other.register(name)
    courier = peers(shared_broker)
    courier.register(f"{name}-courier")
    id = peer.send(name, sender=f"{name}-asker", body={"type": "note"})["id"]
    taken = other.take()
    body = {"type": "say", "channel": "telegram:1"}
    say = other.send(f"{name}-courier", sender=name, cause=id, body=body)["id"]
    other.say("handled", taken)
    refuse(courier, reason="TELEGRAM_BOT_TOKEN is not set")
    told, own = peer.take()["message"], other.take()["message"]
    assert (told["reply_to"], told["cause"], told["from"]) == (id, say, "bus")
    assert "your message note" in told["body"]["text"]
    assert "telegram:1" in told["body"]["text"] and "TELEGRAM_BOT_TOKEN" in told["body"]["text"]
    assert (told["body"]["about"]["id"], told["body"]["about"]["because_of"]) == (say, id)
    assert own["reply_to"] == say
    assert peer.silence() == other.silence() == []


def test_whom_a_cancelled_message_is_told(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.11: not the sender who took it back; when somebody else did."""
    peer.register(name)
    peer.ask("declare", name=f"{name}-away")
    mine, theirs = (peer.send(f"{name}-away", sender=name)["id"] for _ in range(2))
    peer.ask("cancel", id=mine)
    other.ask("cancel", id=theirs, by="somebody")
    assert peer.take()["message"]["reply_to"] == theirs
    assert peer.silence() == []


def test_an_answer_that_dies_is_not_told(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.11: nor a notice to a name that nobody knows."""
    peer.register(name)
    other.register(f"{name}-x")
    peer.send(f"{name}-x", sender=name, body={"type": "answer"})
    refuse(other)
    peer.ask("unregister", name=name)
    peer.send(f"{name}-x", sender=f"{name}-nobody")
    refuse(other)
    peer.register(name)
    assert peer.silence() == []


def test_a_full_mailbox_takes_no_notice(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-6.11, PROTOCOL-10.5: counted, and among the dead message's steps."""
    broker = make_broker(mailbox_messages=1)
    peer = peers(broker)
    for name in ("asker", "e"):
        peer.ask("declare", name=name)
    peer.send("asker")
    id = peer.send("e", sender="asker")["id"]
    peer.ask("cancel", id=id)
    assert peer.ask("status")["notices_lost"] == 1
    step = next(s for s in traced(peer, id)["steps"] if s["what"] == "not noticed")
    assert step["to"] == "asker" and "is full" in step["why"]


def test_sigkill_between_deaths(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.11: at any moment: each death has exactly one notice, what lives has none."""
    peer = peers(broker)
    for name in ("asker", "e"):
        peer.ask("declare", name=name)
    ids = [peer.send("e", sender="asker", session=str(n))["id"] for n in range(120)]
    for start in range(0, 120, 40):
        for id in ids[start : start + 40]:
            peer.request("cancel", {"id": id, "by": "other"})
        until(lambda: len(letters(peers(broker))) > start)  # noqa: B023
        broker.restart()
        peer = peers(broker)
    dead = {row["id"] for row in letters(peer)}
    told = [row["id"] for row in box(peer, "asker")]
    about = [peer.ask("read", id=id)["message"]["reply_to"] for id in told]
    assert sorted(about) == sorted(dead) and 3 <= len(dead) <= 120
    open_ = {row["id"] for row in box(peer, "e")}
    assert open_ == set(ids) - dead


# --- the store's bounds ---------------------------------------------------------------------


def test_the_store_has_a_bound(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-8.7, PROTOCOL-10.5: old ends go early; then sends are refused."""
    broker = make_broker(store_bytes=4 << 20)
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    for _ in range(35):  # 7 MB went through, and none was refused
        peer.send("e", "x" * 200_000)
        holder.finish()
    until(lambda: peer.ask("status")["purged_early"] > 0)
    peer.ask("declare", name="away")
    sent: list[str] = []

    def full() -> bool:
        answer = either(peer, "send", posting("away", "x" * 200_000))
        if isinstance(answer, BrokerUnavailable):
            assert answer.retry and "store_bytes" in answer.text
            return not [row for row in box(peer, "e", all=True) if row.get("ended")]
        assert not isinstance(answer, Exception)
        sent.append(answer["id"])
        return False

    until(full, 60)
    assert 10 < len(sent) < 32
    found = peer.ask("status")
    assert found["store_limit"] == 4 << 20
    assert {row["id"] for row in box(peer, "away")} <= set(sent)
    holder.register("away")
    holder.finish(len(sent))
    until(lambda: not _refused(peer), 60)


def _refused(peer: Peer) -> bool:
    return isinstance(either(peer, "send", posting("e")), BrokerUnavailable)


def old_store(path: Path, fill: Callable[[sqlite3.Connection], None]) -> bytes:
    """Write a store as the first version did; return its bytes."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in schema.PRAGMAS:
        db.execute(pragma)
    db.executescript(f"BEGIN;{OLD.read_text()}PRAGMA user_version=1;COMMIT")
    fill(db)
    db.close()
    path.chmod(0o600)
    return path.read_bytes()


def _old_rows(db: sqlite3.Connection) -> None:
    now = time.time()
    for id, word, done in (("live", "queued", None), ("dead", "dead", now), ("old", "handled", 1)):
        message = {"id": id, "ts": now, "from": "ci", "to": "e", "body": {"text": id}}
        columns = (
            id,
            "ci",
            "e",
            "ci\n",
            "",
            word,
            90,
            now,
            now + 600,
            json.dumps(message).encode(),
            done,
        )
        db.execute(
            "INSERT INTO message (id, sender, endpoint, lane, type, state, size, accepted,"
            " deadline, message, done, log) VALUES (?,?,?,?,?,?,?,?,?,?,?,'')",
            columns,
        )
    db.execute("INSERT INTO endpoint (name, declared, seen) VALUES ('e', 1, ?)", (now,))
    db.execute("INSERT INTO machine VALUES ('another boot')")


def test_a_store_of_the_first_version(bus_root: Path, peers: MakePeer) -> None:
    """PROTOCOL-8.8: copied, brought up to date; nothing is lost, and it works as a new one."""
    path = bus_root / "bus" / "bus.db"
    before = old_store(path, _old_rows)
    broker = Broker(bus_root).start()
    try:
        assert broker.word == "ready", broker.word
        copy = path.with_name("bus.db.version-1")
        assert copy.stat().st_mode & 0o777 == 0o600
        assert _dump(copy) == _dump_of(before, bus_root)
        peer, holder = peers(broker), peers(broker)
        assert [row["id"] for row in letters(peer)] == ["dead"]
        assert peer.ask("retry", ids=["dead"])["retried"] == ["dead"]
        assert [row["id"] for row in box(peer, "e")] == ["live", "dead"]
        until(lambda: peer.error("read", id="old").code == "unknown_id")
        holder.register("e")
        assert holder.finish(2) == ["live", "dead"]
        broker.restart()
        assert peers(broker).ask("status")["messages"] == 2
    finally:
        broker.kill()


def _dump(path: Path) -> list[str]:
    db = sqlite3.connect(path)
    lines = [*db.iterdump(), str(db.execute("PRAGMA user_version").fetchone())]
    db.close()
    return lines


def _dump_of(data: bytes, folder: Path) -> list[str]:
    (folder / "before.db").write_bytes(data)
    return _dump(folder / "before.db")


@pytest.mark.parametrize("word", ["dead", "retry", "purge", "inbox", "cancel"])
def test_no_payload_makes_a_fault(peer: Peer, word: str) -> None:
    """PROTOCOL-3.2, PROTOCOL-10.7: whatever it holds."""
    values: tuple[Any, ...] = (None, 5, "x", [], {}, ["x"] * 3, [{}], "\0", -1, [[]])
    for value in values:
        for field in ("id", "ids", "name", "to", "from", "after", "limit", "before", "by"):
            answer = either(peer, word, {field: value})
            assert getattr(answer, "code", "") != "error", (field, value)


def test_the_same_holder_gets_it_again(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-10.8, PROTOCOL-6.3: without a new registration, under the same name and epoch."""
    other.register(name)
    id = peer.send(name)["id"]
    first = refuse(other)
    assert peer.ask("retry", ids=[id])["retried"] == [id]
    second = other.take()
    assert reference(first) == reference(second)
    other.say("handled", second)
    assert traced(peer, id)["state"] == "handled"
