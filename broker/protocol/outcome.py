"""
What a handler says of a message, and how that reads on the wire (PROTOCOL.md section 6).

Rule 1: pure. Rule 2: whatever a handler returns becomes an ack; nothing it returns can raise here,
for a message without an ack would block its lane.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from wakebus.broker.errors import BadFrame
from wakebus.broker.protocol import wire

MAX_OUTCOME: Final = 16 << 10
MAX_LATER_S: Final = 86400.0
MAX_REASON: Final = 1000

WorkDone = Literal["none", "maybe", ""]
WORK: Final = frozenset({"none", "maybe"})


class Later(NamedTuple):
    """
    A handler's word: not now. It comes again after `after_s` seconds; only its lane waits.

    work: `none`, where for certain nothing of it has been done, `maybe`, where it may have been;
    "": nothing is said of that, and a start that was told counts as work. failed: why work on it
    failed, where it is to be tried again: that is counted and stored (`Delivery.failures`).
    """

    after_s: float
    reason: str = ""
    work: WorkDone = ""
    failed: str = ""


class Refusal(NamedTuple):
    """
    A handler's word: never. The message becomes a dead letter with this reason.

    outcome: what was done of it; with `failed: true` it was worked on, and that failed. notice:
    whether its sender is told by a `notice`.
    """

    reason: str
    outcome: Mapping[str, Any] | None = None
    notice: bool = True


Outcome = Mapping[str, Any] | None | Later | Refusal

_OPEN: Final = {
    "queued": "what it says in a chat is queued for the courier, and not there yet",
    "uncertain": "the chat may have what it says or not: look there",
}


def awaits_reply(outcome: Mapping[str, Any] | None) -> bool:
    """Whether an outcome says that a person was shown the message, who answers by `reply`."""
    return (outcome or {}).get("awaits") == "reply"


def channel_results(outcome: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what an outcome tells of texts for chats: `channel`, `actions`, `failure_told`."""
    actions = outcome.get("actions")
    said = [outcome.get("channel"), *(actions if isinstance(actions, list) else [])]
    said.append(outcome.get("failure_told"))
    return [one for one in said if isinstance(one, Mapping) and "result" in one]


def left_open(outcome: Mapping[str, Any] | None) -> str:
    """Return in words what an outcome leaves open of texts for chats, "" for nothing."""
    results = {str(one["result"]) for one in channel_results(outcome or {})}
    return "; ".join(words for result, words in _OPEN.items() if result in results)


def ack_of(outcome: object) -> tuple[str, dict[str, Any]]:
    """Return verb and fields for what a handler returned; an impossible outcome is said so."""
    if isinstance(outcome, Later):
        said = {"reason": plain(outcome.reason)[:200]} if outcome.reason else {}
        if isinstance(outcome.work, str) and outcome.work in WORK:
            said["work"] = outcome.work
        if outcome.failed:
            said["failed"] = plain(outcome.failed)
        return "later", {"after_s": _seconds(outcome.after_s), **said}
    if isinstance(outcome, Refusal):
        why = {"reason": plain(outcome.reason), "outcome": bounded(outcome.outcome)}
        return "refused", why if outcome.notice else {**why, "notice": False}
    return "handled", {"outcome": bounded(outcome)}


def _seconds(value: object) -> float:
    fits = isinstance(value, int | float) and value > 0  # NaN is not above 0
    return min(float(value), MAX_LATER_S) if fits else 0.0  # type: ignore[arg-type]


def plain(text: object) -> str:
    """Return `text` as JSON can carry it: no lone surrogates, at most 1000 characters."""
    return str(text).encode(errors="replace").decode()[:MAX_REASON]


def bounded(outcome: object) -> dict[str, Any] | None:
    """Return a copy of the outcome, or one that says what was wrong with it."""
    if outcome is None:
        return None
    if not isinstance(outcome, Mapping):
        return {"note": f"the handler returned a {type(outcome).__name__}, no mapping"}
    try:
        encoded = wire.dumps(dict(outcome))
        copy: dict[str, Any] = wire.loads(encoded)
    except (BadFrame, TypeError, ValueError, RecursionError) as exc:
        return {"note": f"the outcome is not JSON: {plain(exc)[:200]}"}
    if len(encoded) > MAX_OUTCOME:
        dropped = f"{len(encoded)} bytes, the limit is {MAX_OUTCOME}"
        return {"note": f"the outcome was dropped: {dropped}"}
    if wire.too_deep(copy, encoded):
        return {"note": f"the outcome was dropped: it is nested deeper than {wire.MAX_DEPTH}"}
    return copy
