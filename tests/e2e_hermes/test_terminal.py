"""An interactive `hermes` and a one-shot one, wakebus not involved."""

from collections.abc import Iterator

import pytest

from e2e_hermes.conftest import MakeWorld
from e2e_hermes.world import World


@pytest.fixture
def desk(make_world: MakeWorld) -> Iterator[World]:
    """A world with a broker and no gateway."""
    found = make_world()
    found.start()
    yield found


def test_the_terminal_answers(desk: World) -> None:
    """Two turns of one session: the second request holds the first."""
    pane = desk.cli()
    pane.type("hello from the keyboard")
    pane.shows("answer to hello from the keyboard")
    pane.type("once more")
    pane.shows("answer to once more")
    assert "hello from the keyboard" in desk.asked("once more")


def test_one_shot(desk: World) -> None:
    """`hermes chat -Q -q` prints the answer and ends."""
    assert "answer to what is new" in desk.chat("what is new")
