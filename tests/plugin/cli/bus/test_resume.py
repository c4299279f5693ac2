"""`wakebus resume`: which loops are paused, and how a person lets them go on."""

from fakes.desk import Desk


def looped(desk: Desk, name: str) -> None:
    """Pause `name` to itself."""
    desk.declare(name)
    with desk.client() as bus:
        for _ in range(3):
            bus.send(name, "again", sender=name, hops=1)
    env = {"WAKEBUS_TOKEN": "t" * 20, "WAKEBUS_ENDPOINT": name, "WAKEBUS_ID": "m1"}
    done = desk.notify("--to", name, "again", env=env)  # its turn is over: a job that goes on
    assert done.status == 1 and "a loop" in done.err and f"wakebus resume {name} {name}" in done.err


def test_listing(desk: Desk, name: str) -> None:
    """Who, until when, why; nothing is an answer, too."""
    looped(desk, name)
    done = desk.wakebus("resume")
    assert done.status == 0 and name in done.out and "3 messages to itself within 60 s" in done.out
    assert "wakebus resume FROM TO" in done.err
    found = desk.wakebus("resume", "--json").json["paused"]
    assert [one for one in found if one["from"] == one["to"] == name]
    assert desk.wakebus("resume", "--all").status == 0
    assert desk.wakebus("resume").out == "nothing is paused\n"
    assert desk.wakebus("resume", "--all").out == "nothing is paused\n"


def test_lifting(desk: Desk, name: str) -> None:
    """A pair, a name; what is not paused is told with exit 1."""
    looped(desk, name)
    done = desk.wakebus("resume", name, "other")
    assert (done.status, done.out) == (1, "")
    assert f"{name} → other is not paused" in done.err and "What is: wakebus resume" in done.err
    assert desk.wakebus("resume", name, name).out == f"resumed {name} → {name}\n"
    looped(desk, name)
    assert desk.wakebus("resume", name, "--json").json == {"resumed": [{"from": name, "to": name}]}
    assert desk.wakebus("resume", name, "--json").json["error"]["code"] == "refused"


def test_a_turn_lifts_nothing(desk: Desk, name: str) -> None:
    """A model that reads how to go on does not go on."""
    looped(desk, name)
    env = {"WAKEBUS_TOKEN": "t" * 20}
    done = desk.wakebus("resume", name, env=env)
    assert done.status == 1 and "only a person" in done.err
    assert desk.wakebus("resume", env=env).status == 0, "it may look"
    assert desk.wakebus("resume", name).status == 0


def test_a_turn_retries_nothing_into_it(desk: Desk, name: str) -> None:
    """PROTOCOL-10.8: a dead letter of what is paused is sent again by a person alone."""
    looped(desk, name)
    desk.notify("--to", name, "--from", "ci", "--id", f"{name}-1", "--type", "say", "x")
    desk.wakebus("cancel", f"{name}-1")
    done = desk.wakebus("dead", "retry", f"{name}-1", env={"WAKEBUS_TOKEN": "t" * 20})
    assert done.status == 1 and "a turn does not go on with it" in done.err
    assert desk.wakebus("dead", "retry", f"{name}-1").status == 0
    desk.wakebus("cancel", f"{name}-1")
    empty = {"WAKEBUS_TOKEN": ""}  # as good as none: a person's
    assert desk.wakebus("dead", "retry", f"{name}-1", env=empty).status == 0
    assert desk.wakebus("resume", name).status == 0


def test_usage(desk: Desk) -> None:
    """Exit 2."""
    for words in (("a", "b", "c"), ("a", "--all"), ("a.b",)):
        assert desk.wakebus("resume", *words).status == 2, words
