"""A client's message plane: connection, calls, registrations, deliveries in flight."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:  # `from wakebus.broker.client import Client` (PEP 562)
    if name == "Client":
        return import_module("wakebus.broker.client.client").Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
