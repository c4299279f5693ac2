"""
Formats that are scripts: run with the message in the environment, their output is the text.

Rule 1: what a script does wrong costs its output, never the message: the plain text is shown and
the error goes into the outcome. Rule 2: a script gets no credentials and no body on its command
line, 5 s, 64 KiB, and nothing of it stays behind. Rule 3: what it prints is cleaned; `echo -e`
makes escape sequences out of harmless text.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.broker.protocol.message import Message
from wakebus.broker.system.file_trust import refusal_of
from wakebus.plugin.processes import environment
from wakebus.plugin.processes.run import CannotSpawn, Finished, run_process
from wakebus.plugin.rules.errors import ScriptError
from wakebus.plugin.rules.model import PLAIN
from wakebus.plugin.rules.render import RenderTarget, render
from wakebus.plugin.rules.sanitize import sanitize, sanitize_line, sanitize_terminal

TIMEOUT_S: Final = 5.0
MAX_OUTPUT: Final = 64 << 10


class Rendered(NamedTuple):
    """A text, and why it is only the plain one ("" if it is what the format says)."""

    text: str
    error: str = ""


def is_script(source: str) -> bool:
    """Return whether a format as a whole is a path: `~` or `/` first, no placeholder, one line."""
    return source.startswith(("~", "/")) and not set("{}\n") & set(source.strip())


def find_script(source: str) -> Path:
    """Return the script's path. Raises ScriptError if it must not or cannot run."""
    path = Path(os.path.expanduser(source.strip()))  # noqa: PTH111 (an unknown ~user stays text)
    try:
        reason = refusal_of(path, path.stat())
    except FileNotFoundError as exc:
        raise ScriptError(f"script {path}: no such file") from exc
    except (OSError, ValueError) as exc:
        what = exc.strerror if isinstance(exc, OSError) else exc
        raise ScriptError(f"script {path}: {what}") from exc
    if reason:
        raise ScriptError(f"script {path}: not run: {reason}")
    if not os.access(path, os.X_OK):
        raise ScriptError(f"script {path}: not executable; chmod +x {path}")
    return path


def run_script(
    source: str,
    message: Message,
    target: RenderTarget,
    *,
    environ: Mapping[str, str],
    timeout: float = TIMEOUT_S,
) -> str:
    """Return what the script printed, cleaned. Raises ScriptError."""
    path = find_script(source)
    fields = {name: sanitize(value) for name, value in environment.message_fields(message).items()}
    fields["FORMAT_MODE"] = "print" if target == "terminal" else "context"
    env = environment.base_environment(environ) | environment.encode_values(fields)
    try:
        done = run_process(
            [str(path)], env=env, timeout=timeout, stdout_limit=MAX_OUTPUT, end_group=True
        )
    except CannotSpawn as exc:
        raise ScriptError(f"script {path}: {exc}") from exc
    if done.timed_out:
        raise ScriptError(f"script {path}: did not end within {timeout:g} s and was ended")
    if not done.ok:
        raise ScriptError(f"script {path}: {_how(done)}")
    text = done.stdout.decode(errors="ignore" if done.stdout_cut else "replace")
    text = (sanitize_terminal if target == "terminal" else sanitize)(text).strip()
    if not sanitize(text).strip():
        raise ScriptError(f"script {path}: printed nothing{_tail(done)}")
    if done.stdout_cut:
        raise ScriptError(f"script {path}: printed over {MAX_OUTPUT >> 10} KiB")
    return text


def _how(done: Finished) -> str:
    how = f"ended by {done.signal}" if done.signal else f"exit status {done.status}"
    return how + _tail(done)


def _tail(done: Finished) -> str:
    said = sanitize_line(done.stderr.decode(errors="replace"), 200)
    return f" ({said})" if said else ""


def render_or_script(
    source: str,
    message: Message,
    target: RenderTarget,
    *,
    environ: Mapping[str, str],
    color: bool = True,
    timeout: float = TIMEOUT_S,
) -> Rendered:
    """Return the format's text; if its script fails, the plain text and the error."""
    if not is_script(source):
        return Rendered(render(source, message, target, color=color))
    try:
        text = run_script(source, message, target, environ=environ, timeout=timeout)
    except ScriptError as exc:
        return Rendered(render(PLAIN, message, target, color=color), exc.text)
    return Rendered(text if color else sanitize(text))
