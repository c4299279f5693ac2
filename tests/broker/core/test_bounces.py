"""Notices of non-delivery: composed, stored with the death, or counted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench, put
from fakes.peer import posting
from wakebus.broker.core import bounces, dispatch
from wakebus.broker.errors import BadName, WakebusError
from wakebus.broker.protocol.message import MAX_HOPS, Message
from wakebus.broker.store.rows import Put
from wakebus.broker.store.store import Store
from wakebus.broker.verbs import VERBS


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets; `asker` is a known endpoint."""
    found = Bench(tmp_path, mailbox_messages=3)
    found.hub.endpoint("asker").declared = True
    yield found
    found.close()


def composed(**fields: Any) -> Message | None:
    """Return the notice of a message."""
    one = put("m1", **fields)
    row = {"type": one.message.type, "message": one.blob}
    return bounces.compose(row, "it\n expired  at last", 5.0)


def test_what_it_says() -> None:
    """PROTOCOL-6.11: what, to whom, why, what to do; in the same conversation."""
    fields = {"session": "s", "hops": 3, "path": ["a"], "cause": "c"}
    found = composed(body={"type": "directive", "text": "x", "channel": "feishu:1"}, **fields)
    assert found is not None
    assert (found.sender, found.to, found.type, found.wake) == ("bus", "ci", "notice", "next_turn")
    assert (found.reply_to, found.cause, found.hops, found.path) == ("m1", "m1", 4, ("a", "worker"))
    assert (found.channel, found.session, found.ts) == ("feishu:1", "s", 5.0)
    assert found.text == (
        "Not delivered: your message directive m1 to worker is a dead letter: it expired at last. "
        "Look at it: wakebus dead show m1. Send it again: wakebus dead retry m1"
    )
    about = {"id": "m1", "to": "worker", "type": "directive", "reason": "it expired at last"}
    assert found.body["about"] == about


@pytest.mark.parametrize(
    ("reason", "doubt", "step"),
    [
        ("cancelled by ci", True, "all the same: wakebus dead retry --force m1"),
        ("cancelled by ci", False, "Send it again: wakebus dead retry m1"),
        ("its session ended: the client that held x is gone", False, "wakebus endpoints"),
        ("the session that held x has ended", False, "Once somebody has that name again: "),
        ("what is stored of it cannot be read", True, "wakebus dead purge m1"),
    ],
)
def test_the_next_step_is_one_that_is_taken(reason: str, doubt: bool, step: str) -> None:
    """PROTOCOL-6.11: work may have been done, nobody would get it, it cannot be read."""
    found = bounces.compose({"type": "", "message": put("m1").blob}, reason, 5.0, doubt=doubt)
    assert found is not None and step in found.text
    assert found.body["about"].get("in_doubt", False) is doubt
    assert found.text.startswith("Not done" if doubt else "Not delivered")


def test_what_it_says_of_a_failure() -> None:
    """PROTOCOL-6.13: it was delivered, worked on, and that failed."""
    row = {"type": "", "message": put("m1").blob}
    found = bounces.compose(row, "the turn failed: exit 1: 429", 5.0, failed=True)
    assert found is not None and found.body["about"]["failed"] is True
    assert found.text.startswith(
        "Not done: your message m1 to worker was worked on, and that failed: the turn failed: "
        "exit 1: 429. Look at it: wakebus dead show m1."
    )


@pytest.mark.parametrize("type_", ["notice", "answer"])
def test_none_for_notices_and_answers(type_: str) -> None:
    """PROTOCOL-6.11: nothing goes round in circles."""
    assert composed(body={"type": type_, "text": "x"}) is None


def test_hops_and_path_have_an_end() -> None:
    """PROTOCOL-6.11: at their limits it is still a message."""
    found = composed(hops=MAX_HOPS, path=["a"] * 64)
    assert found is not None and found.hops == MAX_HOPS and len(found.path) == 64


def test_the_name_of_the_bus() -> None:
    """PROTOCOL-5.12."""
    assert bounces.check_not_reserved("busy", "name") == "busy"
    with pytest.raises(BadName, match="broker itself"):
        bounces.check_not_reserved("bus", "name")


def send(bench: Bench, id: str, sender: str = "asker", **fields: Any) -> None:
    """Send a message to `e`, which is away, and store it."""
    payload = posting("e", "x", queue=True, id=id, sender=sender, **fields)
    VERBS["send"](bench.hub, bench.request(payload))
    bench.slow.run_all()


