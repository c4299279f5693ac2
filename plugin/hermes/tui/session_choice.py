"""
Which session of the TUI's server a message is for.

Rule 1: pure. Rule 2: the session that it names, exactly, by a key that it has or had here; else the
one that asked, else the only one, else the one in which a person last began a turn. Rule 3: where
that leaves several, none: the sender is told their keys.
"""

from collections.abc import Sequence
from typing import Final

from wakebus.plugin.hermes.host_api.protocol import TuiSession

MAX_NAMED: Final = 10  # keys in one refusal
NONE_HERE: Final = "no session is open here"


class NoSession(Exception):
    """It is for none of the sessions; its text says why and what to do."""


def choose_session(
    sessions: Sequence[TuiSession], named: str, asked: str = "", spoken: str = ""
) -> TuiSession:
    """
    Return the session of a message. Raises NoSession.

    `named`: the message's own; `asked`: the one from which that was sent which it answers;
    `spoken`: the one in which a person last began a turn; each a key, or "".
    """
    if named:
        if found := _called(sessions, named):
            return found
        raise NoSession(f"no such session here: {named!r:.100}; {_told(sessions)}")
    if found := _called(sessions, asked) or _called(sessions, spoken):
        return found
    if len(sessions) == 1:
        return sessions[0]
    raise NoSession(f"it names no session; {_told(sessions)}")


def _called(sessions: Sequence[TuiSession], key: str) -> TuiSession | None:
    return next((one for one in sessions if key and key in one.names), None)


def _told(sessions: Sequence[TuiSession]) -> str:
    if not sessions:
        return NONE_HERE
    keys = ", ".join(one.key for one in sessions[:MAX_NAMED])
    more = f" and {len(sessions) - MAX_NAMED} more" if len(sessions) > MAX_NAMED else ""
    return f"send it with --session KEY, one of: {keys}{more}"
