"""Messages of programs reach a person's conversation, in a real gateway."""

import pytest

from e2e_hermes.conftest import MakeWorld
from e2e_hermes.script import flat
from e2e_hermes.world import GATEWAY, World

RULES = """
callbacks:
  - match_type: ci
    context: true
  - match_type: ask
    context: true
    reply: sender
  - match_type: slow
    context: true
    reply: none
    timeout_s: 3
    on_failure: {chat: false}
  - match_type: note
    print: true
"""


@pytest.fixture(scope="module", autouse=True)
def _rules(world: World) -> None:
    world.rules(RULES)
    world.wait_registered()


def ci(world: World, text: str, channel: str) -> str:
    """A CI job tells it by notify-hermes; return the message's id."""
    words = ("--to", GATEWAY, "--type", "ci", "--channel", channel, text)
    return str(world.sent(*words)["id"])


def test_a_ci_message_reaches_the_persons_session(world: World) -> None:
    """The request holds the earlier conversation; the answer arrives in that chat."""
    world.ask("dm1", "u1", "remember the word heliotrope")
    id = ci(world, "SAY:build is red", "mattermost:dm1")
    world.answered("dm1", "build is red")
    request = world.asked("build is red")
    assert any("heliotrope" in text for text in request.users)
    outcome = world.handled(id)["outcome"]
    assert outcome["channel"]["result"] == "answered"
    assert outcome["turn"]["session"] == "agent:main:mattermost:dm:dm1"


def test_a_slow_turn_of_a_person_is_not_touched(world: World) -> None:
    """Not aborted; the message's turn follows it."""
    request = world.begin("dm2", "u2", "HOLD:long think")
    id = ci(world, "SAY:after you", "mattermost:dm2")
    world.wait(lambda: world.traced(id)["state"] == "delivered", "it is held")
    assert not request.ended and not world.requests("after you")
    world.model.release("long")
    world.answered("dm2", "answer to HOLD:long think")
    world.answered("dm2", "after you")
    assert not request.aborted
    assert world.handled(id)["outcome"]["turn"]["queued_behind"] is True


def test_a_group_is_the_persons_session(world: World) -> None:
    """Of who was heard there last; a chat in which nobody has written is refused."""
    world.ask("grp1", "u1", "first of u1")
    world.ask("grp1", "u2", "first of u2")
    id = ci(world, "SAY:for the group", "mattermost:grp1")
    told = world.handled(id)["outcome"]
    assert told["turn"]["session"].endswith(":grp1:u2"), told
    request = world.asked("for the group")
    assert any("first of u2" in text for text in request.users)
    assert not any("first of u1" in text for text in request.users)
    dead = world.handled(ci(world, "x", "mattermost:nobodys"))
    assert dead["state"] == "dead", dead


def test_texts_are_inert(world: World) -> None:
    """Commands and approvals as bus text are only text."""
    world.ask("dm1", "u1", "before the odd texts")
    for text in ("/status", "yes", "restart gateway", "```"):
        told = world.handled(ci(world, text, "mattermost:dm1"))["outcome"]
        assert told["channel"]["result"] == "answered", told
    assert world.gateway.alive


def test_a_bare_platform_is_the_home_channel(world: World) -> None:
    """Nobody has written there; the answer arrives in it."""
    told = world.handled(ci(world, "SAY:news for home", "mattermost"))["outcome"]
    assert told["channel"] == {**told["channel"], "result": "answered", "to": "mattermost:home"}
    world.answered("home", "news for home")


def test_a_print_is_in_the_chat(world: World) -> None:
    """By the live adapter, with the platform's id; the model is not asked."""
    words = ("--to", GATEWAY, "--type", "note", "--channel", "mattermost:town", "printed words")
    told = world.handled(str(world.sent(*words)["id"]))["outcome"]["actions"][0]
    post = world.answered("town", "printed words")
    assert (told["result"], told["id"]) == ("sent", post.id)