def expire(bench: Bench) -> None:
    """Let all that waits for `e` expire."""
    bench.pass_time(10)
    dispatch.expire(bench.hub)
    bench.slow.run_all()


def told(bench: Bench) -> list[dict[str, Any]]:
    """Return the stored notices to `asker`."""
    rows = bench.slow.store._all("SELECT message FROM message WHERE type='notice' ORDER BY seq")
    return [json.loads(row["message"]) for row in rows]


def test_a_death_and_its_notice(bench: Bench) -> None:
    """PROTOCOL-6.11: stored, in the mailbox, and among the dead message's steps."""
    send(bench, "m1", ttl_s=5)
    expire(bench)
    (notice,) = told(bench)
    assert (notice["to"], notice["reply_to"]) == ("asker", "m1")
    box = bench.hub.endpoints["asker"].mailbox
    assert [*box.entries] == [notice["id"]] and bench.hub.endpoints["asker"].arriving == 0
    row = bench.slow.store.find("m1")
    assert row and f'"noticed","to":"asker","notice":"{notice["id"]}"' in row["log"]


@pytest.mark.parametrize("sender", ["nobody", "e"])
def test_no_notice(bench: Bench, sender: str) -> None:
    """PROTOCOL-6.11: to whoever has no endpoint; to the endpoint that does not read its mail."""
    bench.hub.endpoint("e").declared = True
    send(bench, "m1", sender, ttl_s=5)
    expire(bench)
    assert told(bench) == [] and bench.hub.bounces_lost == 0
    row = bench.slow.store.find("m1")
    assert row is not None and row["state"] == "dead"


def test_a_full_mailbox(bench: Bench) -> None:
    """PROTOCOL-6.11: what finds no place is counted, and stands among the steps."""
    for n in range(3):
        send(bench, f"m{n}", ttl_s=5)
        VERBS["send"](bench.hub, bench.request(posting("asker", id=f"fill{n}")))
        bench.slow.run_all()
        if n == 0:
            expire(bench)
    expire(bench)
    assert len(told(bench)) == 1 and bench.hub.bounces_lost == 2
    row = bench.slow.store.find("m2")
    assert row and "not noticed" in row["log"] and "is full" in row["log"]
    assert row["state"] == "dead" and bench.hub.endpoints["asker"].arriving == 0


def test_the_disk_takes_both_or_none(bench: Bench) -> None:
    """PROTOCOL-6.11, PROTOCOL-8.3: tried again until both are stored, and then there is one."""
    send(bench, "m1", ttl_s=5)
    db = bench.slow.store.db
    db.execute("PRAGMA query_only=ON")
    expire(bench)
    assert told(bench) == []
    db.execute("PRAGMA query_only=OFF")
    for _ in range(3):
        bench.pass_time(1.5)
        bench.hub.timers.run_due()
        bench.slow.run_all()
    assert len(told(bench)) == 1
    assert len(bench.hub.endpoints["asker"].mailbox) == 1


