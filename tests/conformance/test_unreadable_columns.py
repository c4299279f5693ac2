"""PROTOCOL.md section 8: a wrong value in any column of the store, against real brokers."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from fakes.broker import Broker
from fakes.peer import MakePeer, Peer
from wakebus.plugin.cli import main as cli

NAME = "e"
DEAD = [
    *(("state", bad) for bad in ("'weird'", "x'ff'")),
    *(("done", bad) for bad in ("NULL", "'abc'", "1e300", "-5")),
    *(("accepted", bad) for bad in ("'abc'", "x'ff'")),
    *((name, "'x'") for name in ("size", "retried", "deadline", "failures", "due", "claimed")),
    *((name, "x'ff00'") for name in ("reason", "sender", "type", "endpoint", "key", "cause")),
    *(
        ("message", f"'{bad}'")
        for bad in (
            '{"body":{},"ttl_s":"abc"}',
            '{"body":{"channel":5,"text":[1]},"session":7}',
            '{"id":"other","ts":1,"from":"tester","to":"e","body":{}}',
        )
    ),
]
OPEN = [
    *(("state", bad) for bad in ("'weird'", "'dead'", "x'ff'")),
    *(("deadline", bad) for bad in ("'abc'", "1e300", "x''")),
    *((name, "'x'") for name in ("deaths", "redelivered", "size", "accepted", "asks")),
    *((name, "x'ff'") for name in ("lane", "token", "type", "sender", "endpoint", "reason")),
    ("failures", "'x', due='y'"),
    ("failures", "1, due='y'"),
]


def damage(broker: Broker, table: str, change: str, where: str = "1") -> None:
    """Change the store behind the broker's back."""
    with sqlite3.connect(broker.folder / "bus.db") as db:
        assert db.execute(f"UPDATE {table} SET {change} WHERE {where}").rowcount == 1
    db.close()


def ids(found: Sequence[dict[str, Any]]) -> list[str]:
    """Return the ids, sorted."""
    return sorted(one["id"] for one in found)