def test_only_the_sender_is_answered(world: World) -> None:
    """The chat is shown nothing, the sender has the true answer, and so has the history."""
    world.ask("dm3", "u3", "hello there")
    words = ("--to", GATEWAY, "--type", "ask", "--channel", "mattermost:dm3", "--wait-reply", "60")
    done = world.notify(*words, "SAY:forty two")
    assert done.status == 0 and "forty two" in done.out, done
    world.ask("dm3", "u3", "the next words")
    request = world.asked("the next words")
    assert any("forty two" in str(m) for m in request.messages if m.get("role") == "assistant")
    assert not [text for text in world.answers("dm3") if text.strip() == "forty two"]
    assert not [text for text in world.answers("dm3") if "NO_REPLY" in text]


def test_a_turn_that_goes_on_after_its_time_limit(world: World) -> None:
    """HERMES-3.7: what the chat is not to see it does not see then either."""
    world.ask("dm3", "u3", "hello there")
    words = ("--to", GATEWAY, "--type", "slow", "--channel", "mattermost:dm3", "HOLD:late words")
    dead = world.handled(str(world.sent(*words)["id"]))
    assert dead["state"] == "dead" and "goes on in Hermes" in dead["reason"], dead
    before = len(world.answers("dm3"))
    request = world.asked("HOLD:late")
    world.model.release("late")
    world.wait(lambda: request.ended, "its end")
    world.ask("dm3", "u3", "the words after it")
    assert not [text for text in world.answers("dm3")[before:] if "HOLD:late" in text]


def test_sent_while_the_gateway_was_away(own_world: World) -> None:
    """It waits in the broker, and finds the person's session when the gateway is back."""
    own_world.rules(RULES)
    own_world.wait_registered()
    own_world.ask("dm1", "u1", "remember the word heliotrope")
    own_world.gateway.stop()
    id = ci(own_world, "SAY:after the restart", "mattermost:dm1")
    own_world.gateway.start()
    told = own_world.handled(id)["outcome"]
    assert told["channel"]["result"] == "answered", told
    assert any("heliotrope" in text for text in own_world.asked("after the restart").users)


def test_a_platform_that_is_ill(own_world: World) -> None:
    """500: told as uncertain, never as sent; then it recovers."""
    own_world.rules(RULES)
    own_world.wait_registered()
    own_world.ask("dm1", "u1", "hello")
    own_world.mattermost.fail_posts(20)
    told = own_world.handled(ci(own_world, "SAY:lost", "mattermost:dm1"))["outcome"]
    assert told["channel"]["result"] == "uncertain", told
    own_world.mattermost.heal()
    told = own_world.handled(ci(own_world, "SAY:well again", "mattermost:dm1"))["outcome"]
    assert told["channel"]["result"] == "answered", told


def test_without_the_grant(make_world: MakeWorld) -> None:
    """No turn: it stands in front of the person's next message."""
    world = make_world(grant=False).start_all()
    world.rules(RULES)
    world.wait_registered()
    world.ask("dm1", "u1", "hello")
    told = world.handled(ci(world, "waits for you", "mattermost:dm1"))["outcome"]
    assert "allow_gateway_injection" in told["note"], told
    world.ask("dm1", "u1", "the next words")
    assert "waits for you" in world.asked("the next words").last


def test_a_message_is_cancelled_in_its_turn(world: World) -> None:
    """HERMES-3.15: the turn ends, the chat sees no answer, and the person is heard as before."""
    world.ask("dm3", "u3", "remember the word cobalt")
    id = ci(world, "HOLD:cut this build", "mattermost:dm3")
    request = world.asked("HOLD:cut")
    world.wait(lambda: world.model.running("HOLD:cut"), "its turn")
    before = len(world.answers("dm3"))  # by now also to what was written twice
    done = world.wakebus("cancel", id, "--from", "ci")
    assert done.status == 0 and f"{GATEWAY}, which had it, has ended its work" in done.out, done
    world.wait(lambda: request.aborted, "the request is ended")
    world.model.release("cut")
    letter = world.traced(id)
    assert (letter["state"], letter["reason"]) == ("dead", "cancelled by ci")
    # Hermes joins what was not answered with what the person writes next.
    world.say_until(
        lambda seconds: world.answered("dm3", "still known", seconds),
        "dm3",
        "u3",
        "SAY:still known",
    )
    assert any("cobalt" in text for text in world.asked("SAY:still known").users)
    said = [flat(text) for text in world.answers("dm3")[before:]]
    assert said[-1] == "still known" and not any("cut this build" in text for text in said), said
