"""
Hands the gateway's hook events to wakebus.

Rule: this file does nothing by itself, and nothing at all where wakebus is not installed; what is
published is decided in wakebus.plugin.hermes.gateway_events.
"""

from collections.abc import Mapping
from typing import Any

try:
    from wakebus.plugin.hermes.gateway_events import handle
except Exception:  # gone or broken: the gateway must not notice

    def handle(event_type: str, context: Mapping[str, Any]) -> None:
        """Do nothing."""


__all__ = ["handle"]
