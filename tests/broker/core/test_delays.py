"""Messages that do not go out before a time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.core.delays import release_due
from wakebus.broker.core.dispatch import dispatch, expire
from wakebus.broker.core.restore import restore_hub
from wakebus.broker.errors import BadMessage
from wakebus.broker.protocol import wire
from wakebus.broker.verbs import VERBS

BOOT_S = 3 * 86400.0


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets, whose `worker` is live."""
    found = Bench(tmp_path)
    found.held("worker")
    yield found
    found.close()


def send(bench: Bench, text: str, after: float = 0.0, **fields: Any) -> dict[str, Any]:
    """Send a message that goes out in `after` seconds; return its receipt."""
    fields |= {"not_before": bench.wall + after} if after else {}
    payload = posting("worker", text, queue=True, **fields)
    VERBS["send"](bench.hub, bench.request(payload, b"s"))
    bench.slow.run_all()
    receipt: dict[str, Any] = bench.answers[-1]
    return receipt


def look(bench: Bench) -> list[str]:
    """Let what is due go out; return the texts that have left by now."""
    if holder := bench.hub.endpoints["worker"].holder:
        holder.beat = bench.mono
    release_due(bench.hub)
    bench.slow.run_all()
    return texts(bench)


def texts(bench: Bench) -> list[str]:
    """Return the texts of all deliveries that have left."""
    frames = [wire.decode(frame) for frame in bench.posted]
    return [said[2]["message"]["body"]["text"] for said in frames if said[0] == "deliver"]


def test_it_goes_out_when_its_time_has_come(bench: Bench) -> None:
    """PROTOCOL-4.18: not before, and others of its lane meanwhile."""
    receipt = send(bench, "late", 60)
    assert receipt["not_before"] == pytest.approx(bench.wall + 60, abs=0.01)
    assert "not_before" not in send(bench, "now")
    bench.pass_time(59)
    assert look(bench) == ["now"]
    bench.pass_time(1)
    assert look(bench) == ["now"], "its lane has one out"
    (now,) = bench.hub.endpoints["worker"].mailbox.out
    bench.hub.endpoints["worker"].mailbox.remove(now.id)
    dispatch(bench.hub, bench.hub.endpoints["worker"])
    bench.slow.run_all()
    assert texts(bench) == ["now", "late"]


def test_what_is_past_goes_out_at_once(bench: Bench) -> None:
    """PROTOCOL-4.18: a resend of an older message is no error."""
    assert "not_before" not in send(bench, "past", -5)
    assert texts(bench) == ["past"]


def test_a_year_and_a_day_is_the_most(bench: Bench) -> None:
    """PROTOCOL-4.18: a time in milliseconds is told, not waited for."""
    with pytest.raises(BadMessage, match="not_before"):
        send(bench, "never", 367 * 86400)


def test_the_ttl_counts_from_then(bench: Bench) -> None:
    """PROTOCOL-4.18: what waits for its time does not expire by waiting."""
    bench.hub.endpoints["worker"].holder = None
    send(bench, "late", 3600, ttl_s=60)
    entries = bench.hub.endpoints["worker"].mailbox.entries
    bench.pass_time(3600 + 59)
    release_due(bench.hub)
    bench.slow.run_all()
    expire(bench.hub)
    assert len(entries) == 1
    bench.pass_time(2)
    expire(bench.hub)
    assert len(entries) == 0


def test_a_wall_clock_that_jumps_changes_nothing(bench: Bench) -> None:
    """PROTOCOL-4.18, PROTOCOL-8.10: neither forwards nor back."""
    send(bench, "late", 60)
    bench.wall += 365 * 86400
    assert look(bench) == []
    bench.wall -= 2 * 365 * 86400
    bench.mono += 60
    assert look(bench) == ["late"]


@pytest.mark.parametrize("off", [-30 * 365 * 86400, 0, BOOT_S, 300 * 86400])
def test_over_a_start_the_wall_clock_may_bring_it_nearer(bench: Bench, off: float) -> None:
    """PROTOCOL-4.18: not farther: a machine whose clock lost its battery does not wait for ever."""
    send(bench, "late", BOOT_S)
    bench.hub.endpoints.clear()
    bench.wall += off
    restore_hub(bench.hub, bench.slow.store)
    bench.held("worker")
    assert look(bench) == (["late"] if off >= BOOT_S else [])
    bench.mono += BOOT_S
    bench.held("worker")
    assert look(bench) == ["late"]


def test_it_takes_its_place_at_the_end_of_its_lane(bench: Bench) -> None:
    """PROTOCOL-4.18, PROTOCOL-7.1: also over a new start: the place is stored."""
    bench.hub.endpoints["worker"].holder = None
    for text, after in (("c", 2), ("b", 1), ("a", 0)):
        send(bench, text, after)
    bench.pass_time(3)
    look(bench)
    box = bench.hub.endpoints["worker"].mailbox
    before = [entry.id for entry in sorted(box.entries.values(), key=lambda entry: entry.seq)]
    bench.hub.endpoints.clear()
    restore_hub(bench.hub, bench.slow.store)
    entries = bench.hub.endpoints["worker"].mailbox.entries
    assert [*entries] == before
    rows = [bench.slow.store.find(id) for id in entries]
    stored = [json.loads(row["message"])["body"]["text"] for row in rows if row]
    assert stored == ["a", "b", "c"]


def test_a_store_that_does_not_answer(bench: Bench) -> None:
    """PROTOCOL-4.18: the place is stored first; it is tried again."""
    send(bench, "late", 1)
    bench.pass_time(1)
    bench.slow.store.db.execute("PRAGMA query_only=ON")
    assert look(bench) == []
    bench.slow.store.db.execute("PRAGMA query_only=OFF")
    assert look(bench) == ["late"]


def test_a_look_while_the_store_is_slow(bench: Bench) -> None:
    """PROTOCOL-4.18: it is put into its place once."""
    send(bench, "late", 1)
    bench.pass_time(1)
    release_due(bench.hub)
    assert look(bench) == ["late"]
    steps = bench.slow.store.find(next(iter(bench.hub.endpoints["worker"].mailbox.entries)))
    assert steps and steps["log"].count('"due"') == 1


def test_it_ends_while_the_store_is_slow(bench: Bench) -> None:
    """PROTOCOL-4.18, PROTOCOL-10.11: cancelled on the way into its lane, it does not go out."""
    id = send(bench, "late", 1)["id"]
    bench.pass_time(1)
    release_due(bench.hub)
    VERBS["cancel"](bench.hub, bench.request({"id": id}))
    bench.slow.run_all()
    assert texts(bench) == []
    assert bench.answers[-1]["state"] == "dead"
    assert not bench.hub.endpoints["worker"].mailbox.entries
