"""
The home of one of Hermes's profiles.

Rule 1: no Hermes and no file is read. Rule 2: a home is known by where its path leads, and called
as the environment calls it.
"""

from pathlib import Path
from typing import NamedTuple

from wakebus.broker.paths import hermes_home


class ProfileHome(NamedTuple):
    """`key`: the folder, by which it is known; `path`: as users see it; `launched`: see below."""

    key: Path
    path: Path
    launched: bool = True
    """Whether this process was started for it: so its environment is this profile's."""


def profile_home(home: Path | None) -> ProfileHome:
    """Return a profile's home as it stands now. `home`: None for the process's own."""
    own = hermes_home()
    key, launched = (home or own).resolve(), own.resolve()
    return ProfileHome(key, own if key == launched else key, key == launched)
