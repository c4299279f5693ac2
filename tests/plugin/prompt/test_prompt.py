"""The prompt of a turn, and how much of it an agent can take."""

from collections.abc import Callable
from typing import Any

import pytest

from wakebus.broker.protocol.message import Message
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.prompt.pending_context import PendingContext
from wakebus.plugin.prompt.prompt import build_prompt
from wakebus.plugin.receive.agent_process import MAX_ARGUMENT

MakeMessage = Callable[..., Message]
FENCE = "f" * 24
HARD = 128 << 10  # MAX_ARG_STRLEN of Linux, with its NUL


@pytest.fixture
def note(make: MakeMessage) -> PromptItem:
    return PromptItem(make(id="n1", type="note"), "a note")


def test_what_waits_stands_in_front(note: PromptItem) -> None:
    """What was pushed out is said first; one fence, so that a note cannot end another's."""
    waiting, text = build_prompt(
        PendingContext((note,), 2), [PromptItem(note.message, "do it")], None, FENCE
    )
    assert waiting == PendingContext((note,), 2)
    assert text.startswith("[wakebus] 2 older notes were dropped: too many waited.\n[wakebus] For")
    assert text.index("a note") < text.index("do it")


def test_nothing_waits(note: PromptItem) -> None:
    """Then there is only the turn's own message."""
    assert build_prompt(PendingContext(), [note], None, FENCE)[1].startswith("[wakebus] A message.")


@pytest.mark.parametrize("limit", [MAX_ARGUMENT, 40 << 10])
def test_the_oldest_as_far_as_there_is_room(note: PromptItem, limit: int) -> None:
    """The rest is not in it, and not in what was shown."""
    items = tuple(note._replace(text=f"{n:03}" + "é" * 1000) for n in range(100))
    waiting, text = build_prompt(PendingContext(items, 1), [note], limit, FENCE)
    assert 1 < len(waiting.items) < 100 and waiting == PendingContext(
        items[: len(waiting.items)], 1
    )
    assert limit * 0.85 < len(text.encode()) <= limit
    assert build_prompt(PendingContext(items), [note], None, FENCE)[0].items == items


def test_no_messages_are_too_many_for_an_argument(make: MakeMessage) -> None:
    """50 in one turn, each with the longest names that the broker lets in, and a long text."""
    for odd in ("群", '"', "\U0001f600", "<"):
        channel, type_ = odd * (512 // len(odd.encode())), odd * 128
        message = make(id="i" * 64, reply_to="r" * 64, sender="s" * 64, type=type_, channel=channel)
        again: dict[str, Any] = {
            "attempt": 99,
            "redelivered": True,
            "started_before": True,
            "claimed": True,
        }
        item, note = (PromptItem(message, odd * many, **again) for many in (10_000, 100_000))
        _, text = build_prompt(PendingContext((note,) * 100, 9), [item] * 50, MAX_ARGUMENT, FENCE)
        assert len(text.encode()) < HARD
