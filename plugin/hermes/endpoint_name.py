"""
As which endpoint an agent is on the bus (seed 004, "Session Naming").

Rule 1: pure. Rule 2: HERMES_BUS_ENDPOINT, then `bus.endpoint` of the rules, then the profile: its
name, `hermes-bus` for the default one. Rule 3: a gateway adds `-gateway` to whatever it is, the
server of the TUI `-tui`, so that a terminal with the same settings never meets them. Rule 4: a name
that is none is made to fit, one that may not be used is passed over; both are told.
"""

import re
from typing import Final, NamedTuple

from wakebus.adapters.base import COURIER

DEFAULT: Final = "hermes-bus"
SUFFIXES: Final = {"gateway": "-gateway", "tui": "-tui"}
LONGEST: Final = 64
NOT_OURS: Final = frozenset({COURIER, "bus"})  # services of the bus: texts for them would be lost
_NO_PROFILE: Final = frozenset({"", "default", "custom"})  # "custom": Hermes, of a home elsewhere


class EndpointName(NamedTuple):
    """An endpoint's name, and what the user should know about it."""

    name: str
    note: str = ""


def endpoint_name(
    mode: str, *, given: str = "", ruled: str = "", profile: str = ""
) -> EndpointName:
    """
    Return the name in `mode`, "gateway", "cli" or "tui".

    `given`: HERMES_BUS_ENDPOINT; `ruled`: `bus.endpoint`; `profile`: as `profile_of` returns it.
    """
    suffix, notes = SUFFIXES.get(mode, ""), []
    sources = (("HERMES_BUS_ENDPOINT", given), ("bus.endpoint", ruled), ("profile", profile))
    for source, stated in sources:
        if not stated.strip():
            continue
        name = fitting(stated.strip(), LONGEST - len(suffix)) + suffix
        if name in NOT_OURS:
            notes.append(f"{source} {stated!r} is a service of the bus and was passed over")
            continue
        if name != stated + suffix:
            notes.append(f"{source} {stated!r:.100} is no endpoint name; {name} is used")
        return EndpointName(name, "; ".join(notes))
    return EndpointName(DEFAULT + suffix, "; ".join(notes))


def fitting(name: str, longest: int = LONGEST) -> str:
    """Return `name` as an endpoint name: what is not allowed becomes `-`."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)[:longest]


def profile_of(home: str, told: str = "") -> str:
    """
    Return the profile whose HERMES_HOME is `home` (`…/profiles/NAME`), "" for the default one.

    `told`: what Hermes calls it, for homes that do not say.
    """
    above, _, name = home.rstrip("/").rpartition("/")
    if name and above.rpartition("/")[2] == "profiles":
        return name
    return "" if told in _NO_PROFILE else told
