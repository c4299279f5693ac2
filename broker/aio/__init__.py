"""
The same calls in an event loop; no protocol knowledge of its own.

    client         AsyncClient: what a program uses       loop_calls     how it is run in its loop
    subscription   events by `async for`                  loop_bridge    from threads into the loop
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:  # `from wakebus.broker.aio import AsyncClient` (PEP 562)
    if name == "AsyncClient":
        return import_module("wakebus.broker.aio.client").AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
