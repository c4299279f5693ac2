"""
A client's message plane: connection, calls, registrations, deliveries in flight.

    client         Client: what a program uses            core         what both clients are made of
    calls          what each call asks, no socket         connection   the IO thread
    registrations  the names that are held                in_flight    deliveries and their acks
    handler_pool   the handlers' threads                  delivery     what a handler is given
    pending_request  a request on its way
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:  # `from wakebus.broker.client import Client` (PEP 562)
    if name == "Client":
        return import_module("wakebus.broker.client.client").Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
