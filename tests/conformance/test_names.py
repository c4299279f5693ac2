"""PROTOCOL.md section 5: names, against real brokers and real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import MakePeer, Peer, posting
from wakebus.broker import errors

Holder = Callable[[Broker, str], "subprocess.Popen[bytes]"]


@pytest.fixture
def holder() -> Iterator[Holder]:
    """Return a maker of processes that hold a name until they are killed."""
    children = []

    def make(broker: Broker, name: str) -> "subprocess.Popen[bytes]":
        script = (
            "import sys; sys.path.insert(0, 'tests')\n"
            "from fakes.peer import Peer\n"
            f"p = Peer({broker.address!r}); p.register({name!r}); print('up', flush=True)\n"
            "input()"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        children.append(child)
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        return child

    yield make
    for child in children:
        child.kill()
        child.communicate()


def row(peer: Peer, name: str) -> dict[str, Any]:
    """Return what `list` says of an endpoint."""
    found = [e for e in peer.ask("list")["endpoints"] if e["name"] == name]
    return found[0] if found else {}


def test_hello(peer: Peer) -> None:
    """PROTOCOL-5.1: versions, boot and limits; it may be said again."""
    first = peer.hello()
    assert first == peer.hello()
    assert first["version"] == 1 and "/" in first["boot"]
    assert first["limits"] == {"body_bytes": 1 << 20, "outcome_bytes": 16 << 10}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"min": 2, "max": 9}, "bad_version"),
        ({"min": 0, "max": 0}, "bad_version"),
        ({"min": 2, "max": 1}, "bad_message"),
        ({"min": True}, "bad_message"),
        ({"max": None}, "bad_message"),
        ({"instance": "short"}, "bad_message"),
        ({"instance": 5}, "bad_message"),
        ({"instance": "5be1c2a09d6f4711\n"}, "bad_message"),
    ],
)
def test_a_bad_hello(peer: Peer, fields: dict[str, Any], code: str) -> None:
    """PROTOCOL-5.1: versions that do not meet, or an instance that is none."""
    error = peer.error("hello", **{"min": 1, "max": 1, "instance": peer.instance, **fields})
    assert error.code == code
    if code == "bad_version":
        assert (error.data["min"], error.data["max"]) == (1, 1)


def test_a_connection_keeps_its_instance(peer: Peer) -> None:
    """PROTOCOL-5.1: another one needs another connection."""
    peer.hello()
    assert peer.error("hello", min=1, max=1, instance="0" * 16).code == "bad_message"


def test_the_kernels_pid_counts(peer: Peer, name: str) -> None:
    """PROTOCOL-5.1: a stated one is not believed where the kernel tells."""
    if sys.platform != "linux":
        pytest.skip("the socket does not tell")
    peer.hello(pid=1)
    peer.ask("register", name=name)
    assert row(peer, name)["pid"] == os.getpid()


def test_register_needs_a_hello(peer: Peer, name: str) -> None:
    """PROTOCOL-5.1: the error says so."""
    error = peer.error("register", name=name)
    assert error.code == "not_registered" and "hello" in error.text


@pytest.mark.parametrize("bad", ["a.b", "a b", "", "x" * 65, None, 5, ["a"], "ü", "a\n"])
def test_no_name(peer: Peer, bad: Any) -> None:
    """PROTOCOL-4.3, PROTOCOL-5.2: also for registering."""
    peer.hello()
    assert peer.error("register", name=bad).code == "bad_name"


@pytest.mark.parametrize("bad", [None, {}, "m1", [1], ["m1"], [{}], [{"id": 5}], [[{"id": "a"}]]])
def test_no_holding(peer: Peer, name: str, bad: Any) -> None:
    """PROTOCOL-5.10: refused before the name is touched."""
    peer.hello()
    assert peer.error("register", name=name, holding=bad).code == "bad_message"
    assert not row(peer, name)


def test_strange_holdings_are_harmless(peer: Peer, name: str) -> None:
    """PROTOCOL-5.10: ids that never were have ended; twice the same is once."""
    peer.hello()
    holding = [{"id": "a\0b"}, {"id": ""}, {"id": "x", "more": 5}, {"id": "x", "other": []}]
    assert peer.ask("register", name=name, holding=holding)["ended"] == ["a\0b", "", "x"]


def test_the_grant_comes_before_the_deliveries(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-5.2: epoch first, then what waits."""
    peer.send(name, "one", queue=True)
    assert other.register(name) == 1
    assert not other.said
    assert other.finish() == ["one"]


