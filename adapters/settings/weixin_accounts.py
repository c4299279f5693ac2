"""
What Hermes knows of Weixin chats and `.env` does not: $HERMES_HOME/weixin/accounts/.

Rule 1: Hermes writes these files (gateway/platforms/weixin.py of 0.19.0), and they are only read:
`ID.context-tokens.json` (chat: the token of its last message) and `ID.json` (token, base_url), ID
being WEIXIN_ACCOUNT_ID. Rule 2: read again when a file changed: every message of a user brings a
new token. Rule 3: a file that cannot be read is named once and never shown, and what it said last
holds. Rule 4: a variable that is set counts more than a file.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakebus.adapters.platforms.weixin_facts import CONTEXTS, TOKEN
from wakebus.adapters.settings.hermes_config import state_of, text_of

log = logging.getLogger(__name__)

_ID: Final = re.compile(r"[\w@-][\w.@-]{0,127}", re.ASCII)
MAX_FILE: Final = 1 << 20


class _Seen(NamedTuple):
    state: object
    values: dict[str, str]


class WeixinTokens:
    """Call it with the settings for what to add to them. Thread-safe: it replaces what it keeps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "weixin" / "accounts"
        self._seen: dict[str, _Seen] = {}

    def __call__(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that Hermes's files say and `env` does not; {} without an account."""
        account = env.get("WEIXIN_ACCOUNT_ID", "").strip()
        if not _ID.fullmatch(account):
            return {}
        found = self._read(f"{account}.context-tokens.json", _contexts)
        if not env.get(TOKEN, "").strip():
            found |= self._read(f"{account}.json", _login)
        return {name: value for name, value in found.items() if not env.get(name, "").strip()}

    def _read(self, name: str, said: Callable[[Any], dict[str, str]]) -> dict[str, str]:
        file, before = self._folder / name, self._seen.get(name, _Seen(None, {}))
        state = state_of(file)
        if before.state != state:
            values = _values(file, said)
            before = _Seen(state, before.values if values is None else values)
            self._seen = {**self._seen, name: before} if len(self._seen) < 8 else {name: before}
        return dict(before.values)


def _values(file: Path, said: Callable[[Any], dict[str, str]]) -> dict[str, str] | None:
    """Return what a file says, {} for no file, None for what is no such file."""
    try:
        return said(json.loads(text_of(file, MAX_FILE)))
    except FileNotFoundError:
        return {}
    except OSError as exc:
        log.warning("%s is not used: %s", file, exc.strerror)
    except (ValueError, RecursionError):  # its text quotes the file
        log.warning("%s is not used: it is not JSON", file)
    return None


def _contexts(found: Any) -> dict[str, str]:
    return {CONTEXTS: json.dumps(found)} if isinstance(found, dict) and found else {}


def _login(found: Any) -> dict[str, str]:
    names = {"token": TOKEN, "base_url": "WEIXIN_BASE_URL"}
    pairs = found.items() if isinstance(found, dict) else ()
    return {names[key]: value for key, value in pairs if key in names and isinstance(value, str)}
