"""
Whether a turn may be begun in a session of the gateway now.

Rule 1: only looks, changes nothing; any thread may. Rule 2: a session is busy while anything of a
person is in it or waits for it: a turn, a queued message, a question to which the next text would
be the answer. So a text of the bus interrupts nothing, is merged with nothing and answers nothing.
"""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

CONFIRM_S: Final = 300.0  # tools/slash_confirm.py:48: later a confirmation no longer counts


def away(runner: Any) -> str:
    """Return why the gateway takes no turns now, or "" (gateway/run.py:7859, 8951)."""
    if getattr(runner, "_draining", False):
        return "the gateway is stopping"
    starting = getattr(runner, "_startup_restore_in_progress", False)
    if starting or not getattr(runner, "_running", False):
        return "the gateway is starting"
    return ""


def busy(runner: Any, adapter: Any, keys: Iterable[str]) -> str:
    """Return what goes on in the session with these keys (its own, its adapter's), or ""."""
    for key in keys:
        for why, look in _LOOKS:
            if look(runner, adapter, key):
                return why
    return ""


def keys(adapter: Any, source: Any, key: str) -> tuple[str, ...]:
    """
    Return the names that one session has: of the store, and of the adapter.

    They differ where profiles are multiplexed (gateway/platforms/base.py:4780).
    """
    make: Any = getattr(sys.modules.get("gateway.session"), "build_session_key", None)
    extra = getattr(getattr(adapter, "config", None), "extra", None) or {}
    try:
        own = make(
            source,
            group_sessions_per_user=extra.get("group_sessions_per_user", True),
            thread_sessions_per_user=extra.get("thread_sessions_per_user", False),
        )
    except Exception:  # Hermes is half loaded, or another
        return (key,)
    return tuple(dict.fromkeys((key, str(own))))


def _in_turn(runner: Any, adapter: Any, key: str) -> bool:
    if key in (getattr(runner, "_running_agents", None) or {}):
        return True
    if key not in (getattr(adapter, "_active_sessions", None) or {}):
        return False
    # A lock whose task has ended is no turn; handle_message clears it (base.py:4557).
    task = (getattr(adapter, "_session_tasks", None) or {}).get(key)
    done = getattr(task, "done", None)
    return not (callable(done) and done())


def _queued(runner: Any, adapter: Any, key: str) -> bool:
    waiting = ("_pending_messages", "_text_debounce")
    if any(key in (getattr(adapter, name, None) or {}) for name in waiting):
        return True
    return bool((getattr(runner, "_queued_events", None) or {}).get(key))


def _updating(runner: Any, adapter: Any, key: str) -> bool:
    return bool((getattr(runner, "_update_prompt_pending", None) or {}).get(key))


def _clarifying(runner: Any, adapter: Any, key: str) -> bool:
    return bool(_asked("tools.clarify_gateway", "has_pending", key))


def _approving(runner: Any, adapter: Any, key: str) -> bool:
    return bool(_asked("tools.approval", "has_blocking_approval", key))


def _confirming(runner: Any, adapter: Any, key: str) -> bool:
    pending = _asked("tools.slash_confirm", "get_pending", key)
    if not isinstance(pending, dict):
        return False
    return time.time() - float(pending.get("created_at") or 0) <= CONFIRM_S


def _asked(module: str, name: str, key: str) -> Any:
    function = getattr(sys.modules.get(module), name, None)
    try:
        return function(key) if callable(function) else None
    except Exception:
        return None


_Look = Callable[[Any, Any, str], bool]
_LOOKS: Final[tuple[tuple[str, _Look], ...]] = (
    ("a turn runs there", _in_turn),
    ("a message waits there", _queued),
    ("an update waits for an answer there", _updating),
    ("a question waits for an answer there", _clarifying),
    ("an approval waits for an answer there", _approving),
    ("a command waits for a confirmation there", _confirming),
)
