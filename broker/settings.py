"""
The broker's settings: `bus/wakebus.toml`, then `WAKEBUS_<NAME>`, over these defaults.

Checked by hand: pydantic costs 0.4 s of every start (measured), a whole start takes 0.15 s.
"""

import math
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from wakebus.broker.errors import WakebusError


class BadSettings(WakebusError):
    """A setting is unknown or wrong; the text names file or variable, and key."""

    code = "bad_settings"


class Settings(NamedTuple):
    """Seconds, bytes and counts; PROTOCOL.md tells what each one rules."""

    mailbox_messages: int = 10_000
    mailbox_bytes: int = 64 << 20
    window_lanes: int = 64
    window_bytes: int = 4 << 20
    attempts: int = 5
    stale_s: float = 10.0  # five missed beats
    reclaim_s: float = 10.0  # a holder's time to come back after a broker start
    ephemeral_s: float = 60.0  # what a name that got its suffix from the bus outlives its holder
    known_days: float = 30.0
    retention_days: float = 7.0
    store_bytes: int = 2 << 30
    events_in_hwm: int = 10_000
    events_out_hwm: int = 2_000  # events that wait for one slow subscriber; beyond, it misses them
    log_bytes: int = 5 << 20
    log_files: int = 3
    services: bool = True


def load(file: Path, environ: Mapping[str, str]) -> Settings:
    """Return the settings in force, or raise BadSettings."""
    values: dict[str, Any] = {}
    for key, raw in _read(file).items():
        values[key] = _check(key, raw, f"{file}: {key}")
    for key in Settings._fields:
        if (text := environ.get(f"WAKEBUS_{key.upper()}")) is not None:
            values[key] = _check(key, _parse(text), f"WAKEBUS_{key.upper()}")
    return Settings(**values)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise BadSettings(f"{file}: {exc}") from exc


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text


def _check(key: str, value: Any, where: str) -> Any:
    if key not in Settings._fields:
        near = get_close_matches(key, Settings._fields, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadSettings(f"{where}: no such setting{hint}")
    wanted = type(Settings._field_defaults[key])
    if wanted is bool:
        if not isinstance(value, bool):
            raise BadSettings(f"{where}: true or false, not {value!r}")
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise BadSettings(f"{where}: a number above 0, not {value!r}")
    if wanted is int and value != int(value):
        raise BadSettings(f"{where}: a whole number, not {value!r}")
    return wanted(value)
