"""
The server of the Ink TUI and the desktop, of hermes-agent 0.22: its live sessions, their queues.

`hermes --tui` runs it beside the Ink front end, `hermes serve` for the desktop (tui_gateway/). A
prompt goes in by `ctx.inject_message(session_key=)`; what Hermes shows to no plugin is looked at
here: server.py keeps a dict for each session. Lines are of 0.22.2.

Rule 1: it is Hermes's and may change or be half built: every name has a default, and a session of
which something is missing is none. Rule 2: what a person typed is neither taken, merged nor
overtaken: Hermes joins texts that wait (session_auto_continue.py:165), so a prompt of ours that was
queued behind a person's turn is taken back at once. Rule 3: a session is followed by its record:
its key changes when its history is compressed (session_compression.py:331). Rule 4: any thread may
call; a lock of Hermes is held for a look, never while Hermes is called.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from wakebus.plugin.hermes.host_api.protocol import CannotBegin, TuiSession, Unreachable

SessionRecord = dict[str, Any]

POLL_S: Final = 0.05
TAKE_S: Final = 5.0  # until an idle session has taken its prompt: a thread of Hermes starts
LOCK_S: Final = 2.0
PATIENCE_S: Final = 15.0  # until an interrupted turn is over
REFUSED: Final = "Hermes refused the turn (inject_message); its log says why"
CLOSED: Final = "its session was closed"
BUILDING: Final = "the session is still being opened"
ELSEWHERE: Final = "its turns run in another process of Hermes (turn_isolation)"
UNSEEN: Final = "nobody is connected to the session"
# Without these nobody could tell whose session it is, or whether a turn runs in it.
_NEEDED: Final = ("session_key", "history_lock", "agent", "running")
MUTED: Final = "Hermes's own settings keep it from being shown"


def live_sessions(server: Any, home: Path | None = None) -> list[tuple[str, SessionRecord]]:
    """
    Return the sessions of the profile of `home` by their id; None: of all profiles.

    Those that only watch another one's turn take no prompt (plugin_inject.py:49); those behind a
    room of bots are nobody's to see (hosted_room_server_rpc.py:62).
    """
    sessions = getattr(server, "_sessions", None)
    found = list(sessions.items()) if isinstance(sessions, dict) else []
    return [
        (id, one) for id, one in found if _is_live(one) and home in (None, _home_of(server, one))
    ]


def _is_live(session: Any) -> bool:
    if not isinstance(session, dict) or not all(name in session for name in _NEEDED):
        return False
    if session.get("room_plumbing") or session.get("source") == "bot_room":
        return False
    ended = session.get("_closing") or session.get("_finalized") or session.get("lazy")
    return not ended and bool(session["session_key"]) and session["history_lock"] is not None


def _home_of(server: Any, session: SessionRecord) -> Path:
    """A session that names none is of the profile that Hermes was started for (server.py:56)."""
    launched = getattr(server, "_hermes_home", None)
    return _resolved(str(session.get("profile_home") or launched or ""))


@lru_cache(64)  # asked for each session a few times a second
def _resolved(home: str) -> Path:
    return Path(home).resolve()


def away(server: Any, session: SessionRecord) -> str:
    """Return why a live session takes no turn now, or ""."""
    if session.get("_compute_host_active"):  # compute_host_bridge.py:26
        return ELSEWHERE
    if session.get("agent") is None:  # server.py:1138
        return str(session.get("agent_error") or BUILDING)
    return UNSEEN if _unwatched(server, session) else ""


def _unwatched(server: Any, session: SessionRecord) -> bool:
    """Whether its window has gone; soon after Hermes closes it (session_reaper.py:200)."""
    dead = getattr(server, "_transport_is_dead", None)
    try:
        return callable(dead) and bool(dead(session.get("transport")))
    except Exception:  # another Hermes
        return False


class PrivateTui:
    """See protocol.TuiApi. `home`: of the profile whose part it is, None for all."""

    def __init__(self, server: Any, inject: Callable[..., Any], home: Path | None = None) -> None:
        self._server, self._inject, self._home = server, inject, home
        self._lock = threading.Lock()
        self._names: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()

    def sessions(self) -> list[TuiSession]:
        """Return the live sessions, the one that was last active first."""
        found = live_sessions(self._server, self._home)
        found.sort(key=lambda one: -_number(one[1].get("last_active")))
        return [self._told(id, session) for id, session in found]

    def _told(self, id: str, session: SessionRecord) -> TuiSession:
        conversation = TuiConversation(self._server, self._inject, id, session)
        return TuiSession(
            str(session["session_key"]),
            self._names_of(session),
            away(self._server, session),
            not conversation.idle,
        )

    def _names_of(self, session: SessionRecord) -> tuple[str, ...]:
        """Return the key, what the agent calls it, and what it was called before."""
        # The record is a dict, which no weak map takes; its lock is made with it.
        mark = session["history_lock"]
        agent_id = getattr(session.get("agent"), "session_id", None)
        now = [str(one) for one in (session.get("session_key"), agent_id) if one]
        with self._lock:
            try:
                before = self._names.get(mark, ())
                self._names[mark] = names = tuple(dict.fromkeys([*now, *before]))
            except TypeError:
                return tuple(dict.fromkeys(now))
        return names

    def conversation(self, key: str) -> "TuiConversation":
        """Return the conversation that is, or was, called so; it may be `gone`."""
        for id, session in live_sessions(self._server, self._home):
            if key in self._names_of(session):
                return TuiConversation(self._server, self._inject, id, session)
        return TuiConversation(self._server, self._inject, "", {})

    def show(self, key: str, text: str) -> str:
        """Show a text as Hermes shows what a review found: a line in the transcript (:1060)."""
        emit = getattr(self._server, "_emit", None)
        for id, session in live_sessions(self._server, self._home):
            if key not in self._names_of(session):
                continue
            if _unwatched(self._server, session) or not callable(emit):
                return UNSEEN
            try:
                return "" if emit("review.summary", id, {"text": text}) else MUTED
            except Exception as exc:  # another Hermes
                return f"{type(exc).__name__}: {exc}"[:200]
        return CLOSED


class TuiConversation:
    """See protocol.ConversationApi. `id`: of the session among those of its server."""

    def __init__(
        self, server: Any, inject: Callable[..., Any], id: str, session: SessionRecord
    ) -> None:
        self._server, self._inject, self._id, self._session = server, inject, id, session

    @property
    def running(self) -> bool:
        """Whether a turn runs, a person's or ours, or its history is compressed."""
        return bool(self._session.get("running"))

    @property
    def idle(self) -> bool:
        """Whether a prompt would be taken at once: no turn, nothing queued, no question."""
        session = self._session
        return not (
            self.gone
            or away(self._server, session)
            or self.running
            or session.get("queued_prompt")
            or session.get("_auto_continue_scheduled")
            or self._asks()
        )

    def _asks(self) -> bool:
        """Whether a question waits for the person's answer (server.py:3040)."""
        pending = getattr(self._server, "_session_pending_kind", None)
        try:
            return callable(pending) and bool(pending(self._id))
        except Exception:  # another Hermes
            return False

    @property
    def leaving(self) -> bool:
        """Sessions end one by one: what is told of the process is told by its end."""
        return False

    @property
    def gone(self) -> str:
        """Why there is no such conversation here any more, or ""."""
        sessions = getattr(self._server, "_sessions", None)
        there = isinstance(sessions, dict) and sessions.get(self._id) is self._session
        return "" if there and _is_live(self._session) else CLOSED

    def enqueue(self, text: str) -> bool:
        """
        Hand over a prompt, and see that a turn of its own takes it.

        False: a person began a turn first; it was taken back. Raises CannotBegin, Unreachable.
        """
        if not self._inject(text, session_key=self._session.get("session_key")):
            if why := self.gone or away(self._server, self._session):
                raise Unreachable(why)
            raise CannotBegin(REFUSED)
        until = time.monotonic() + TAKE_S
        while self.is_queued(text):
            if self.running or self.gone or time.monotonic() > until:
                return not self.withdraw(text)
            time.sleep(POLL_S)
        return True

    def is_queued(self, text: str) -> bool:
        """Whether `text` still waits to be run, alone or joined with another one."""
        with self._locked():
            return any(text in _text_of(entry) for entry in self._queue())

    def withdraw(self, text: str) -> bool:
        """Take `text` back, and leave what a person wrote; False when it is there no more."""
        with self._locked():
            left, found = [], False
            for entry in self._queue():
                if text in (whole := _text_of(entry)):
                    found, rest = True, _without(whole, text)
                    entry = {**entry, "text": rest} if rest else None
                if entry is not None:
                    left.append(entry)
            if found:  # as session_auto_continue.py:215 writes it
                self._session["queued_prompt"] = left[0] if left else None
                self._session.pop("queued_prompts", None)
                if left[1:]:
                    self._session["queued_prompts"] = left[1:]
            return found

    def _queue(self) -> list[Any]:
        head, rest = self._session.get("queued_prompt"), self._session.get("queued_prompts")
        return [one for one in (head, *(rest or ())) if isinstance(one, Mapping)]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._session.get("history_lock")
        held = lock is not None and lock.acquire(timeout=LOCK_S)
        try:
            yield
        finally:
            if held and lock is not None:
                lock.release()

    def interrupt(self, over: Callable[[], bool]) -> None:
        """
        End the running turn as Ctrl-C does; return when it is `over`, or after PATIENCE_S.

        Not one into which a person wrote (session_history.py:413). The agent is told, not the
        server: that would drop what a person queued (session_lifecycle.py:711).
        """
        stop = getattr(self._session.get("agent"), "interrupt", None)
        turn = self._session.get("inflight_turn")
        written_into = isinstance(turn, Mapping) and turn.get("corrections")
        if written_into or not callable(stop):
            return
        until = time.monotonic() + PATIENCE_S
        asked = False
        while self.running and not over() and time.monotonic() < until:
            if not asked:
                asked = True
                stop()
            time.sleep(POLL_S)


def _text_of(entry: Mapping[str, Any]) -> str:
    text = entry.get("text")
    return text if isinstance(text, str) else ""


def _without(whole: str, text: str) -> str:
    """Return what was joined with `text`; the blank line between them is Hermes's."""
    before, _, after = whole.partition(text)
    return "\n\n".join(
        part for part in (before.removesuffix("\n\n"), after.removeprefix("\n\n")) if part
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
