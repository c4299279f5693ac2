"""
What adapters are configured from: the process's environment and `$HERMES_HOME/.env`.

Rule 1: `.env` wins, as in Hermes: a service inherits the environment of whoever started the
broker, perhaps weeks ago. An empty value there is no value. Rule 2: no expansion of `$`, no
escapes. Rule 3: a line that cannot be read is named by file and line; neither it nor any value
is ever shown. Rule 4: read again when the file changed, so that a new credential needs no restart.
Rule 5: the one place where values come from: Hermes's config.yaml and its Weixin files
(weixin_tokens.py) are asked through it, too.
"""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.adapters.hermes_config import HermesConfig, state_of
from wakebus.adapters.home import Home
from wakebus.adapters.weixin_tokens import WeixinTokens
from wakebus.broker.paths import hermes_home

log = logging.getLogger(__name__)

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)\Z", re.DOTALL)
MAX_FILE: Final = 1 << 20  # a few KiB in practice; a wrong path must not be read into memory


class Parsed(NamedTuple):
    """The values of a `.env`, and the numbers of the lines that are none."""

    values: dict[str, str]
    bad_lines: list[int]


def parse(text: str) -> Parsed:
    """Return what KEY=VALUE lines say; quotes around a value and ` #` comments are taken off."""
    values: dict[str, str] = {}
    bad: list[int] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        entry = raw.strip()
        if not entry or entry.startswith("#"):
            continue
        if match := _LINE.match(entry):
            values[match[1]] = _value(match[2])
        else:
            bad.append(number)
    return Parsed(values, bad)


def _value(raw: str) -> str:
    quote = raw[:1]
    if quote in ("'", '"') and (end := raw.find(quote, 1)) > 0:
        return raw[1:end]
    return re.split(r"(?:\A|\s)#", raw, maxsplit=1)[0].strip()


class Values(dict[str, str]):
    """
    The values that hold now, and the home channels of Hermes's configuration, when asked.

    inherited: the names that only the process's environment has.
    """

    def __init__(
        self, process: Mapping[str, str], file: Mapping[str, str], config: HermesConfig
    ) -> None:
        super().__init__({**process, **file})
        self.inherited = frozenset(process) - frozenset(file)
        self._config = config

    def home(self, platform: str) -> Home | None:
        """Return what Hermes's configuration says of a platform's home. Raises BadChannel."""
        return self._config(platform)


class Environment:
    """Call it for the values that hold now. Thread-safe: what it keeps is replaced whole."""

    def __init__(self, process: Mapping[str, str] = os.environ, file: Path | None = None) -> None:
        self._process = process
        self._file = hermes_home() / ".env" if file is None else file
        self._config = HermesConfig(self._file.parent)
        self._weixin = WeixinTokens(self._file.parent)
        self._seen: tuple[object, dict[str, str]] = (None, {})

    def __call__(self) -> Values:
        """Return the process's environment with the file's values over it."""
        values = Values(self._process, self._values(), self._config)
        values.update(self._weixin(values))
        return values

    def _values(self) -> dict[str, str]:
        state = state_of(self._file)
        if self._seen[0] != state:
            self._seen = (state, _read(self._file))
        return self._seen[1]


def _read(file: Path) -> dict[str, str]:
    if file.exists() and not file.is_file():  # a pipe that nobody writes would hold us for ever
        log.warning("%s is not used: it is no regular file", file)
        return {}
    try:
        with file.open(encoding="utf-8") as opened:
            parsed = parse(opened.read(MAX_FILE))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as exc:
        # The exception's text quotes what it could not decode.
        reason = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
        log.warning("%s is not used: %s", file, reason)
        return {}
    for number in parsed.bad_lines:
        log.warning("%s:%d: not KEY=VALUE; the line is not used", file, number)
    return {name: value for name, value in parsed.values.items() if value}
