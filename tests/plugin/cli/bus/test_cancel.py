"""`wakebus cancel`: take back what still waits."""

from collections.abc import Callable

from fakes.desk import Desk, Listener

Listen = Callable[..., Listener]


def test_what_waits(desk: Desk, name: str) -> None:
    """It is a dead letter, by whom is told; the next step is to send it all the same."""
    desk.declare(name)
    for n in range(2):
        desk.sent("--to", name, "--from", "ci", "--id", f"{name}-{n}", "hi")
    done = desk.wakebus("cancel", f"{name}-0", "--from", "me")
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        f"{name}-0 is cancelled by me; to send it all the same: wakebus dead retry {name}-0\n"
    )
    found = desk.wakebus("cancel", f"{name}-1", "--json").json
    assert found == {"id": f"{name}-1", "state": "dead", "reason": "cancelled by cli"}
    assert desk.traced(f"{name}-0")["steps"][-1]["by"] == "me"


def test_what_does_not_wait_any_more(desk: Desk, name: str, listen: Listen) -> None:
    """Exit 1 with its state and where to look."""
    listen(name)
    desk.sent("--to", name, "--from", "ci", "--id", name, "hi")
    desk.handled(name)
    done = desk.wakebus("cancel", name)
    assert done.status == 1 and f"{name} is handled already" in done.err
    assert f"wakebus trace {name}" in done.err and done.out == ""
    done = desk.wakebus("cancel", "never", "--json")
    assert done.status == 1 and done.json["error"]["code"] == "unknown_id"
    assert desk.wakebus("cancel").status == 2
    assert desk.wakebus("cancel", "x", "--from", "a.b").status == 2


def test_somebody_waits_for_it(desk: Desk, name: str) -> None:
    """A sender with --wait is told at once; a sender that listens gets a notice."""
    desk.declare(name)
    listener = desk.listen(f"{name}-asker")
    with desk.client() as bus:
        bus.send(name, "hi", sender=f"{name}-asker", id=name)
        desk.wakebus("cancel", name, "--from", "boss")
        assert bus.wait(name, 30).reason == "cancelled by boss"
    listener.shows("is a dead letter: cancelled by boss")
    listener.end()
