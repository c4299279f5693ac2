"""Real processes and raw peers for tests, with the misbehaviour that tests need."""

from typing import Any


def each(*values: Any) -> tuple[Any, ...]:
    """Return wrong values of any type, as one tuple of them."""
    return values
