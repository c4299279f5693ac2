"""PROTOCOL.md section 8: one row that cannot be read hides no other, against real brokers."""

import json
import sqlite3
from typing import Any

import pytest

from fakes.broker import Broker
from fakes.peer import MakePeer, Peer
from wakebus.broker.errors import Refused

NAME = "e"
# `{"t":1,"wh` and a text that is no UTF-8 beside what SQLite keeps of another type.
BAD = {
    "message": ["x'ff00'", "'{'", "5", "x''"],
    "steps": ['log || \'{"t":1,"wh\' || char(10)', "x'ff0a'", "CAST(x'fffe0a' AS TEXT)", "'[]'"],
    "outcome": ["'{'", "x'ff'", "CAST(x'ff' AS TEXT)", "'[1]'"],
}
COLUMN = {"message": "message", "steps": "log", "outcome": "outcome"}
CASES = [(part, value) for part, values in BAD.items() for value in values]


def damage(broker: Broker, id: str, column: str, value: str) -> None:
    """Put something else into a column."""
    with sqlite3.connect(broker.folder / "bus.db") as db:
        assert db.execute(f"UPDATE message SET {column}={value} WHERE id=?", (id,)).rowcount == 1
    db.close()


def dead(peer: Peer, *ids: str) -> None:
    """Make dead letters."""
    peer.ask("declare", name=NAME)
    for id in ids:
        peer.send(NAME, f"text of {id}", id=id, queue=True)
        peer.ask("cancel", id=id)


def calm(broker: Broker) -> bool:
    """Whether the broker lives and logged no fault."""
    faults = ("Traceback", "has a fault", "a step failed", "cannot write", "not stored")
    return broker.alive and not any(word in broker.log for word in faults)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x1c", "\r", "\v"])
def test_a_reason_with_another_line_end(broker: Broker, peers: MakePeer, end: str) -> None:
    """PROTOCOL-8.13, 10.7 to 10.9: of a refusal; over a restart all is listed, retried, purged."""
    peer = peers(broker)
    peer.register(NAME)
    ids = ["a", "b", "c"]
    for id in ids:
        peer.send(NAME, id, sender=NAME, id=id)
        said = {"reason": f"no{end}thanks", "outcome": {"note": f"x{end}y"}}
        peer.say("refused", peer.take(), **said)
    broker.restart()
    peer = peers(broker)
    letters = peer.ask("dead")["letters"]
    assert [(one["id"], one["reason"]) for one in letters] == [
        (id, f"no{end}thanks") for id in "cba"
    ]
    assert not any("unreadable" in one for one in letters)
    told = peer.ask("trace", id="a")["messages"][0]
    assert told["steps"][-1]["reason"] == f"no{end}thanks" and "unreadable" not in told
    assert peer.ask("retry", ids=ids) == {"retried": ids, "kept": [], "left": []}
    for id in ids:
        peer.ask("cancel", id=id)
    assert peer.ask("purge", ids=ids)["purged"] == ids
    assert calm(broker)


@pytest.mark.parametrize(("part", "value"), CASES)
def test_one_bad_row_hides_no_other(broker: Broker, peers: MakePeer, part: str, value: str) -> None:
    """PROTOCOL-8.13: it is told with its id; the others are listed, retried and purged."""
    peer = peers(broker)
    dead(peer, "m1", "bad", "m2")
    peer.register("holder")
    peer.send("holder", "an answer to it", sender="holder", reply_to="bad", id="child")
    damage(broker, "bad", COLUMN[part], value)
    broker.restart()
    peer = peers(broker)
    for found in (peer.ask("dead")["letters"], peer.ask("inbox", name=NAME, all=True)["messages"]):
        told = {one["id"]: one.get("unreadable") for one in found}
        assert told == {"m1": None, "bad": [part], "m2": None}
    traced = {one["id"]: one for one in peer.ask("trace", id="child")["messages"]}
    assert traced["bad"]["unreadable"] == [part] and "unreadable" not in traced["child"]
    assert (traced["bad"]["from"], traced["bad"]["to"]) == ("tester", NAME)
    assert peer.ask("wait", id="bad", state="answer", timeout=5)["state"] == "dead"
    answer = peer.ask("retry", ids=["m1", "bad", "m2"])
    assert answer["retried"] == ["m1", "m2"]
    (kept,) = answer["kept"]
    assert (kept["id"], kept["state"]) == ("bad", "dead") and "cannot be read" in kept["why"]
    for id in ("m1", "m2"):
        peer.ask("cancel", id=id)
    assert peer.ask("purge", ids=["m1", "bad", "m2"])["purged"] == ["m1", "bad", "m2"]
    assert peer.ask("dead")["letters"] == [] and calm(broker)


