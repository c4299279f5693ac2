"""Dead letters and inboxes, as SQL on a real file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import put
from wakebus.broker.store import dead_letters
from wakebus.broker.store.dead_letters import DeadLetterFilter, Page
from wakebus.broker.store.schema import DEAD, DIED
from wakebus.broker.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    found = Store(tmp_path / "bus.db")
    yield found
    found.close()


def ended(store: Store, id: str, done: float, state: str = "dead", **fields: Any) -> None:
    """Store a message that has ended at `done`."""
    columns = {k: fields.pop(k) for k in ("outcome", "silent", "started_before") if k in fields}
    log = fields.pop("line", "")
    store.put(put(id, **fields))
    store.mark(id, log, state=state, done=done, reason=f"why {id}", **columns)


ANY = DeadLetterFilter()


def page(store: Store, which: DeadLetterFilter = ANY, after: Any = None, **more: Any) -> Page:
    """Return a page of dead dead_letters."""
    asked = {"oldest": False, "limit": 100, **more}
    return dead_letters.dead(store.db, which, after=after or [], **asked)


def ids(found: Page) -> list[str]:
    """Return the ids of a page."""
    return [row["id"] for row in found.rows]


def test_the_newest_death_first(store: Store) -> None:
    """PROTOCOL-10.7: or the oldest; handled ones are none."""
    for n, state in enumerate(["dead", "refused", "handled", "dead"]):
        ended(store, f"m{n}", 10.0 - n, state)
    store.put(put("open"))
    assert ids(page(store)) == ["m0", "m1", "m3"]
    assert ids(page(store, oldest=True)) == ["m3", "m1", "m0"]
    row = page(store).rows[0]
    assert row.pop("accepted") > 1.7e9 and row.pop("size") > 40
    told = {"id": "m0", "from": "ci", "to": "worker", "type": "", "reason": "why m0"}
    assert row == {**told, "ended": 10.0, "claimed": False, "retried": 0, "in_doubt": False}


def test_the_channel_is_told(store: Store) -> None:
    """PROTOCOL-10.7, 10.10: where a body has one; and what its channel said of what has ended."""
    ended(store, "a", 1.0, body={"text": "x", "channel": "feishu:oc_1?thread=om_1"})
    ended(store, "b", 2.0, "refused")
    said = json.dumps({"channel": {"result": "uncertain"}})
    ended(store, "c", 3.0, "handled", outcome=said, body={"text": "x", "channel": "ntfy:t"})
    ended(store, "d", 4.0, "handled", outcome=json.dumps({"channel": "odd"}))
    assert [row.get("channel") for row in page(store).rows] == [None, "feishu:oc_1?thread=om_1"]
    rows = dead_letters.inbox(store.db, "worker", ended=True, after=[], limit=9).rows
    assert [row.get("result") for row in rows] == [None, None, "uncertain", None]


def test_a_retry_keeps_what_a_channel_said(store: Store) -> None:
    """PROTOCOL-10.8: the outcome ends with that life; its channel result is a step from then on."""
    channel = {"result": "rejected", "chat": "feishu:oc_1", "at": 5.0, "reason": "r" * 900}
    ended(store, "a", 6.0, "refused", outcome=json.dumps({"channel": channel}))
    ended(store, "b", 6.0, "refused", outcome=json.dumps({"channel": {**channel, "at": ["x"]}}))
    ended(store, "c", 6.0)
    for id in "abc":
        assert dead_letters.revive(store.db, [id], 7.0, '{"what": "retried"}\n')
    logs = dict(store.db.execute("SELECT id, log FROM message").fetchall())
    told = {id: [json.loads(line) for line in log.splitlines()][-2:] for id, log in logs.items()}
    first = {"t": 5.0, "what": "channel", "by": "worker", "why": "rejected feishu:oc_1"}
    assert told["a"] == [first, {"what": "retried"}]
    assert told["b"][0] == {**first, "t": 6.0}
    assert not [step for step in told["c"] if step["what"] == "channel"]


@pytest.mark.parametrize("oldest", [True, False])
def test_pages_meet_every_row_once(store: Store, oldest: bool) -> None:
    """PROTOCOL-10.7: also where many died at the same moment."""
    for n in range(23):
        ended(store, f"m{n:02}", float(n // 5))
    seen: list[str] = []
    after = None
    while True:
        found = page(store, after=after, limit=4, oldest=oldest)
        seen += ids(found)
        if (after := found.next) is None:
            break
    assert sorted(seen) == [f"m{n:02}" for n in range(23)] and len(found.rows) == 3
    assert seen == sorted(seen, reverse=not oldest)


def test_which(store: Store) -> None:
    """PROTOCOL-10.7: by target, sender and time."""
    ended(store, "a", 1.0, to="x", **{"from": "one"})
    ended(store, "b", 2.0, to="y", **{"from": "two"})
    ended(store, "c", 3.0, to="y", **{"from": "one"})
    assert ids(page(store, DeadLetterFilter(to="y"))) == ["c", "b"]
    assert ids(page(store, DeadLetterFilter(sender="one"))) == ["c", "a"]
    assert ids(page(store, DeadLetterFilter(to="y", sender="one", before=3.0))) == []
    assert ids(page(store, DeadLetterFilter(before=3.0))) == ["b", "a"]


def test_what_one_request_reads_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-10.7: by rows that are looked at, and by bytes; the cursor goes on."""
    for n in range(7):
        ended(store, f"m{n}", float(n), body={"text": "x" * 1000}, to="x" if n == 6 else "y")
    monkeypatch.setattr(dead_letters, "SCAN", 3)
    first = page(store, DeadLetterFilter(to="x"), oldest=True)
    assert first.rows == [] and first.next
    second = page(store, DeadLetterFilter(to="x"), first.next, oldest=True)
    third = page(store, DeadLetterFilter(to="x"), second.next, oldest=True)
    assert (second.rows, ids(third), third.next) == ([], ["m6"], None)
    monkeypatch.setattr(dead_letters, "SCAN", 100)
    monkeypatch.setattr(dead_letters, "READ_BYTES", 2_500)
    found = page(store)
    assert ids(found) == ["m6", "m5"] and ids(page(store, after=found.next)) == ["m4", "m3"]