def test_a_failure_after_the_notice_undoes_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-6.11: the mailbox gets nothing that is not stored."""
    send(bench, "m1", ttl_s=5)

    def bug(self: Store, id: str, line: str, **columns: Any) -> None:
        raise WakebusError("a bug")

    monkeypatch.setattr(Store, "mark", bug)
    expire(bench)
    assert told(bench) == [] and len(bench.hub.endpoints["asker"].mailbox) == 0
    assert bench.hub.endpoints["asker"].arriving == 0


def test_an_ack_that_comes_twice_tells_once(bench: Bench) -> None:
    """PROTOCOL-6.11: a resent `refused` is no second death."""
    send(bench, "m1")
    endpoint = bench.held("e")
    dispatch.dispatch(bench.hub, endpoint)
    bench.slow.run_all()
    said = {"to": "e", "id": "m1", "epoch": 1, "reason": "no"}
    for _ in range(2):
        VERBS["refused"](bench.hub, bench.request(said))
    bench.slow.run_all()
    VERBS["refused"](bench.hub, bench.request(said))
    bench.slow.run_all()
    assert len(told(bench)) == 1 and len(bench.hub.endpoints["asker"].mailbox) == 1


def test_a_notice_is_not_bounded_by_the_store(bench: Bench) -> None:
    """PROTOCOL-8.7: a death makes room; what tells of it is stored."""
    send(bench, "m1", ttl_s=5)
    bench.slow.store.quota.limit = 1
    bench.slow.store.quota._unmeasured = 1 << 30
    expire(bench)
    assert len(told(bench)) == 1
    assert Put.__dataclass_fields__["bounded"].default is True


def say(
    bench: Bench, id: str = "t1", sender: str = "gw", type_: str = "say", **fields: Any
) -> None:
    """Have `sender` send a text for a chat to the courier, which is away; let it expire."""
    body = {"text": "x", "type": type_, "channel": "telegram:1"}
    payload = posting("courier", "x", queue=True, id=id, sender=sender, ttl_s=5, **fields)
    payload["message"]["body"] = body
    VERBS["send"](bench.hub, bench.request(payload, b"of gw" if sender == "gw" else b"c"))
    bench.slow.run_all()
    expire(bench)


@pytest.fixture
def gateway(bench: Bench) -> Bench:
    """`gw` is held; `asker` has sent it m1."""
    bench.greeted(b"of gw", "b" * 16).names.add("gw")
    bench.held("gw", b"of gw")
    payload = posting("gw", "x", id="m1", sender="asker")
    payload["message"]["body"] |= {"type": "note", "channel": "telegram:1"}
    VERBS["send"](bench.hub, bench.request(payload))
    bench.slow.run_all()
    return bench


def test_who_caused_a_text_is_told_that_no_chat_has_it(gateway: Bench) -> None:
    """PROTOCOL-6.12: once, beside the notice to who sent it, as said of that message."""
    say(gateway, cause="m1")
    both = {(one["to"], one["reply_to"]) for one in told(gateway)}
    assert both == {("asker", "m1"), ("gw", "t1")} and len(told(gateway)) == 2
    notice = next(one for one in told(gateway) if one["to"] == "asker")
    assert (notice["cause"], notice["wake"], notice["body"]["channel"]) == (
        "t1",
        "next_turn",
        "telegram:1",
    )
    text = (
        "Not shown: what gw sent to telegram:1 because of your message note m1 is a dead letter,"
        " t1: it expired before anybody took it. Look at it: wakebus dead show t1."
        " Send it again: wakebus dead retry t1"
    )
    assert notice["body"]["text"] == text
    about = {"from": "gw", "channel": "telegram:1", "because_of": "m1"}
    assert about.items() <= notice["body"]["about"].items()
    assert [*gateway.hub.endpoints["asker"].mailbox.entries] == [notice["id"]]
    row = gateway.slow.store.find("t1")
    assert row and row["log"].count('"noticed"') == 2


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"cause": "m9"},
        {"cause": "m1", "sender": "other"},  # not who received m1
        {"cause": "m1", "type_": "answer"},
        {"cause": "m1", "type_": "directive"},  # for no chat: between endpoints
    ],
)
def test_no_one_else_is_told(gateway: Bench, fields: dict[str, Any]) -> None:
    """PROTOCOL-6.12: only of a text for a chat, and only because of what its sender received."""
    say(gateway, **fields)
    assert "asker" not in [one["to"] for one in told(gateway)]
    row = gateway.slow.store.find("t1")
    assert row is not None and row["state"] == "dead"


def test_whose_own_message_is_dead_knows_enough(gateway: Bench) -> None:
    """PROTOCOL-6.12: what is said of its failure in a chat, and dies, is not told it as well."""
    dispatch.dispatch(gateway.hub, gateway.hub.endpoints["gw"])
    gateway.slow.run_all()
    said = {"to": "gw", "id": "m1", "epoch": 1, "reason": "the turn failed"}
    VERBS["refused"](gateway.hub, gateway.request(said, b"of gw"))
    gateway.slow.run_all()
    say(gateway, cause="m1")
    assert [one["reply_to"] for one in told(gateway) if one["to"] == "asker"] == ["m1"]
    assert [one["cause"] for one in told(gateway) if one["to"] == "asker"] == ["m1"]


def test_a_claimed_text_tells_nobody_else(gateway: Bench) -> None:
    """PROTOCOL-6.12: who only says that it is `gw` puts nothing into others' mailboxes."""
    gateway.hub.endpoints["gw"].holder = None
    del gateway.hub.conns[b"of gw"]
    say(gateway, cause="m1")
    row = gateway.slow.store.find("t1")
    assert row is not None and row["claimed"] and row["state"] == "dead"
    assert "asker" not in [one["to"] for one in told(gateway)]


def test_nothing_goes_round_because_of_a_notice(gateway: Bench) -> None:
    """PROTOCOL-6.12: what a notice or an answer caused is told to its own sender only."""
    for type_ in ("notice", "answer"):
        asked = {"type": type_, "message": put("m2").blob}
        row = {"type": "say", "message": put("t2").blob}
        assert bounces.compose_for_asker(row, asked, "why", 5.0) is None
