"""
What is set up for a platform, as data for people: settings, home, limits, files, keys.

Rule 1: environment and adapters are arguments; nothing is asked of a platform. Rule 2: a value is
shown only where it is no secret by its name, and never with a secret in it. Rule 3: an adapter that
cannot be loaded or made is listed with its error and harms no other.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from wakebus.adapters import channel
from wakebus.adapters.abilities import KeysByWay
from wakebus.adapters.base import Adapter, Capabilities, Limit
from wakebus.adapters.delivery.adapter_calls import guarded
from wakebus.adapters.delivery.attachments import MAX_FILE
from wakebus.adapters.errors import BrokenAdapter, DeliveryError
from wakebus.adapters.inspect.credential_check import can_check
from wakebus.adapters.pacing.rate_limiter import effective_limits
from wakebus.adapters.registry import LoadAdapter
from wakebus.adapters.sanitize import line
from wakebus.adapters.settings.home_channel import find_home, home_variable, resolve
from wakebus.adapters.settings.redact import REDACTED, is_secret, redact, secret_values

# A setting of which there may be several: `WEBHOOK_<NAME>_URL`.
_ANY: Final = re.compile(r"<[A-Z]+>")


def describe(platform: str, env: Mapping[str, str], load: LoadAdapter) -> dict[str, Any]:
    """
    Return what holds for one platform.

    `{"platform", "state": ready | unset | wrong, "problem", "missing": [[variable, …], …],
    "settings": {variable: value or ***}, "inherited": [variable of the process only], "unset":
    [variable], "home": {"channel", "from"} or {"problem"} or None, "home_variable", "text": {"max",
    "unit"}, "file": bytes, "threads", "key_s": seconds or None for ever, "key": the same in words,
    "limits": [{"count", "seconds", "scope", "kinds", "refills"}], "wrong_limits": {variable:
    fault}, "check": whether it can be asked}`. One that cannot be loaded has the first four only.
    """
    try:
        return guarded(platform, lambda: _described(platform, env, load(platform)))
    except DeliveryError as exc:
        return {"platform": platform, "state": "wrong", "problem": line(exc.text), "missing": []}


def _described(platform: str, env: Mapping[str, str], kind: type[Adapter]) -> dict[str, Any]:
    card = getattr(kind, "capabilities", None)
    if not isinstance(card, Capabilities):
        raise BrokenAdapter(f"the adapter {platform!r} has no capabilities")
    limits, faults = effective_limits(platform, card.limits, env)
    shown, inherited = _settings(card, env), getattr(env, "inherited", ())
    problem, missing = _problem(platform, kind, env), _missing(card, env)
    return {
        "platform": platform,
        "state": _state(card, env, bool(problem), bool(missing)),
        "problem": redact(problem, secret_values(env)),
        "missing": missing,
        "settings": shown,
        "inherited": [name for name in shown if name in inherited],
        "unset": [name for name in card.settings if not _set(name, env)],
        "home": _home(platform, env),
        "home_variable": home_variable(platform),
        "text": {"max": card.max_text, "unit": card.unit},
        "file": min(card.max_file, MAX_FILE),
        "threads": card.threads,
        "key_s": None if card.idempotent_s == math.inf else card.idempotent_s,
        "key": idempotency_text(kind),
        "limits": [_limit(one) for one in limits],
        "wrong_limits": faults,
        "check": can_check(kind),
    }


def idempotency_text(kind: type[Adapter]) -> str:
    """Return in words what becomes of a text that the platform may or may not have taken."""
    seconds = kind.capabilities.idempotent_s
    if seconds <= 0:
        return "no key: what may have been taken is not sent again (uncertain)"
    some = " on some of its ways" if issubclass(kind, KeysByWay) else ""
    if seconds == math.inf:
        return f"a key makes every resend safe{some}"
    return f"a key makes a resend safe for {duration(seconds)}{some}"


def missing_text(groups: Sequence[Sequence[str]]) -> str:
    """Return what to set, of `describe`'s `missing`: the variables of each group."""
    return ", or ".join(
        f"{', '.join(first)} and {last}" if first else last for *first, last in groups
    )


def duration(seconds: float) -> str:
    """Return a time in its largest unit: 3600 is `1 h`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _problem(platform: str, kind: type[Adapter], env: Mapping[str, str]) -> str:
    try:
        guarded(platform, lambda: kind(env))
    except DeliveryError as exc:
        return line(exc.text)
    return ""


def _state(card: Capabilities, env: Mapping[str, str], problem: bool, missing: bool) -> str:
    """Return `unset` for what nobody has begun to set up, whatever the adapter says of that."""
    names = [name for group in card.needs for name in group] or card.settings
    begun = any(_set(name, env) for name in names)
    if problem and (begun or not names):
        return "wrong"
    return "unset" if problem or missing else "ready"


def _missing(card: Capabilities, env: Mapping[str, str]) -> list[list[str]]:
    """Return what is not set of each group that would be enough; [] where one is whole."""
    groups = [[name for name in group if not _set(name, env)] for group in card.needs]
    return groups if all(groups) else []


def _set(name: str, env: Mapping[str, str]) -> list[str]:
    """Return the variables that are set of this name or pattern."""
    if not _ANY.search(name):
        return [name] if env.get(name, "").strip() else []
    pattern = re.compile(r"[A-Z0-9_]+".join(map(re.escape, _ANY.split(name))))
    return sorted(one for one, value in env.items() if pattern.fullmatch(one) and value.strip())


def _settings(card: Capabilities, env: Mapping[str, str]) -> dict[str, str]:
    known = secret_values(env)
    names = [found for name in card.settings for found in _set(name, env)]
    return {name: _value(name, env[name], known) for name in names}


def _value(name: str, value: str, secrets: Iterable[str]) -> str:
    # Beside what is secret by its name: a URL with a user or a query in it.
    if is_secret(name) or ("://" in value and re.search(r"[@?#]", value)):
        return REDACTED
    return redact(line(value, 120), secrets)


def _home(platform: str, env: Mapping[str, str]) -> dict[str, str] | None:
    try:
        found = find_home(platform, env)
        if found is None:
            return None
        at = resolve(channel.parse(platform), env)
    except DeliveryError as exc:
        return {"problem": line(exc.text)}
    thread = f"?thread={at.thread}" if at.thread else ""
    return {"channel": f"{platform}:{at.chat_id}{thread}", "from": found.where}


def _limit(one: Limit) -> dict[str, Any]:
    return {
        "count": one.count,
        "seconds": one.seconds,
        "scope": one.scope,
        "kinds": sorted(one.kinds),
        "refills": one.refills,
    }
