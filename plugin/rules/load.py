"""
Rules files on disk: found, trusted, read, and read again when they change.

Rule 1: a file that others may write is not loaded. Rule 2: a file that turns bad changes nothing:
the last good rules stay, and the error is told once. Rule 3: without a file the default rules
(default.yaml) are in force.
"""

import errno
import os
import shlex
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from wakebus.broker.paths import real_home
from wakebus.broker.system.cached_file import LastGood, NotTrusted, bytes_of, state_of
from wakebus.broker.system.durable_file import make_folders, replace_file
from wakebus.plugin.rules.errors import Problem, RulesError, ScriptError
from wakebus.plugin.rules.model import Rule, Rules
from wakebus.plugin.rules.schema import read_rules
from wakebus.plugin.rules.script import find_script, is_script

MAX_FILE: Final = 1 << 20
NAME: Final = "bus-rules.yaml"
# An editor truncates, then writes: a file is read when it has kept still for this long.
SETTLE_S: Final = 0.05


def default_path(environ: Mapping[str, str]) -> Path:
    """Return `$HERMES_HOME/bus-rules.yaml`; the default home is the real user's, not `$HOME`."""
    home = environ.get("HERMES_HOME")
    return (Path(home) if home else Path(real_home()) / ".hermes") / NAME


@cache
def default_text() -> str:
    """Return the text of the default rules, as `wakebus rules init` writes it."""
    return Path(__file__).with_name("default.yaml").read_text(encoding="utf-8")


@cache
def default_rules() -> Rules:
    """Return the rules that are in force without a file."""
    return read_rules(default_text(), "default rules")


def load(path: Path) -> Rules:
    """Return the rules in `path`. Raises RulesError, also for a file that is not there."""
    text = _text(path)
    rules = read_rules(text, str(path))
    if not text.strip():
        return replace(rules, warnings=(_empty_warning(path),))
    doubts = (_script_warning(path, rule, key) for rule in rules.callbacks for key in _FORMATS)
    return replace(rules, warnings=(*rules.warnings, *(doubt for doubt in doubts if doubt)))


def _empty_warning(path: Path) -> Problem:
    mend = shlex.join(["wakebus", "rules", "init", "--force", str(path)])
    text = f"empty: no rules are in force, not even the default ones (`{mend}` writes them)"
    return Problem(str(path), 0, "", text)


_FORMATS: Final = ("print_format", "context_format")


def _script_warning(path: Path, rule: Rule, key: str) -> Problem | None:
    source = getattr(rule, key)
    if not is_script(source):
        return None
    try:
        find_script(source)
    except ScriptError as exc:
        line = int(rule.where.rpartition(":")[2])
        return Problem(str(path), line, key, f"{exc}; the plain text will be shown")
    return None


def _text(path: Path) -> str:
    try:
        data = bytes_of(path, MAX_FILE, own_group=False)
    except NotTrusted as exc:
        raise _error(path, f"not loaded: {exc.strerror}") from exc
    except FileNotFoundError as exc:
        raise _error(path, "no such file; `wakebus rules init` writes one") from exc
    except OSError as exc:
        raise _error(path, f"cannot be read: {exc.strerror}") from exc
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        text = f"byte {data[exc.start]:#04x} is not UTF-8; save the file as UTF-8"
        raise _error(path, text, line) from exc


def _error(path: Path, text: str, line: int = 0) -> RulesError:
    return RulesError([Problem(str(path), line, "", text)])


class RulesFile:
    """
    The rules that are in force now; thread-safe. The first read raises RulesError.

    `path` None: the user's default file. `required`: it must exist. `on_error` is told once each
    time the file turns bad; `error` holds it until the file is good again.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        required: bool = False,
        on_error: Callable[[RulesError], None] | None = None,
    ) -> None:
        self.path = path or default_path(os.environ)
        self.error: RulesError | None = None
        self._required, self._on_error = required, on_error
        self._lock = threading.Lock()
        self._last_good = LastGood(self.path, self._load, settle_s=SETTLE_S)
        self._last_good()

    def current(self) -> Rules:
        """Return the rules, read again if the file has changed since the last call."""
        with self._lock:
            before = self._last_good.problem
            rules = self._last_good()
            problem = self._last_good.problem
            self.error = problem if isinstance(problem, RulesError) else None
        if problem is not before and self.error and self._on_error:
            self._on_error(self.error)
        return rules

    def _load(self, path: Path) -> Rules:
        there = not isinstance(state_of(path), int)  # an errno
        return load(path) if there or self._required else default_rules()


def write_default(path: Path, *, force: bool = False) -> None:
    """Write the default rules. Raises FileExistsError without `force`, or another OSError."""
    try:
        make_folders(path.parent)
    except FileExistsError as exc:
        raise NotADirectoryError(errno.ENOTDIR, "its folder is a file") from exc
    replace_file(path, default_text().encode(), only_new=not force)
