"""
Functions of modules that Hermes has loaded, of any kind of process.

Rule 1: each has a default for a Hermes that has it not, or another. Rule 2: only what Hermes itself
loads in this kind of process is imported.
"""

import sys
from collections.abc import Container
from importlib import import_module
from typing import Any, Final

LIMIT: Final = 10_000  # characters of one hook's context: Hermes's own default
MAX_LIMIT: Final = 64_000  # also where Hermes sets none: it stays in the conversation for good
PAUSED: Final = "Hermes is paused (`hermes resume` ends that)"


def session_env(name: str) -> str:
    """Return `HERMES_SESSION_<name>` of the session that runs here (session_context.py:304)."""
    find = _loaded("gateway.session_context", "get_session_env")
    return str(find(f"HERMES_SESSION_{name}", "") or "") if callable(find) else ""


def context_limit() -> int:
    """Return how many characters Hermes passes on whole: `hooks.output_spill.max_chars`."""
    if "tools" not in sys.modules:  # not in Hermes
        return LIMIT
    try:
        # Hermes loads it, and the configuration, as soon as the hook returns (turn_context.py:713).
        config: dict[str, Any] = import_module("tools.hook_output_spill").get_spill_config()
        if not config.get("enabled", True):
            return MAX_LIMIT
        return min(int(config["max_chars"]), MAX_LIMIT)
    except Exception:
        return LIMIT


def paused() -> str:
    """
    Return why no new work is to begin, or "": its owner has stopped that (`hermes pause`).

    Since 0.20 (agent/estop.py of 0.22.2). Hermes asks it for persons, cron and its boards, not for
    what a plugin begins (gateway/run_inbound.py:299); `hermes pause` is another process.
    """
    if "agent" not in sys.modules:  # not in Hermes
        return ""
    try:
        return PAUSED if import_module("agent.estop").is_engaged() is True else ""
    except Exception:  # another Hermes
        return ""


def has_hook(name: str) -> bool:
    """Return whether this Hermes calls hooks of this name; it logs a warning for any other."""
    known = _loaded("hermes_cli.plugins", "VALID_HOOKS")
    return isinstance(known, Container) and name in known


def _loaded(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)
