"""
Who sends: `--from`, a turn's token, `HERMES_BUS_ENDPOINT`, the tmux session, `cli`.

Rule 1: YAML and tmux cost more than the rest of a send; they are asked, and imported, only when
nothing before them answers. Rule 2: a name that was found is made to fit; a name that was given is
checked. Rule 3: a default rules file that is wrong is the receiver's trouble: a sender says so and
goes on.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol.message import check_name

if TYPE_CHECKING:
    from pathlib import Path

    from wakebus.plugin.rules.model import Rules

FALLBACK = "cli"


class Sender(NamedTuple):
    """The name to send under, the token that proves it, and what the user should know."""

    name: str
    token: str | None = None
    note: str = ""


def find_sender(
    given: str | None,
    environ: Mapping[str, str],
    config: str | None = None,
    home: "Path | None" = None,
) -> Sender:
    """
    Return who sends. `config`: another bus-rules.yaml; `home`: another than $HERMES_HOME.

    Raises BadName for a name that was given, and RulesError for `config`.
    """
    token, endpoint = environ.get("WAKEBUS_TOKEN"), environ.get("WAKEBUS_ENDPOINT")
    if given:
        # Inside a turn the agent often names itself, as seed users do; that is no other sender.
        own = token if token and given == endpoint else None
        return Sender(check_name(given, "--from"), own)
    if token:
        return Sender(endpoint or FALLBACK, token)
    if name := environ.get("HERMES_BUS_ENDPOINT"):
        return Sender(check_name(name, "HERMES_BUS_ENDPOINT"))
    session = tmux_session(environ)
    name, note = _by_rules(session, config, home)
    return Sender(name or (as_endpoint_name(session) if session else FALLBACK), None, note)


def as_endpoint_name(name: str) -> str:
    """Return `name` as an endpoint name: what is not allowed becomes `-`."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)[:64] or FALLBACK


def tmux_session(environ: Mapping[str, str]) -> str | None:
    """Return the name of the tmux session that this process runs in."""
    if not environ.get("TMUX"):
        return None
    import subprocess

    command = ["tmux", "display-message", "-p"]
    command += ["-t", pane] if (pane := environ.get("TMUX_PANE")) else []
    try:
        found = subprocess.run([*command, "#S"], capture_output=True, timeout=2, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.decode(errors="replace").strip() or None


def find_place(environ: Mapping[str, str]) -> str | None:
    """Return what names this process: its turn, its host or its tmux session; not yet a role."""
    turn = environ.get("WAKEBUS_ENDPOINT") if environ.get("WAKEBUS_TOKEN") else None
    return turn or environ.get("HERMES_BUS_ENDPOINT") or tmux_session(environ)


def rules_of(config: str | None, home: "Path | None" = None) -> tuple["Rules | None", str]:
    """
    Return the rules, if there is a file, and a note about a default file that cannot be used.

    `config`, `home`: as for `find_sender`.

    Raises RulesError for `config`.
    """
    from pathlib import Path

    from wakebus.broker.paths import hermes_home

    path = Path(config) if config else (home or hermes_home()) / "bus-rules.yaml"
    if config is None and not path.exists():
        return None, ""
    from wakebus.plugin.rules.load import load

    try:
        return load(path), ""
    except WakebusError as exc:
        if config is not None:
            raise
        return None, f"role_map and default_sender are not used: {exc.text}"


def _by_rules(
    session: str | None, config: str | None, home: "Path | None"
) -> tuple[str | None, str]:
    """Return the name that the rules give, and a note about rules that could not be read."""
    rules, note = rules_of(config, home)
    if rules is None:
        return None, note
    if session and (role := rules.role_map.get(session)):
        return as_endpoint_name(role.name), ""
    return None if session else rules.default_sender, ""