def calm(broker: Broker) -> bool:
    """Whether the broker lives and logged no fault."""
    faults = ("Traceback", "has a fault", "a step failed", "cannot write", "not stored")
    return broker.alive and not any(word in broker.log for word in faults)


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Run the CLI; return what it says."""
    assert cli.main(list(args)) in (0, 1)
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    return said.out + said.err


@pytest.mark.parametrize(
    ("column", "value", "anew"),
    # Without an end it waits, for a start: see below.
    [(*case, False) for case in DEAD]
    + [(*case, True) for case in DEAD if case != ("done", "NULL")],
)
def test_a_dead_letter(
    broker: Broker,
    peers: MakePeer,
    capsys: pytest.CaptureFixture[str],
    column: str,
    value: str,
    anew: bool,
) -> None:
    """PROTOCOL-8.13: it hides no other from a list, an inbox, a trace, a retry and a purge."""
    peer = peers(broker)
    peer.ask("declare", name=NAME)
    for id in ("m1", "bad", "m2"):
        peer.send(NAME, f"text of {id}", id=id, queue=True)
        peer.ask("cancel", id=id)
    damage(broker, "message", f"{column}={value}", "id='bad'")
    if anew:
        broker.restart()
        peer = peers(broker)
    letters = peer.ask("dead")["letters"]
    assert ids(letters) == ["bad", "m1", "m2"]
    assert [one["id"] for one in letters if one.get("unreadable")] == ["bad"]
    boxed = peer.ask("inbox", name=NAME, all=True)["messages"]
    assert ids(boxed) == ["bad", "m1", "m2"] or column == "endpoint"
    (traced,) = peer.ask("trace", id="bad")["messages"]
    assert traced["state"] == "dead"
    for args in (["dead", "list"], ["inbox", NAME, "--all"], ["trace", "bad"], ["dead", "show"]):
        said = printed(capsys, *args, *(["bad"] if args[-1] == "show" else []))
        assert "bad" in said or column == "endpoint"
    answer = peer.ask("retry", ids=["m1", "bad", "m2"], force=True)
    assert answer["retried"] == ["m1", "m2"]
    (kept,) = answer["kept"]
    assert kept["id"] == "bad" and "cannot be read" in kept["why"]
    assert peer.ask("purge", ids=["bad"])["purged"] == ["bad"]
    peer.register(NAME)
    assert peer.finish(2) == ["text of m1", "text of m2"] and calm(broker)


@pytest.mark.parametrize(("column", "value"), OPEN)
def test_one_that_waits(broker: Broker, peers: MakePeer, column: str, value: str) -> None:
    """PROTOCOL-8.13: a start makes it a dead letter and says so; the others go out."""
    peer = peers(broker)
    peer.ask("declare", name=NAME)
    for id in ("m1", "bad", "m2"):
        peer.send(NAME, f"text of {id}", id=id, queue=True)
    damage(broker, "message", f"{column}={value}", "id='bad'")
    broker.restart()
    peer = peers(broker)
    assert broker.word == "ready" and "message bad: what is stored of it cannot" in broker.log
    peer.register(NAME)
    assert peer.finish(2) == ["text of m1", "text of m2"]
    (letter,) = peer.ask("dead")["letters"]
    assert letter["id"] == "bad" and letter["in_doubt"]
    assert [one["id"] for one in peer.ask("retry", ids=["bad"])["kept"]] == ["bad"]
    assert peer.ask("trace", id="bad")["messages"][0]["state"] == "dead"
    assert peer.ask("purge", ids=["bad"])["purged"] == ["bad"]
    assert peer.ask("status")["messages"] == 2 and calm(broker)


def test_one_without_an_id(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.13: it is told by its place, and purged by that."""
    peer = peers(broker)
    peer.ask("declare", name=NAME)
    for id in ("m1", "bad", "m2"):
        peer.send(NAME, f"text of {id}", id=id, queue=True)
    damage(broker, "message", "id=x'ff00'", "id='bad'")
    broker.restart()
    peer = peers(broker)
    (letter,) = peer.ask("dead")["letters"]
    assert letter["unreadable"] == ["id"] and letter["id"].startswith("row:")
    assert peer.ask("trace", id=letter["id"])["messages"][0]["to"] == NAME
    assert peer.ask("purge", ids=[letter["id"]])["purged"] == [letter["id"]]
    peer.register(NAME)
    assert peer.finish(2) == ["text of m1", "text of m2"] and calm(broker)


@pytest.mark.parametrize(
    "change",
    [
        *("seen='abc'", "epoch='abc'", "pid='abc', instance='zz'", "pid='abc'", "start='x'"),
        *("name=x'ff00'", "declared='x'", "ephemeral='x'", "boot=x'ff'", "instance=x'ff'"),
    ],
)
def test_an_endpoint(broker: Broker, peers: MakePeer, change: str) -> None:
    """PROTOCOL-8.13: the broker starts, says which, and serves it and the others."""
    peer = peers(broker, "a" * 16)
    for name in (NAME, "other"):
        peer.register(name)
    peer.send(NAME, "hi", sender=NAME, id="m1", queue=True)
    damage(broker, "endpoint", change, f"name='{NAME}'")
    broker.restart()
    assert broker.word == "ready" and "cannot be read" in broker.log
    again = peers(broker, "a" * 16)
    assert {"other"} <= {one["name"] for one in again.ask("status")["endpoints"]}
    again.hello()
    _take_name(again)
    assert again.finish() == ["hi"] and calm(broker)


def _take_name(peer: Peer) -> None:
    for name in ("other", NAME):
        peer.ask("register", name=name, takeover=True)


@pytest.mark.parametrize("change", ["bus='abc'", "wall=x'ff'", "up='x'", "boot=x'ff'", "bus=1e300"])
def test_the_mark_of_the_clocks(broker: Broker, peers: MakePeer, change: str) -> None:
    """PROTOCOL-8.13: it counts as absent, which the log says once."""
    peer = peers(broker)
    peer.send(NAME, "hi", id="m1", queue=True)
    peer.ask("status")
    broker.stop()
    damage(broker, "mark", change)
    broker.start()
    peer = peers(broker)
    peer.register(NAME)
    assert peer.finish() == ["hi"] and calm(broker)
    assert broker.log.count("bus time: what is stored of it cannot be read") == 1
