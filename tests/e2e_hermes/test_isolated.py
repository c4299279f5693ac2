"""With `plugins.isolation: host` the plugin runs in a process of its own (HERMES-9)."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from typing import Any

import psutil
import pytest

from e2e_hermes.conftest import MakeWorld
from e2e_hermes.profile import Profile, Profiles
from e2e_hermes.world import GATEWAY, World

RULES = """
callbacks:
  - match_type: ci
    context: true
  - match_type: ask
    context: true
    reply: sender
  - match_type: note
    print: true
"""
ROOM = "r" * 26  # a channel's id as Mattermost makes them: the courier takes no other
PLUGINS = {
    "enabled": ["wakebus"],
    "isolation": "host",
    "entries": {"wakebus": {"allow_gateway_injection": True}},
}
CUT_OFF = "work on it had started and was cut off"
# 0.19 knows no such setting.
KNOWN = find_spec("hermes_cli.plugin_isolation") is not None
isolates = pytest.mark.skipif(not KNOWN, reason="this Hermes runs plugins in itself alone")


def isolate(world: World) -> World:
    """Have Hermes run plugins in a process of their own; start it."""
    world.configure(plugins=PLUGINS)
    world.start_all().rules(RULES)
    world.wait_registered()
    return world


@pytest.fixture(scope="module")
def isolated(_clean_environment: None) -> Iterator[World]:
    """A world of this module in which plugins run in a process of their own."""
    world = World(services=True)
    try:
        yield isolate(world)
    finally:
        world.close()


def ci(world: World, text: str, channel: str = "mattermost:dm1") -> str:
    """A CI job tells it; return the message's id."""
    words = ("--to", GATEWAY, "--type", "ci", "--channel", channel, text)
    return str(world.sent(*words)["id"])


def plugin_host(world: World) -> psutil.Process:
    """Return the child in which the gateway runs its plugins."""
    (found,) = (
        child
        for child in psutil.Process(world.gateway.pid).children()
        if "hermes_cli.plugin_host_child" in child.cmdline()
    )
    return found


@isolates
def test_a_message_starts_a_turn(isolated: World) -> None:
    """HERMES-9.1, HERMES-9.3, HERMES-9.4: in the person's chat; what cannot be seen is said."""
    isolated.ask("dm1", "u1", "remember the word heliotrope")
    told = isolated.handled(ci(isolated, "SAY:build is red"))["outcome"]
    isolated.answered("dm1", "build is red")
    assert any("heliotrope" in text for text in isolated.asked("build is red").users)
    assert told["turn"]["session"] == "agent:main:mattermost:dm:dm1"
    assert told["channel"]["result"] == "uncertain"
    assert "plugins.isolation: host" in told["channel"]["reason"]


@isolates
def test_a_persons_turn_is_not_touched(isolated: World) -> None:
    """HERMES-9.3: not aborted; the message's turn follows it."""
    request = isolated.begin("dm2", "u2", "HOLD:long think")
    id = ci(isolated, "SAY:after you", "mattermost:dm2")
    isolated.wait(lambda: isolated.traced(id)["state"] == "delivered", "it is held")
    assert not request.ended and not isolated.requests("after you")
    isolated.model.release("long")
    isolated.answered("dm2", "after you")
    assert not request.aborted
    assert isolated.handled(id)["outcome"]["turn"]["queued_behind"] is True


@isolates
def test_the_sender_is_answered_too(isolated: World) -> None:
    """HERMES-9.4: the chat is shown it as well: nothing can be kept from it there."""
    isolated.ask("dm3", "u3", "hello there")
    words = ("--to", GATEWAY, "--type", "ask", "--channel", "mattermost:dm3", "--wait-reply", "60")
    done = isolated.notify(*words, "SAY:forty two")
    assert done.status == 0 and "forty two" in done.out, done
    isolated.answered("dm3", "forty two")


@isolates
def test_a_print_is_the_couriers(isolated: World) -> None:
    """HERMES-9.5: by the platform's credentials that it has."""
    isolated.mattermost.channels[ROOM] = "O"
    words = ("--to", GATEWAY, "--type", "note", "--channel", f"mattermost:{ROOM}", "printed")
    id = str(isolated.sent(*words)["id"])
    assert isolated.handled(id)["outcome"]["actions"][0]["result"] == "queued"
    isolated.answered(ROOM, "printed")


