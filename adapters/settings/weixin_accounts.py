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
from typing import Any, Final

from wakebus.adapters.platforms.weixin import CONTEXTS, TOKEN
from wakebus.broker.system.cached_file import LastGood, json_of

log = logging.getLogger(__name__)

_ID: Final = re.compile(r"[\w@-][\w.@-]{0,127}", re.ASCII)
MAX_FILE: Final = 1 << 20
MAX_FILES: Final = 8  # of accounts that were in force once


class WeixinAccounts:
    """Call it with the settings for what to add to them. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "weixin" / "accounts"
        self._files: dict[str, LastGood[dict[str, str]]] = {}

    def __call__(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that Hermes's files say and `env` does not; {} without an account."""
        account = env.get("WEIXIN_ACCOUNT_ID", "").strip()
        if not _ID.fullmatch(account):
            return {}
        found = dict(self._read(f"{account}.context-tokens.json", _contexts))
        if not env.get(TOKEN, "").strip():
            found |= self._read(f"{account}.json", _login)
        return {name: value for name, value in found.items() if not env.get(name, "").strip()}

    def _read(self, name: str, settings: Callable[[Any], dict[str, str]]) -> dict[str, str]:
        if (last := self._files.get(name)) is None:
            last = LastGood(
                self._folder / name,
                lambda file: settings(json_of(file, MAX_FILE)),
                lambda problem: log.warning("%s; it is not used", problem),
                missing={},
                fallback={},
            )
            kept = self._files if len(self._files) < MAX_FILES else {}
            self._files = {**kept, name: last}
        return last()


def _contexts(found: Any) -> dict[str, str]:
    return {CONTEXTS: json.dumps(found)} if isinstance(found, dict) and found else {}


def _login(found: Any) -> dict[str, str]:
    names = {"token": TOKEN, "base_url": "WEIXIN_BASE_URL"}
    pairs = found.items() if isinstance(found, dict) else ()
    return {names[key]: value for key, value in pairs if key in names and isinstance(value, str)}
