"""`wakebus inbox`: what an endpoint has, without taking it."""

import re
import threading

from fakes.broker import until
from fakes.desk import Desk
from wakebus.broker import Delivery, Later, Outcome
from wakebus.plugin.cli.bus.inbox import held_up


def test_what_waits_and_what_is_in_hand(desk: Desk, name: str) -> None:
    """Id, age, state, from, type, first line; then what was silent; nothing is taken."""
    go, begun = threading.Event(), threading.Event()

    def handler(delivery: Delivery) -> Outcome:
        if delivery.message.wake == "silent":
            return {"wake": "silent"}
        delivery.started()
        begun.set()
        go.wait(60)
        return None

    with desk.client() as bus:
        bus.register(name, handler)
        bus.send(name, "kept\nfor later", sender=name, wake="silent", id=f"{name}-0", wait=30)
        for n in (1, 2):
            bus.send(name, f"\n text {n}\x1b[2J ", sender=name, type="t", id=f"{name}-{n}")
        assert begun.wait(30)
        for _ in range(2):
            done = desk.wakebus("inbox", name)
            head, *lines = done.out.splitlines()
            assert head.split() == ["ID", "AGE", "STATE", "FROM", "TYPE", "CHANNEL", "TEXT"]
            assert [line.split()[2] for line in lines] == ["started", "queued", "silent"]
        pattern = rf"{name}-1 +\d+[sm]  started  {name}  t     -        text 1"
        assert re.fullmatch(pattern, lines[0]), lines[0]
        assert lines[2].endswith("-     -        kept") and "\x1b" not in done.both
        found = desk.wakebus("inbox", name, "--json").json
        assert found["endpoint"] == name and len(found["messages"]) == 3
        assert found["messages"][2]["silent"] is True
        go.set()
        bus.wait(f"{name}-2", 30)
    out = desk.wakebus("inbox", name, "--all").out
    assert [line.split()[2] for line in out.splitlines()[1:]] == ["silent", "handled", "handled"]


def test_an_empty_one(desk: Desk, name: str) -> None:
    """Says so; with --json an empty list; a name that nobody knows is exit 3."""
    desk.declare(name)
    assert desk.wakebus("inbox", name) == (0, f"nothing is there for {name}\n", "")
    assert desk.wakebus("inbox", name, "--json").json == {"endpoint": name, "messages": []}
    done = desk.wakebus("inbox", f"{name}-not")
    assert done.status == 3 and f"nobody ever registered '{name}-not'" in done.err
    assert f"did you mean {name}?" in done.err and "--queue" not in done.err
    assert desk.wakebus("inbox", "a.b").status == 2
    assert desk.wakebus("inbox").status == 2


def test_a_claimed_sender_is_marked(desk: Desk, name: str) -> None:
    """As in a trace."""
    desk.sent("--to", name, "--queue", "--from", "ci", "hi")
    assert "  ci (claimed)  -     -        hi\n" in desk.wakebus("inbox", name).out


def test_what_a_chat_may_have(desk: Desk, name: str) -> None:
    """--uncertain: what its channel result leaves open, with the chat; nothing else."""
    results = {f"{name}-{n}": word for n, word in enumerate(("sent", "uncertain"))}

    def handler(delivery: Delivery) -> Outcome:
        return {"channel": {"result": results[delivery.message.id]}}

    with desk.client() as bus:
        bus.register(name, handler)
        for id in results:
            bus.send(name, {"text": f"of {id}", "channel": "ntfy:t"}, sender=name, id=id, wait=30)
    shown = desk.wakebus("inbox", name, "--uncertain").out
    pattern = rf"{name}-1 +\d+[sm]  uncertain  {name}  -     ntfy:t   of {name}-1"
    assert re.fullmatch(pattern, shown.splitlines()[1]), shown
    found = desk.wakebus("inbox", name, "--uncertain", "--json").json["messages"]
    assert [(one["id"], one["result"]) for one in found] == [(f"{name}-1", "uncertain")]


def test_all_that_a_chat_may_have(desk: Desk, name: str) -> None:
    """--uncertain knows what an endpoint printed by itself; without a name, that of everybody."""
    printed = {"what": "print", "result": "uncertain", "to": "ntfy:t"}
    with desk.client() as bus:
        for who, outcome in (
            (f"{name}-gw", {"actions": [printed]}),
            (f"{name}-courier", {"channel": {"result": "uncertain"}}),
            (f"{name}-fine", {"actions": [{**printed, "result": "sent"}]}),
        ):
            bus.register(who, lambda _, outcome=outcome: outcome)  # type: ignore[misc]
            bus.send(who, "hi", sender=who, id=f"{who}-1", wait=30)
    assert f"{name}-gw-1" in desk.wakebus("inbox", f"{name}-gw", "--uncertain").out
    shown = desk.wakebus("inbox", "--uncertain").out
    assert shown.split()[:2] == ["ENDPOINT", "ID"]
    assert [f"{name}-{who}-1" in shown for who in ("gw", "courier", "fine")] == [True, True, False]
    found = desk.wakebus("inbox", "--uncertain", "--json").json["messages"]
    mine = [one["to"] for one in found if one["to"].startswith(name)]
    assert sorted(mine) == [f"{name}-courier", f"{name}-gw"]


def test_a_text_behind_a_stuck_one(desk: Desk, name: str) -> None:
    """PROTOCOL-10.13: inbox, trace, status and --wait say which one, and why."""

    def handler(delivery: Delivery) -> Outcome:
        return Later(600, "no route\x1b[2J to host")

    with desk.client() as bus:
        bus.register(name, handler)
        first = desk.sent("--to", name, "--from", "me", "stuck")["id"]
        until(lambda: "put_off" in next(iter(bus.trace(first))))
        for n in (1, 2):
            desk.sent("--to", name, "--from", "me", "--id", f"{name}-{n}", "behind it")
        out = desk.wakebus("inbox", name).out
        assert f"{first} waits, 2 behind it: no route" in out.splitlines()[-1]
        assert f"behind {first}" in desk.wakebus("trace", f"{name}-2").out
        assert f"2 for {name} behind {first}" in desk.run("hermes-busd", "status").out
        done = desk.notify("--to", name, "--from", "me", "--wait", "0.1", "third")
        assert done.status == 4 and f"behind {first}" in done.err and "no route" in done.err
        assert "\x1b" not in out + done.both + desk.run("hermes-busd", "status").out


def test_very_many_lanes_that_wait() -> None:
    """The first five are named, those with most behind them first."""
    put_off = [{"id": f"m{n}", "put_off": "429"} for n in range(9)]
    lines = list(held_up([*put_off, {"id": "x", "behind": "m8", "behind_why": "429"}]))
    assert lines[0] == "m8 waits, 1 behind it: 429" and lines[1] == "m0 waits: 429"
    assert lines[5:] == ["… and 4 more; all of one: wakebus trace ID"]
    assert list(held_up([{"id": "x", "behind": "y"}])) == []  # it is in hand, as its row says
