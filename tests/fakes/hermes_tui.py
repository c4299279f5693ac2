"""
The server of the Ink TUI and the desktop, as wakebus meets it: look-alikes of hermes-agent 0.22.2,
each named by the file of tui_gateway that it copies.
"""

import threading
import time
from typing import Any

from fakes.broker import until
from fakes.hermes_cli import Agent, Fire, Untold

DEAD = object()  # session_reaper.py:200, the sentinel of a client that has gone


class TuiServer:
    """server.py: `prompts` are the texts that became turns, (session id, text), in order."""

    def __init__(self, fire: Fire) -> None:
        self._fire, self._hermes_home = fire, "/homes/own"  # server.py:56
        self._sessions: dict[str, dict[str, Any]] = {}
        self.prompts: list[tuple[str, str]] = []
        self.shown: list[tuple[str, str]] = []
        self.asks: set[str] = set()
        self.granted, self.muted, self.retiring = True, False, False

    def open(self, key: str, **fields: Any) -> str:
        """session.create (methods_session.py:421), when its agent is built."""
        id = f"ui-{key}"
        self._sessions[id] = {
            "session_key": key,
            "agent": Agent(self._fire, key),
            "history_lock": threading.Lock(),
            "running": False,
            "queued_prompt": None,
            "last_active": time.time(),
            "transport": object(),
            "profile_home": None,
            **fields,
        }
        return id

    def agent(self, id: str) -> Agent:
        """The agent of a session."""
        found: Agent = self._sessions[id]["agent"]
        return found

    def close(self, id: str) -> None:
        """session.close (session_lifecycle.py:652): a turn that runs is interrupted."""
        session = self._sessions.pop(id)
        session["_closing"] = True
        session["agent"].interrupt()

    def end(self) -> None:
        """The process ends."""
        for id in list(self._sessions):
            self.agent(id).go.set()
            self.close(id)

    def compress(self, id: str, key: str) -> None:
        """session_compression.py:331: the history goes on under another key."""
        self._sessions[id]["session_key"] = key
        self.agent(id).session_id = key

    def person(self, id: str, text: str) -> None:
        """prompt.submit in `/busy queue`: a turn, or it waits for the next one."""
        session = self._sessions[id]
        with session["history_lock"]:
            if session["running"]:
                self._enqueue(session, text)
                return
            session["running"] = True
        self._run(id, session, text)

    def inject(self, content: str, role: str = "user", *, session_key: str | None = None) -> bool:
        """ctx.inject_message (plugin_inject.py:24)."""
        found = [(i, s) for i, s in self._sessions.items() if s["session_key"] == session_key]
        if not found or not self.granted:
            return False
        id, session = found[0]
        with session["history_lock"]:
            running = session["running"]
            self._enqueue(session, content)
        if not running and not self.retiring:
            threading.Thread(target=self._drain, args=[id, session], daemon=True).start()
        return True

    def _enqueue(self, session: dict[str, Any], text: str) -> None:
        """session_auto_continue.py:147: texts that wait are joined."""
        if waiting := session["queued_prompt"]:
            waiting["text"] += f"\n\n{text}"
        else:
            session["queued_prompt"] = {"text": text, "transport": None}

    def _drain(self, id: str, session: dict[str, Any]) -> None:
        """session_auto_continue.py:457."""
        with session["history_lock"]:
            waiting = session["queued_prompt"]
            if not waiting or session["running"] or session.get("_closing"):
                return
            session["queued_prompt"], session["running"] = None, True
        self._run(id, session, waiting["text"])

    def _run(self, id: str, session: dict[str, Any], text: str) -> None:
        """prompt_turn.py:1117, on a thread of its own."""

        def run() -> None:
            try:
                if "REFUSED" not in text:  # prompt_turn.py:115: another owner, no word to plugins
                    self.prompts.append((id, text))
                    session["agent"].turn(text, platform="tui")
            except Untold:
                pass
            finally:
                with session["history_lock"]:
                    session["running"] = False
                    session["last_active"] = time.time()
                self._drain(id, session)

        threading.Thread(target=run, daemon=True).start()

    def rested(self, id: str) -> None:
        """Wait until no turn runs in a session."""
        until(lambda: not self._sessions[id]["running"], 30)

    def _session_pending_kind(self, id: str) -> str:  # server.py:3041
        return "approval" if id in self.asks else ""

    def _transport_is_dead(self, transport: object) -> bool:  # session_reaper.py:200
        return transport is DEAD

    def _emit(self, event: str, id: str, payload: dict[str, Any]) -> bool:  # server.py:709
        assert event == "review.summary" and set(payload) == {"text"}
        if self.muted:
            return False
        self.shown.append((id, payload["text"]))
        return True
