"""
Adapters by entry point `wakebus.adapters`: any installed package may bring one.

Rule 1: lazy: an adapter is imported when its platform is first wanted. Rule 2: one that cannot
be imported is named and harms no other. Rule 3: one that was installed a moment ago is found by a
process that runs: before a name is unknown, what is installed is read again (13 ms), at most once
in AGAIN_S.
"""

import difflib
import importlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple

from wakebus.adapters.base import Adapter
from wakebus.adapters.errors import BrokenAdapter, UnknownAdapter
from wakebus.adapters.platform_names import ONLY_HERMES
from wakebus.adapters.sanitize import line

GROUP = "wakebus.adapters"
AGAIN_S: Final = 2.0

LoadAdapter = Callable[[str], type[Adapter]]  # what `load` is


class _Read(NamedTuple):
    entries: Mapping[str, EntryPoint]
    at: float  # monotonic seconds


_last: _Read | None = None  # replaced whole


def found(platform: str | None = None) -> Mapping[str, EntryPoint]:
    """Return the installed adapters by platform name; with `platform` missing, read anew."""
    global _last
    now = time.monotonic()
    if _last and (platform in _last.entries or now - _last.at < AGAIN_S):
        return _last.entries
    # Otherwise a folder that changed twice within a tick of its clock is not read again.
    with suppress(KeyError):  # another thread does it, too, and has removed an entry first
        importlib.invalidate_caches()
    _last = _Read({entry.name: entry for entry in entry_points(group=GROUP)}, now)
    return _last.entries


def known() -> list[str]:
    """Return the names of the platforms that have an adapter, sorted."""
    return sorted(found())


def load(platform: str, installed: Mapping[str, EntryPoint] | None = None) -> type[Adapter]:
    """Return the platform's adapter class, or raise UnknownAdapter or BrokenAdapter."""
    entries = found(platform) if installed is None else installed
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
    if platform.lower() in ONLY_HERMES:
        hint = "; only a gateway of Hermes has it"
    return UnknownAdapter(
        f"no adapter for the platform {platform!r}{hint} (known: {', '.join(names) or 'none'})",
        near=near,
    )
