"""`wakebus cancel`: take back what still waits."""

from collections.abc import Callable

from fakes.broker import until
from fakes.desk import Desk, Listener
from fakes.peer import Peer

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


def test_an_agents_turn_is_ended(desk: Desk, name: str, listen: Listen) -> None:
    """Its whole process group; who asked is told at once; the next message has its turn."""
    listen(name, "--agent", "cat; if [ $WAKEBUS_ID = long ]; then echo $$ >&2; sleep 600; fi")
    with desk.client() as bus:
        bus.send(name, "work", type="directive", sender="ci", id="long", asks=True)
        until(lambda: desk.traced("long")["steps"][-1]["what"] == "started")
        done = desk.wakebus("cancel", "long", "--from", "me")
        assert (done.status, done.err) == (0, "")
        assert done.out == (
            f"long is cancelled by me; {name} has ended its work on it, which may be half done. "
            "To send it again: wakebus dead retry long --force\n"
        )
        answer = bus.wait_answer("long", 30)
        assert answer.message is None and answer.receipt.reason == "cancelled by me"
        turn = (answer.receipt.outcome or {})["turn"]
        assert turn["error"] == "ended before it was done" and not answer.receipt.failed
        assert bus.ask(name, "short", wait=60).message is not None


def test_a_command_is_ended(desk: Desk, name: str, listen: Listen) -> None:
    """As a turn is."""
    rules = desk.rules('callbacks: [{match_type: "*", command: "sleep 600; echo no"}]', name)
    listen(name, "--rules", rules)
    desk.sent("--to", name, "--id", f"{name}-1", "hi")
    until(lambda: desk.traced(f"{name}-1")["steps"][-1]["what"] == "started")
    found = desk.wakebus("cancel", f"{name}-1", "--json").json
    assert found == {"id": f"{name}-1", "state": "dead", "reason": "cancelled by cli"}
    actions = desk.traced(f"{name}-1")["outcome"]["actions"]
    assert actions[-1]["cancelled"] is True


def test_a_receiver_that_cannot_be_told(desk: Desk, name: str) -> None:
    """Exit 4: it goes on, and the message is dead when it has ended."""
    holder = Peer(desk.address["router"])
    try:
        holder.register(name)
        holder.send(name, sender=name, id=name)
        delivery = holder.take()
        done = desk.wakebus("cancel", name)
        assert done.status == 4 and "cannot be told, and goes on" in done.out
        assert desk.wakebus("cancel", name, "--json").json["state"] == "delivered"
        holder.say("handled", delivery)
        assert desk.traced(name)["reason"] == "cancelled by cli"
    finally:
        holder.close()
