"""One message to several endpoints, at a time and in an order, as people send it."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from fakes.desk import Desk, Listener
from wakebus.broker.errors import BadName
from wakebus.plugin.cli.output import Usage
from wakebus.plugin.cli.targets import targets_of

Listen = Callable[..., Listener]


@pytest.fixture
def two(desk: Desk, name: str) -> tuple[str, str]:
    """Two known endpoints that nobody holds."""
    names = (f"{name}-1", f"{name}-2")
    for one in names:
        desk.declare(one)
    return names


def inbox(desk: Desk, name: str) -> list[dict[str, Any]]:
    """Return what waits for an endpoint."""
    with desk.client() as bus:
        return list(bus.inbox(name))


def lines(out: str) -> list[dict[str, Any]]:
    """Return one JSON object for each line."""
    return [json.loads(line) for line in out.splitlines()]


def test_names_in_a_list() -> None:
    """Repeated or with commas, each once, in their order; spaces behind a comma are none."""
    assert targets_of(["a1,a2", "a1", "a3, a2"]) == ["a1", "a2", "a3"]
    for empty in ("a1,,a2", "a1,", ",a1"):
        with pytest.raises(Usage, match="a name is empty"):
            targets_of([empty])
    for bad in ("", "a1,b c", "a b"):
        with pytest.raises(BadName):
            targets_of([bad])


def test_to_is_repeated(desk: Desk, two: tuple[str, str]) -> None:
    """Issue 12, A2: `--to a1 --to a2` and `a1,a2` send to each, a receipt a line."""
    one, other = two
    for words in (("--to", one, "--to", other), ("--to", f"{one},{other},{one}")):
        done = desk.notify(*words, "--from", "ci", "hi")
        assert done.status == 0
        assert [line.split()[3].strip(",;") for line in done.out.splitlines()] == [one, other]
    assert [len(inbox(desk, name)) for name in two] == [2, 2]


def test_json_is_a_line_for_each(desk: Desk, two: tuple[str, str]) -> None:
    """What scripts read by lines, each with its `to`."""
    done = desk.notify("--to", ",".join(two), "--from", "ci", "--json", "hi")
    assert [receipt["to"] for receipt in lines(done.out)] == [*two]


@pytest.mark.parametrize("bad", ["nobody-9", "b c", ""])
def test_a_name_in_the_list_is_wrong(desk: Desk, two: tuple[str, str], bad: str) -> None:
    """It is decided before anything is sent to anybody."""
    done = desk.notify("--to", two[0], "--to", f"{two[1]},{bad}", "--from", "ci", "hi")
    assert done.status == (3 if bad.startswith("nobody") else 2) and done.out == ""
    assert bad in done.err and "Traceback" not in done.err
    assert [len(inbox(desk, name)) for name in two] == [0, 0]


def test_an_unknown_one_is_kept_by_queue(desk: Desk, two: tuple[str, str]) -> None:
    """`--queue` is for all of them."""
    new = f"{two[0]}-new"
    done = desk.notify("--to", f"{two[0]},{new}", "--queue", "--from", "ci", "hi")
    assert done.status == 0 and len(inbox(desk, new)) == 1


def test_a_key_is_each_targets_own(desk: Desk, two: tuple[str, str]) -> None:
    """Else the second one would be taken for the first, sent again."""
    for again in (False, True):
        words = ("--to", ",".join(two), "--from", "ci", "--key", f"{two[0]}-k", "--json", "hi")
        found = lines(desk.notify(*words).out)
        assert [one["duplicate"] for one in found] == [again, again]
    assert [len(inbox(desk, name)) for name in two] == [1, 1]


def test_an_id_is_one_messages(desk: Desk, two: tuple[str, str]) -> None:
    """Usage, and nothing is sent."""
    done = desk.notify("--to", ",".join(two), "--id", "i1", "--from", "ci", "hi")
    assert done.status == 2 and "--id names one message" in done.err
    assert [len(inbox(desk, name)) for name in two] == [0, 0]


def test_the_exit_is_the_worst(desk: Desk, two: tuple[str, str], listen: Listen) -> None:
    """One is handled, the other not in time: each has its line, and both were sent."""
    listen(two[0])
    done = desk.notify("--to", ",".join(two), "--from", "ci", "--wait", "2", "hi")
    assert done.status == 4
    assert done.out.startswith(f"{two[0]}: handled ")
    assert f"notify-hermes: {two[1]}: " in done.err and "not yet handled" in done.err


def test_several_are_asked(desk: Desk, two: tuple[str, str], listen: Listen) -> None:
    """`ask a1,a2`: each answer with its name; who fails is told, and is the exit status."""
    listen(two[0], "--agent", "cat >/dev/null; echo one")
    listen(two[1], "--agent", "cat >/dev/null; exit 3")
    done = desk.wakebus("ask", ",".join(two), "--from", "ci", "--wait", "60", "hi")
    assert done.status == 6
    assert done.out == f"{two[0]}: one\n"
    assert f"{two[1]}: dead " in done.err and "the turn failed: exit 3" in done.err


# --- later, and in which order ------------------------------------------------------------------


def test_in_and_at(desk: Desk, two: tuple[str, str]) -> None:
    """Issue 12, A2: stored, listed with its time, in the trace, taken back."""
    done = desk.notify("--to", two[0], "--from", "ci", "--in", "10m", "hi")
    assert done.status == 0
    assert "; it goes out at " in done.out and ", in 10 min; " in done.out
    shown = desk.wakebus("inbox", two[0]).out
    (row,) = inbox(desk, two[0])
    assert row["not_before"] == pytest.approx(time.time() + 600, abs=30)
    assert time.strftime("at %H:%M", time.localtime(row["not_before"])) in shown
    trace = desk.wakebus("trace", row["id"]).out
    assert ", goes out at " in trace
    assert desk.wakebus("cancel", row["id"]).status == 0
    assert inbox(desk, two[0]) == []
    then = time.strftime("%Y-%m-%dT%H:%M", time.localtime(time.time() + 2 * 86400))
    receipt = desk.sent("--to", two[0], "--from", "ci", "--at", then, "hi")
    assert time.strftime("%Y-%m-%dT%H:%M", time.localtime(receipt["not_before"])) == then


def test_it_is_waited_for_from_then(desk: Desk, name: str, listen: Listen) -> None:
    """`ask --in`: the seconds of the wait begin when it goes out, and that is said."""
    listen(name, "--agent", "cat >/dev/null; echo yes")
    done = desk.wakebus("ask", name, "--from", "ci", "--in", "2s", "--wait", "30", "hi")
    assert (done.status, done.out) == (0, "yes\n")
    assert "goes out at " in done.err and "the wait begins then" in done.err
    done = desk.wakebus("ask", name, "--in", "23h59m", "--wait", "300", "hi")
    assert done.status == 2 and "longer than a day" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--in", "10"), "no span of time; write 90s, 10m"),
        (("--at", "25:00"), "hour must be in 0..23"),
        (("--at", "2020-01-01T10:00"), "is past"),
        (("--in", "5m", "--at", "18:00"), "not allowed with argument"),
        (("--ttl", "never"), "no span of time"),
        (("--priority", "urgent"), "invalid choice: 'urgent'"),
        (("--wake", "loud"), "invalid choice: 'loud'"),
    ],
)
def test_a_wrong_time_is_told(desk: Desk, words: tuple[str, ...], says: str) -> None:
    """Usage, for each command that sends."""
    for command in (("ask", "e1"), ("send", "console:x")):
        if command[0] == "ask" or words[0] != "--wake":
            done = desk.wakebus(*command, *words, "hi")
            assert done.status == 2 and says in done.err, done
    done = desk.notify("--to", "e1", *words, "hi")
    assert done.status == 2 and says in done.err, done


def test_the_fields_of_the_protocol(desk: Desk, two: tuple[str, str]) -> None:
    """--ttl, --wake, --priority reach the message; the trace shows what goes first."""
    words = ("--ttl", "10m", "--wake", "next_turn", "--priority", "high")
    id = desk.sent("--to", two[0], "--from", "ci", *words, "hi")["id"]
    found = desk.traced(id)
    assert {k: found[k] for k in ("ttl_s", "wake", "priority")} == {
        "ttl_s": 600,
        "wake": "next_turn",
        "priority": "high",
    }
    assert "untyped (high)" in desk.wakebus("trace", id).out
