"""
What is told of a channel before a message that names it is sent.

Rule 1: every sender loads this file: nothing of weight, but where a name is unknown. Rule 2: what
nobody could deliver is refused: a token that is none, a platform that no adapter is for and Hermes
has not. Rule 3: what is not set up here passes with a note: the receiver may be a gateway of Hermes
that has it. Where the answer would be the courier's, its host asks again (preflight.py).
"""

import json
import os
from typing import TYPE_CHECKING, Any, Final

from wakebus.adapters.channel import Channel, parse
from wakebus.adapters.errors import UnknownAdapter
from wakebus.adapters.platform_names import HERMES, ONLY_HERMES, OURS
from wakebus.broker.paths import hermes_home

if TYPE_CHECKING:
    from pathlib import Path

STATUS: Final = "courier.json"  # in the bus's folder (status_file.py)
MOST: Final = 1 << 20  # bytes of it that are read
PLUGIN: Final = "What a plugin of Hermes brings is known once config.yaml has it under `platforms`."


def check_channel(token: str, folder: str, home: "Path | None" = None) -> str:
    """
    Return what the sender should know of a channel, "" for nothing.

    folder: the bus's, "" where it is not known; home: of Hermes, by default $HERMES_HOME. Raises
    BadChannel, and UnknownAdapter with near names.
    """
    named = parse(token)
    platform, lower = named.platform, named.platform.lower()
    if platform in OURS:
        return _not_set_up(named, folder)
    if lower in ONLY_HERMES:
        return f"only a gateway of Hermes that has {platform} could answer there"
    if lower in HERMES:
        return f"only a gateway of Hermes takes {platform} for {lower}"
    if _is_installed(platform, home or hermes_home()):
        return _not_set_up(named, folder)
    raise _unknown(named)


def _is_installed(platform: str, home: "Path") -> bool:
    """Whether another package's adapter, or Hermes's configuration, is for this platform."""
    from wakebus.adapters import registry
    from wakebus.adapters.settings.hermes_config import HermesConfig

    return platform in {*registry.known(), *HermesConfig(home).platforms()}


def _unknown(named: Channel) -> UnknownAdapter:
    from difflib import get_close_matches

    from wakebus.adapters import registry

    adapters = {*OURS, *registry.known()}
    near = get_close_matches(named.platform.lower(), sorted(adapters | HERMES), n=3)
    hint = f"did you mean {' or '.join(near)}?"
    only = ", ".join(sorted(HERMES - adapters))
    known = f"known are {', '.join(sorted(adapters))}; to gateways of Hermes also {only}"
    unknown = f"channel {named.token!r}: no platform {named.platform!r} is known"
    return UnknownAdapter(f"{unknown}; {hint if near else known}", near=near, step=PLUGIN)


def _not_set_up(named: Channel, folder: str) -> str:
    """Return why the courier that runs here could not send there, as far as it says so."""
    found = _status(folder) if folder else {}
    rows = found.get("set_up")
    row = rows.get(named.platform) if isinstance(rows, dict) else None
    if not isinstance(row, dict):
        return ""
    if problem := row.get("problem"):
        what = f"is not set up here: {problem}"
    elif named.chat_id is None and row.get("home") == "":
        what = "has no home channel here"
    else:
        return ""
    who = "only a gateway of Hermes that has it" if named.platform in HERMES else "nobody"
    text = f"{named.platform} {what}; {who} could answer there"
    text = text.replace("$HERMES_HOME/.env", str(found.get("settings")))
    return f"{text} (see: wakebus channels {named.platform})"


def _status(folder: str) -> dict[str, Any]:
    """Return what a courier that runs has written, {} for anything else."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(f"{folder}/{STATUS}", flags), "rb") as file:
            found = json.loads(file.read(MOST))
        os.kill(int(found["pid"]), 0)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
