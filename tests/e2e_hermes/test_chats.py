"""Many messages, many conversations: each text is in its own session, once, and nowhere else."""

import json
import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from e2e_hermes.script import Request
from e2e_hermes.world import GATEWAY, World

RULES = """
callbacks:
  - match_type: ci
    context: true
    coalesce_ms: 3000
  - match_type: note
    context: true
    wake: next_turn
  - match_type: [directive, burst]
    context: true
  - match_type: quiet
    context: true
    reply: sender
  - match_type: owner
    context: true
    reply: home
"""
TOKEN = re.compile(r"<(dm1|dm2)\.([a-z0-9-]+)\.(\d{4})>")
WAVES, TURN, NOTES = 4, 50, 75  # per chat: (50 + 75) · 4 = 500
CHATS = ("dm1", "dm2")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A world whose rules are there before anything is."""
    with closing(World()) as found:
        found.rules(RULES)
        found.start_all()
        found.wait_registered()
        yield found


@pytest.fixture(scope="module", autouse=True)
def burst(world: World) -> list[str]:
    """Ten messages at once, before all else: with more than five turns a session rests a minute."""
    world.ask("dm3", "u3", "before the burst")
    return [send(world, "burst", f"burst {n} of ten;", "mattermost:dm3") for n in range(10)]


def send(world: World, type: str, text: str, channel: str, *words: str) -> str:
    """Send by notify-hermes; return the message's id."""
    to = ("--to", GATEWAY, "--type", type, "--channel", channel)
    return str(world.sent(*to, *words, text)["id"])


def wave(number: int) -> Iterator[tuple[str, str, str, str]]:
    """Return chat, sender, type and text of a wave's messages, the chats interleaved."""
    for n in range(NOTES):
        for chat in CHATS:
            sender = ("night-shift", "day-shift")[n % 2]
            yield chat, sender, "note", f"<{chat}.{sender}.{number * NOTES + n:04}>"
            if n < TURN:
                sender = ("ci-a", "ci-b")[number % 2]
                yield chat, sender, "ci", f"<{chat}.{sender}.{number * TURN + n:04}>"


def send_wave(world: World, number: int) -> list[str]:
    """Send it, one of fifty by the command, the others by a client; return the ids."""
    ids = []
    with world.client() as bus:
        for count, (chat, sender, type, text) in enumerate(wave(number)):
            channel = f"mattermost:{chat}"
            if count % 50 == 0:
                ids.append(send(world, type, text, channel, "--from", sender))
            else:
                how = {"type": type, "channel": channel, "sender": sender}
                ids.append(bus.send(GATEWAY, text, **how).id)  # type: ignore[arg-type]
        for id in ids:
            assert bus.wait(id, 150).state == "handled", world.traced(id)
    return ids


def test_a_thousand_messages_never_mix(world: World) -> None:
    """
    Interleaved to two chats, from four senders, to turns and to what waits (HERMES-3.2, 3.3): every
    text is in a new user message of its own chat's session exactly once, each sender's in order;
    in no request and no answer of the other chat.
    """
    for chat, user in (("dm1", "u1"), ("dm2", "u2")):
        world.ask(chat, user, f"this is the person of {chat}")
    ids = []
    for number in range(WAVES):
        ids += send_wave(world, number)
        for chat, user in (("dm1", "u1"), ("dm2", "u2")):
            world.ask(chat, user, f"wave {number} is over in {chat}")
    assert len(set(ids)) == 1000
    seen: dict[str, list[tuple[str, str]]] = {chat: [] for chat in CHATS}
    for request in world.requests():
        mine = {chat for chat in CHATS if f"the person of {chat}" in request}
        tokens = [TOKEN.findall(text) for text in request.users]
        assert len(mine) <= 1 and {of for found in tokens for of, _, _ in found} <= mine
        for chat, sender, n in TOKEN.findall(request.last):
            seen[chat].append((sender, n))
    for chat in CHATS:
        assert len(seen[chat]) == 500 and len(set(seen[chat])) == 500
        for sender in ("ci-a", "ci-b", "night-shift", "day-shift"):
            its = [n for of, n in seen[chat] if of == sender]
            assert its and its == sorted(its), sender
        said = "\n".join(world.answers(chat))
        assert {of for of, _, _ in TOKEN.findall(said)} == {chat}


def test_a_group_has_a_session_for_each_person(world: World) -> None:
    """HERMES-3.2: whoever spoke last has it, without the other's words."""
    world.ask("grp1", "u1", "the secret of u1 is alpha")
    world.ask("grp1", "u2", "the secret of u2 is omega")
    world.handled(send(world, "burst", "for whom is it", "mattermost:grp1"))
    request = world.asked("for whom is it")
    assert "omega" in request and "alpha" not in request
    world.ask("grp1", "u1", "u1 speaks again")
    world.handled(send(world, "burst", "and for whom now", "mattermost:grp1"))
    request = world.asked("and for whom now")
    assert "alpha" in request and "omega" not in request


