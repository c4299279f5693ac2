"""
What the hooks of a plugin tell that runs in a process of its own (HERMES.md section 9).

Rule 1: keyword arguments only, any of them may be missing; nothing is raised, nothing is answered:
Hermes does what it would do without us. Rule 2: registered before hooks.py, which asks whose a turn
is. Rule 3: why there is no endpoint is said once, where a terminal's turn shows that it is one.
"""

import logging
from collections.abc import Mapping
from typing import Any

from wakebus.plugin.hermes.hooks import FORKS
from wakebus.plugin.hermes.isolated.isolation import NO_ENDPOINT
from wakebus.plugin.hermes.isolated.process import IsolatedProcess

log = logging.getLogger("wakebus")

COMMAND = "bus"  # ours, `/bus`
TERMINALS = frozenset({"cli", "tui"})


class IsolatedHooks:
    """The callbacks of one process."""

    def __init__(self, process: IsolatedProcess) -> None:
        self._told, self._explained = process.told, False

    def register(self, ctx: Any) -> None:
        """Register all callbacks; `ctx`: see plugin/hermes."""
        for name in ("post_gateway_admission", "pre_command", "pre_llm_call", "on_session_end"):
            ctx.register_hook(name, getattr(self, name))

    def post_gateway_admission(
        self, session_key: str = "", source: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """A person's message was let in (gateway/run_inbound_consumer.py of 0.22.2)."""
        if isinstance(source, Mapping) and session_key:
            self._told.has_admitted = True

    def pre_command(
        self, command: str = "", args_raw: str = "", session_key: str | None = None, **_: Any
    ) -> None:
        """A person has given a slash command."""
        if command == COMMAND and session_key:
            self._told.give_command(str(session_key), str(args_raw or ""))

    def pre_llm_call(
        self,
        session_id: str = "",
        turn_id: str = "",
        platform: str = "",
        **_: Any,
    ) -> None:
        """A turn begins."""
        if platform in TERMINALS and not self._explained:
            self._explained = True
            log.info("not on the bus: %s", NO_ENDPOINT)
        if platform not in FORKS and session_id and turn_id:
            self._told.begin_turn(str(session_id), str(turn_id))

    def on_session_end(self, turn_id: str = "", **_: Any) -> None:
        """A turn is over."""
        self._told.end_turn(str(turn_id))