@pytest.mark.parametrize(
    ("fields", "doubt"),
    [
        ({}, False),
        ({"started_before": True}, True),
        ({"line": '{"t": 1, "what": "started"}\n'}, True),
        ({"outcome": {"channel": {"result": "uncertain"}}}, True),
        ({"outcome": {"channel": {"result": "rejected"}}, "started_before": True}, False),
        ({"outcome": {"channel": "odd"}}, False),
    ],
)
def test_what_may_have_been_done(store: Store, fields: dict[str, Any], doubt: bool) -> None:
    """PROTOCOL-10.8: a channel's word counts more than that work had begun."""
    if "outcome" in fields:
        fields = {**fields, "outcome": json.dumps(fields["outcome"])}
    ended(store, "m", 1.0, "refused", **fields)
    assert page(store).rows[0]["in_doubt"] is doubt
    assert dead_letters.find(store.db, ["m"]).rows[0]["in_doubt"] is doubt


def steps(*words: str) -> str:
    """Return a log of steps: `started`, `dead`, `dead none`, `dead maybe`, `retried`."""
    pairs = (word.partition(" ") for word in words)
    told = ({"what": what, **({"work": work} if work else {})} for what, _, work in pairs)
    return "".join(json.dumps(step) + "\n" for step in told)


@pytest.mark.parametrize(
    ("log", "doubt"),
    [
        (steps("started", "dead none"), False),
        (steps("started", "dead none", "notice lost"), False),
        (steps("started", "dead"), True),
        (steps("dead maybe"), True),
        (steps("started", "dead none", "retried", "dead"), False),
        (steps("started", "dead none", "retried", "started", "dead"), True),
        (steps("started", "dead none", *["later"] * 1_000, "retried", "dead"), True),
        (steps("started", "dead none", *["later"] * 1_000, "retried"), True),
        (steps("started", "dead", *["later"] * 1_000, "retried", "dead none"), False),
    ],
)
def test_what_its_receiver_said_last(store: Store, log: str, doubt: bool) -> None:
    """
    PROTOCOL-10.8: that nothing was done counts more than a start, for this life of the message.

    Where steps may be missing, what was said of an earlier life counts for nothing.
    """
    ended(store, "m", 1.0, line=log)
    assert page(store).rows[0]["in_doubt"] is doubt


def test_a_new_life(store: Store) -> None:
    """PROTOCOL-10.8: last of its lane, new attempts and deadline, the same content and steps."""
    ended(store, "a", 1.0, ttl_s=60, reply_to="r", line='{"what": "1"}\n', started_before=True)
    store.mark("a", "")
    ended(store, "b", 1.0, "refused", key="k")
    ended(store, "c", 1.0, "handled")
    store.put(put("d"))
    before = store.find("a")
    rows = dead_letters.revive(store.db, ["a", "b", "c", "d", "e"], 1_000.0, "again\n")
    assert [row["id"] for row in rows] == ["a", "b"]
    one, two = store.find("a"), store.find("b")
    assert one and two and before
    kept = ("message", "id", "lane", "reply_to", "accepted", "endpoint")
    assert [one[k] for k in kept] == [before[k] for k in kept]
    assert (one["state"], one["deadline"], one["deaths"]) == ("queued", 1_060.0, 0)
    assert (one["done"], one["reason"], one["outcome"], one["retried"]) == (None, None, None, 1)
    assert one["log"] == '{"what": "1"}\nagain\n'
    assert (one["started_before"], one["redelivered"]) == (1, 0)
    assert (two["started_before"], two["redelivered"]) == (0, 1)
    assert [row["id"] for row in store.open_messages()] == ["d", "a", "b"]
    assert dead_letters.revive(store.db, ["a"], 1.0, "") == []


