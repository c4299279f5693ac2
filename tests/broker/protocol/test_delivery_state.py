"""The table of states."""

import itertools
import re
from pathlib import Path

import pytest

from wakebus import broker
from wakebus.broker.protocol.delivery_state import (
    DEATHS,
    ENDS,
    NEXT,
    OPEN,
    DeliveryEvent,
    DeliveryState,
    receipt_word,
)

assert broker.__file__
PAGE = (Path(broker.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")


def _page_table() -> dict[tuple[DeliveryState, DeliveryEvent], DeliveryState]:
    section = PAGE.split("## 6 ")[1].split("## 7 ")[0]
    found = {}
    for states, words, end in re.findall(
        r"^\| ([a-z, ]+) \| ([a-z, ]+) \| (\w+) \|$", section, re.M
    ):
        if states != "from":
            for state, word in itertools.product(states.split(", "), words.split(", ")):
                found[DeliveryState(state), DeliveryEvent(word)] = DeliveryState(end)
    return found


def test_the_page_and_the_table_are_the_same() -> None:
    """PROTOCOL-6.1: PROTOCOL.md shows every step, and no other."""
    assert _page_table() == NEXT


@pytest.mark.parametrize(("state", "event"), [*itertools.product(sorted(ENDS), DeliveryEvent)])
def test_an_end_is_an_end(state: DeliveryState, event: DeliveryEvent) -> None:
    """PROTOCOL-6.1: nothing leads out of handled, refused and dead, but a dead letter's retry."""
    retried = state in DEATHS and event is DeliveryEvent.RETRIED
    assert ((state, event) in NEXT) == retried


@pytest.mark.parametrize("state", sorted(OPEN))
def test_every_open_state_can_end_and_come_back(state: DeliveryState) -> None:
    """PROTOCOL-6.1: a lost `got` or `started` never keeps a delivery from its end."""
    ends = {NEXT[state, event] for event in (DeliveryEvent.HANDLED, DeliveryEvent.REFUSED)}
    assert ends == {DeliveryState.HANDLED, DeliveryState.REFUSED}
    assert (
        NEXT[state, DeliveryEvent.RETURNED]
        is NEXT[state, DeliveryEvent.LATER]
        is DeliveryState.QUEUED
    )


def test_only_what_waits_is_given_up() -> None:
    """PROTOCOL-6.10: what is in somebody's hands does not expire and is not exhausted."""
    given_up = {step for step, end in NEXT.items() if end is DeliveryState.DEAD}
    cancelled = {state for state, event in given_up if event is DeliveryEvent.CANCELLED}
    assert cancelled == OPEN
    others = {state for state, event in given_up if event is not DeliveryEvent.CANCELLED}
    assert others == {DeliveryState.QUEUED}


def test_words_of_receipts() -> None:
    """PROTOCOL-6.1: what a sender is told of each state."""
    assert [receipt_word(state) for state in DeliveryState] == [
        *("queued", "delivered", "delivered", "handled", "dead", "dead")
    ]
