"""
What a delivery asks before a request: whether it may go out now. The courier's is gate.py.

Rule 1: asked before a part is begun, told after it.
"""

from typing import Protocol

from wakebus.adapters.base import Adapter, Target
from wakebus.adapters.errors import DeliveryError


class Gate(Protocol):
    """Shared by all deliveries of a host. Thread-safe."""

    def enter(self, adapter: Adapter, target: Target, key: str, left: int = 0) -> None:
        """
        Return when this request (by its key) may go out now; else raise Held with the wait.

        left: the parts of its text that are to go, this one with them; 0: not known yet.
        """
        ...

    def begin(self) -> None:
        """What was let pass goes out only now: an upload came before it."""
        ...

    def leave(self, adapter: Adapter, target: Target, error: DeliveryError | None) -> None:
        """Learn how the request ended: None for sent."""
        ...


class Open:
    """A gate that holds nothing back."""

    def enter(self, adapter: Adapter, target: Target, key: str, left: int = 0) -> None:
        """Return at once."""

    def begin(self) -> None:
        """Learn nothing."""

    def leave(self, adapter: Adapter, target: Target, error: DeliveryError | None) -> None:
        """Learn nothing."""
