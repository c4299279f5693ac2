"""
What `wakebus send` tells of a text: its channel result, or that it has not come to its end yet.

Rule 1: what may be at its platform is told as that, not as "not sent". Rule 2: the courier goes on
after the wait; the text says why it has put the message off last, and how to follow it.
"""

from collections.abc import Mapping
from typing import Any, Final

from wakebus.adapters.base import COURIER
from wakebus.broker.client.client import Client
from wakebus.broker.errors import TimedOut, Undecided, WakebusError
from wakebus.broker.paths import bus_dir
from wakebus.broker.protocol.receipt import Receipt
from wakebus.plugin.cli.output import one_line


class NotSentYet(TimedOut):
    """The courier has not come to it; it goes on trying."""


class NotSettled(Undecided):
    """The platform may have it; the courier sends it again, under a key that makes that safe."""

    code = "channel_uncertain"

    def __init__(self, text: str, **data: Any) -> None:
        WakebusError.__init__(self, text, **data)


_EXIT: Final = {"sent": 0, "answered": 0, "rejected": 1, "not_sent": 1, "uncertain": 5}


def explain(outcome: Mapping[str, Any] | None) -> tuple[int, str]:
    """
    Return exit code and one line for a message's outcome.

    0 sent, 1 rejected or not sent (also: no channel result at all), 5 uncertain.
    """
    channel = outcome.get("channel") if outcome else None
    word = channel.get("result") if isinstance(channel, Mapping) else None
    if not isinstance(channel, Mapping) or not isinstance(word, str) or word not in _EXIT:
        return 1, "not sent: the courier gave no channel result"
    chat = f" to {channel['chat']}" if channel.get("chat") else ""
    id_ = f" (id {channel['id']})" if channel.get("id") else ""
    reason = f": {channel['reason']}" if channel.get("reason") else ""
    return _EXIT[word], f"{word.replace('_', ' ')}{chat}{_parts(channel)}{id_}{reason}"


def _parts(channel: Mapping[str, Any]) -> str:
    parts, done = channel.get("parts"), channel.get("done")
    if not isinstance(parts, int) or not isinstance(done, int) or parts < 2:
        return ""
    return f" in {parts} parts" if done == parts else f" ({done} of {parts} parts sent)"


def unsettled(client: Client, receipt: Receipt, error: TimedOut) -> NotSentYet | NotSettled:
    """Return what to tell of a text that is still waiting. Without an id: exit status 1."""
    live = {one["name"] for one in client.list() if one["state"] == "live"}
    why = "the courier goes on trying" if COURIER in live else "no courier is running"
    last, work = last_deferral(client, receipt.id)
    last = one_line(last)
    step = f"Follow it: wakebus trace {receipt.id}"
    if COURIER not in live:
        step += f"\nWhy: {bus_dir() / 'courier.log'}"
        step += "\nStart one: hermes-busd restart, or here: wakebus courier"
    data = {"message": receipt.id, **({"reason": last} if last else {})}
    if work == "maybe":
        text = f"not settled yet: the platform may have it, {why}: {last}"
        return NotSettled(text, step=step, **data)
    return NotSentYet(f"not sent yet, {why}: {last or error.text}\n{step}", **data)


def last_deferral(client: Client, id: str) -> tuple[str, str]:
    """Return why the courier has put the message off last, and its last word of what was done."""
    found = next((one for one in client.trace(id) if one["id"] == id), {"steps": ()})
    laters = [step for step in found["steps"] if step["what"] == "later"]
    reasons = [step.get("reason", "") for step in laters]
    works = [step["work"] for step in laters if "work" in step]
    # The steps of one that waits for long have their end.
    reason = found.get("put_off") or (reasons[-1] if reasons else "")
    return str(reason), str(found.get("work") or (works[-1] if works else ""))
