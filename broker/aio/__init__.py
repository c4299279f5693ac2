"""The same calls in an event loop; no protocol knowledge of its own."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:  # `from wakebus.broker.aio import AsyncClient` (PEP 562)
    if name == "AsyncClient":
        return import_module("wakebus.broker.aio.client").AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
