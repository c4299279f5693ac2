"""What comes of a turn that Hermes was given: begun, stopped, refused, lost, late (HERMES-3.17)."""

from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from typing import Any

import pytest

from e2e_hermes.world import GATEWAY, World

RULES = """
callbacks:
  - match_type: ci
    context: true
  - match_type: quiet
    context: true
    reply: none
  - match_type: note
    print: true
"""
# A plugin that lets Hermes go wrong behind its yes, as the file `wrong` says.
SPOILER = """
import asyncio
import os
from pathlib import Path

WRONG = Path(os.environ["HERMES_HOME"]) / "wrong"


def wrong():
    return WRONG.read_text() if WRONG.exists() else ""


def spoil(gateway=None, **_):
    if getattr(gateway, "spoiled", False):
        return
    gateway.spoiled = True
    dispatch = gateway._dispatch_plugin_message_injection
    authorized = gateway._plugin_injection_authorized
    asked = gateway._is_user_authorized_for_source

    def refusing(source, **how):
        if wrong() != "refuse":
            return authorized(source, **how)
        gateway._is_user_authorized_for_source = lambda *_, **__: False
        try:
            return authorized(source, **how)
        finally:
            gateway._is_user_authorized_for_source = asked

    async def losing(**how):
        if wrong() == "lose":
            return True
        while wrong() == "hold":
            await asyncio.sleep(0.1)
        return await dispatch(**how)

    gateway._plugin_injection_authorized = refusing
    gateway._dispatch_plugin_message_injection = losing


def register(ctx):
    ctx.register_hook("pre_gateway_dispatch", spoil)
"""
MANIFEST = """
name: spoiler
version: "1.0"
description: Lets Hermes go wrong
provides_hooks: [pre_gateway_dispatch]
"""
INJECTS = find_spec("hermes_cli.plugins_injection") is not None
injects = pytest.mark.skipif(not INJECTS, reason="0.19: a turn is begun by its adapter alone")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A world in which Hermes can be made to go wrong; u1 has written in dm1, u2 in dm2."""
    with closing(World()) as found:
        folder = found.root / "plugins" / "spoiler"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(SPOILER)
        (folder / "plugin.yaml").write_text(MANIFEST)
        entries = found.config["plugins"]["entries"]
        found.configure(plugins={"enabled": ["wakebus", "spoiler"], "entries": entries})
        found.rules(RULES)
        found.start_all()
        found.wait_registered()
        found.ask("dm1", "u1", "the word is heliotrope")
        found.ask("dm2", "u2", "the word is cobalt")
        yield found


def send(world: World, text: str, channel: str, type: str = "ci") -> str:
    """Send by notify-hermes; return the message's id."""
    words = ("--to", GATEWAY, "--type", type, "--channel", channel, text)
    return str(world.sent(*words)["id"])


def wrong(world: World, how: str) -> None:
    """From now on Hermes goes wrong in this way; "" for none."""
    (world.root / "wrong").write_text(how)


def dead(world: World, id: str) -> dict[str, Any]:
    """Return a message that is a dead letter."""
    found = world.handled(id)
    assert found["state"] == "dead", (found, world.story())
    return found


def test_the_home_channel_is_answered_again(world: World) -> None:
    """HERMES-3.5: of nobody: 0.22 would refuse the second one, once the session is stored."""
    for number in (1, 2, 3):
        told = world.handled(send(world, f"SAY:news {number}", "mattermost"))["outcome"]
        assert told["channel"] == {**told["channel"], "result": "answered", "to": "mattermost:home"}
        world.answered("home", f"news {number}")
    assert "news 1" in world.asked("SAY:news 3"), "they are one conversation"


def test_what_nobody_sees_is_in_the_history(world: World) -> None:
    """HERMES-3.7: `reply: none`: the next turn, the bus's and the person's, sees the answer."""
    told = world.handled(send(world, "SAY:the moon is new", "mattermost:dm2", "quiet"))["outcome"]
    assert told["turn"]["hidden"] is True, told
    world.handled(send(world, "SAY:and now aloud", "mattermost:dm2"))
    world.answered("dm2", "and now aloud")
    world.ask("dm2", "u2", "what was it")
    for text in ("SAY:and now aloud", "what was it"):
        said = [m for m in world.asked(text).messages if m.get("role") == "assistant"]
        assert any("the moon is new" in str(m) for m in said), text
    assert not [text for text in world.answers("dm2") if "moon" in text or "NO_REPLY" in text]


