"""
Text and files to `platform:chat_id`. The contract: ADAPTERS.md. A platform is one file.

    base       what an adapter is, its values       errors     what went wrong, by what to do
    abilities  what it may be able to do beyond     channel    the channel token
    registry   adapters, by entry point             sanitize   text without control characters
    platform_names  ours, and Hermes's own

    kit/       what platform files are written with settings/  where values come from
    platforms/ one file for each                    markdown/  Markdown to a chat's own markup
    transports/ what performs a request             delivery/  one text to one chat
    pacing/    whether it may go out now            courier/   the service
    inspect/   what people ask beforehand
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "marks":  # what markdown/ was called when adapters of other packages were written
        return import_module("wakebus.adapters.markdown")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
