"""
What is told of a stored message to its sender, and to whoever asks for it.

Rule 1: pure; whatever a column holds, nothing here raises.
"""

from typing import Any

from wakebus.broker.protocol.delivery_state import DeliveryState, receipt_word
from wakebus.broker.store.dead_letter_history import in_doubt
from wakebus.broker.store.rows import Row
from wakebus.broker.store.stored_json import outcome_of, unreadable


def receipt_of_row(row: Row) -> dict[str, Any]:
    """Return a receipt's fields for a stored message."""
    data: dict[str, Any] = {"id": row["id"], "state": receipt_word(DeliveryState(row["state"]))}
    if row.get("outcome") and not unreadable({"outcome": row["outcome"]}):
        data["outcome"] = outcome_of(row["outcome"])
    if row.get("reason"):
        data["reason"] = row["reason"]
    if data["state"] == "dead" and in_doubt(row):
        data["in_doubt"] = True
    if row.get("failures"):
        data |= {"failures": row["failures"], "failed": row["failed"]}
    if row.get("fresh") is False:
        data["duplicate"] = True
    return data
