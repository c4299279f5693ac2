"""
Hermes's own configuration on disk, as far as platforms and their homes stand in it.

Rule 1: only `config.yaml` and the old `gateway.json` beside `.env`, read when asked and never
written. Rule 2: read again when it changed; while it cannot be read, what it said last holds, and
the log says why once. Rule 3: without anything good so far it is an error that names file and line,
never "no home channel": there may be one. A variable (home_channel.py) is asked before it and needs
no file. Rule 4: no line of the file is shown: it holds credentials.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from wakebus.adapters.errors import BadChannel
from wakebus.adapters.settings.home_channel import (
    CONFIG,
    OLD,
    Home,
    configured_home,
    configured_platforms,
)
from wakebus.broker.errors import WakebusError
from wakebus.broker.system.cached_file import LastGood, Unusable, json_of, text_of

log = logging.getLogger(__name__)

MAX_FILE: Final = 4 << 20


class HermesConfig:
    """Call it with a platform. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._config = _last_good(folder / CONFIG, _yaml_of)
        self._old = _last_good(folder / OLD, lambda file: json_of(file, MAX_FILE) or {})

    def __call__(self, platform: str) -> Home | None:
        """Return the platform's home, None without one; raise BadChannel."""
        try:
            old = self._old()
            return configured_home(platform, self._config(), old)
        except Unusable as exc:
            raise BadChannel(
                f"{exc}; mend it, or name the home channel by its variable in $HERMES_HOME/.env"
            ) from exc

    def setting(self, *keys: str) -> Any:
        """Return what stands under these keys of config.yaml; None for nothing, or no such file."""
        try:
            found: Any = self._config()
        except Unusable:
            return None
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def platforms(self) -> set[str]:
        """Return the names of the platforms that it speaks of; none where it cannot be read."""
        try:
            return configured_platforms(self._config(), self._old())
        except Unusable:
            return set()


def _last_good(file: Path, parse: Callable[[Path], Any]) -> LastGood[Any]:
    def warn(problem: WakebusError) -> None:
        log.warning("%s; what it said before holds", problem)

    return LastGood(file, parse, warn, missing={})


def _yaml_of(file: Path) -> Any:
    """Return what a YAML file holds. Raises OSError, Unusable."""
    text = text_of(file, MAX_FILE)
    try:
        return _yaml(text) or {}
    except _NotYaml as exc:
        raise Unusable(f"{file}:{exc.line}: {exc.what}") from None


class _NotYaml(Exception):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


def _yaml(text: str) -> Any:
    import yaml  # 30 ms, which only a bare platform without a variable pays

    class Loader(yaml.SafeLoader):
        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except yaml.YAMLError:
                raise
            except Exception:  # KeyError of `!!bool secret`, and the like: they quote the value
                what = "a value is not what its type says"
                at = node.start_mark
                raise yaml.constructor.ConstructorError(None, None, what, at) from None

    try:
        return yaml.load(text, Loader)
    except Exception as exc:
        mark = getattr(exc, "problem_mark", None)
        what = _unquoted(getattr(exc, "problem", None) or "it cannot be read as YAML")
        raise _NotYaml(mark.line + 1 if mark else 1, f"not YAML: {what}") from None


def _unquoted(problem: str) -> str:
    """Return PyYAML's words without the file's: `*secret` is an alias to it, `!secret` a tag."""
    return _QUOTED.sub(lambda found: found[0] if _MARK.match(found[0][1:-1]) else "…", problem)


_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
_MARK: Final = re.compile(r"(?:.|<[a-z ]+>|\\.{1,9})\Z")  # one character, or `<block end>`
