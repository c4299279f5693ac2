"""What is dead comes back or goes for good, where the disk is slow or two want the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.core import dispatch
from wakebus.broker.errors import BadMessage, BrokerUnavailable
from wakebus.broker.store import dead_letters
from wakebus.broker.verbs import VERBS


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets, with small mailboxes."""
    found = Bench(tmp_path, mailbox_messages=3)
    yield found
    found.close()


def dead(bench: Bench, *ids: str) -> None:
    """Send messages to `e` and let them expire."""
    for id in ids:
        VERBS["send"](bench.hub, bench.request(posting("e", id, queue=True, id=id, ttl_s=5)))
    bench.slow.run_all()
    bench.pass_time(6)
    dispatch.expire(bench.hub)
    bench.slow.run_all()
    bench.answers.clear()


def ask(bench: Bench, *ids: str, **fields: Any) -> None:
    """Retry; it is done by `work`."""
    VERBS["retry"](bench.hub, bench.request({"ids": [*ids], **fields}))


@pytest.mark.parametrize("ids", [None, [], "m1", [1], ["x" * 65], ["x"] * 501])
@pytest.mark.parametrize("verb", [VERBS["retry"], VERBS["purge"]])
def test_ids_are_ids(bench: Bench, verb: Any, ids: Any) -> None:
    """PROTOCOL-10.8, PROTOCOL-10.9: 1 to 500 of them."""
    with pytest.raises(BadMessage):
        verb(bench.hub, bench.request({"ids": ids}))


def test_two_who_retry_the_same(bench: Bench) -> None:
    """PROTOCOL-10.8: one does it, the other is told; the message is there once."""
    dead(bench, "m1")
    ask(bench, "m1", "m1")
    ask(bench, "m1")
    bench.slow.run_all()
    first, second = bench.answers
    assert (first["retried"], first["kept"]) == (["m1"], [])
    assert second["retried"] == []
    assert second["kept"][0]["why"] == "somebody else was quicker"
    endpoint = bench.hub.endpoints["e"]
    assert [*endpoint.mailbox.entries] == ["m1"] and endpoint.arriving == 0
    ask(bench, "m1")
    bench.slow.run_all()
    assert bench.answers[-1]["kept"][0]["why"] == "it is queued, not a dead letter"


def test_a_full_mailbox_takes_what_fits(bench: Bench) -> None:
    """PROTOCOL-10.8: and the rest stays dead; places that are taken are given back."""
    dead(bench, "m1", "m2")
    dead(bench, "m3", "m4")
    VERBS["send"](bench.hub, bench.request(posting("e", queue=True, id="m5")))
    ask(bench, "m1", "m2", "m3", "m4")
    bench.slow.run_all()
    answer = bench.answers[-1]
    assert answer["retried"] == ["m1", "m2"]
    assert [one["id"] for one in answer["kept"]] == ["m3", "m4"]
    assert "is full (3 messages)" in answer["kept"][0]["why"]
    endpoint = bench.hub.endpoints["e"]
    assert (endpoint.arriving, endpoint.arriving_bytes) == (0, 0)
    dispatch.commit_end(
        bench.hub, endpoint, endpoint.mailbox.entries["m5"], "", print, state="handled"
    )
    dispatch.dispatch(bench.hub, bench.held("e"))
    bench.slow.run_all()
    assert b'"retried":1' in b"".join(bench.posted)


def test_a_disk_that_takes_nothing(bench: Bench) -> None:
    """PROTOCOL-10.8, PROTOCOL-8.3: `unavailable`, and nothing has changed."""
    dead(bench, "m1")
    ask(bench, "m1")
    db = bench.slow.store.db
    db.execute("PRAGMA query_only=ON")
    bench.slow.run_all()
    assert isinstance(bench.answers[-1], BrokerUnavailable)
    VERBS["purge"](bench.hub, bench.request({"ids": ["m1"]}))
    bench.slow.run_all()
    assert isinstance(bench.answers[-1], BrokerUnavailable)
    db.execute("PRAGMA query_only=OFF")
    assert bench.hub.endpoints["e"].arriving == 0 and not bench.hub.endpoints["e"].mailbox.entries
    bench.answers.clear()
    ask(bench, "m1")
    bench.slow.run_all()
    assert [answer["retried"] for answer in bench.answers] == [["m1"]]


def test_it_expires_by_its_new_deadline(bench: Bench) -> None:
    """PROTOCOL-10.8: counted from the retry."""
    dead(bench, "m1")
    ask(bench, "m1")
    bench.slow.run_all()
    for seconds, left in ((4, ["m1"]), (2, [])):
        bench.pass_time(seconds)
        dispatch.expire(bench.hub)
        bench.slow.run_all()
        assert [*bench.hub.endpoints["e"].mailbox.entries] == left


def test_the_rest_is_handed_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-10.8, PROTOCOL-10.9: what would be much to write in one step."""
    dead(bench, "m1", "m2")
    monkeypatch.setattr(dead_letters, "STEP_BYTES", 1)
    ask(bench, "m1", "nobody", "m2")
    bench.slow.run_all()
    answer = bench.answers[-1]
    assert (answer["retried"], answer["left"]) == (["m1"], ["m2"])
    assert answer["kept"] == [
        {"id": "nobody", "state": "unknown", "why": "no such message is stored"}
    ]
    VERBS["purge"](bench.hub, bench.request({"ids": ["m1", "m2"]}))
    bench.slow.run_all()
    answer = bench.answers[-1]
    assert (answer["purged"], answer["left"]) == ([], ["m2"])
    assert answer["kept"][0]["why"] == "it is queued; cancel it first"
