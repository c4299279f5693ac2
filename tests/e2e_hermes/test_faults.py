"""A platform with faults: what is told is true (HERMES-3.7, HERMES-3.8); then all works again."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from e2e_hermes.conftest import MakeWorld
from e2e_hermes.world import GATEWAY, World

RULES = """
callbacks:
  - match_type: ci
    context: true
  - match_type: note
    print: true
  - match_type: owner
    context: true
    reply: home
"""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A world whose rules are there before anything is."""
    with closing(World()) as found:
        found.rules(RULES)
        found.start_all()
        found.wait_registered()
        yield found


@pytest.fixture(scope="module", autouse=True)
def late() -> Iterator[tuple[World, str, str]]:
    """
    A world whose platform is down when Hermes starts; what is sent waits, then it is up.

    Hermes tries again after 30 s: so this comes first, and is looked at last.
    """
    with closing(World()) as found:
        found.rules(RULES)
        found.start()
        found.mattermost.refuse()
        found.gateway.launch()
        found.wait_registered()
        ci = send(found, "ci", "SAY:late news", "mattermost")
        note = send(found, "note", "a late print", "mattermost:home")
        for id in (ci, note):
            found.wait(lambda id=id: later(found, id), f"{id} waits for the platform")
        found.mattermost.accept()
        yield found, ci, note


def later(world: World, id: str) -> bool:
    """Return whether the gateway has given a message back, for later."""
    now = world.traced(id)
    assert now["state"] in ("queued", "delivered"), now
    return "not connected" in str(now) or "starting" in str(now)


def send(world: World, type: str, text: str, channel: str) -> str:
    """Send by notify-hermes; return the message's id."""
    return str(world.sent("--to", GATEWAY, "--type", type, "--channel", channel, text)["id"])


def printed(world: World, id: str) -> dict[str, Any]:
    """Return what became of a print."""
    return dict(world.handled(id)["outcome"]["actions"][0])


def test_a_model_that_fails(world: World) -> None:
    """RULES-8.1: the turn failed, the sender ends with 6 and the reason; done anew, it is fine."""
    world.ask("dm1", "u1", "hello")
    world.model.fail(20)
    words = ("--to", GATEWAY, "--type", "ci", "--channel", "mattermost:dm1", "--wait", "120")
    done = world.notify(*words, "--id", "ill", "what is it")
    assert done.status == 6, (done, world.story())
    assert "dead ill: the turn failed: " in done.err and "the model is ill" in done.err, done
    world.model.fail(0)
    assert world.wakebus("dead", "retry", "ill").status == 0
    assert world.handled("ill")["state"] == "handled"


def test_a_print_that_is_in_doubt(world: World) -> None:
    """HERMES-3.8: after a 500 nobody knows: `uncertain`, sent once; the next is sent."""
    world.mattermost.fail_posts(1, 500)
    told = printed(world, send(world, "note", "lost with 500", "mattermost:town"))
    assert told["result"] == "uncertain" and "→ 500" in told["reason"], told
    told = printed(world, send(world, "note", "well after 500", "mattermost:town"))
    assert told["result"] == "sent", told
    assert told["id"] == world.answered("town", "well after 500").id
    assert not [text for text in world.answers("town") if "lost with 500" in text]


def test_a_print_without_an_answer(world: World) -> None:
    """The connection ends and nobody knows: `uncertain`, never sent twice."""
    platform = world.mattermost
    before = len(platform.refused)
    platform.hang_posts(1)
    id = send(world, "note", "who knows", "mattermost:town")
    world.wait(lambda: len(platform.refused) > before, "the post")
    platform.free()
    assert printed(world, id)["result"] == "uncertain"
    platform.heal()
    assert sum("who knows" in str(body) for body in platform.refused) == 1
    assert not [text for text in world.answers("town") if "who knows" in text]


def test_an_answer_that_is_refused(world: World) -> None:
    """HERMES-3.7: told as `uncertain`; the session has it all the same, and goes on."""
    world.ask("dm1", "u1", "hello")
    world.mattermost.fail_posts(20)
    told = world.handled(send(world, "ci", "SAY:not to be seen", "mattermost:dm1"))["outcome"]
    assert told["channel"]["result"] == "uncertain", told
    world.mattermost.heal()
    told = world.handled(send(world, "ci", "SAY:well again", "mattermost:dm1"))["outcome"]
    assert told["channel"]["result"] == "answered", told
    world.answered("dm1", "well again")
    assert "not to be seen" in world.asked("well again")
    # 0.22 says it again by itself after 30 s, marked as such (gateway/delivery_ledger.py:42, 61).
    assert "not to be seen" not in world.answers("dm1")


