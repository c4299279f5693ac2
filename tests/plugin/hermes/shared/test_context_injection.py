"""What waits in front of a person's turn: as much as Hermes passes on, shown when it was."""

from collections.abc import Callable
from pathlib import Path

import pytest

from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.host_api.loaded_functions import LIMIT
from wakebus.plugin.hermes.shared.context_injection import MAX_TURNS, ContextInjection, fitting
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.prompt.pending_context import MAX_FAILED, Context, PendingContext

MakeMessage = Callable[..., Message]

FENCE = "0123456789abcdef01234567"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(tmp_path / "lead.jsonl")


def items(make: MakeMessage, *texts: str) -> tuple[PromptItem, ...]:
    return tuple(PromptItem(make(id=f"m{number}"), text) for number, text in enumerate(texts, 1))


def ids(waiting: PendingContext) -> list[str]:
    return [item.message.id for item in waiting.items]


@pytest.mark.parametrize("text", ["x" * 900, "字" * 900])
def test_the_oldest_that_fit(make: MakeMessage, text: str) -> None:
    """HERMES-4.8: whole texts, never more characters than the limit; the rest waits."""
    waiting = PendingContext(items(make, *[text] * 20))
    found, shown = fitting(waiting, 4000, FENCE)
    assert ids(found) == ["m1", "m2", "m3"] and len(shown) <= 4000
    assert shown.count(text) == 3
    assert fitting(waiting, 10**6, FENCE)[0] == waiting
    assert fitting(PendingContext(), 4000, FENCE) == (PendingContext(), "")


def test_one_that_is_too_long_alone(make: MakeMessage) -> None:
    """HERMES-4.8: it is cut, and says where the whole is; else nothing would be shown any more."""
    found, shown = fitting(PendingContext(items(make, "y" * 8000, "z")), 2000, FENCE)
    assert ids(found) == ["m1"] and len(shown) <= 2000
    assert "`wakebus trace m1 --text`" in shown and shown.rstrip().endswith(f"--- end {FENCE}")


@pytest.mark.parametrize("limit", [-5, 0, 50, 200])
def test_no_room(make: MakeMessage, limit: int) -> None:
    """HERMES-4.8: then nothing is shown, and nothing is said to be."""
    assert fitting(PendingContext(items(make, "text"), 3), limit, FENCE) == (PendingContext(), "")


def test_what_was_dropped_is_said(make: MakeMessage) -> None:
    """HERMES-4.8: also where nothing else waits."""
    assert "7 older notes" in fitting(PendingContext((), 7), LIMIT, FENCE)[1]


def test_shown_once(make: MakeMessage, context: Context) -> None:
    """HERMES-4.8: forgotten at the turn's end, not before."""
    context.add("", items(make, "milk")[0])
    injection = ContextInjection()
    assert "milk" in injection.begin_turn(context, ["", "s1"], "s1", "t1", LIMIT)
    assert ids(context.waiting("")) == ["m1"]
    injection.end_turn("t1", seen=True)
    assert injection.begin_turn(context, ["", "s1"], "s1", "t2", LIMIT) == ""


def test_a_text_in_front_of_failing_turns(make: MakeMessage, context: Context) -> None:
    """HERMES-4.8: shown again, but not for ever: it may be the text."""
    context.add("", items(make, "poison")[0])
    injection = ContextInjection()
    for number in range(MAX_FAILED):
        assert "poison" in injection.begin_turn(context, [""], "s1", f"t{number}", LIMIT)
        injection.end_turn(f"t{number}", seen=False)
    assert injection.begin_turn(context, [""], "s1", "t9", LIMIT) == ""


def test_an_end_that_nobody_told(make: MakeMessage, context: Context) -> None:
    """HERMES-4.8: the turn has failed, once the session is known to be in another."""
    context.add("", items(make, "milk")[0])
    injection = ContextInjection()
    for number in range(MAX_FAILED):
        assert "milk" in injection.begin_turn(context, [""], "s1", f"t{number}", LIMIT)
        injection.end_session("s2")
        injection.end_session("s1", "t9")
    assert injection.begin_turn(context, [""], "s1", "t9", LIMIT) == ""


def test_bounded(make: MakeMessage, context: Context) -> None:
    """HERMES-4.11: turns whose end never comes are forgotten; what they showed waits on."""
    context.add("", items(make, "milk")[0])
    injection = ContextInjection()
    for number in range(MAX_TURNS + 50):
        injection.begin_turn(context, [""], f"s{number}", f"t{number}", LIMIT)
    assert len(injection._turns) == MAX_TURNS
    injection.end_turn("t0", seen=True)
    assert ids(context.waiting("")) == ["m1"]


def test_a_context_that_cannot_be_read(tmp_path: Path) -> None:
    """HERMES-4.11: the turn goes on without it."""
    (tmp_path / "file").write_text("")
    broken = Context(tmp_path / "file" / "lead.jsonl")
    assert ContextInjection().begin_turn(broken, [""], "s1", "t1", LIMIT) == ""
