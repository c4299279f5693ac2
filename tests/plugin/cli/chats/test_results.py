"""What is told of a text: its result, or that it has not come to its end yet."""

from typing import Any, cast

import pytest

from wakebus.adapters.base import ChannelResult
from wakebus.broker.client.client import Client
from wakebus.broker.errors import TimedOut
from wakebus.broker.protocol.receipt import Receipt
from wakebus.plugin.cli.chats import results as late
from wakebus.plugin.cli.output import hint, status_of


class Told:
    """A broker's word of messages."""

    def __init__(self, *found: dict[str, Any]) -> None:
        self._found = found

    def trace(self, id: str) -> list[dict[str, Any]]:
        """Return it."""
        return [*self._found]


def test_why_it_is_put_off() -> None:
    """ADP-22.5: the newest reason; none is known of a message that the broker does not name."""
    later = {"what": "later", "reason": "slow", "work": "maybe"}
    held = {"what": "later", "reason": "slow (now: held)"}
    one: dict[str, Any] = {"id": "m", "steps": [later, {"what": "given"}]}
    for found, said in (
        ((), ("", "")),
        (({"id": "other", "steps": [later]},), ("", "")),
        ((one,), ("slow", "maybe")),
        ((one, one), ("slow", "maybe")),
        ((one | {"steps": [later, {"what": "started"}, held]},), ("slow (now: held)", "maybe")),
        ((one | {"put_off": "slower", "work": "none"},), ("slower", "none")),
    ):
        assert late.last_deferral(cast(Client, Told(*found)), "m") == said


class Doubtful(Told):
    """A broker whose courier runs and has put message `m` off."""

    def list(self) -> list[dict[str, Any]]:
        """Return its endpoints."""
        return [{"name": "courier", "state": "live"}]


@pytest.mark.parametrize(("work", "status"), [("maybe", 5), ("none", 1), ("", 1)])
def test_not_settled_yet(work: str, status: int) -> None:
    """ADP-22.5: exit 5 where the platform may have it, also while the courier goes on."""
    why = "it may have been accepted: status 500; it is sent again under its key"
    one = {"id": "m", "put_off": why, "work": work, "steps": []}
    client = cast(Client, Doubtful({**one}))
    error = late.unsettled(client, Receipt("m", "queued"), TimedOut("late"))
    assert status_of(error) == status and "wakebus trace m" in hint(error)
    said = error.to_wire()
    assert said["message"] == "m" and said["reason"] == why
    first = "not settled yet: the platform may have it, the courier goes on trying: it may"
    assert error.text.startswith(first if work == "maybe" else "not sent yet, ")


@pytest.mark.parametrize(
    ("outcome", "code", "text"),
    [
        (ChannelResult("sent", "console", "console:a", "k").to_outcome(1), 0, "sent to console:a"),
        (ChannelResult("rejected", reason="no such chat").to_outcome(1), 1, "no such chat"),
        (ChannelResult("not_sent", reason="disk full").to_outcome(1), 1, "not sent: disk full"),
        (ChannelResult("uncertain", reason="timed out").to_outcome(1), 5, "uncertain: timed out"),
        ({"channel": {"result": "answered"}}, 0, "answered"),
        ({"channel": {"result": ["sent"]}}, 1, "no channel result"),
        ({"channel": {"result": "sent", "parts": "3", "done": None}}, 0, "sent"),
        ({"channel": "sent"}, 1, "no channel result"),
        ({}, 1, "no channel result"),
        (None, 1, "no channel result"),
    ],
)
def test_explain(outcome: dict[str, object] | None, code: int, text: str) -> None:
    """ADP-5.6: 0 sent, 1 rejected or not sent or no result at all, 5 uncertain, with the reason."""
    assert late.explain(outcome)[0] == code
    assert text in late.explain(outcome)[1]


def test_explain_several_parts() -> None:
    """ADP-5.8: how many messages it took; where it stopped, how many of them are sent."""
    sent = ChannelResult("sent", "feishu", "feishu:oc_1", "m1", done=3, parts=3).to_outcome(1)
    assert late.explain(sent) == (0, "sent to feishu:oc_1 in 3 parts (id m1)")
    half = ChannelResult("uncertain", reason="part 3: timed out", done=2, parts=5).to_outcome(1)
    assert late.explain(half) == (5, "uncertain (2 of 5 parts sent): part 3: timed out")
