"""
Hermes's own configuration on disk, as far as home channels stand in it: read when one is asked.

Rule 1: only `config.yaml` and the old `gateway.json` beside `.env`, and never written. Rule 2: read
again when it changed; while it cannot be read, what it said last holds, and the log says why once.
Rule 3: without anything good so far it is an error that names file and line, never "no home
channel": there may be one. A variable (home.py) is asked before it and needs no file. Rule 4: no
line of the file is shown: it holds credentials.
"""

import json
import logging
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakebus.adapters.errors import BadChannel
from wakebus.adapters.settings.home_channel import CONFIG, OLD, Home, configured

log = logging.getLogger(__name__)

MAX_FILE: Final = 4 << 20


class _Seen(NamedTuple):
    state: object
    value: Any
    problem: str


_NOTHING: Final = _Seen(None, None, "")


class HermesConfig:
    """Call it with a platform. Thread-safe: what it keeps is replaced whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = {CONFIG: _NOTHING, OLD: _NOTHING}

    def __call__(self, platform: str) -> Home | None:
        """Return the platform's home, None without one; raise BadChannel."""
        old = self._read(OLD, json.loads)
        return configured(platform, self._read(CONFIG, _yaml), old)

    def _read(self, name: str, parse: Callable[[str], Any]) -> Any:
        file, before = self._folder / name, self._seen[name]
        state = state_of(file)
        if before.state != state:
            value, problem = _parsed(file, parse)
            if problem and before.value:
                log.warning("%s; what it said before holds", problem)
                value, problem = before.value, ""
            self._seen[name] = before = _Seen(state, value, problem)
        if before.problem:
            raise BadChannel(
                f"{before.problem}; mend it, or name the home channel by its variable in"
                " $HERMES_HOME/.env"
            )
        return before.value


def state_of(file: Path) -> object:
    """Return what changes when the file does, or whether it can be read."""
    try:
        found = file.stat()
    except OSError as exc:
        return exc.errno
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def text_of(file: Path, most: int) -> str:
    """Return `bytes_of` as text; also raises UnicodeDecodeError, whose text quotes the file."""
    return bytes_of(file, most).decode()


def bytes_of(file: Path, most: int) -> bytes:
    """Return a regular file's bytes; raises OSError, whose strerror says why not."""
    # A pipe that nobody writes would hold us for ever.
    source = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(source, "rb") as opened:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            raise OSError(0, "it is no regular file")
        data = opened.read(most + 1)
    if len(data) > most:
        raise OSError(0, f"it is over {most >> 20} MiB")
    return data


def _parsed(file: Path, parse: Callable[[str], Any]) -> tuple[Any, str]:
    """Return what stands in a file ({} for no file), and what is wrong with it."""
    try:
        return parse(text_of(file, MAX_FILE)) or {}, ""
    except FileNotFoundError:
        return {}, ""
    except OSError as exc:
        return None, f"{file} cannot be read: {exc.strerror}"
    except UnicodeDecodeError:
        return None, f"{file} is not UTF-8"
    except (ValueError, RecursionError) as exc:
        line = getattr(exc, "lineno", None)
        return None, f"{file}{f':{line}' if line else ''} is not JSON"
    except _NotYaml as exc:
        return None, f"{file}:{exc.line}: {exc.what}"


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
