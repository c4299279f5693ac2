"""
Finds what makes a Hermes process one that listens: a gateway's runner, or an interactive CLI.

Rule 1: nothing of Hermes is imported: importing `gateway.run` marks the process as a gateway
(gateway/run.py:1408 of hermes-agent 0.19.0). Rule 2: argv and environment decide nothing: they tell
no process that listens from one that never does (`hermes chat -q`, cron, mcp serve, dashboard,
--tui, acp). Rule 3: anything may be missing or half built; then nothing is found yet.
"""

import sys
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Mode = Literal["gateway", "cli"]


class Live(NamedTuple):
    """`object`: the GatewayRunner or the HermesCLI."""

    mode: Mode
    object: Any


def find(modules: Mapping[str, Any] | None = None) -> Live | None:
    """Return what is alive in this process now, or None. `modules`: default `sys.modules`."""
    loaded = sys.modules if modules is None else modules
    if (runner := _runner(loaded)) is not None:
        return Live("gateway", runner)
    if (cli := _cli(loaded)) is not None:
        return Live("cli", cli)
    return None


def gone(live: Live, modules: Mapping[str, Any] | None = None) -> bool:
    """Return whether `live` has ended or another has taken its place."""
    found = find(modules)
    return found is None or found.object is not live.object


def _runner(modules: Mapping[str, Any]) -> Any:
    """The weakref is published before the runner has a loop (gateway/run.py:3095, 7294)."""
    runner = _called(getattr(modules.get("gateway.run"), "_gateway_runner_ref", None))
    loop = getattr(runner, "_gateway_loop", None)
    if loop is None or _called(getattr(loop, "is_closed", None)):
        return None
    shutdown = getattr(runner, "_shutdown_event", None)  # set when it has stopped (9157)
    return None if _called(getattr(shutdown, "is_set", None)) else runner


def _cli(modules: Mapping[str, Any]) -> Any:
    """Only `HermesCLI.run()` publishes itself (cli.py:13098)."""
    manager = _called(getattr(modules.get("hermes_cli.plugins"), "get_plugin_manager", None))
    cli = getattr(manager, "_cli_ref", None)
    return None if getattr(cli, "_should_exit", False) is True else cli


def _called(function: Any) -> Any:
    return function() if callable(function) else None
