"""
wakebus inside Hermes Agent: the entry point `hermes_agent.plugins: wakebus`.

Rule 1: Hermes never suffers: what fails here is one line in its log, and Hermes goes on. Rule 2:
`register` runs in every process of Hermes, also in those that end at once, once for each profile
that it serves; it opens nothing and loads nothing of weight. Rule 3: called again (plugins are
discovered anew, or are installed twice), tools and hooks are there again, once; a profile stays one
endpoint. Rule 4: unloaded, the profile leaves the bus.

    runtime         a profile in this process          membership  from joining to leaving
    profile_home    whose it is                        endpoint_name  as what it is known
    hooks           what Hermes's plugin hooks tell    status      how it stands
    gateway_events  what its gateway hooks tell
    host_api/       Hermes from inside                 shared/     what several of these need
    gateway/, terminal/, tui/  the kinds of host       tools/      what is called
    gateway_hook/   what the gateway loads by itself
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakebus.plugin.hermes.runtime import Runtime

log = logging.getLogger("wakebus")

SKILL = "notification-protocol"
_HOOKS = "wakebus.plugin.hermes.hooks"


def register(ctx: Any) -> None:
    """Make a profile of this process ready for the bus. `ctx`: a PluginContext. Raises nothing."""
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


def _runtime_of(ctx: Any) -> "Runtime":
    from wakebus.plugin.hermes.host_api.choose import home_of
    from wakebus.plugin.hermes.runtime import runtime_of

    return runtime_of(home_of(ctx))


def _add_hooks(ctx: Any) -> None:
    from wakebus.plugin.hermes.hooks import Hooks
    from wakebus.plugin.hermes.host_api.choose import hook_callbacks
    from wakebus.plugin.hermes.isolated.isolation import is_isolated

    callbacks = hook_callbacks(ctx)
    # Both ways of installing may be enabled: each hook would be called twice.
    if any(getattr(callback, "__module__", "") == _HOOKS for callback in callbacks):
        return
    if is_isolated():
        from wakebus.plugin.hermes.isolated.process import this_process
        from wakebus.plugin.hermes.isolated_hooks import IsolatedHooks

        log.setLevel(logging.INFO)  # this process logs to Hermes's, and by itself only warnings
        process = this_process()
        if process.has_hooks:  # Hermes shows none of them here
            return
        process.has_hooks = True
        ctx.on_unload(process.forget_hooks)
        IsolatedHooks(process).register(ctx)  # first: hooks.py asks whose a turn is
    Hooks(_runtime_of(ctx)).register(ctx)


def _add_tools(ctx: Any) -> None:
    from wakebus.plugin.hermes.tools.bus_tools import register as add

    add(ctx, _runtime_of(ctx))


def _add_command(ctx: Any) -> None:
    from wakebus.plugin.hermes.tools.slash_command import register as add

    add(ctx, _runtime_of(ctx))


def _add_skill(ctx: Any) -> None:
    # A Path: register_skill calls its `exists` (hermes_cli/plugins.py:1231 of 0.19.0).
    ctx.register_skill(SKILL, Path(__file__).parent / "skills" / SKILL / "SKILL.md")


def _start(ctx: Any) -> None:
    found = _runtime_of(ctx)
    found.told_name = str(getattr(ctx, "profile_name", "") or "")
    found.inject = getattr(ctx, "inject_message", None)
    if callable(on_unload := getattr(ctx, "on_unload", None)):  # hermes_cli/plugins.py:409 of 0.22
        on_unload(found.stop)
    found.start()
