"""A message as its handler is given it."""

from typing import Any

import pytest

from wakebus.broker.client.delivery import Delivery
from wakebus.broker.errors import BadMessage

MESSAGE = {"id": "m1", "ts": 1.0, "from": "ci", "to": "w", "body": {"text": "x"}, "hops": 2}


def _deliver(said: list[Any], **fields: Any) -> Delivery:
    payload = {"to": "w", "epoch": 3, "message": MESSAGE, **fields}
    return Delivery(payload, "w", lambda *words: said.append(words))


def test_a_bare_delivery_is_a_first_one() -> None:
    """What the broker did not say is not so."""
    one = _deliver([])
    assert (one.attempt, one.redelivered, one.started_before) == (1, False, False)
    assert (one.asks, one.sender_known, one.claimed, one.lost) == (False,) * 4
    assert (one.name, one.epoch, one.message.id) == ("w", 3, "m1")


def test_a_delivery_without_a_message_is_none() -> None:
    """A wrong message is an error, never a delivery of half of it."""
    with pytest.raises(BadMessage):
        _deliver([], message={"id": "m1"})


def test_started_says_whose_work_begins() -> None:
    """With hops and path, so that what the turn sends can be proven; it waits for the broker."""
    said: list[Any] = []
    one = _deliver(said)
    one.started("t" * 16)
    assert said == [(one, "started", {"hops": 2, "path": [], "token": "t" * 16}, True)]


def test_take_more_does_not_wait() -> None:
    """It is remembered, for the next registration, and said without waiting."""
    said: list[Any] = []
    one = _deliver(said)
    one.take_more()
    assert one.takes_more
    assert said == [(one, "got", {"more": True}, False)]