def test_an_answer_that_is_refused_once(world: World) -> None:
    """Hermes says it again by itself: `answered`, and it is there once."""
    world.ask("dm2", "u2", "hello")
    before = len(world.answers("dm2"))
    world.mattermost.fail_posts(1)
    told = world.handled(send(world, "ci", "SAY:second try", "mattermost:dm2"))["outcome"]
    assert told["channel"]["result"] == "answered", told
    assert len(world.answers("dm2")) == before + 1


def test_a_lost_websocket(world: World) -> None:
    """What the bus brings goes out meanwhile; people are heard again."""
    platform = world.mattermost
    world.ask("dm3", "u3", "hello")
    before = platform.connections
    platform.drop_websocket()
    id = send(world, "ci", "SAY:in the meantime", "mattermost:dm3")
    assert world.handled(id)["outcome"]["channel"]["result"] == "answered"
    world.wait(lambda: platform.connections > before and platform.connected, "a new WebSocket")
    world.ask("dm3", "u3", "are you there")
    assert "in the meantime" in world.asked("are you there")


def test_a_platform_that_is_down(world: World) -> None:
    """Hermes's adapter is not told: nothing is called sent or answered; then it is well again."""
    platform = world.mattermost
    world.ask("dm3", "u3", "before it is down")
    platform.refuse()
    world.wait(lambda: not platform.connected, "no WebSocket")
    ci = send(world, "ci", "SAY:down: an answer", "mattermost:dm3")
    assert world.handled(ci)["outcome"]["channel"]["result"] == "uncertain"
    note = send(world, "note", "down: a print", "mattermost:dm3")
    world.wait(lambda: world.traced(note)["state"] == "delivered", "it is tried")
    platform.accept()
    assert printed(world, note)["result"] == "sent"
    world.wait(lambda: platform.connected, "a WebSocket")
    world.ask("dm3", "u3", "after it was down")
    told = world.handled(send(world, "ci", "SAY:up again", "mattermost:dm3"))["outcome"]
    assert told["channel"]["result"] == "answered", told
    assert printed(world, send(world, "note", "up: a print", "mattermost:dm3"))["result"] == "sent"


REFUSED = {
    "mattermost": ("ci", "/sethome"),
    "": ("owner", "/sethome"),
    "mattermost:nowhere": ("ci", "write there once"),
    "telegram:42": ("ci", "it has: mattermost"),
    "irc:42": ("ci", "it has: mattermost"),
    "mattermost:dm2?thread=zzz": ("ci", "write there once"),
}


def test_what_goes_nowhere_and_what_waits(make_world: MakeWorld) -> None:
    """
    HERMES-3.2, HERMES-3.5: without a place it is a dead letter, and who waits reads the next step.
    HERMES-3.6: without the grant no turn begins; the next human turn has it once; prints go out.
    """
    world = make_world(home=False)
    world.rules(RULES)
    world.start_all()
    world.wait_registered()
    for channel, (type, step) in REFUSED.items():
        words = ("--to", GATEWAY, "--type", type, "--wait", "60", "--channel", channel, "x")
        done = world.notify(*words)
        assert done.status == 1 and step in done.both, (channel, done)
    with world.client() as bus:
        reasons = [row["reason"] for row in bus.dead_letters()]
    assert len(reasons) == len(REFUSED) and not world.requests(), reasons
    world.gateway.stop()
    world.grant = False
    world.configure()
    world.gateway.start()
    world.wait_registered()
    told = world.handled(send(world, "ci", "waits for you", "mattermost:dm1"))["outcome"]
    assert "allow_gateway_injection: true" in told["note"] and "turn" not in told, told
    assert printed(world, send(world, "note", "a print", "mattermost:dm1"))["result"] == "sent"
    assert not world.requests()
    world.ask("dm1", "u1", "the first words")
    world.ask("dm1", "u1", "the second words")
    assert world.asked("the first words").last.count("waits for you") == 1
    assert "waits for you" not in world.asked("the second words").last


def test_a_platform_that_came_late(late: tuple[World, str, str]) -> None:
    """HERMES-3.9: what came while Hermes had no connection was kept, and is delivered, once."""
    world, ci, note = late
    with world.client() as bus:
        assert [bus.wait(id, 100).state for id in (ci, note)] == ["handled"] * 2, world.story()
    assert world.traced(ci)["outcome"]["channel"]["result"] == "answered"
    assert world.traced(note)["outcome"]["actions"][0]["result"] == "sent"
    assert len(world.requests("late news")) == 1
    assert world.answers("home").count("late news") == 1
    assert world.answers("home").count("a late print") == 1


def test_nothing_was_said_twice(world: World) -> None:
    """HERMES-3.7: what was `uncertain` Hermes says again by itself, if anybody, once and marked."""
    for chat, text in (("dm1", "not to be seen"), ("dm3", "down: an answer")):
        said = [one for one in world.answers(chat) if text in one]
        assert len(said) <= 1 and text not in said, said
