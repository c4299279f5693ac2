"""Messages of programs reach a person's conversation, in a real gateway."""

import pytest

from e2e_hermes.world import GATEWAY, World

RULES = """
callbacks:
  - match_type: ci
    context: true
  - match_type: note
    print: true
"""


@pytest.fixture(scope="module", autouse=True)
def _rules(world: World) -> None:
    world.rules(RULES)
    world.wait_registered()


def test_a_ci_message_reaches_the_persons_session(world: World) -> None:
    """The request holds the earlier conversation; the answer arrives in that chat."""
    world.ask("dm1", "u1", "remember the word heliotrope")
    id = world.sent(GATEWAY, "SAY:build is red", "--type", "ci", "--channel", "mattermost:dm1")["id"]
    world.answered("dm1", "build is red")
    request = world.asked("build is red")
    assert any("heliotrope" in text for text in request.users)
    outcome = world.handled(id)["outcome"]
    assert outcome["channel"]["result"] == "answered"
    assert outcome["turn"]["session"] == "agent:main:mattermost:dm:dm1"
