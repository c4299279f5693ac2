"""What a sender is told."""

from typing import Any

import pytest

from wakebus.broker.errors import BadMessage
from wakebus.broker.protocol.receipt import Receipt, receipt


def test_a_short_answer_has_the_usual_values() -> None:
    """What the broker left out is not live, first in line, no duplicate, without outcome."""
    found = receipt({"id": "a", "state": "queued"}, "worker")
    assert found == Receipt("a", "queued", "worker", False, 0, False, None, "")


def test_every_field_is_taken() -> None:
    """What the broker said is what the sender is told."""
    answer = {"id": "a", "state": "dead", "to": "w", "live": True, "ahead": 3, "duplicate": True}
    found = receipt({**answer, "outcome": {"x": 1}, "reason": "no", "claimed": True})
    assert found == Receipt("a", "dead", "w", True, 3, True, {"x": 1}, "no", True)


@pytest.mark.parametrize("answer", [{}, {"id": "a"}, {"id": "a", "state": "queued", "ahead": "x"}])
def test_no_receipt_is_an_error(answer: dict[str, Any]) -> None:
    """An answer that is no receipt is never taken for one."""
    with pytest.raises(BadMessage, match="receipt"):
        receipt(answer)


def test_what_failed() -> None:
    """PROTOCOL-6.13: dead, with an outcome that says so."""
    failed: dict[str, Any] = {"failed": True}
    assert Receipt("a", "dead", outcome=failed).failed
    assert not Receipt("a", "dead").failed and not Receipt("a", "dead", outcome={"x": 1}).failed
    assert not Receipt("a", "handled", outcome=failed).failed
