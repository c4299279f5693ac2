"""
What `wakebus channels` says, made of the data that it has found.

Rule 1: pure; `now` is an argument. Rule 2: one row for a platform that is not set up.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from wakebus.adapters.courier.status_file import Status
from wakebus.adapters.delivery.attachments import megabytes
from wakebus.adapters.inspect.describe import duration, missing_text
from wakebus.broker.system.text_table import Column
from wakebus.plugin.cli.output import show_env_path

Described = Mapping[str, Any]  # a platform, as describe.describe returns it, and `now`

COLUMNS: Final = (
    Column("PLATFORM", whole=True, grouped=True),
    Column("STATE", grouped=True, colors={"ready": "32", "wrong": "31", "unset": "2"}),
    Column("WHAT", grouped=True),
    Column("DETAILS", text=True),
)


def platform_rows(found: Iterable[Described], now: float, *, whole: bool) -> Iterator[list[str]]:
    """
    Yield the rows of COLUMNS: what is set up first. `whole`: all about each.

    A platform that is not set up has one row, but with `whole`.
    """
    for one in sorted(found, key=lambda one: bool(one["state"] == "unset")):
        for what, text in [*_about(one, now, whole)] or [("", "")]:
            yield [one["platform"], one["state"], what, show_env_path(text)]


def _about(one: Described, now: float, whole: bool) -> Iterator[tuple[str, str]]:
    if one["state"] == "unset":
        yield "needs", f"set {missing_text(one['missing'])}" if one["missing"] else one["problem"]
    elif one["state"] == "wrong":
        yield "fault", one["problem"]
    if "text" not in one or (one["state"] == "unset" and not whole):
        return
    yield from _setup(one, whole)
    yield from _card(one) if whole else _short(one)
    if state := state_words(one.get("now"), now):
        yield "now", state


def courier_words(status: Status | None, now: float, *, hidden: bool = False) -> str:
    """Return whether a courier runs, by what it wrote last, and what to do if none does."""
    if hidden:
        return "not seen from here: the bus's folder may not be entered"
    if status is None:
        return "none has run here; it starts with the broker: hermes-busd start"
    if status.alive:
        return f"runs, pid {status.pid}, for {duration(max(now - status.started, 1.0))}"
    last = duration(max(now - status.at, 1.0))
    return (
        f"does not run (pid {status.pid} is gone; it last wrote {last} ago);"
        " start it: hermes-busd restart, or here: wakebus courier"
    )


def settings_words(own: str, other: str) -> str:
    """Return the file of the settings that are shown; `other`: what the courier reads instead."""
    return f"{own}; the courier reads {other}, not this one" if other else own


def _setup(one: Described, whole: bool) -> Iterator[tuple[str, str]]:
    if one["settings"]:
        yield "set", ", ".join(f"{name}={value}" for name, value in one["settings"].items())
    if names := one["inherited"]:
        yield "set", f"only in this environment; the courier may not have: {', '.join(names)}"
    if whole and one["unset"]:
        yield "unset", ", ".join(one["unset"])
    if home := one["home"]:
        yield "home", home.get("problem") or f"{home['channel']} (by {home['from']})"
    elif whole:
        yield "home", f"none: a bare `{one['platform']}` is refused; set {one['home_variable']}"


def _short(one: Described) -> Iterator[tuple[str, str]]:
    if one["limits"] or one["wrong_limits"]:
        yield "pace", _pace(one, whole=False)
    if one["file"]:
        yield "files", f"up to {megabytes(one['file'])}"


def _card(one: Described) -> Iterator[tuple[str, str]]:
    text = one["text"]
    yield "message", f"up to {text['max']:,} {_UNITS[text['unit']]}; a longer text is split"
    yield "pace", _pace(one, whole=True)
    yield "pace", f"other numbers: {_RATES.format(one['platform'].upper())}, COUNT/SECONDS or off"
    yield "files", f"up to {megabytes(one['file'])}" if one["file"] else "takes none"
    yield "threads", "yes: ?thread=ID" if one["threads"] else "no"
    yield "doubt", one["key"]
    yield "check", _CHECK if one["check"] else "no harmless call to check the credential by"


_UNITS: Final = {"characters": "characters", "utf16": "UTF-16 units", "bytes": "bytes"}
_RATES: Final = "{0}_RATE_CHAT, {0}_RATE_APP"
_CHECK: Final = "wakebus channels check asks the platform"


def _pace(one: Described, *, whole: bool) -> str:
    found = [_limit(limit, whole) for limit in one["limits"]] or ["as the platform allows"]
    wrong = [f"{name} is not used: {fault}" for name, fault in one["wrong_limits"].items()]
    return "; ".join([*dict.fromkeys(found), *wrong])


def _limit(limit: Mapping[str, Any], whole: bool) -> str:
    to = "to one chat" if limit["scope"] == "chat" else "in all"
    kinds = f" ({', '.join(limit['kinds'])})" if limit["kinds"] and whole else ""
    if limit["refills"]:
        one = duration(limit["seconds"] / limit["count"])
        return f"{limit['count']} at once, then one in {one}, {to}{kinds}"
    return f"{limit['count']} in {duration(limit['seconds'])} {to}{kinds}"


def state_words(state: Mapping[str, Any] | None, now: float) -> str:
    """Return what the courier last said of a platform; "" for nothing worth a word."""
    if not state:
        return ""
    said = [*_held_up(state, now), *_counts(state)]
    if error := state.get("last_error"):
        said.append(f"last error: {error}{_ago(state.get('last_error_at'), now)}")
    return "; ".join(said)


def _ago(at: Any, now: float) -> str:
    known = isinstance(at, int | float) and 0 < at <= now
    return f" ({duration(now - at)} ago)" if known else ""


def _held_up(state: Mapping[str, Any], now: float) -> Iterator[str]:
    if state.get("circuit", "closed") != "closed":
        where = f" to {state['hosts']}" if state.get("hosts") else ""
        why = f": {state['why']}" if state.get("why") else ""
        yield f"circuit {state['circuit']}{where}{_left(state.get('until'), now)}{why}"
    if isinstance(chats := state.get("chats_held"), int) and chats > 0:
        yield f"{chats} chats do not answer" if chats > 1 else "one chat does not answer"
    if (throttled := _left(state.get("throttled_until"), now)) and throttled.strip():
        yield f"throttled{throttled}"


def _left(until: object, now: float) -> str:
    if not isinstance(until, int | float) or until <= now:
        return ""
    return f" for {duration(max(until - now, 1.0))}"


def _counts(state: Mapping[str, Any]) -> Iterator[str]:
    for name in ("sent", "rejected", "not_sent", "uncertain", "held"):
        count = state.get(name)
        if isinstance(count, int) and count > 0:
            which = " (which: wakebus inbox courier --uncertain)" if name == "uncertain" else ""
            yield f"{count} {name.replace('_', ' ')}{which}"
