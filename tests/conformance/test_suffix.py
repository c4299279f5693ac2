"""PROTOCOL.md section 5: names with a suffix, against real brokers and real processes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import Answer, MakePeer, Peer, posting

SOON = {"ephemeral_s": 0.3}
Holder = Callable[[Broker, str], "subprocess.Popen[bytes]"]


@pytest.fixture
def holder() -> Iterator[Holder]:
    """Return a maker of processes that ask for a name with a suffix, and take all they get."""
    children = []

    def make(broker: Broker, name: str) -> "subprocess.Popen[bytes]":
        script = (
            "import sys; sys.path.insert(0, 'tests')\n"
            "from fakes.peer import Peer\n"
            f"p = Peer({broker.address!r}); p.hello()\n"
            f"print(p.ask('register', name={name!r}, suffix=True)['name'], flush=True)\n"
            "while True: p.say('started', p.take(600))"
        )
        children.append(subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE))
        return children[-1]

    yield make
    for child in children:
        child.kill()
        child.communicate()


def said(child: "subprocess.Popen[bytes]") -> str:
    """Return the name that it got."""
    assert child.stdout is not None
    return child.stdout.readline().decode().strip()


def ask(peer: Peer, name: str, **fields: Any) -> Answer:
    """Say hello, then ask for a name with a suffix."""
    peer.hello()
    return peer.ask("register", name=name, suffix=True, **fields)


def error(peer: Peer, to: str) -> str:
    """Return the code of what a send to that name is answered with, "" if it is taken."""
    return peer.code(peer.request("send", posting(to)))


def row(peer: Peer, name: str) -> dict[str, Any]:
    """Return what `list` says of an endpoint."""
    found = [e for e in peer.ask("list")["endpoints"] if e["name"] == name]
    return found[0] if found else {}


def letter(peer: Peer, id: str) -> dict[str, Any]:
    """Return the dead letter `id`, or nothing."""
    return next((one for one in peer.ask("dead")["letters"] if one["id"] == id), {})


def test_a_suffix(shared_broker: Broker, peers: MakePeer, name: str) -> None:
    """PROTOCOL-5.13, PROTOCOL-5.14, PROTOCOL-10.1: the next free one; who is ephemeral shows it."""
    first, second, third = (peers(shared_broker) for _ in range(3))
    assert ask(first, name) == {"name": name, "epoch": 1, "ended": []}
    granted = {"name": f"{name}-2", "epoch": 1, "ended": [], "ephemeral": True}
    assert ask(second, name) == granted
    assert ask(third, name)["name"] == f"{name}-3"
    assert [row(first, f"{name}{end}")["ephemeral"] for end in ("", "-2")] == [False, True]
    second.send(f"{name}-2", "to myself", sender=f"{name}-2")
    assert second.take()["to"] == f"{name}-2"


def test_ten_at_once_get_ten_names(shared_broker: Broker, peers: MakePeer, name: str) -> None:
    """PROTOCOL-5.13: nobody waits for another one's grant."""
    ten = [peers(shared_broker) for _ in range(10)]
    for peer in ten:
        peer.hello()
    asked = [(p, p.request("register", {"name": name, "suffix": True})) for p in ten]
    names = [peer.answer(number)["name"] for peer, number in asked]
    assert {*names} == {name, *(f"{name}-{n}" for n in range(2, 11))}


def test_takeover_and_suffix(peer: Peer, name: str) -> None:
    """PROTOCOL-5.13: they contradict; the name is not touched."""
    peer.hello()
    assert peer.error("register", name=name, suffix=True, takeover=True).code == "bad_message"
    assert not row(peer, name)


def test_a_long_name(shared_broker: Broker, peers: MakePeer, name: str) -> None:
    """PROTOCOL-5.13: the whole has 64 characters."""
    long = name + "x" * (64 - len(name))
    assert ask(peers(shared_broker), long)["name"] == long
    assert ask(peers(shared_broker), long)["name"] == long[:62] + "-2"