def test_an_epoch_rises_with_the_instance_only(
    shared_broker: Broker, peers: MakePeer, name: str
) -> None:
    """PROTOCOL-5.3: coming back on another connection keeps it."""
    first = peers(shared_broker, "a" * 16)
    assert [first.register(name), first.register(name)] == [1, 1]
    assert peers(shared_broker, "a" * 16).register(name) == 1
    last = peers(shared_broker, "a" * 16)
    assert last.register(name) == 1
    last.ask("unregister", name=name)
    assert last.register(name) == 1
    last.ask("unregister", name=name)
    assert peers(shared_broker, "b" * 16).register(name) == 2


def test_a_second_claim_is_refused(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-5.4: and told who holds it."""
    peer.register(name)
    other.hello()
    error = other.error("register", name=name)
    assert isinstance(error, errors.NameTaken)
    assert error.data == {"pid": os.getpid(), "epoch": 1} and str(os.getpid()) in error.text


def test_a_takeover(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-5.5, PROTOCOL-6.3: the loser is told; its late words are fenced."""
    peer.register(name)
    peer.send(name, "work", sender=name)
    delivery = peer.take()
    assert other.register(name, takeover=True) == 2
    assert peer.next("fenced") == {"to": name}
    for verb in ("got", "started", "handled", "refused"):
        assert peer.error(verb, to=name, id=delivery["message"]["id"], epoch=1).code == "fenced"
    assert peer.error("register", name=name).code == "name_taken"
    again = other.take()
    assert (again["redelivered"], again["attempt"], again["epoch"]) == (True, 1, 2)
    other.say("handled", again)


def test_the_loser_of_a_takeover_sends_as_somebody_else(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-4.11, PROTOCOL-5.5: `fenced` as the lost name, until it has it again."""
    peer.register(name)
    other.register(name, takeover=True)
    assert peer.error("send", **posting(name, sender=name)).code == "fenced"
    peer.send(name, sender=f"{name}-new")
    peer.register(name, takeover=True)
    peer.send(name, sender=name)
    assert other.error("send", **posting(name, sender=name)).code == "fenced"


def test_a_killed_process_frees_its_name(broker: Broker, peers: MakePeer, holder: Holder) -> None:
    """PROTOCOL-5.6: at once, although its parent has not looked: it is a zombie."""
    child = holder(broker, "e")
    peer = peers(broker)
    assert row(peer, "e")["pid"] == child.pid
    peer.hello()
    assert peer.error("register", name="e").code == "name_taken"
    child.kill()
    until(lambda: row(peer, "e")["state"] == "away")
    assert child.returncode is None, "nobody has waited for it"
    assert peer.ask("register", name="e")["epoch"] == 2


def test_silence(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-5.7: deliveries pause, the name stays; a beat ends it."""
    broker = make_broker(stale_s=0.3)
    peer, sender = peers(broker), peers(broker)
    peer.register("e")
    until(lambda: row(sender, "e")["state"] == "silent")
    assert sender.send("e", "one")["live"] is False
    assert row(sender, "e")["queued"] == 1
    peer.ask("beat")
    assert peer.finish() == ["one"]


def test_a_silent_holder_loses_a_second_claim(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-5.7, PROTOCOL-6.8: no takeover is needed; that is no attempt."""
    broker = make_broker(stale_s=0.3)
    peer, second = peers(broker), peers(broker)
    peer.register("e")
    peer.send("e", "work", sender="e")
    delivery = peer.take()
    until(lambda: row(second, "e")["state"] == "silent")
    assert second.register("e") == 2
    again = second.take()
    assert (again["attempt"], again["redelivered"]) == (1, True)
    assert peer.error("handled", to="e", id=delivery["message"]["id"], epoch=1).code == "fenced"


def test_every_name_of_a_connection_beats(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-5.7: also the one that was registered first."""
    broker = make_broker(stale_s=0.6)
    peer = peers(broker)
    for name in ("a", "b"):
        peer.register(name)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        peer.ask("beat")
        assert [row(peer, n)["state"] for n in ("a", "b")] == ["live", "live"]
        time.sleep(0.05)


def test_a_beat_from_nobody(peer: Peer, name: str) -> None:
    """PROTOCOL-5.8: `not_registered`, with hello and without; so with `unregister`."""
    assert peer.error("beat").code == "not_registered"
    peer.hello()
    assert peer.error("beat").code == "not_registered"
    wrong: list[Any] = [name, None, 5, []]
    for bad in wrong:
        assert peer.error("unregister", name=bad).code == "not_registered"


def test_a_name_of_somebody_else_cannot_be_given_up(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-5.8: only its holder gives it up."""
    peer.register(name)
    other.hello()
    assert other.error("unregister", name=name).code == "not_registered"
    assert row(other, name)["state"] == "live"


def test_giving_a_name_up(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-5.9: what was in hand goes to the next holder, no attempt counted."""
    peer.register(name)
    peer.send(name, "work", sender=name)
    peer.say("started", peer.take())
    peer.ask("unregister", name=name)
    assert row(peer, name)["state"] == "away"
    other.register(name)
    again = other.take()
    assert (again["attempt"], again["redelivered"], again["started"]) == (1, True, True)


def test_coming_back_with_something_in_hand(
    shared_broker: Broker, peers: MakePeer, name: str
) -> None:
    """PROTOCOL-5.10: it is not delivered again; what has ended is said; the lost one comes."""
    first = peers(shared_broker, "a" * 16)
    first.register(name)
    ids = [first.send(name, str(n), sender=name, session=str(n))["id"] for n in range(3)]
    taken = [first.take() for _ in range(3)]
    first.say("got", taken[0])
    first.say("handled", taken[1])
    first.close()
    again = peers(shared_broker, "a" * 16)
    again.hello()
    answer = again.ask("register", name=name, holding=[{"id": id} for id in ids[:2]])
    assert answer == {"name": name, "epoch": 1, "ended": [ids[1]]}
    back = again.take()
    assert (back["message"]["id"], back["attempt"], back["redelivered"]) == (ids[2], 1, False)
    again.say("handled", taken[0])
    assert again.silence() == []


def test_what_is_held_keeps_its_lane(shared_broker: Broker, peers: MakePeer, name: str) -> None:
    """PROTOCOL-5.10, PROTOCOL-7.1: the next of its lane waits on, unless `more` is said."""
    first = peers(shared_broker, "a" * 16)
    first.register(name)
    for n in range(2):
        first.send(name, str(n), sender=name)
    id = first.take()["message"]["id"]
    first.close()
    again = peers(shared_broker, "a" * 16)
    again.hello()
    again.ask("register", name=name, holding=[{"id": id}])
    assert again.silence() == []
    again.ask("register", name=name, holding=[{"id": id, "more": True}])
    assert again.take()["message"]["body"]["text"] == "1"


def test_a_stored_holder_keeps_its_name_after_a_start(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-5.11, PROTOCOL-5.3: nobody else gets it meanwhile; it comes back as it was."""
    first = peers(broker, "a" * 16)
    assert first.register("e") == 1
    broker.restart()
    second = peers(broker)
    second.hello()
    assert second.error("register", name="e").code == "name_taken"
    assert peers(broker, "a" * 16).register("e") == 1


def test_a_holder_that_does_not_come_back(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-5.11: after the reclaim time another one may have it, with the next epoch."""
    broker = make_broker(reclaim_s=0.5)
    peers(broker).register("e")
    broker.restart()
    second = peers(broker)
    second.hello()

    def claimed() -> Any:
        try:
            return second.ask("register", name="e")
        except errors.NameTaken:
            return None

    assert until(claimed)["epoch"] == 2


def test_a_holder_that_died_with_the_broker(
    broker: Broker, peers: MakePeer, holder: Holder
) -> None:
    """PROTOCOL-5.11: its process is gone, so its name is free at once."""
    child = holder(broker, "e")
    broker.kill()
    child.kill()
    child.wait()
    broker.start()
    assert peers(broker).register("e") == 2


def test_a_stopped_process_is_not_gone(
    make_broker: MakeBroker, peers: MakePeer, holder: Holder
) -> None:
    """PROTOCOL-5.6, PROTOCOL-5.7: SIGSTOP makes it silent, no more."""
    broker = make_broker(stale_s=0.3)
    child = holder(broker, "e")
    os.kill(child.pid, signal.SIGSTOP)
    peer = peers(broker)
    until(lambda: row(peer, "e")["state"] == "silent")
    assert row(peer, "e")["pid"] == child.pid
    os.kill(child.pid, signal.SIGCONT)


def test_a_grant_that_was_lost_meanwhile(shared_broker: Broker, peers: MakePeer, name: str) -> None:
    """PROTOCOL-5.5: two claims at once end with one holder, and the other one knows."""
    one, two = peers(shared_broker), peers(shared_broker)
    one.hello()
    two.hello()
    claims = [(p, p.request("register", {"name": name, "takeover": True})) for p in (one, two) * 5]
    epochs = []
    for peer, number in claims:
        try:
            epochs.append((peer.answer(number)["epoch"], peer))
        except errors.Fenced:
            pass
    _, winner = max(epochs, key=lambda pair: pair[0])
    loser = one if winner is two else two
    winner.ask("beat")
    assert loser.error("beat").code == "not_registered"
    assert winner.send(name, sender=name)["live"] is True
