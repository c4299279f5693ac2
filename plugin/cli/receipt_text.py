"""
A receipt in words.

Rule 1: an outcome is its receiver's own: whatever is in it, nothing raises.
"""

import time
from collections.abc import Mapping
from typing import Any

from wakebus.broker.protocol.outcome import left_open
from wakebus.broker.protocol.receipt import Receipt


def goes_out(not_before: float) -> str:
    """Return in words when a message goes out that waits for its time (Unix seconds)."""
    from wakebus.plugin.cli.when import goes_out_text

    return goes_out_text(not_before, time.time())


def _outcome(outcome: Mapping[str, Any]) -> str:
    from wakebus.plugin.cli.facts_text import outcome_text  # who does not wait does not pay for it

    return outcome_text(outcome)


def sentence(receipt: Receipt) -> str:
    """Return the receipt in words."""
    again = " (again: this id or key was sent before)" if receipt.duplicate else ""
    if receipt.state == "handled":
        outcome = f": {_outcome(receipt.outcome)}" if receipt.outcome else ""
        pending = f"; {words}" if (words := left_open(receipt.outcome)) else ""
        return f"handled {receipt.id}{again}{pending}{outcome}"
    why = f", {receipt.why}" if receipt.why else ""
    if receipt.state == "delivered":
        return f"delivered {receipt.id} to {receipt.to}{why}{again}"
    away = "" if receipt.live else f"; {receipt.to} is away and gets it when it comes"
    ahead = f", {receipt.ahead} ahead of it" if receipt.ahead else ""
    if receipt.not_before:
        ahead, why = f"; it goes out {goes_out(receipt.not_before)}", ""
    return f"queued {receipt.id} for {receipt.to}{ahead}{why}{away}{again}"


def obstacle_to_chat(outcome: Mapping[str, Any] | None) -> str:
    """Return why an answer that its asker has is not for the message's chat too, "" where it is."""
    told = (outcome or {}).get("channel")
    if not isinstance(told, Mapping):
        return "its receiver answers who asked, and nobody else"
    failed = told.get("result") in ("not_sent", "rejected")
    return str(told.get("reason") or told["result"]) if failed else ""
