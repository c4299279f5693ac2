"""`wakebus cancel`: take back what still waits."""

import signal
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
        f"{name}-0 is cancelled by me. Look at it: wakebus dead show {name}-0. "
        f"Send it again: wakebus dead retry {name}-0\n"
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
            f"long is cancelled by me; {name}, which had it, has ended its work; work on it had "
            "begun, and may be done in part or whole. Look at it: wakebus dead show long. "
            "To have it done again all the same: wakebus dead retry --force long\n"
        )
        answer = bus.wait_answer("long", 30)
        assert answer.message is None and answer.receipt.reason == "cancelled by me"
        turn = (answer.receipt.outcome or {})["turn"]
        assert turn["error"] == "ended before it was done" and not answer.receipt.failed
        assert bus.ask(name, "short", wait=60).message is not None


def force(desk: Desk, text: str, id: str) -> None:
    """What a text names as the next step is taken by the broker as it stands there."""
    assert f"wakebus dead retry --force {id}" in text, text
    assert desk.wakebus("dead", "retry", "--force", id).status == 0


def test_the_next_step_of_a_notice(desk: Desk, name: str, listen: Listen) -> None:
    """PROTOCOL-6.11: work had begun, so the notice says that, and names what is not refused."""
    lead = listen(f"{name}-lead")
    listen(name, "--agent", "cat >/dev/null; sleep 600")
    words = ("--to", name, "--type", "directive", "--id", name, "--from", f"{name}-lead", "x")
    desk.notify(*words)
    until(lambda: desk.traced(name)["steps"][-1]["what"] == "started")
    desk.wakebus("cancel", name)
    lead.shows("Not done: your message directive")
    lead.shows("cancelled by cli; work on it had begun, and may be done in part or whole")
    lead.shows(f"To have it done again all the same: wakebus dead retry --force {name}")
    done = desk.notify(*words)
    assert done.status == 1 and desk.notify(*words, "--json").json["in_doubt"] is True
    assert desk.wakebus("dead", "retry", name).status == 1
    force(desk, done.err, name)


def test_what_waits_again(desk: Desk, name: str, listen: Listen) -> None:
    """PROTOCOL-10.11: its receiver was killed in a turn, or a turn failed and is tried again."""
    rules = desk.rules("- {match_type: job, context: true, retries: 1, retry_after: 50}", name)
    agent = "cat >/dev/null; test $WAKEBUS_TYPE = job && exit 1; sleep 600"
    listener = listen(name, "--rules", rules, "--agent", agent)
    failed, cut = f"{name}-failed", f"{name}-cut"
    desk.notify("--to", name, "--type", "job", "--id", failed, "x")
    until(lambda: desk.traced(failed).get("failures"))
    force(desk, desk.wakebus("cancel", failed).out, failed)
    desk.notify("--to", name, "--type", "directive", "--id", cut, "--session", "s", "x")
    until(lambda: desk.traced(cut)["steps"][-1]["what"] == "started")
    listener.end(signal.SIGKILL)
    until(lambda: desk.traced(cut)["state"] == "queued")
    force(desk, desk.wakebus("cancel", cut).out, cut)


def test_what_failed(desk: Desk, name: str, listen: Listen) -> None:
    """Exit 1, in the words of a trace."""
    listen(name, "--agent", "cat >/dev/null; exit 1")
    desk.notify("--to", name, "--type", "directive", "--id", name, "--wait", "30", "x")
    done = desk.wakebus("cancel", name)
    assert done.status == 1 and f"{name} is dead (failed) already" in done.err


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
