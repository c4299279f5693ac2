"""A gateway by what newer Hermes offers to its plugins."""

from collections.abc import Callable
from typing import Any

import pytest

from fakes.hermes import Town, dm
from wakebus.plugin.hermes.host_api.protocol import CannotBegin
from wakebus.plugin.hermes.host_api.public_gateway import PublicGateway

KEY = "agent:main:mattermost:dm:dm1"


class Inject:
    """`ctx.inject_message`: what it was given, and what it says."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.says: Any = True

    def __call__(self, content: str, role: str = "user", *, session_key: str = "") -> Any:
        """Queue it."""
        self.seen.append((content, session_key))
        return self.says


def begin(hermes: PublicGateway, look: Callable[[], str] = lambda: "") -> tuple[str, list[Any]]:
    """Begin a turn in dm1; return what goes on there instead, and the events of ours."""
    events: list[Any] = []
    return hermes.begin("text", dm(), KEY, look, events.append), events


def test_a_stored_session_is_injected_into(town: Town) -> None:
    """HERMES-3.6: by its key; Hermes makes the event."""
    town.runner.session_store.put(dm())
    inject = Inject()
    assert begin(PublicGateway(town.runner, inject)) == ("", [])
    assert inject.seen == [("text", KEY)] and town.adapter.handled == 0


def test_what_goes_on_there_is_waited_for(town: Town) -> None:
    """HERMES-3.4: nothing is injected into a busy session: it would be queued behind a person."""
    town.runner.session_store.put(dm())
    inject = Inject()
    assert begin(PublicGateway(town.runner, inject), lambda: "a turn runs") == ("a turn runs", [])
    assert inject.seen == []


def test_a_refusal(town: Town) -> None:
    """HERMES-3.9: is told."""
    town.runner.session_store.put(dm())
    inject = Inject()
    inject.says = False
    with pytest.raises(CannotBegin, match="inject_message"):
        begin(PublicGateway(town.runner, inject))


def test_a_session_that_is_not_stored_yet(town: Town) -> None:
    """HERMES-3.5: the owner's first turn in the home channel goes the older way."""
    inject = Inject()
    why, events = begin(PublicGateway(town.runner, inject))
    assert why == "" and len(events) == 1 and town.adapter.handled == 1
    assert inject.seen == []
