"""Looking into an inbox and taking back, where the disk is slow or two want the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.core import dispatch
from wakebus.broker.errors import BadName, Refused, UnknownId, UnknownTarget
from wakebus.broker.verbs import VERBS, dead_letters, inbox


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def send(bench: Bench, id: str) -> None:
    """Send a message to `e`; it is stored by `run_all`."""
    VERBS["send"](bench.hub, bench.request(posting("e", id, queue=True, id=id)))


def cancel(bench: Bench, id: str, conn: bytes = b"c", **fields: Any) -> None:
    """Take a message back."""
    VERBS["cancel"](bench.hub, bench.request({"id": id, **fields}, conn))


def test_a_clock_that_jumped(bench: Bench) -> None:
    """PROTOCOL-10.7, PROTOCOL-8.10: times are the wall clock's of now, ages are true."""
    send(bench, "m1")
    bench.slow.run_all()
    cancel(bench, "m1")
    bench.slow.run_all()
    bench.pass_time(60)
    bench.wall += 365 * 86400
    for before, found in ((bench.wall - 30, ["m1"]), (bench.wall - 90, [])):
        dead_letters.dead(bench.hub, bench.request({"before": before}))
        bench.slow.run_all()
        assert [row["id"] for row in bench.answers[-1]["letters"]] == found
    dead_letters.dead(bench.hub, bench.request({}))
    bench.slow.run_all()
    answer = bench.answers[-1]
    assert answer["now"] - answer["letters"][0]["ended"] == pytest.approx(60, abs=1)


def test_names_are_names(bench: Bench) -> None:
    """PROTOCOL-10.7, PROTOCOL-10.10: or unknown."""
    for payload in ({"to": "a.b"}, {"from": 5}):
        with pytest.raises(BadName):
            dead_letters.dead(bench.hub, bench.request(payload))
    with pytest.raises(UnknownTarget):
        inbox.inbox(bench.hub, bench.request({"name": "nobody"}))


def test_a_message_on_its_way_into_the_store_is_cancelled(bench: Bench) -> None:
    """PROTOCOL-10.11: it is stored first, then taken back."""
    send(bench, "m1")
    cancel(bench, "m1", by="ci")
    bench.slow.run_all()
    assert [a["state"] for a in bench.answers] == ["queued", "dead"]
    assert bench.answers[-1]["reason"] == "cancelled by ci"


def test_it_is_taken_back_once(bench: Bench) -> None:
    """PROTOCOL-10.11: the second one is told that it is dead; an id that nobody knows, too."""
    send(bench, "m1")
    bench.slow.run_all()
    for id in ("m1", "m1", "never"):
        cancel(bench, id)
    bench.slow.run_all()
    # The first receipt is read after the commit, and comes when it may.
    dead = next(one for one in bench.answers[1:] if isinstance(one, dict))
    refused, unknown = (one for one in bench.answers[1:] if not isinstance(one, dict))
    assert dead["reason"] == "cancelled by somebody without a name"
    assert isinstance(refused, Refused) and "is dead already" in refused.text
    assert isinstance(unknown, UnknownId)


def test_what_is_on_its_way_is_in_hand(bench: Bench) -> None:
    """PROTOCOL-10.10, PROTOCOL-10.11: sent, not confirmed: shown as held, and in hand."""
    send(bench, "m1")
    bench.slow.run_all()
    dispatch.dispatch(bench.hub, bench.held("e"))
    bench.slow.run_all()
    cancel(bench, "m1")
    bench.slow.run_all()
    assert (bench.answers[-1]["state"], bench.answers[-1]["told"]) == ("delivered", False)
    inbox.inbox(bench.hub, bench.request({"name": "e"}))
    bench.slow.run_all()
    assert [m["state"] for m in bench.answers[-1]["messages"]] == ["held"]


def test_a_disk_that_takes_nothing(bench: Bench) -> None:
    """PROTOCOL-10.11, PROTOCOL-8.3: the answer comes once it is stored."""
    send(bench, "m1")
    bench.slow.run_all()
    db = bench.slow.store.db
    db.execute("PRAGMA query_only=ON")
    cancel(bench, "m1")
    bench.slow.run_all()
    assert len(bench.answers) == 1
    db.execute("PRAGMA query_only=OFF")
    bench.pass_time(1.5)
    bench.hub.timers.run_due()
    bench.slow.run_all()
    assert bench.answers[-1]["state"] == "dead"
