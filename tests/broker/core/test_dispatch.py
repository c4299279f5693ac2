"""What goes out, what comes back, and what happens while the disk is slow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.core import dispatch
from wakebus.broker.protocol import wire
from wakebus.broker.store.rows import Redelivery
from wakebus.broker.verbs import VERBS


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def send(bench: Bench, id: str, **fields: object) -> None:
    """Send a message to `e` and store it."""
    payload = posting("e", id, queue=True, id=id, **fields)
    VERBS["send"](bench.hub, bench.request(payload, b"sender"))
    bench.slow.run_all()


def delivered(bench: Bench) -> list[str]:
    """Return the ids that were delivered, in order."""
    frames = [wire.decode(frame) for frame in bench.posted]
    return [f.payload["message"]["id"] for f in frames if f.verb == "deliver"]


def test_a_message_that_is_being_fetched_does_not_expire(bench: Bench) -> None:
    """PROTOCOL-6.10: it is on its way, and arrives."""
    send(bench, "m1", ttl_s=5)
    dispatch.dispatch(bench.hub, bench.held("e"))
    bench.pass_time(6)
    endpoint = bench.hub.endpoints["e"]
    assert endpoint.holder is not None
    endpoint.holder.beat = bench.mono
    dispatch.expire(bench.hub)
    bench.slow.run_all()
    assert delivered(bench) == ["m1"]


def test_a_holder_that_comes_back_while_the_disk_is_slow(bench: Bench) -> None:
    """PROTOCOL-5.10: what was being fetched for its old connection is sent once, to the new one."""
    send(bench, "m1")
    bench.greeted(b"c1").names.add("e")
    endpoint = bench.held("e", b"c1")
    endpoint.instance = "a" * 16
    dispatch.dispatch(bench.hub, endpoint)
    bench.greeted(b"c2")
    VERBS["register"](bench.hub, bench.request({"name": "e"}, b"c2"))
    bench.slow.run_all()
    assert delivered(bench) == ["m1"]


def test_a_holder_that_dies_while_the_disk_is_slow(bench: Bench) -> None:
    """PROTOCOL-6.2, PROTOCOL-6.8: nothing was sent, so the next holder gets it as the first."""
    send(bench, "m1")
    endpoint = bench.held("e")
    dispatch.dispatch(bench.hub, endpoint)
    endpoint.holder = None
    dispatch.bring_back(bench.hub, endpoint, died=True, why="died")
    bench.slow.run_all()
    assert delivered(bench) == []
    dispatch.dispatch(bench.hub, bench.held("e"))
    bench.slow.run_all()
    assert delivered(bench) == ["m1"]
    payload = wire.decode(bench.posted[0]).payload
    assert (payload["attempt"], payload["redelivered"]) == (1, False)


def test_an_ack_before_its_holder_dies_counts(bench: Bench) -> None:
    """PROTOCOL-8.3: although the disk has not taken it yet."""
    send(bench, "m1")
    endpoint = bench.held("e")
    dispatch.dispatch(bench.hub, endpoint)
    bench.slow.run_all()
    VERBS["handled"](bench.hub, bench.request({"to": "e", "id": "m1", "epoch": 1}))
    endpoint.holder = None
    dispatch.bring_back(bench.hub, endpoint, died=True, why="died")
    dispatch.dispatch(bench.hub, bench.held("e"))
    bench.slow.run_all()
    assert delivered(bench) == ["m1"] and not endpoint.mailbox.entries
    row = bench.slow.store.find("m1")
    assert row is not None and (row["state"], row["deaths"]) == ("handled", 0)


def test_a_message_that_has_vanished_holds_up_nothing(bench: Bench) -> None:
    """Its lane goes on."""
    send(bench, "m1")
    bench.slow.store._db.execute("DELETE FROM message")
    endpoint = bench.held("e")
    dispatch.dispatch(bench.hub, endpoint)
    bench.slow.run_all()
    send(bench, "m2")
    assert delivered(bench) == ["m2"]


def commits(bench: Bench) -> int:
    """Run all that is queued; return how many transactions wrote."""
    statements: list[str] = []
    bench.slow.store.db.set_trace_callback(statements.append)
    bench.slow.run_all()
    bench.slow.store.db.set_trace_callback(None)
    transactions = "\n".join(statements).split("BEGIN IMMEDIATE")
    return sum("UPDATE" in one or "INSERT" in one for one in transactions)


def test_the_label_costs_no_commit_of_its_own(bench: Bench) -> None:
    """PROTOCOL-6.15: it is stored with the message, and then with the end of the one before."""
    bench.held("e")
    payloads = [posting("e", id=f"m{n}") for n in range(3)]
    for payload in payloads:
        VERBS["send"](bench.hub, bench.request(payload, b"sender"))
    assert commits(bench) == 1 and delivered(bench) == ["m0"]
    for number in range(3):
        told = {"to": "e", "id": f"m{number}", "epoch": 1}
        for verb in ("got", "handled"):
            VERBS[verb](bench.hub, bench.request(told))
        assert commits(bench) == 1
    assert delivered(bench) == ["m0", "m1", "m2"]


def test_a_frame_leaves_after_the_commit_that_says_so(bench: Bench) -> None:
    """PROTOCOL-6.15: what waited for a holder is marked when that has come."""
    send(bench, "m1")
    dispatch.dispatch(bench.hub, bench.held("e"))
    assert delivered(bench) == []
    assert commits(bench) == 1 and delivered(bench) == ["m1"]
    (row,) = bench.slow.store.open_messages()
    assert Redelivery.SENT in Redelivery(row["redelivered"])


def test_a_dead_letter_that_a_holder_had_comes_back_labelled(tmp_path: Path) -> None:
    """PROTOCOL-10.8: also where the first death was the last."""
    bench = Bench(tmp_path, attempts=1)
    send(bench, "m1")
    endpoint = bench.held("e")
    dispatch.dispatch(bench.hub, endpoint)
    bench.slow.run_all()
    endpoint.holder = None
    dispatch.bring_back(bench.hub, endpoint, died=True, why="died")
    bench.slow.run_all()
    bench.held("e")
    VERBS["retry"](bench.hub, bench.request({"ids": ["m1"]}))
    bench.slow.run_all()
    assert wire.decode(bench.posted[-1]).payload["redelivered"] is True
    bench.close()
