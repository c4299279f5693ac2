"""Looking into boxes and taking back, where the disk is slow or two want the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.core import dispatch as delivering
from wakebus.broker.errors import BadMessage, BadName, Refused, UnknownId, UnknownTarget
from wakebus.broker.verbs import inbox as boxes
from wakebus.broker.verbs import send as sending


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def send(bench: Bench, id: str) -> None:
    """Send a message to `e`; it is stored by `work`."""
    sending.send(bench.hub, bench.request(posting("e", id, queue=True, id=id)))


def cancel(bench: Bench, id: str, conn: bytes = b"c", **fields: Any) -> None:
    """Take a message back."""
    boxes.cancel(bench.hub, bench.request({"id": id, **fields}, conn))


WRONG: list[dict[str, Any]] = [
    *({"limit": n} for n in (0, 201, 1.0, "1", True, None)),
    *({"after": a} for a in (5, [], [1], [1, "x"], [1, 2, 3, 4], [1e400, 0], [2**70, 1])),
    *({"before": b} for b in ("x", ["x"], float("inf"), True)),
]


@pytest.mark.parametrize("payload", WRONG)
def test_pages_are_asked_for_rightly(bench: Bench, payload: dict[str, Any]) -> None:
    """PROTOCOL-10.7: a wrong limit, cursor or time is told, whatever it is."""
    with pytest.raises(BadMessage):
        boxes.dead(bench.hub, bench.request(payload))


def test_a_clock_that_jumped(bench: Bench) -> None:
    """PROTOCOL-10.7, PROTOCOL-8.10: times are the wall clock's of now, ages are true."""
    send(bench, "m1")
    bench.slow.work()
    cancel(bench, "m1")
    bench.slow.work()
    bench.pass_time(60)
    bench.wall += 365 * 86400
    for before, found in ((bench.wall - 30, ["m1"]), (bench.wall - 90, [])):
        boxes.dead(bench.hub, bench.request({"before": before}))
        bench.slow.work()
        assert [row["id"] for row in bench.answers[-1]["letters"]] == found
    boxes.dead(bench.hub, bench.request({}))
    bench.slow.work()
    answer = bench.answers[-1]
    assert answer["now"] - answer["letters"][0]["ended"] == pytest.approx(60, abs=1)


def test_names_are_names(bench: Bench) -> None:
    """PROTOCOL-10.7, PROTOCOL-10.10: or unknown."""
    for payload in ({"to": "a.b"}, {"from": 5}):
        with pytest.raises(BadName):
            boxes.dead(bench.hub, bench.request(payload))
    with pytest.raises(UnknownTarget):
        boxes.inbox(bench.hub, bench.request({"name": "nobody"}))


def test_a_message_on_its_way_into_the_store_is_cancelled(bench: Bench) -> None:
    """PROTOCOL-10.11: it is stored first, then taken back."""
    send(bench, "m1")
    cancel(bench, "m1", by="ci")
    bench.slow.work()
    assert [a["state"] for a in bench.answers] == ["queued", "dead"]
    assert bench.answers[-1]["reason"] == "cancelled by ci"


def test_it_is_taken_back_once(bench: Bench) -> None:
    """PROTOCOL-10.11: the second one is told that it is dead; an id that nobody knows, too."""
    send(bench, "m1")
    bench.slow.work()
    for id in ("m1", "m1", "never"):
        cancel(bench, id)
    bench.slow.work()
    dead, refused, unknown = bench.answers[1:]
    assert dead["reason"] == "cancelled by somebody without a name"
    assert isinstance(refused, Refused) and "is dead already" in refused.text
    assert isinstance(unknown, UnknownId)


def test_what_is_on_its_way_is_in_hand(bench: Bench) -> None:
    """PROTOCOL-10.10, PROTOCOL-10.11: sent, not confirmed: shown as held, not taken back."""
    send(bench, "m1")
    bench.slow.work()
    delivering.pump(bench.hub, bench.held("e"))
    bench.slow.work()
    with pytest.raises(Refused, match=r"hands of e \(on its way\)"):
        cancel(bench, "m1")
    boxes.inbox(bench.hub, bench.request({"name": "e"}))
    bench.slow.work()
    assert [m["state"] for m in bench.answers[-1]["messages"]] == ["held"]


def test_who_did_it(bench: Bench) -> None:
    """PROTOCOL-10.11: the holder of a name is believed, another name is claimed."""
    bench.greeted(b"x").names |= {"b", "a"}
    asked = [{}, {"by": "b"}, {"by": "ci"}]
    found = [boxes.who(bench.hub, bench.request(payload, b"x")) for payload in asked]
    assert found == [
        {"by": "a", "pid": 0},
        {"by": "b", "pid": 0},
        {"by": "ci", "pid": 0, "claimed": True},
    ]
    with pytest.raises(BadName):
        boxes.who(bench.hub, bench.request({"by": "x y"}))


def test_a_disk_that_takes_nothing(bench: Bench) -> None:
    """PROTOCOL-10.11, PROTOCOL-8.3: the answer comes once it is stored."""
    send(bench, "m1")
    bench.slow.work()
    db = bench.slow.store.db
    db.execute("PRAGMA query_only=ON")
    cancel(bench, "m1")
    bench.slow.work()
    assert len(bench.answers) == 1
    db.execute("PRAGMA query_only=OFF")
    bench.pass_time(1.5)
    bench.hub.run_timers()
    bench.slow.work()
    assert bench.answers[-1]["state"] == "dead"
