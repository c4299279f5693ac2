"""
What `wakebus channels` says, made of the data that it has found.

Rule 1: pure; `now` is an argument. Rule 2: what somebody else wrote (a setting, a platform's words)
is cleaned before it stands in coloured text. Rule 3: one line for a platform that is not set up.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from wakebus.adapters.courier.status_file import Status
from wakebus.adapters.delivery.attachments import megabytes
from wakebus.adapters.inspect.describe import duration
from wakebus.plugin.cli.output import safe, show_env_path

Facts = Mapping[str, Any]
Paint = Callable[[str, str], str]

_WIDTH: Final = 10
_COLORS: Final = {
    "ready": "32",
    "wrong": "31",
    "unset": "2",
    "ok": "32",
    "failed": "31",
    "dim": "2",
}
_STATES: Final = {"ready": "ready", "wrong": "wrong", "unset": "not set up"}


def painted(text: str, kind: str) -> str:
    """Return `text` in the colour of its kind: ready, wrong, unset, dim."""
    return f"\x1b[{_COLORS[kind]}m{text}\x1b[0m" if kind in _COLORS else text


def unpainted(text: str, kind: str) -> str:
    """Return `text`."""
    return text


def page(found: Sequence[Facts], running: str, env_file: str, now: float, paint: Paint) -> str:
    """Return the list of all platforms: those that are set up first."""
    begun = [one for one in found if one["state"] != "unset"]
    rest = [one for one in found if one["state"] == "unset"]
    lines = [text for one in begun for text in _block(one, now, paint, whole=False)]
    lines += [_head(one, paint) for one in rest]
    return "\n".join(
        [*lines, "", f"courier: {safe(running)}", f"settings: {safe(env_file)}", _MORE]
    )


_MORE: Final = (
    "One platform: wakebus channels PLATFORM. Try the credentials: wakebus channels check"
)


def details(one: Facts, running: str, env_file: str, now: float, paint: Paint) -> str:
    """Return all about one platform."""
    lines = _block(one, now, paint, whole=True)
    return "\n".join([*lines, "", f"courier: {safe(running)}", f"settings: {safe(env_file)}"])


def courier(status: Status | None, now: float) -> str:
    """Return whether a courier runs, by what it wrote last, and what to do if none does."""
    if status is None:
        return "none has run here; it starts with the broker: hermes-busd start"
    if status.alive:
        return f"runs, pid {status.pid}, for {duration(max(now - status.started, 1.0))}"
    last = duration(max(now - status.at, 1.0))
    return (
        f"does not run (pid {status.pid} is gone; it last wrote {last} ago);"
        " start it: hermes-busd restart, or here: wakebus courier"
    )


def settings(own: str, other: str) -> str:
    """Return the file of the settings that are shown; `other`: what the courier reads instead."""
    return f"{own}; the courier reads {other}, not this one" if other else own


def missing(one: Facts) -> str:
    """Return what to set: the variables of each group that would be enough."""
    return ", or ".join(_and(group) for group in one["missing"])


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _head(one: Facts, paint: Paint) -> str:
    state = one["state"]
    why = (
        f"set {missing(one)}"
        if state == "unset" and one["missing"]
        else show_env_path(one["problem"])
    )
    text = f"{one['platform']:{_WIDTH}}  {paint(_STATES[state], state)}"
    return text if state == "ready" else f"{text}: {safe(why)}"


def _block(one: Facts, now: float, paint: Paint, *, whole: bool) -> list[str]:
    if "text" not in one:
        return [_head(one, paint)]
    rows = [*_setup(one, whole), *(_card(one) if whole else _short(one))]
    if state := state_words(one.get("now"), now):
        rows.append(("now", state))
    lines = [f"  {paint(f'{name:9}', 'dim')} {safe(show_env_path(text))}" for name, text in rows]
    return [_head(one, paint), *lines]


def _setup(one: Facts, whole: bool) -> Iterator[tuple[str, str]]:
    if one["settings"]:
        yield "set", ", ".join(f"{name}={value}" for name, value in one["settings"].items())
    if names := one["inherited"]:
        yield "", f"only in this environment; the courier may not have: {', '.join(names)}"
    if whole and one["unset"]:
        yield "not set", ", ".join(one["unset"])
    if home := one["home"]:
        yield "home", home.get("problem") or f"{home['channel']} (by {home['from']})"
    elif whole:
        yield "home", f"none: a bare `{one['platform']}` is refused; set {one['home_variable']}"


def _short(one: Facts) -> Iterator[tuple[str, str]]:
    if one["limits"] or one["wrong_limits"]:
        yield "pace", _pace(one, whole=False)
    if one["file"]:
        yield "files", f"up to {megabytes(one['file'])}"


def _card(one: Facts) -> Iterator[tuple[str, str]]:
    text = one["text"]
    yield "message", f"up to {text['max']:,} {_UNITS[text['unit']]}; a longer text is split"
    yield "pace", _pace(one, whole=True)
    yield "", f"other numbers: {_RATES.format(one['platform'].upper())}, COUNT/SECONDS or off"
    yield "files", f"up to {megabytes(one['file'])}" if one["file"] else "takes none"
    yield "threads", "yes: ?thread=ID" if one["threads"] else "no"
    yield "in doubt", one["key"]
    yield "check", _CHECK if one["check"] else "no harmless call to check the credential by"


_UNITS: Final = {"characters": "characters", "utf16": "UTF-16 units", "bytes": "bytes"}
_RATES: Final = "{0}_RATE_CHAT, {0}_RATE_APP"
_CHECK: Final = "wakebus channels check asks the platform"


def _pace(one: Facts, *, whole: bool) -> str:
    found = [_limit(limit, whole) for limit in one["limits"]] or ["as the platform allows"]
    wrong = [f"{name} is not used: {fault}" for name, fault in one["wrong_limits"].items()]
    return "; ".join([*dict.fromkeys(found), *wrong])


def _limit(limit: Facts, whole: bool) -> str:
    to = "to one chat" if limit["scope"] == "chat" else "in all"
    kinds = f" ({', '.join(limit['kinds'])})" if limit["kinds"] and whole else ""
    if limit["refills"]:
        one = duration(limit["seconds"] / limit["count"])
        return f"{limit['count']} at once, then one in {one}, {to}{kinds}"
    return f"{limit['count']} in {duration(limit['seconds'])} {to}{kinds}"


def state_words(state: Facts | None, now: float) -> str:
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


def _held_up(state: Facts, now: float) -> Iterator[str]:
    if state.get("circuit", "closed") != "closed":
        why = f": {state['why']}" if state.get("why") else ""
        yield f"circuit {state['circuit']}{_left(state.get('until'), now)}{why}"
    if isinstance(chats := state.get("chats_held"), int) and chats > 0:
        yield f"{chats} chats do not answer" if chats > 1 else "one chat does not answer"
    if (throttled := _left(state.get("throttled_until"), now)) and throttled.strip():
        yield f"throttled{throttled}"


def _left(until: object, now: float) -> str:
    if not isinstance(until, int | float) or until <= now:
        return ""
    return f" for {duration(max(until - now, 1.0))}"


def _counts(state: Facts) -> Iterator[str]:
    for name in ("sent", "rejected", "not_sent", "uncertain", "held"):
        count = state.get(name)
        if isinstance(count, int) and count > 0:
            which = " (which: wakebus inbox courier --uncertain)" if name == "uncertain" else ""
            yield f"{count} {name.replace('_', ' ')}{which}"
