"""
The broker's settings: `bus/wakebus.toml`, then `WAKEBUS_<NAME>`, over these defaults.

Rule 1: the fields of Settings are the one list: SETTINGS.md and the model of pydantic
(server/settings_model.py) are made from it. Rule 2: checked by msgspec, which the broker has loaded
anyway: pydantic takes longer than its whole start.
"""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
from msgspec import Meta

from wakebus.broker.denial import denial_of_path
from wakebus.broker.errors import WakebusError


class BadSettings(WakebusError):
    """A setting is unknown or wrong; the text names file and line, or variable, and key."""

    code = "bad_settings"


def _number(unit: str, description: str) -> Meta:
    # Some write 10**12 where they want no limit.
    return Meta(gt=0, le=10**15, description=description, extra={"unit": unit})


def _bytes(description: str) -> Meta:
    return _number("bytes", description)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What PROTOCOL.md calls a *(setting)*."""

    mailbox_messages: Annotated[
        int,
        _number("messages", "messages that wait for one endpoint; one more is mailbox_full"),
    ] = 10_000
    mailbox_bytes: Annotated[
        int,
        _bytes("bytes of what waits for one endpoint; one more message is mailbox_full"),
    ] = 64 << 20
    window_lanes: Annotated[
        int,
        _number("lanes", "lanes of one endpoint in flight to its holder; others wait"),
    ] = 64
    window_bytes: Annotated[
        int,
        _bytes("bytes in flight to one holder; what is beyond waits on disk"),
    ] = 4 << 20
    attempts: Annotated[
        int,
        _number("deliveries", "deliveries of a message before it is a dead letter"),
    ] = 5
    stale_s: Annotated[
        float,
        _number("s", "time without a beat (one is due every 2 s) until a holder is silent"),
    ] = 10.0
    reclaim_s: Annotated[
        float,
        _number("s", "time for a holder to come back after a start of the broker"),
    ] = 10.0
    ephemeral_s: Annotated[
        float,
        _number("s", "time that a name whose suffix is the bus's outlives its holder"),
    ] = 60.0
    known_days: Annotated[
        float,
        _number("days", "time that a name is known after it was registered last"),
    ] = 30.0
    retention_days: Annotated[
        float,
        _number("days", "time that a message is kept after it has ended"),
    ] = 7.0
    store_bytes: Annotated[
        int,
        _bytes("bytes that the store holds at most; near it, ended messages go early"),
    ] = 2 << 30
    loop_hops: Annotated[
        int,
        _number("turns", "turns that may cause each other in one chain"),
    ] = 32
    loop_messages: Annotated[
        int,
        _number(
            "messages",
            "messages that an endpoint's turns may send back to one endpoint in a window",
        ),
    ] = 10
    loop_self: Annotated[
        int,
        _number("messages", "messages to itself that an endpoint's turns may send in a window"),
    ] = 3
    loop_window_s: Annotated[
        float,
        _number("s", "time over which what turns send is counted"),
    ] = 60.0
    loop_pause_s: Annotated[
        float,
        _number("s", "time for which a loop is paused, if no person lifts the pause"),
    ] = 1800.0
    flood_turns: Annotated[
        int,
        _number("turns", "turns that a session may begin in a window; then it rests"),
    ] = 5
    flood_window_s: Annotated[
        float,
        _number("s", "time over which the turns of a session are counted"),
    ] = 60.0
    events_in_hwm: Annotated[
        int,
        _number("events", "events of one publisher that wait at the broker"),
    ] = 10_000
    events_out_hwm: Annotated[
        int,
        _number("events", "events that wait for one slow subscriber; it misses those beyond"),
    ] = 2_000
    log_bytes: Annotated[
        int,
        _bytes("bytes of a log (the broker's, a service's) before it rotates"),
    ] = 5 << 20
    log_files: Annotated[
        int,
        _number("files", "old files of each log that are kept"),
    ] = 3
    services: Annotated[
        bool,
        Meta(description="run what comes with the broker: the courier", extra={"unit": ""}),
    ] = True


class SettingField(NamedTuple):
    """A field of Settings; a number is above 0 and at most `most`."""

    name: str
    kind: type[bool] | type[int] | type[float]
    unit: str
    default: bool | int | float
    description: str
    most: int

    @property
    def variable(self) -> str:
        """The environment variable that goes over wakebus.toml."""
        return f"WAKEBUS_{self.name.upper()}"


class GivenSetting(NamedTuple):
    """A value as it stands in a file or a variable, and where."""

    key: str
    value: Any
    where: str


@cache
def fields() -> Mapping[str, SettingField]:
    """Return the fields of Settings by name, in their order."""
    found = {}
    for field in msgspec.structs.fields(Settings):
        kind, meta = get_args(field.type)
        about = (field.name, kind, meta.extra["unit"], field.default, meta.description)
        found[field.name] = SettingField(*about, meta.le or 0)
    return found


def load(file: Path, environ: Mapping[str, str]) -> Settings:
    """Return the settings in force, or raise BadSettings."""
    given = [*given_in_file(file), *given_in_variables(environ)]
    return Settings(**{one.key: _checked(one) for one in given})


def given_in_file(file: Path) -> Iterator[GivenSetting]:
    """Yield what stands in wakebus.toml, nothing if there is none. Raises BadSettings."""
    try:
        text = file.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except FileNotFoundError:
        return
    except PermissionError as exc:
        reason = denial_of_path(str(file), exc, "be read")
        raise BadSettings(reason.text, step=reason.step) from exc
    except OSError as exc:
        raise BadSettings(f"{file}: {exc.strerror}") from exc
    except ValueError as exc:
        raise BadSettings(f"{file}: {exc}") from exc
    for key, value in values.items():
        line = _line_of(key, text)
        yield _given(key, value, f"{file}:{line}: {key}" if line else f"{file}: {key}")


def given_in_variables(environ: Mapping[str, str]) -> Iterator[GivenSetting]:
    """Yield what variables say; their values are written as in the file."""
    for key, field in fields().items():
        if (text := environ.get(field.variable)) is not None:
            yield _given(key, _parsed(text), field.variable)


def fault_of(given: GivenSetting) -> str:
    """Return what is wrong with a value, as it is told; for one that was found to be wrong."""
    key, value, where = given
    if key not in fields():
        near = get_close_matches(key, fields(), n=1)
        return f"{where}: no such setting" + (f"; did you mean {near[0]}?" if near else "")
    field = fields()[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if field.kind is bool:
        wanted = "true or false"
    elif not number or not 0 < value < math.inf:
        wanted = "a number above 0"
    elif value > field.most:
        wanted = f"at most {field.most}"
    else:
        wanted = "a whole number"
    return f"{where}: {wanted}, not {value!r}"


def _checked(given: GivenSetting) -> Any:
    if given.key not in fields():
        raise BadSettings(fault_of(given))
    try:
        return msgspec.convert(given.value, Settings.__annotations__[given.key])
    except (msgspec.ValidationError, ValueError):  # what is no text: a variable's stray bytes
        raise BadSettings(fault_of(given)) from None


def _given(key: str, value: Any, where: str) -> GivenSetting:
    field = fields().get(key)
    if field and field.kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # 3.0 is a whole number
    return GivenSetting(key, value, where)


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text


def _line_of(key: str, text: str) -> int:
    """Return the number of the line where a key, or its table, stands first; 0 if none is seen."""
    place = re.compile(rf"""^[ \t]*\[*[ \t]*(["']?){re.escape(key)}\1[ \t]*[.=\]]""", re.MULTILINE)
    found = place.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 0
