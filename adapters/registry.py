"""
Adapters by entry point `wakebus.adapters`: any installed package may bring one.

Rule 1: lazy: an adapter is imported when its platform is first wanted. Rule 2: one that cannot
be imported is named and harms no other.
"""

import difflib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from wakebus.adapters.base import Adapter
from wakebus.adapters.errors import BrokenAdapter, UnknownAdapter
from wakebus.adapters.markup import line

GROUP = "wakebus.adapters"


@cache
def found() -> Mapping[str, EntryPoint]:
    """Return the installed adapters by platform name; read once per process."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def known() -> list[str]:
    """Return the names of the platforms that have an adapter, sorted."""
    return sorted(found())


def load(platform: str, installed: Mapping[str, EntryPoint] | None = None) -> type[Adapter]:
    """Return the platform's adapter class, or raise UnknownAdapter or BrokenAdapter."""
    entries = found() if installed is None else installed
    if platform not in entries:
        raise _unknown(platform, sorted(entries))
    entry = entries[platform]
    try:
        kind: type[Adapter] = entry.load()
    # A package's import can raise anything; it is somebody else's code.
    except Exception as exc:
        raise BrokenAdapter(
            f"the adapter {platform!r} ({entry.value}) cannot be loaded:"
            f" {type(exc).__name__}: {line(str(exc), 200)}"
        ) from exc
    return kind


def _unknown(platform: str, names: list[str]) -> UnknownAdapter:
    near = difflib.get_close_matches(platform.lower(), names, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return UnknownAdapter(
        f"no adapter for the platform {platform!r}{hint} (known: {', '.join(names) or 'none'})",
        near=near,
    )