def test_what_can_be_done_with_it(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.13: no message, no retry, no resend; with its steps lost it is in doubt."""
    peer = peers(broker)
    dead(peer, "lost", "steps", "outcome")
    damage(broker, "lost", "message", "'{'")
    damage(broker, "steps", "log", "'{'")
    damage(broker, "outcome", "outcome", "'{'")
    error = peer.error("read", id="lost")
    assert isinstance(error, Refused) and "wakebus dead purge lost" in error.text
    assert peer.error("send", **_again("lost")).code == "conflict"
    assert [one["in_doubt"] for one in peer.ask("dead")["letters"]] == [True, True, False]
    why = {one["id"]: one["why"] for one in peer.ask("retry", ids=["lost", "steps"])["kept"]}
    assert "purge" in why["lost"] and "--force" in why["steps"]
    answer = peer.ask("retry", ids=["lost", "steps", "outcome"], force=True)
    assert answer["retried"] == ["steps", "outcome"]
    peer.register(NAME)
    assert peer.finish(2) == ["text of steps", "text of outcome"] and calm(broker)


def _again(id: str) -> dict[str, Any]:
    message = {"id": id, "ts": 1.0, "from": "tester", "to": NAME, "body": {"text": f"text of {id}"}}
    return {"message": message}


def test_one_that_waits(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.13, PROTOCOL-6.11: it blocks no lane; it is dead, and its sender is told."""
    sender = peers(broker, "a" * 16)
    sender.register("lead")
    for id in ("m1", "bad", "m2"):
        sender.send(NAME, id, sender="lead", id=id, queue=True, session="s", body={"type": "t"})
    damage(broker, "bad", "message", "x'ff'")
    broker.restart()
    sender, receiver = peers(broker, "a" * 16), peers(broker)
    receiver.register(NAME)
    assert receiver.finish(2) == ["m1", "m2"]
    sender.register("lead")
    notice = sender.take()["message"]
    assert notice["body"]["about"] == {
        "id": "bad",
        "to": NAME,
        "type": "t",
        "reason": "what is stored of it cannot be read",
    }
    assert sender.ask("dead")["letters"][0]["unreadable"] == ["message"] and calm(broker)


def test_a_message_as_text_is_one(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.13: an edit of the store may leave a text where bytes were."""
    peer = peers(broker)
    peer.send(NAME, "hi", id="m1", queue=True)
    damage(broker, "m1", "message", "CAST(message AS TEXT)")
    broker.restart()
    peer = peers(broker)
    peer.register(NAME)
    assert peer.finish() == ["hi"] and calm(broker)


def test_the_start(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.13: an open turn, and what waits for a name with a suffix, keep no broker down."""
    peer = peers(broker, "a" * 16)
    peer.register(NAME)
    other = peers(broker)
    other.hello()
    short = other.ask("register", name=NAME, suffix=True)["name"]
    for to in (NAME, short):
        peer.send(to, "x", sender=NAME, id=f"{to}-1", session="s")
        peer.send(to, "x", sender=NAME, id=f"{to}-2", session="s")
    peer.say("started", peer.take(), token="t" * 20)
    other.take()
    for to in (NAME, short):
        for number in (1, 2):
            damage(broker, f"{to}-{number}", "message", "'{'")
    broker.restart()
    assert broker.word == "ready"
    again = peers(broker, "a" * 16)
    again.hello()
    again.ask("register", name=NAME, holding=[{"id": f"{NAME}-1"}])
    assert again.send(NAME, "sub", token="t" * 20, id="sub", session="z")["state"] == "queued"
    assert again.take()["message"]["from"] == NAME and calm(broker)


def test_an_answer_that_cannot_be_read(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.13: who waits for it is told so."""
    peer = peers(broker)
    peer.register(NAME)
    peer.send(NAME, "?", sender=NAME, id="q", asks=True)
    peer.send(NAME, "!", sender=NAME, id="a", reply_to="q", body={"type": "answer"})
    damage(broker, "a", "message", "'{'")
    error = peer.error("wait", id="q", state="answer", timeout=5)
    assert isinstance(error, Refused) and "cannot be read" in error.text and calm(broker)


def test_the_first_line_of_an_inbox_ends_at_a_newline(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.10: other line ends are characters of it."""
    peer = peers(broker)
    peer.send(NAME, "\n one\u2028two\nthree", queue=True)
    (told,) = peer.ask("inbox", name=NAME)["messages"]
    assert told["text"] == "one\u2028two" and json.dumps(told)