@isolates
def test_tools_and_the_command(isolated: World) -> None:
    """HERMES-9.6, HERMES-9.1: each knows its chat; /bus says that plugins are isolated."""
    with isolated.client() as bus:
        bus.send("worker-alpha", "to be known", queue=True)
    isolated.ask("grp1", "u1", "before the tools")
    args = {"target": "worker-alpha", "type": "note", "text": "from the chat"}
    isolated.begin("grp1", "u1", f"CALL:bus_send {json.dumps(args)}")
    isolated.answered("grp1", "called: ")
    isolated.say("dm1", "u1", "/bus send worker-alpha by hand")
    isolated.answered("dm1", "the answer is to come to this chat")
    with isolated.client() as bus:
        sent = {m.text: m for m in (bus.read(row["id"]) for row in bus.inbox("worker-alpha"))}
    assert (sent["from the chat"].sender, sent["from the chat"].channel) == (
        *(GATEWAY, "mattermost:grp1"),
    )
    assert sent["by hand"].channel == "mattermost:dm1"
    isolated.say("dm1", "u1", "/bus")
    page = isolated.answered("dm1", f"endpoint: {GATEWAY} (gateway)").text
    assert "plugins.isolation: host" in page and "turns in chats: on" in page


@isolates
def test_check_says_it(isolated: World) -> None:
    """HERMES-9.8: what works there and what does not."""
    told = isolated.wakebus("install", "hermes", "--check").out
    assert "plugins run in a process of their own" in told and "courier" in told, told


@isolates
def test_a_one_shot_takes_nothing(isolated: World) -> None:
    """HERMES-9.1, HERMES-2.3: also while a gateway of the same home answers."""
    assert "answer to what is new" in isolated.chat("what is new")
    with isolated.client() as bus:
        names = {row["name"] for row in bus.list()}
    assert GATEWAY in names and "hermes-bus" not in names


@isolates
def test_a_terminal_says_why(isolated: World) -> None:
    """HERMES-9.1: no endpoint, and never "does not listen" without the reason."""
    pane = isolated.cli()
    pane.type("/bus")
    pane.shows("endpoint: not on the bus")
    pane.shows("plugins.isolation: host")
    pane.type("say hello")
    pane.shows("answer to say hello")
    isolated.wait(lambda: "not on the bus: plugins run in" in isolated.gateway.log, "the reason")
    assert isolated.live() == {GATEWAY, "courier"}


@isolates
def test_the_process_is_killed(isolated: World) -> None:
    """HERMES-9.7: Hermes starts another; the endpoint is back, the message comes again."""
    isolated.ask("dm3", "u3", "remember the word cobalt")
    before: dict[str, Any] = isolated.traced(id := ci(isolated, "HOLD:kill me", "mattermost:dm3"))
    isolated.wait(lambda: isolated.model.running("HOLD:kill"), "its turn")
    killed = plugin_host(isolated)
    os.kill(killed.pid, signal.SIGKILL)
    isolated.wait(lambda: len(isolated.traced(id)["steps"]) > len(before["steps"]) + 1, "again")
    isolated.wait_registered()
    assert plugin_host(isolated).pid != killed.pid
    isolated.model.release("kill")
    told = isolated.handled(id)["outcome"]
    assert told["turn"]["session"] == "agent:main:mattermost:dm:dm3", told
    again = [r for r in isolated.requests(id) if CUT_OFF in r.last]
    assert len(again) == 1 and any("cobalt" in text for text in again[0].users)


@isolates
def test_two_profiles(_clean_environment: None) -> None:
    """HERMES-9.1, HERMES-9.2: each has a process and an endpoint of its own; nothing is mixed."""
    with closing(World()) as world:
        world.env["HERMES_BUS_ENDPOINT"] = "hermes-bus"  # of whom it is launched for
        both = [Profile(world, name) for name in ("default", "work")]
        for one in both:
            one.configure(plugins=PLUGINS)
            one.rules(RULES)
        with closing(Profiles(world, *both)) as gateways:
            world.start()
            gateways.start()
            for one in both:
                one.say("dm1", "u1", f"{one.name} begins")
            for one in both:
                one.posted(f"answer to {one.name} begins")
            with world.client() as bus:
                ids = [
                    bus.send(
                        one.endpoint,
                        f"SAY:for {one.name}",
                        type="ci",
                        channel="mattermost:dm1",
                        sender="ci",
                    ).id
                    for one in both
                ]
            for one, id in zip(both, ids, strict=True):
                assert world.handled(id)["outcome"]["turn"]["session"] == one.key("dm1")
                one.posted(f"for {one.name}")
            assert not both[0].posts("for work") and not both[1].posts("for default")


@pytest.mark.skipif(KNOWN, reason="this Hermes knows the setting")
def test_an_older_hermes_knows_no_such_setting(make_world: MakeWorld) -> None:
    """HERMES-9.1: nothing is different there."""
    world = isolate(make_world())
    world.ask("dm1", "u1", "hello")
    told = world.handled(ci(world, "SAY:as ever"))["outcome"]
    assert told["channel"]["result"] == "answered", told