def asked_by(world: World, chat: str, user: str, text: str) -> str:
    """Have a person's turn send a message by bus_send; return its id."""
    name = world.new("worker")
    world.declare(name)
    args = {"target": name, "type": "directive", "text": text}
    world.begin(chat, user, f"CALL:bus_send {json.dumps(args)}")
    found: list[Request] = []

    def called() -> bool:
        found[:] = [r for r in world.model.requests if r.kind == "tool" and name in r]
        return bool(found)

    world.wait(called, "the tool's result")
    with world.client() as bus:
        (row,) = bus.inbox(name)
    return str(row["id"])


def test_an_answer_finds_the_session_that_asked(world: World) -> None:
    """HERMES-3.2: what answers u1's question is u1's, though u2 spoke later in the group."""
    world.ask("grp1", "u1", "u1 likes plums")
    id = asked_by(world, "grp1", "u1", "how are the plums")
    world.ask("grp1", "u2", "u2 likes pears")
    with world.client() as bus:
        how = {"type": "burst", "sender": "worker", "reply_to": id}
        back = bus.send(GATEWAY, "ripe they are", channel="mattermost:grp1", **how).id  # type: ignore[arg-type]
    told = world.handled(back)["outcome"]
    assert told["turn"]["session"].endswith(":u1"), told
    request = world.asked("ripe they are")
    assert "plums" in request and "pears" not in request


def test_a_thread_is_its_own_session(world: World) -> None:
    """
    HERMES-3.2: `?thread=` leads to the thread's session, a channel alone to the channel's.

    HERMES-3.12: Hermes would answer beside the thread (its reply mode): so the courier does.
    """
    root = world.ask("town", "u1", "a root in town")
    world.ask("town", "u1", "only said in the thread", root.id)
    channel = f"mattermost:town?thread={root.id}"
    told = world.handled(send(world, "burst", "SAY:thread news", channel))["outcome"]
    assert (told["channel"]["to"], told["channel"]["result"]) == ("courier", "queued"), told
    with world.client() as bus:
        said = bus.read(told["channel"]["id"])
    assert (said.channel, said.text) == (channel, "thread news")
    assert "only said in the thread" in world.asked("thread news")
    told = world.handled(send(world, "burst", "SAY:town news", "mattermost:town"))["outcome"]
    assert "only said in the thread" not in world.asked("town news"), told
    assert told["channel"]["result"] == "answered" and "thread news" not in world.answers("town")


def test_asked_from_a_shell(world: World) -> None:
    """HERMES-3.7, RULES-3.6: `wakebus ask` prints the answer, and the chat has it too."""
    world.ask("dm2", "u2", "I am here as well")
    words = ("ask", GATEWAY, "--channel", "mattermost:dm2", "--wait", "60", "SAY:forty-two")
    done = world.wakebus(*words)
    assert (done.status, done.out.strip()) == (0, "forty-two"), done
    world.answered("dm2", "forty-two")


def test_only_the_sender_gets_it(world: World) -> None:
    """HERMES-3.7: `reply: sender` goes to the sender's mailbox, and is not said in the chat."""
    world.ask("dm1", "u1", "I wait here")
    world.declare("asker")
    words = ("--from", "asker")
    told = world.handled(send(world, "quiet", "SAY:for your ears", "mattermost:dm1", *words))
    assert told["outcome"]["answer"]["result"] == "queued", told
    with world.client() as bus:
        (row,) = bus.inbox("asker")
        assert bus.read(row["id"]).text == "for your ears"
    world.ask("dm1", "u1", "and what was it")
    assert "for your ears" in world.asked("and what was it")
    assert "for your ears" not in world.answers("dm1")


def test_home_has_it(world: World) -> None:
    """HERMES-3.5: `reply: home` is a turn of the home channel, whatever chat is named, or none."""
    for channel in ("mattermost:dm1", ""):
        text = world.new("home news ")
        words = ("--channel", channel) if channel else ()
        id = world.sent("--to", GATEWAY, "--type", "owner", *words, f"SAY:{text}")["id"]
        told = world.handled(id)["outcome"]
        assert told["channel"] == {**told["channel"], "result": "answered", "to": "mattermost:home"}
        world.answered("home", text)


def test_ten_in_a_burst_lose_none(world: World, burst: list[str]) -> None:
    """What a session's five turns a minute leave over is in its next one (RULES-3.7)."""
    with world.client() as bus:
        assert [bus.wait(id, 100).state for id in burst] == ["handled"] * 10
    told = [world.traced(id)["outcome"] for id in burst]
    assert all("error" not in one["turn"] for one in told), told
    last = [r.last for r in world.requests("of ten;")]
    counts = [sum(text.count(f"burst {n} of ten;") for text in last) for n in range(10)]
    assert counts == [1] * 10
    order = [n for text in last for n in re.findall(r"burst (\d) of ten;", text)]
    assert order == sorted(order)
