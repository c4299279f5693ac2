"""
Whether an answer is for nobody's eyes: where Hermes itself decides that, and lets us decide it too.

Source: gateway/response_filters.py, of 0.19.0 and 0.22.2 alike: it decides what is delivered, never
what the history keeps. Both places that deliver a turn's answer import the function when they need
it (gateway/run.py:12976, 21839; gateway/run_turn.py:400 of 0.22.2).
Rule 1: what Hermes calls silence stays silence. Rule 2: of a turn that failed nothing is withheld.
Rule 3: several gateways' hosts may ask, for profiles; who is gone is not asked.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final
from weakref import WeakMethod

Withheld = Callable[[str], bool]

_MODULE: Final = "gateway.response_filters"
_NAME: Final = "is_intentional_silence_agent_result"
_ASKED: Final = "wakebus_asked"
_SILENT: Final = frozenset({"[SILENT]", "SILENT", "NO_REPLY", "NO REPLY"})


def is_silence(text: str) -> bool:
    """Return whether Hermes delivers nothing for this answer (gateway/response_filters.py:56)."""
    check = getattr(sys.modules.get(_MODULE), "is_intentional_silence_response", None)
    if callable(check):
        return bool(check(text))
    return " ".join(text.upper().split()) in _SILENT


def withhold(withheld: Withheld) -> bool:
    """
    Have Hermes deliver nothing where `withheld(session_id)`; return whether that can be.

    `withheld`: a bound method; it is asked on the gateway's loop, as long as its object lives.
    """
    if "gateway" not in sys.modules:  # not in a gateway
        return False
    try:
        module = import_module(_MODULE)
    except Exception:  # another Hermes
        return False
    current = getattr(module, _NAME, None)
    if not callable(current):
        return False
    asked: list[WeakMethod[Withheld]] | None = getattr(current, _ASKED, None)
    if asked is None:
        asked = []
        setattr(module, _NAME, _asking(current, asked))
    asked[:] = [one for one in asked if one() is not None]
    if not any(one() == withheld for one in asked):
        asked.append(WeakMethod(withheld))
    return True


def _asking(original: Callable[..., Any], asked: "list[WeakMethod[Withheld]]") -> Any:
    def silent(agent_result: Any, response: Any, *more: Any, **named: Any) -> Any:
        return original(agent_result, response, *more, **named) or any(
            _is_withheld(one(), agent_result) for one in list(asked)
        )

    setattr(silent, _ASKED, asked)
    return silent


def _is_withheld(ask: Withheld | None, agent_result: Any) -> bool:
    if ask is None or not isinstance(agent_result, dict) or agent_result.get("failed"):
        return False
    try:
        return ask(str(agent_result.get("session_id") or ""))
    except Exception:  # a slip of ours must not cost an answer
        return False
