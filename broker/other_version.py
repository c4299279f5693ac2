"""
A running broker of another version than whoever asks: it may lack what this one's page says.

Rule 1: it is said, and is no error: what both know works. Rule 2: every sender loads this file.
"""

import re
from collections.abc import Mapping
from typing import Any

from wakebus.broker import __version__

_RESTART = "replace it: hermes-busd restart"


def version_note(address: Mapping[str, Any]) -> str:
    """
    Return a line about the broker that wrote `address` (address.json), "" where it is the same.

    One that tells no version is older than the field, which every release has.
    """
    found = address.get("version")
    if found == __version__:
        return ""
    broker = f"note: the broker (pid {address.get('pid')})"
    if not isinstance(found, str):
        return f"{broker} tells no version, so it is older than this wakebus; {_RESTART}"
    theirs, ours = _release(found), _release(__version__)
    if theirs > ours:
        return (
            f"{broker} is wakebus {found}, newer than this one ({__version__}): "
            f"install {found} here too"
        )
    older = ", older than this one" if theirs < ours else ", this one"
    return f"{broker} is wakebus {found}{older} ({__version__}); {_RESTART}"


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version before what makes it a draft (`0.2.0rc1`: 0, 2, 0)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()
