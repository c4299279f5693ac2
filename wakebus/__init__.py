"""
wakebus: a message bus that wakes agents. The three parts, and the names that most programs need.

    broker/    the daemon and its client: messages, events, names, disk
    adapters/  text to `platform:chat_id`: the courier, one file per platform
    plugin/    the receive side: rules, turns, the commands, Hermes Agent

The names below are imported on first use (PEP 562); all others: `wakebus.broker`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wakebus.broker import __version__ as __version__

if TYPE_CHECKING:
    from wakebus.broker import AsyncClient as AsyncClient
    from wakebus.broker import Client as Client
    from wakebus.broker import Later as Later
    from wakebus.broker import Refusal as Refusal
    from wakebus.broker import errors as errors

__all__ = ["AsyncClient", "Client", "Later", "Refusal", "errors"]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("wakebus.broker.errors")
    if name in __all__:
        return getattr(import_module("wakebus.broker"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
