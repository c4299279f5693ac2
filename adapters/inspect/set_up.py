"""
Which platforms a courier can use as it is: what it tells of itself in `bus/courier.json`.

Rule 1: nothing is asked of a platform, and no value is told, only names of variables. Rule 2: who
reads the same `.env` elsewhere has not the courier's process: `inherited` says where that matters.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from wakebus.adapters import registry
from wakebus.adapters.errors import DeliveryError
from wakebus.adapters.inspect.describe import describe, missing_text

AGAIN_S: Final = 30.0  # what has been installed, or is written in Hermes's config.yaml

SetUpRow = Mapping[str, str | bool]
"""`state` (ready, unset, wrong), `problem` ("" if ready), `home` ("" for none), `inherited`."""


class PlatformsSetUp:
    """
    Call it for the rows by platform; made anew when a value has changed, and every AGAIN_S.

    env: the courier's values; file: those without its process. Either raises Unavailable.
    """

    def __init__(
        self,
        env: Callable[[], Mapping[str, str]],
        file: Callable[[], Mapping[str, str]],
        load: registry.LoadAdapter = registry.load,
        *,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._env, self._file, self._load, self._ticks = env, file, load, ticks
        self._values: Mapping[str, str] | None = None
        self._rows: Mapping[str, SetUpRow] = {}
        self._until = 0.0

    def __call__(self) -> Mapping[str, SetUpRow]:
        """Return the rows; none while nothing can be said because `.env` cannot be read."""
        try:
            values, file = self._env(), self._file()
        except DeliveryError:
            self._values = None
            return {}
        if values != self._values or self._ticks() >= self._until:
            names = registry.known()
            self._rows = {name: set_up_row(name, values, file, self._load) for name in names}
            self._values, self._until = values, self._ticks() + AGAIN_S
        return self._rows


def set_up_row(
    platform: str, env: Mapping[str, str], file: Mapping[str, str], load: registry.LoadAdapter
) -> SetUpRow:
    """Return a platform's row; `file`: the values without those that the process inherited."""
    found, alone = (describe(platform, values, load) for values in (env, file))
    return {
        "state": found["state"],
        "problem": _problem(found),
        "home": (found.get("home") or {}).get("channel", ""),
        "inherited": _without_origin(found) != _without_origin(alone),
    }


def _problem(found: Mapping[str, Any]) -> str:
    if found["state"] == "unset" and found["missing"]:
        return f"set {missing_text(found['missing'])} in $HERMES_HOME/.env"
    return str(found["problem"])


def _without_origin(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "inherited"}
