"""
wakebus inside Hermes Agent: the entry point `hermes_agent.plugins: wakebus`.

Rule 1: Hermes never suffers: what fails here is one line in its log, and Hermes goes on. Rule 2:
`register` runs in every process of Hermes, also in those that end at once; it opens nothing and
loads nothing of weight. Rule 3: called again (plugins are discovered anew, or are installed twice),
tools and hooks are there again, once; the process stays one endpoint.

    runtime         the process on the bus             membership  from joining to leaving
    hooks           what Hermes's plugin hooks tell    endpoint_name  as what it is known
    gateway_events  what its gateway hooks tell        status      how it stands
    host_api/       Hermes from inside                 shared/     what several of these need
    gateway/, terminal/  the two kinds of host         tools/      what is called
    gateway_hook/   what the gateway loads by itself
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

log = logging.getLogger("wakebus")

SKILL = "notification-protocol"
_HOOKS = "wakebus.plugin.hermes.hooks"


def register(ctx: Any) -> None:
    """Make this process of Hermes ready for the bus. `ctx`: its PluginContext. Raises nothing."""
    for what, add in (
        ("hooks", _add_hooks),
        ("tools", _add_tools),
        ("/bus", _add_command),
        ("skill", _add_skill),
        ("bus", _start),
    ):
        _guarded(what, add, ctx)


def _guarded(what: str, add: Callable[[Any], None], ctx: Any) -> None:
    try:
        add(ctx)
    except Exception as exc:
        log.warning("wakebus: no %s here, Hermes goes on: %s: %s", what, type(exc).__name__, exc)


def _add_hooks(ctx: Any) -> None:
    from wakebus.plugin.hermes.hooks import Hooks
    from wakebus.plugin.hermes.host_api.choose import hook_callbacks
    from wakebus.plugin.hermes.runtime import runtime

    callbacks = hook_callbacks(ctx)
    # Both ways of installing may be enabled: each hook would be called twice.
    if not any(getattr(callback, "__module__", "") == _HOOKS for callback in callbacks):
        Hooks(runtime()).register(ctx)


def _add_tools(ctx: Any) -> None:
    from wakebus.plugin.hermes.runtime import runtime
    from wakebus.plugin.hermes.tools.bus_tools import register as add

    add(ctx, runtime())


def _add_command(ctx: Any) -> None:
    from wakebus.plugin.hermes.runtime import runtime
    from wakebus.plugin.hermes.tools.slash_command import register as add

    add(ctx, runtime())


def _add_skill(ctx: Any) -> None:
    # A Path: register_skill calls its `exists` (hermes_cli/plugins.py:1231 of 0.19.0).
    ctx.register_skill(SKILL, Path(__file__).parent / "skills" / SKILL / "SKILL.md")


def _start(ctx: Any) -> None:
    from wakebus.plugin.hermes.runtime import runtime

    found = runtime()
    found.profile = str(getattr(ctx, "profile_name", "") or "")
    found.inject = getattr(ctx, "inject_message", None)
    found.start()
