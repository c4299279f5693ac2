"""
One run of a command-line agent: `listen --agent CMD`.

Rule 1: the prompt goes in on standard input, labelled; what comes out on standard output is the
answer. Rule 2: a non-zero exit, the time limit and no output are told, never losses. Rule 3:
the agent keeps its own environment (it needs its keys); it learns the message's name, not its text.
"""

import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from wakebus.broker.protocol.message import Message
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.processes.environment import MAX_VALUE
from wakebus.plugin.processes.run import CannotSpawn, Finished, run_process
from wakebus.plugin.receive.failure import how_ended
from wakebus.plugin.receive.host import TurnResult
from wakebus.plugin.rules.sanitize import sanitize

TURN_S: Final = 1800.0
MAX_ANSWER: Final = 512 << 10  # bytes; half of what a message's body may hold
# `hermes chat -q` takes its query as an argument and does not read standard input
# (hermes-agent 0.19.0, run), nor a file: with -Q it expands no `@file:`. The shell moves it there
# as one word, whatever it holds; `ps` shows it to other users (RULES-7.5).
_QUERY_ARGUMENT: Final = re.compile(r"\bhermes\b[^|;&]*\s(-q|--query)\s*$")
# One argument may have 128 KiB on Linux (MAX_ARG_STRLEN), as much as a variable: else E2BIG.
MAX_ARGUMENT: Final = MAX_VALUE
_NOT_FOUND: Final = 127  # what a shell exits with that finds no such program
_TAIL: Final = 1500  # characters of output kept in an outcome (16 KiB in all)


def new_token() -> str:
    """Return the secret by which sends from inside one turn are told from others."""
    return secrets.token_urlsafe(24)


def run_agent(
    command: str,
    prompt: str,
    message: Message,
    endpoint: str,
    token: str,
    *,
    timeout: float,
    cancel: Cancel,
    environ: Mapping[str, str],
    on_start: Callable[[int], object] = lambda pid: None,
    on_end: Callable[[Finished], object] = lambda done: None,
) -> TurnResult:
    """
    Run `command` by the shell on `prompt` and wait for its end; raises nothing on purpose.

    `on_start` is told its pid, `on_end` how it ended.
    """
    started = time.time()
    try:
        done = run_process(
            ["/bin/sh", "-c", shell_line(command)],
            env=_environment(environ, message, endpoint, token),
            timeout=timeout,
            stdin=prompt.encode(errors="replace"),
            stdout_limit=MAX_ANSWER,
            cancel=cancel,
            on_start=on_start,
        )
    except (CannotSpawn, OSError) as exc:
        outcome = {"error": str(exc), "started": started, "ended": time.time()}
        return TurnResult("", outcome, began=False)
    on_end(done)
    return _judged(done, started, timeout)


def shell_line(command: str) -> str:
    """Return what the shell is given: the command, made to take its prompt where it needs that."""
    return f'{command} "$(cat)"' if prompt_limit(command) else command


def prompt_limit(command: str) -> int | None:
    """Return how many bytes of prompt the agent can take, None for any number."""
    return MAX_ARGUMENT if _QUERY_ARGUMENT.search(command) else None


def _judged(done: Finished, started: float, timeout: float) -> TurnResult:
    text = sanitize(done.stdout.decode(errors="replace")).strip()
    outcome: dict[str, Any] = {"started": started, "ended": time.time(), "exit": done.status}
    if done.ok and text:
        cut = "\n[cut: the agent wrote more]" if done.stdout_cut else ""
        return TurnResult(text + cut, outcome | {"characters": len(text)}, well=True)
    if done.timed_out:
        outcome["error"] = f"ended after its time limit of {timeout:g} s"
    elif done.cancelled:
        outcome["error"] = "ended before it was done"
    else:
        outcome["error"] = "no output" if done.ok else how_ended(done.status, done.signal)
    tails = {"stdout": text, "stderr": sanitize(done.stderr.decode(errors="replace")).strip()}
    outcome |= {name: tail[-_TAIL:] for name, tail in tails.items() if tail}
    began = done.status != _NOT_FOUND
    return TurnResult("", outcome, began=began, cut_off=done.cancelled, well=done.ok, mute=done.ok)


def _environment(
    environ: Mapping[str, str], message: Message, endpoint: str, token: str
) -> dict[bytes, bytes]:
    ours = {
        "WAKEBUS_ENDPOINT": endpoint,
        "WAKEBUS_ID": message.id,
        "WAKEBUS_TYPE": message.type,
        "WAKEBUS_FROM": message.sender,
        "WAKEBUS_CHANNEL": message.channel,
        "WAKEBUS_SESSION": message.session or "",
        "WAKEBUS_TOKEN": token,
    }
    # An agent reports with notify-hermes; it may be installed where the person's PATH is not.
    path = environ.get("PATH", os.defpath)
    if not shutil.which("notify-hermes", path=path):
        ours["PATH"] = f"{path}{os.pathsep}{Path(sys.executable).parent}"
    # As os.environ decoded them, whatever the locale; ours are UTF-8.
    passed = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
    return passed | {name.encode(): value.encode(errors="replace") for name, value in ours.items()}
