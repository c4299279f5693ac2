"""
The environment of a profile whose gateway was launched for another one: as in its own process.

Rule 1: what the other profile's `.env` has put into the process is not there, nor what names its
endpoint. Rule 2: the profile's `.env` is over the rest, read again when it changes; so is its
configuration, for home channels. Rule 3: nothing is raised; what cannot be read is not there.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from wakebus.adapters.errors import Unavailable
from wakebus.adapters.settings.environment import Environment, Values
from wakebus.adapters.settings.home_channel import Home
from wakebus.broker.paths import hermes_home
from wakebus.plugin.hermes.profile_home import ProfileHome

OF_LAUNCHER: Final = frozenset({"HERMES_BUS_ENDPOINT", "WAKEBUS_TOKEN", "WAKEBUS_ENDPOINT"})


class ProfileEnviron(Mapping[str, str]):
    """See adapters/settings: also its home channels (HasHomes). Thread-safe."""

    def __init__(self, home: ProfileHome, process: Mapping[str, str] = os.environ) -> None:
        inherited = dict(process) if home.launched else _without_launcher(process)
        self._read = Environment(inherited | {"HERMES_HOME": str(home.path)}, home.path / ".env")
        self._inherited = inherited

    def home(self, platform: str) -> Home | None:
        """Return what the profile's configuration says of a platform's home. Raises BadChannel."""
        found = self._values()
        return found.home(platform) if isinstance(found, Values) else None

    def __getitem__(self, name: str) -> str:
        return self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def _values(self) -> Mapping[str, str]:
        try:
            return self._read()
        except Unavailable:
            return self._inherited


def _without_launcher(process: Mapping[str, str]) -> dict[str, str]:
    """Return what the process was started with, less what is its own profile's."""
    its: set[str] = set(OF_LAUNCHER)
    with suppress(Unavailable):
        its |= set(Environment({}, hermes_home() / ".env", warn=lambda *_: None)())
    return {name: value for name, value in process.items() if name not in its}
