"""
What a plugin is given by Hermes: look-alikes of hermes-agent 0.19.0, each named by the line of its
original. Loads nothing: processes of tests show what `register` alone costs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any


class Manager:
    """hermes_cli/plugins.py:1248 PluginManager: what a plugin registered."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        self._cli_ref: Any = None
        self.has_tui_message_injector = False  # 0.22: :1261


class Ctx:
    """hermes_cli/plugins.py:339 PluginContext."""

    profile_name = "default"  # :370

    def __init__(self, manager: Manager | None = None) -> None:
        self._manager = manager or Manager()
        self.tools: dict[str, tuple[str, dict[str, Any], Callable[..., str]]] = {}
        self.commands: dict[str, Callable[[str], Any]] = {}
        self.skills: dict[str, Path] = {}

    def register_tool(  # :391
        self, name: str, toolset: str, schema: dict[str, Any], handler: Any, **more: Any
    ) -> None:
        """Keep it."""
        assert set(more) <= {"check_fn", "requires_env", "is_async", "description", "emoji"}
        self.tools[name] = (toolset, schema, handler)

    def register_hook(self, hook_name: str, callback: Callable[..., Any]) -> None:  # :1158
        """Append it."""
        self._manager._hooks.setdefault(hook_name, []).append(callback)

    def register_command(  # :529
        self, name: str, handler: Any, description: str = "", args_hint: str = ""
    ) -> None:
        """Keep it."""
        self.commands[name] = handler

    def register_skill(self, name: str, path: Path, description: str = "") -> None:  # :1198
        """Keep it; a text has no `exists`."""
        assert path.exists()
        self.skills[name] = path

    def inject_message(self, content: str, role: str = "user") -> bool:  # :476
        """Of 0.19.0: for a terminal only, without a session."""
        return False
