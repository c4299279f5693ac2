"""
What a sender is told of its message.

Rule 1: pure.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from wakebus.broker.errors import BadMessage
from wakebus.broker.protocol.message import Message


def is_failure(outcome: Mapping[str, Any] | None) -> bool:
    """Whether the outcome of a dead message says that it was worked on, and that this failed."""
    return (outcome or {}).get("failed") is True


class Receipt(NamedTuple):
    """
    What the sender is told.

    `state`: `queued` (committed to disk), `delivered` (the receiver's client holds it), `handled`
    (its ack is committed; `outcome` says how it went) or `dead` (given up; `reason` says why, and
    `failed` whether it was worked on).
    `claimed`: an answer whose sender is not proven, so it ends nobody's wait. `told`: of one that
    was cancelled in its holder's hands, whether that was told to end it. `in_doubt`: of one that is
    dead, whether work on it may have been done, so that `retry` wants `force`. `waiting`: of a
    person's answer, how many waited for it when it came. `not_before`: of one that
    waits for its time, when that is (Unix seconds), else 0.0. `why`: what one that is not worked on
    yet waits for, as far as the broker knows.
    """

    id: str
    state: str
    to: str = ""
    live: bool = False
    ahead: int = 0
    duplicate: bool = False
    outcome: Mapping[str, Any] | None = None
    reason: str = ""
    claimed: bool = False
    told: bool = False
    in_doubt: bool = False
    waiting: int = 0
    not_before: float = 0.0
    why: str = ""

    @property
    def failed(self) -> bool:
        """Whether its receiver worked on it and failed: it is dead, with an outcome."""
        return self.state == "dead" and is_failure(self.outcome)


class Answer(NamedTuple):
    """The receipt of what was asked and the answer; None: handled, and there will be none."""

    receipt: Receipt
    message: Message | None


def receipt(reply: Mapping[str, Any], to: str = "") -> Receipt:
    """Return the receipt that the broker's answer holds, or raise BadMessage."""
    try:
        return Receipt(
            reply["id"],
            reply["state"],
            reply.get("to", to),
            bool(reply.get("live")),
            int(reply.get("ahead", 0)),
            bool(reply.get("duplicate")),
            reply.get("outcome"),
            str(reply.get("reason") or ""),
            reply.get("claimed") is True,
            reply.get("told") is True,
            reply.get("in_doubt") is True,
            int(reply.get("waiting", 0)),
            float(reply.get("not_before", 0.0)),
            str(reply.get("why") or ""),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadMessage(f"the broker's receipt is not one: {exc}") from exc
