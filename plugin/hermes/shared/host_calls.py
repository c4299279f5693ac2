"""Calls of what only one kind of host has, or of a host that is not there yet."""

from typing import Any


def ask_host(host: Any, name: str, *args: Any) -> Any:
    """Return what the host's method `name` returns, None where there is no such method."""
    method = getattr(host, name, None)
    return method(*args) if callable(method) else None
