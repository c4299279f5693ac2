"""`wakebus endpoints`: list, add, remove."""

from collections.abc import Callable

import pytest

from fakes.desk import Desk, Listener

Listen = Callable[..., Listener]


def test_add_and_remove(desk: Desk, name: str) -> None:
    """Added, its messages are kept; removed, it is unknown again."""
    send = ("--to", name, "--from", "ci", "hi")
    assert desk.notify(*send).status == 3
    done = desk.wakebus("endpoints", "add", name)
    assert (done.status, done.out) == (0, f"added {name}: messages for it are kept\n")
    assert desk.wakebus("endpoints", "add", "--json", name).json == {"name": name, "done": "add"}
    assert desk.wakebus("endpoints", "remove", name, "--json").json["done"] == "remove"
    assert desk.notify(*send).status == 3
    desk.wakebus("endpoints", "add", name)
    assert desk.notify(*send).status == 0
    done = desk.wakebus("endpoints", "remove", name)
    assert done.status == 1 and "1 messages waiting; they would be lost" in done.err


def test_list(desk: Desk, name: str, listen: Listen) -> None:
    """Name, state, holder's pid, what waits."""
    desk.wakebus("endpoints", "add", f"{name}-away")
    desk.sent("--to", f"{name}-away", "--from", "ci", "hi")
    listener = listen(name)
    lines = desk.wakebus("endpoints").out.splitlines()
    away = next(line.split() for line in lines if line.startswith(f"{name}-away "))
    live = next(line.split() for line in lines if line.startswith(f"{name} "))
    assert lines[0].split() == ["ENDPOINT", "STATE", "PID", "QUEUED", "NOTE"]
    assert away[1:] == ["away", "-", "1", "-"]
    assert live[1:] == ["live", str(listener.process.pid), "0", "-"]
    found = {one["name"]: one for one in desk.wakebus("endpoints", "--json").json}
    assert found[name]["pid"] == listener.process.pid and found[f"{name}-away"]["queued"] == 1
    done = desk.wakebus("endpoints", "remove", name)
    assert done.status == 1 and f"held by process {listener.process.pid}" in done.err


def test_ephemeral_ones_are_shown_as_such(desk: Desk, name: str) -> None:
    """The one with a suffix ends with its session, the one without stays."""
    with desk.client() as one, desk.client() as two:
        for client in (one, two):
            client.register(name, lambda delivery: None, suffix=True)
        lines = desk.wakebus("endpoints").out.splitlines()
        found = {entry["name"]: entry for entry in desk.wakebus("endpoints", "--json").json}
    told = {line.split()[0]: line.split()[4:] for line in lines}
    assert (told[name], told[f"{name}-2"]) == (["-"], ["ephemeral"])
    assert [found[f"{name}{end}"]["ephemeral"] for end in ("", "-2")] == [False, True]


def test_none_yet(own_desk: Desk) -> None:
    """A newcomer is told how to get one."""
    own_desk.start()
    assert "wakebus listen NAME" in own_desk.wakebus("endpoints").out
    assert own_desk.wakebus("endpoints", "--json").json == []


@pytest.mark.parametrize("bad", ["a.b", "a b", "", "é", "x" * 65])
def test_a_name_that_is_none(desk: Desk, bad: str) -> None:
    """Exit 2 with what a name is."""
    done = desk.wakebus("endpoints", "add", bad, "--json")
    assert done.status == 2 and "an endpoint name has 1 to 64" in done.json["error"]["text"]


def test_usage(desk: Desk, name: str) -> None:
    """Without a name, with an unknown action, with a name that nobody knows."""
    assert desk.wakebus("endpoints", "add").status == 2
    assert desk.wakebus("endpoints", "delete", "x").status == 2
    done = desk.wakebus("endpoints", "remove", name)
    assert done.status == 3 and f"nobody ever registered '{name}'" in done.err
    assert "--queue" not in done.err
