"""Hermes or the broker stops, or is killed: nothing is lost, nothing is done twice."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from e2e_hermes.test_processes import broker_pid
from e2e_hermes.world import GATEWAY, World
from wakebus.broker import Event

RULES = """
callbacks:
  - match_type: ci
    context: true
  - match_type: once
    context: true
    on_redelivery: skip
  - match_type: later
    context: true
    on_redelivery: context
  - match_type: note
    print: true
  - match_topic: gateway.session.reset
    context: true
    wake: immediate
    context_format: "SAY:noted that {session} is new"
"""
CUT_OFF = "work on it had started and was cut off"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A world with the gateway's hook (HERMES.md section 6)."""
    with closing(World()) as found:
        found.rules(RULES)
        done = found.wakebus("install", "hermes")
        assert done.status == 0, done
        found.start_all()
        found.wait_registered()
        yield found


def send(world: World, type: str, text: str, channel: str) -> str:
    """Send by notify-hermes; return the message's id."""
    return str(world.sent("--to", GATEWAY, "--type", type, "--channel", channel, text)["id"])


def outcome(world: World, id: str) -> dict[str, Any]:
    """Wait until a message is handled; return its outcome."""
    found = world.handled(id)
    assert found["state"] == "handled", (found, world.story())
    return dict(found["outcome"])


def test_stopped_in_the_middle(world: World) -> None:
    """
    HERMES-2.11, HERMES-3.9: SIGTERM in the middle of a turn: it comes again, labelled, and is
    answered. What is sent while Hermes is away waits with the broker, and is done once.
    """
    world.ask("dm1", "u1", "the word is heliotrope")
    world.ask("dm2", "u2", "before the stop")
    id = send(world, "ci", "HOLD:stop it is a long one", "mattermost:dm2")
    world.wait(lambda: world.model.running("HOLD:stop"), "the turn")
    world.gateway.stop()
    world.model.release("stop")
    world.wait_gone()
    ci = send(world, "ci", "SAY:while you slept", "mattermost:dm1")
    note = send(world, "note", "a print for the night", "mattermost:dm3")
    assert [world.traced(one)["state"] for one in (id, ci, note)] == ["queued"] * 3
    world.gateway.start()
    for one in (id, ci):
        told = outcome(world, one)
        assert told["channel"]["result"] == "answered", told
    assert outcome(world, note)["actions"][0]["result"] == "sent"
    labelled = [r for r in world.requests(id) if CUT_OFF in r.last]
    assert len(labelled) == 1 and "before the stop" in labelled[0]
    (request,) = world.requests("while you slept")
    assert "heliotrope" in request
    assert world.answers("dm1").count("while you slept") == 1
    assert world.answers("dm3").count("a print for the night") == 1


def test_killed_in_the_middle(world: World) -> None:
    """
    HERMES-3.9, RULES-3: SIGKILL in the middle of three turns: one comes again, labelled, once more,
    and is answered; one is skipped, one waits for the person's next turn, as their rules say.
    """
    chats = {"ci": "dm1", "once": "dm2", "later": "dm3"}
    ids = {}
    for type, chat in chats.items():
        world.ask(chat, f"u{chat[-1]}", f"before the kill in {chat}")
        ids[type] = send(world, type, f"HOLD:kill of {type}", f"mattermost:{chat}")
        world.wait(lambda t=type: world.model.running(f"kill of {t}"), f"the turn of {type}")
    world.gateway.kill()
    world.model.release("kill")
    world.gateway.start()
    told = {type: outcome(world, id) for type, id in ids.items()}
    assert told["ci"]["channel"]["result"] == "answered", told
    assert "on_redelivery: skip" in told["once"]["skipped"], told
    assert told["later"]["wake"], told
    again = [r for r in world.requests(ids["ci"]) if CUT_OFF in r.last]
    assert len(again) == 1 and "before the kill in dm1" in again[0]
    assert not [r for r in world.requests(ids["once"]) if CUT_OFF in r.last]
    assert not [r for r in world.requests(ids["later"]) if CUT_OFF in r.last]
    world.ask("dm3", "u3", "and what waits")
    assert world.asked("and what waits").last.count("kill of later") >= 1


def test_the_broker_is_killed(world: World) -> None:
    """HERMES-2.8, HERMES-2.12: idle and in the middle of a turn; the message is handled once."""
    world.ask("dm1", "u1", "before the broker dies")
    id = send(world, "ci", "HOLD:broker in the middle", "mattermost:dm1")
    world.wait(lambda: world.model.running("HOLD:broker"), "the turn")
    killed = world.kill_broker()
    world.wait(lambda: broker_pid(world) not in (None, killed), "a new broker")
    world.wait_registered()
    world.model.release("broker")
    assert outcome(world, id)["channel"]["result"] == "answered"
    killed = world.kill_broker()
    world.wait(lambda: broker_pid(world) not in (None, killed), "a new broker")
    world.wait_registered()
    told = outcome(world, send(world, "ci", "SAY:all is well", "mattermost:dm1"))
    assert told["channel"]["result"] == "answered"
    assert len(world.requests("HOLD:broker in the middle")) == 1
    assert sum("HOLD:broker in the middle" in text for text in world.answers("dm1")) == 1


def test_a_reset_is_an_event(world: World) -> None:
    """
    Section 6, RULES-2.5: `/new` is told as an event. A rule with match_topic starts a turn in the
    event's session (it names no channel: so the rule must say `wake: immediate`, RULES-3.3).
    """
    world.ask("town", "u1", "an old story")
    events: list[Event] = []
    with world.client() as bus:
        bus.subscribe("gateway.session.reset", events.append)
        before = len(world.answers("town"))
        world.say("town", "u1", "/new")
        world.replied("town", before)
        world.say("town", "u1", "/approve")
        world.wait(lambda: events, "the event")
    assert events[0].envelope["session"].endswith(":town:u1")
    world.answered("town", "noted that agent:main:mattermost")
    assert "an old story" not in world.asked("SAY:noted that")


def test_after_a_start(world: World) -> None:
    """
    An answer that the platform did not take was told as `uncertain`: Hermes itself says it now,
    once (HERMES-3.7). A start is an event (section 6). Who was taken from the list of the allowed
    has no turns any more, by channel or session; the sender reads it (HERMES-3.2).
    """
    world.ask("dm3", "u3", "I may talk still")
    world.ask("dm2", "u2", "before the lost answer")
    world.mattermost.fail_posts(20)
    told = outcome(world, send(world, "ci", "SAY:said in the end", "mattermost:dm2"))
    assert told["channel"]["result"] == "uncertain", told
    world.gateway.stop()
    world.mattermost.heal()
    world.env["MATTERMOST_ALLOWED_USERS"] = "u1,u2"
    events: list[Event] = []
    with world.client() as bus:
        bus.subscribe("gateway.startup", events.append)
        world.gateway.start()
        world.wait(lambda: events, "the start's event")
    assert events[0].envelope["platforms"] == ["mattermost"]
    world.answered("dm2", "said in the end")
    for where in ("--channel=mattermost:dm3", "--session=agent:main:mattermost:dm:dm3"):
        words = ("--to", GATEWAY, "--type", "ci", where, "--wait", "60", "for nobody")
        done = world.notify(*words)
        assert done.status == 1 and "talk to this agent" in done.both, done
    assert not world.requests("for nobody")
    world.ask("dm2", "u2", "and on we go")
    assert sum("said in the end" in text for text in world.answers("dm2")) == 1
