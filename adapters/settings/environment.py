"""
What adapters are configured from: the process's environment and `$HERMES_HOME/.env`.

Rule 1: `.env` wins, as in Hermes: a service inherits the environment of whoever started the
broker, perhaps weeks ago. An empty value is none, and hides the process's. Rule 2: its values are
those that Hermes reads (dotenv.py). Rule 3: a line that cannot be read is named by file and line;
neither it nor any value is ever shown. Rule 4: read again when the file changed, so that a new
credential needs no restart; while it cannot be read, what it said last holds: nothing else may take
the place of its values: old ones that the process inherited led to another chat. One that said
something and is now empty or gone is perhaps being written. It is decoded as Hermes does. Rule 5:
the one place where values come from: Hermes's config.yaml (hermes_config.py) and its Weixin files
(weixin_accounts.py) are asked through it, too.
"""

import codecs
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from wakebus.adapters.errors import Unavailable
from wakebus.adapters.settings.hermes_config import HermesConfig
from wakebus.adapters.settings.home_channel import Home
from wakebus.adapters.settings.weixin_accounts import WeixinAccounts
from wakebus.broker.paths import hermes_home
from wakebus.broker.system.cached_file import LastGood, Unusable, bytes_of

log = logging.getLogger(__name__)

MAX_FILE: Final = 256 << 10  # a few KiB in practice; of a wrong path this much is parsed in 1 s
GRACE_S: Final = 5.0  # an editor that writes a file anew needs milliseconds
NAMED: Final = 10  # bad lines
_LINE_END: Final = re.compile("\r\n|\r|\n")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{2,99}")


class Values(dict[str, str]):
    """
    The values that hold now, and the home channels of Hermes's configuration, when asked.

    inherited: the names that only the process's environment has.
    """

    def __init__(
        self, process: Mapping[str, str], file: Mapping[str, str], config: HermesConfig
    ) -> None:
        both = {**process, **file}
        super().__init__({name: value for name, value in both.items() if value})
        self.inherited = frozenset(process) - frozenset(file)
        self._config = config

    def home(self, platform: str) -> Home | None:
        """Return what Hermes's configuration says of a platform's home. Raises BadChannel."""
        return self._config(platform)


class Environment:
    """
    Call it for the values that hold now. Thread-safe: what it keeps is replaced whole.

    warn: is told what is wrong in `.env`; for who looks into a file that another one speaks of.
    """

    def __init__(
        self,
        process: Mapping[str, str] = os.environ,
        file: Path | None = None,
        *,
        ticks: Callable[[], float] = time.monotonic,
        warn: Callable[..., None] = log.warning,
    ) -> None:
        self._process = process
        self.file = hermes_home() / ".env" if file is None else file
        self._config = HermesConfig(self.file.parent)
        self._weixin = WeixinAccounts(self.file.parent)
        self._values: LastGood[dict[str, str]] = LastGood(
            self.file,
            lambda file: _read(file, process, warn),
            lambda problem: warn("%s; what it said before holds for now", problem),
            missing={},
            grace_s=GRACE_S,
            ticks=ticks,
        )

    def __call__(self) -> Values:
        """Return the process's environment with the file's values over it. Raises Unavailable."""
        try:
            file = self._values()
        except Unusable as exc:
            hint = "see to its mode and owner, and to HERMES_HOME"
            raise Unavailable(f"{exc}; {hint}") from exc
        values = Values(self._process, file, self._config)
        values.update(self._weixin(values))
        return values

    def line_of(self, name: str) -> int:
        """Return the number of the line of `.env` that counts for a name, 0 where none is seen."""
        try:
            lines = _LINE_END.split(_decoded(bytes_of(self.file, MAX_FILE)))
        except OSError:
            return 0
        place = re.compile(rf"\s*(?:export\s+)?'?{re.escape(name)}'?\s*=")
        return max((at for at, line in enumerate(lines, 1) if place.match(line)), default=0)


def _read(file: Path, process: Mapping[str, str], warn: Callable[..., None]) -> dict[str, str]:
    """Return a file's values; raise OSError, whose strerror says why not."""
    text = _decoded(bytes_of(file, MAX_FILE))
    from wakebus.adapters.settings.dotenv import parse  # 14 ms and more

    values, bad_lines = parse(text, process)
    for name in _names(text, bad_lines) & frozenset(process):
        values.setdefault(name, "")  # an older value of the process must not take its place
    for number in bad_lines[:NAMED]:
        warn("%s:%d: not KEY=VALUE; it is not used", file, number)
    if len(bad_lines) > NAMED:
        warn("%s: %d more lines are not KEY=VALUE", file, len(bad_lines) - NAMED)
    return values


def _names(text: str, numbers: Sequence[int]) -> set[str]:
    """Return what could be a setting's name in these lines, which say nothing else."""
    lines = _LINE_END.split(text)
    return {
        name for number in numbers for name in _NAME.findall("".join(lines[number - 1 : number]))
    }


def _decoded(data: bytes) -> str:
    # hermes_cli/env_loader.py: UTF-16 by its mark, UTF-8, else Latin-1. UTF-32 begins as UTF-16.
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise OSError(0, "it is UTF-32; save it as UTF-8")
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16")
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
