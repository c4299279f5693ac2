"""
Who sends: `--from`, a turn's token, `HERMES_BUS_ENDPOINT`, the tmux session, `cli` (design 6).

Rule 1: YAML and tmux cost more than the rest of a send; they are asked only when nothing before
them answers. Rule 2: a name that was found is made to fit; a name that was given is checked.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from wakebus.broker.paths import hermes_home


class Sender(NamedTuple):
    """The name to send under, and the token that proves it."""

    name: str
    token: str | None = None


def sender(given: str | None, environ: Mapping[str, str], config: str | None = None) -> Sender:
    """Return who sends. `config`: another bus-rules.yaml. May raise RulesError for that file."""
    token, endpoint = environ.get("WAKEBUS_TOKEN"), environ.get("WAKEBUS_ENDPOINT")
    if given:
        # Inside a turn the agent often names itself, as seed users do; that is no other sender.
        return Sender(given, token if token and given == endpoint else None)
    if token and endpoint:
        return Sender(endpoint, token)
    if name := environ.get("HERMES_BUS_ENDPOINT"):
        return Sender(name)
    session = tmux_session(environ)
    return Sender(_by_rules(session, config) or (fitting(session) if session else "cli"))


def fitting(name: str) -> str:
    """Return `name` as an endpoint name: what is not allowed becomes `-`."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)[:64] or "cli"


def tmux_session(environ: Mapping[str, str]) -> str | None:
    """Return the name of the tmux session that this process runs in."""
    if not environ.get("TMUX"):
        return None
    command = ["tmux", "display-message", "-p"]
    command += ["-t", pane] if (pane := environ.get("TMUX_PANE")) else []
    try:
        found = subprocess.run([*command, "#S"], capture_output=True, timeout=2, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.decode(errors="replace").strip() or None


def _by_rules(session: str | None, config: str | None) -> str | None:
    path = Path(config) if config else hermes_home() / "bus-rules.yaml"
    if config is None and (not path.exists() or not os.access(path, os.R_OK)):
        return None
    from wakebus.plugin.rules.load import load

    rules = load(path)
    if session and (role := rules.role_map.get(session)):
        return fitting(role.name)
    return None if session else rules.default_sender
