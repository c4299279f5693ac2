"""
Whether a request may go out now: the published limits (pace.py) and the circuits (circuit.py).

Rule 1: asked before a part is begun, told after it: what is held back was not begun. Rule 2: who
is told to wait has a place of his own in the row, so that nobody is overtaken or asks twice.
"""

from typing import Protocol

from wakebus.adapters.base import Adapter, Target
from wakebus.adapters.errors import DeliveryError


class Gate(Protocol):
    """Shared by all deliveries of a host. Thread-safe."""

    def enter(self, adapter: Adapter, target: Target, key: str) -> None:
        """Return when this request (by its key) may go out now; else raise Held with the wait."""
        ...

    def leave(self, adapter: Adapter, target: Target, error: DeliveryError | None) -> None:
        """Learn how the request ended: None for sent."""
        ...


class Open:
    """A gate that holds nothing back."""

    def enter(self, adapter: Adapter, target: Target, key: str) -> None:
        """Return at once."""

    def leave(self, adapter: Adapter, target: Target, error: DeliveryError | None) -> None:
        """Learn nothing."""