def test_a_person_writes_into_what_nobody_sees(world: World) -> None:
    """HERMES-3.7: 0.22 directs the turn anew, 0.19 ends it: that person is answered in both."""
    id = send(world, "HOLD:unseen of the bus", "mattermost:dm2", "quiet")
    world.wait(lambda: world.model.running("HOLD:unseen"), "our turn")
    request = world.asked("HOLD:unseen")

    def ended(seconds: float) -> None:
        world.wait(lambda: request.aborted, "its request is ended", seconds)

    world.say_until(ended, "dm2", "u2", "SAY:and I am answered")
    world.model.release("unseen")  # 0.19 merges what was interrupted into the next turn
    world.answered("dm2", "and I am answered")
    assert "HOLD" not in "".join(world.answers("dm2")), world.story()
    world.handled(id)


@pytest.mark.parametrize("command", ["/stop", "/new"])
def test_a_person_ends_our_turn(world: World, command: str) -> None:
    """HERMES-3.4: it failed, and says so; the next one has its turn."""
    name = command[1:]
    id = send(world, f"HOLD:{name} of the bus", "mattermost:dm1")
    world.asked(f"HOLD:{name}")
    world.wait(lambda: world.model.running(f"HOLD:{name}"), "our turn")
    before = len(world.answers("dm1"))
    world.say("dm1", "u1", command)
    if command == "/new":  # a person is asked whether he means it
        world.replied("dm1", before)
        world.say("dm1", "u1", "/approve")
    found = dead(world, id)
    world.model.release(name)
    # A stop that comes just as its request begins is missed (World.say_until): Hermes lets go of
    # the turn and says no more of it.
    why = ("a person stopped it", "did not say how it ended")
    assert found["outcome"]["failed"] is True, found
    assert any(one in found["reason"] for one in why), found
    told = world.handled(send(world, f"SAY:after {name}", "mattermost:dm1"))["outcome"]
    assert told["channel"]["result"] == "answered", told


@injects
def test_a_refusal_behind_the_yes(world: World) -> None:
    """HERMES-3.17: told at once, with the line of Hermes's log; failed, without a doubt."""
    wrong(world, "refuse")
    found = dead(world, send(world, "SAY:refused", "mattermost:dm1"))
    assert "Plugin message injection denied by current gateway auth" in found["reason"], found
    assert found["outcome"]["failed"] is True and not world.requests("SAY:refused")
    wrong(world, "")
    assert world.handled(send(world, "SAY:well again", "mattermost:dm1"))["state"] == "handled"


@injects
def test_a_turn_that_is_lost(world: World) -> None:
    """HERMES-3.18: in doubt: listed as uncertain, not run again by itself, nor by `dead retry`."""
    wrong(world, "lose")
    id = send(world, "SAY:lost", "mattermost:dm1")
    found = dead(world, id)
    assert found["reason"].startswith("in doubt: Hermes accepted it and did not begin it"), found
    assert "failed" not in found["outcome"], found
    listed = world.wakebus("inbox", "--uncertain")
    assert id in listed.out and "uncertain" in listed.out, listed
    wrong(world, "")
    retried = world.wakebus("dead", "retry", id)
    assert retried.status == 1 and "--force" in retried.both, retried
    assert world.wakebus("dead", "retry", "--force", id).status == 0
    assert world.handled(id)["outcome"]["channel"]["result"] == "answered"
    assert len(world.requests("SAY:lost")) == 1


@injects
def test_a_turn_that_begins_late(world: World) -> None:
    """HERMES-3.18: the chat has its answer then, and the log says what it was."""
    wrong(world, "hold")
    id = send(world, "SAY:late but true", "mattermost:dm1")
    assert dead(world, id)["outcome"]["channel"]["result"] == "uncertain"
    wrong(world, "")
    world.answered("dm1", "late but true")
    late = f"{id}: told as uncertain, its turn has begun after all"
    world.wait(lambda: late in world.gateway.log, "it is told")
    assert len(world.requests("SAY:late but true")) == 1


@injects
def test_hermes_is_paused(world: World) -> None:
    """HERMES-3.19: `hermes pause`: the message waits, a print is shown; then its turn begins."""
    assert world.hermes("pause").status == 0
    id = send(world, "SAY:after the pause", "mattermost:dm2")
    world.wait(lambda: "Hermes is paused" in str(world.traced(id)), "it waits")
    note = world.handled(send(world, "while it is paused", "mattermost:town", "note"))["outcome"]
    assert note["actions"][0]["result"] == "sent" and not world.requests("after the pause")
    assert world.hermes("resume").status == 0
    assert world.handled(id)["outcome"]["channel"]["result"] == "answered"