def test_much_is_done_in_steps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-10.8, PROTOCOL-10.9: what is not looked at is told; one is always done."""
    for n in range(4):
        ended(store, f"m{n}", 1.0, body={"text": "x" * 1000})
    monkeypatch.setattr(dead_letters, "STEP_BYTES", 2_500)
    asked = ["m0", "nobody", "m1", "m2", "m3"]
    found = dead_letters.purge(store.db, asked)
    assert [row["id"] for row in found.rows] == ["m0", "m1"]
    assert (found.missing, found.left) == (["nobody"], ["m2", "m3"])
    monkeypatch.setattr(dead_letters, "STEP_BYTES", 1)
    assert dead_letters.purge(store.db, found.left).left == ["m3"]
    assert store.counts()["messages"] == 1


def test_purging_spares_what_is_open(store: Store) -> None:
    """PROTOCOL-10.9: dead and handled ones go."""
    store.put(put("open"))
    ended(store, "dead", 1.0)
    ended(store, "handled", 1.0, "handled")
    found = dead_letters.purge(store.db, ["open", "dead", "handled"])
    assert (found.rows[0]["id"], found.rows[0]["state"]) == ("open", "queued")
    assert [store.find(id) is None for id in ("open", "dead", "handled")] == [False, True, True]


def boxed(store: Store, name: str = "worker", limit: int = 100, **more: Any) -> list[str]:
    """Return the ids of all pages of a box."""
    seen: list[str] = []
    after: list[Any] = []
    while True:
        asked: dict[str, Any] = {"ended": False, **more}
        found = dead_letters.inbox(store.db, name, after=after, limit=limit, **asked)
        seen += ids(found)
        if found.next is None:
            return seen
        after = found.next


def test_a_box(store: Store) -> None:
    """PROTOCOL-10.10: what is open in its order, then what was silent; or all that has ended."""
    store.put(put("a", body={"text": "\n \n first line\r\nsecond", "type": "t"}))
    ended(store, "b", 3.0, "handled", silent=True)
    ended(store, "c", 2.0, "handled")
    ended(store, "d", 1.0, "dead")
    store.put(put("e", body={"x": 1}))
    store.put(put("other", to="else"))
    ended(store, "f", 1.5, "handled", silent=True, to="else")
    assert boxed(store) == ["a", "e", "b"]
    assert boxed(store, limit=1) == ["a", "e", "b"]
    assert boxed(store, ended=True) == ["a", "e", "d", "c", "b"]
    assert boxed(store, ended=True, limit=1) == ["a", "e", "d", "c", "b"]
    first = dead_letters.inbox(store.db, "worker", ended=False, after=[], limit=1).rows[0]
    assert (first["text"], first["type"], first["state"]) == ("first line", "t", "queued")
    last = dead_letters.inbox(store.db, "worker", ended=False, after=[1, -1, 0], limit=1).rows[0]
    assert (last["silent"], last["ended"], last["state"]) == (True, 3.0, "handled")


def test_a_box_shows_beginnings_only(store: Store) -> None:
    """PROTOCOL-10.10: 200 characters of a line, no more of a body."""
    store.put(put("a", body={"text": "x" * 10_000, "secret": "yyy"}))
    (row,) = dead_letters.inbox(store.db, "worker", ended=False, after=[], limit=1).rows
    assert row["text"] == "x" * 200 and "yyy" not in repr(row)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT seq FROM message WHERE {DEAD} AND ({DIED},seq)<(1,1)"
        f" ORDER BY {DIED} DESC, seq DESC",
        "SELECT seq FROM message WHERE endpoint='e' AND done IS NULL AND seq>1 ORDER BY seq",
        "SELECT seq FROM message WHERE endpoint='e' AND silent AND seq>1 ORDER BY seq",
        "SELECT seq FROM message WHERE done BETWEEN 0 AND 1e12 AND (done,seq)>(1,1)"
        " ORDER BY done, seq",
    ],
)
def test_every_page_uses_an_index(store: Store, query: str) -> None:
    """And nothing is sorted."""
    plan = " ".join(str(row[3]) for row in store.db.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert "INDEX message_" in plan and "TEMP B-TREE" not in plan