def test_it_ends_after_its_process(
    make_broker: MakeBroker, peers: MakePeer, holder: Holder
) -> None:
    """PROTOCOL-5.15, PROTOCOL-6.1: queued and started ones are dead, and told to their sender."""
    broker = make_broker(**SOON)
    sender = peers(broker)
    assert sender.register("asker") == 1
    child = holder(broker, "asker")
    assert said(child) == "asker-2"
    started = sender.send("asker-2", "one", sender="asker")["id"]
    until(lambda: row(sender, "asker-2")["in_hand"] == 1)
    waiting = sender.send("asker-2", "two", sender="asker")["id"]
    child.kill()
    for id in (started, waiting):
        until(lambda i=id: letter(sender, i))  # type: ignore[misc]
        assert letter(sender, id)["reason"] == "the session that held asker-2 has ended"
        notice = sender.take()
        assert notice["message"]["reply_to"] == id
        sender.say("handled", notice)
    refused = sender.error("send", **posting("asker-2", sender="asker"))
    assert refused.code == "unknown_target" and refused.data["near"] == ["asker"]
    assert not row(sender, "asker-2")
    granted = {"name": "asker-2", "epoch": 1, "ended": [], "ephemeral": True}
    assert ask(peers(broker), "asker") == granted


def test_a_successor_gets_no_session(broker: Broker, peers: MakePeer, holder: Holder) -> None:
    """PROTOCOL-5.16, PROTOCOL-5.15: what was in hand and what waited; the rest is its own."""
    sender = peers(broker)
    sender.register("e")
    child = holder(broker, "e")
    assert said(child) == "e-2"
    fields: list[dict[str, Any]] = [{"session": "s"}, {"session": "s"}, {}, {}]
    ids = [sender.send("e-2", str(n), sender="e", **more)["id"] for n, more in enumerate(fields)]
    until(lambda: row(sender, "e-2")["in_hand"] == 2)
    child.kill()
    until(lambda: row(sender, "e-2")["state"] == "away")
    heir = peers(broker)
    assert ask(heir, "e")["name"] == "e-2"
    assert heir.take()["message"]["id"] == ids[2]
    for id in ids[:2]:
        until(lambda i=id: letter(sender, i))  # type: ignore[misc]
        assert letter(sender, id)["reason"].startswith("its session ended")
    (kept,) = sender.ask("retry", ids=[ids[0]], force=True)["kept"]
    assert "its session has ended" in kept["why"]


def test_it_survives_the_broker(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-5.14, PROTOCOL-5.11, PROTOCOL-8.2: killed; its holder comes back as it was."""
    broker = make_broker(reclaim_s=60)
    peers(broker, "a" * 16).register("e")
    assert ask(peers(broker, "b" * 16), "e")["name"] == "e-2"
    broker.restart()
    assert ask(peers(broker), "e")["name"] == "e-3", "both are kept for their holders"
    again = peers(broker, "b" * 16)
    again.hello()
    granted = again.ask("register", name="e-2", ephemeral=True)
    assert granted == {"name": "e-2", "epoch": 1, "ended": [], "ephemeral": True}
    again.send("e-2", "hi", sender="e-2", session="s")
    assert again.finish() == ["hi"]


def test_it_ends_although_the_broker_was_away(
    make_broker: MakeBroker, peers: MakePeer, holder: Holder
) -> None:
    """PROTOCOL-5.15, PROTOCOL-8.2: both killed; the messages are dead soon after the start."""
    broker = make_broker(**SOON)
    sender = peers(broker)
    sender.register("e")
    child = holder(broker, "e")
    assert said(child) == "e-2"
    ids = [sender.send("e-2", str(n), sender="e", session=str(n))["id"] for n in range(3)]
    broker.kill()
    child.kill()
    child.wait()
    broker.start()
    peer = peers(broker)
    until(lambda: error(peer, "e-2") == "unknown_target")
    until(lambda: all(letter(peer, id) for id in ids))
    assert row(peer, "e"), "the name itself is known"


def test_a_name_without_a_suffix_stays(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-5.14: granted as it was asked for, it waits for the next one."""
    broker = make_broker(**SOON)
    first, sender = peers(broker), peers(broker)
    assert ask(first, "e")["name"] == "e"
    assert ask(sender, "e")["name"] == "e-2"
    first.ask("unregister", name="e")
    id = sender.send("e", sender="e-2", session="s")["id"]
    sender.ask("unregister", name="e-2")
    until(lambda: error(sender, "e-2") == "unknown_target")
    assert row(sender, "e")["queued"] == 1 and not letter(sender, id)
