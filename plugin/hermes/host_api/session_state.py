"""
What goes on in a gateway's session: a turn, a queued message, a question that a text would answer.

Rule 1: only looks, but for `take_back`. Rule 2: every private name has a default; what is missing
is nothing that goes on there. Whether anything at all could be seen says `shows_turns`.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, Final

CONFIRM_S: Final = 300.0  # tools/slash_confirm.py:48: later a confirmation no longer counts


def going_on(runner: Any, adapter: Any, names: tuple[str, ...]) -> str:
    """Return what goes on in the session that has these names, or ""."""
    for name in names:
        for why, look in _LOOKS:
            if look(runner, adapter, name):
                return why
    return ""


def shows_turns(runner: Any, adapter: Any) -> bool:
    """Return whether this Hermes lets us see that a turn runs."""
    return hasattr(runner, "_running_agents") or hasattr(adapter, "_active_sessions")


def take_back(runner: Any, adapter: Any, is_ours: Callable[[Any], bool]) -> bool:
    """
    Take the event that `is_ours` out of the queues of messages that wait; whether it was there.

    On the gateway's loop. One waits in the adapter's slot (gateway/platforms/base.py:4776 of
    0.19.0), further ones behind it (`_queued_events`, gateway/run_busy.py of 0.22.2).
    """
    slots = getattr(adapter, "_pending_messages", None) or {}
    queues = dict(getattr(runner, "_queued_events", None) or {})
    for key, event in list(slots.items()):
        if is_ours(event):
            del slots[key]
            if behind := queues.get(key):  # nobody else looks there before a person writes again
                slots[key] = behind.pop(0)
            return True
    for events in queues.values():
        for event in filter(is_ours, list(events)):
            events.remove(event)
            return True
    return False


def session_names(adapter: Any, source: Any, key: str) -> tuple[str, ...]:
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
