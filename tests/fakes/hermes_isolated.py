"""
Hermes with `plugins.isolation: host`, as a plugin sees it: look-alikes of 0.22.2, each named by its
original (hermes_cli/plugin_host_child.py, gateway/run_plugin_injection.py).
"""

import itertools
import json
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wakebus.plugin.hermes.isolated.isolated_gateway import IsolatedGateway
from wakebus.plugin.hermes.isolated.process import IsolatedProcess
from wakebus.plugin.hermes.isolated.stored_sessions import StoredSessions
from wakebus.plugin.hermes.isolated_hooks import IsolatedHooks
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker

PARENT = 4242


class IsolatedCtx:
    """RemotePluginContext: what is registered goes over the pipe; no name with an underscore."""

    def __init__(self) -> None:
        self.profile_name, self.plugin_id = "default", "wakebus"
        self.tools: list[str] = []
        self.hooks: dict[str, list[Callable[..., Any]]] = {}
        self.commands: dict[str, Callable[[str], Any]] = {}
        self.skills: dict[str, str] = {}
        self.unloads: list[Callable[[], Any]] = []

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def register_tool(self, name: str, *args: Any, **more: Any) -> None:
        """Keep it."""
        self.tools.append(name)

    def register_hook(self, name: str, callback: Callable[..., Any]) -> None:
        """Append it."""
        self.hooks.setdefault(name, []).append(callback)

    def register_command(self, name: str, handler: Any, **more: Any) -> None:
        """Keep it."""
        self.commands[name] = handler

    def register_skill(self, name: str, path: Any, description: str = "") -> None:
        """A path arrives as a text (plugin_host_wire.py, `encode`)."""
        self.skills[name] = str(path)

    def on_unload(self, callback: Callable[[], Any]) -> None:
        """Keep it."""
        self.unloads.append(callback)

    def inject_message(self, *args: Any, **more: Any) -> bool:
        """Its signature says nothing: the call goes over the pipe as it is."""
        return False


def source(user: str = "u1", chat: str = "dm1", **more: Any) -> dict[str, Any]:
    """Return a SessionSource as `to_dict` gives it."""
    return {"platform": "mattermost", "chat_id": chat, "chat_type": "dm", "user_id": user, **more}


class SessionDB:
    """hermes_state.SessionDB: rows, the newest last."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def list_gateway_sessions(self, active_only: bool = True) -> list[dict[str, Any]]:
        """hermes_state_gateway.py:422."""
        return [] if active_only else list(reversed(self._rows))

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """hermes_state_sessions.py:895."""
        return next((row for row in self._rows if row["id"] == session_id), None)

    def close(self) -> None:
        """It is read-only."""


class IsolatedTown:
    """
    A gateway on the other side of the pipe, whose agent answers `answer to TEXT`.

    `denied`: session keys whose turns Hermes drops without a word. `hold`: turns wait for `go`.
    `untold`: no end of a turn is told.
    """

    def __init__(self, home: Path) -> None:
        self.process = IsolatedProcess(home, PARENT, lambda _: {"pid": PARENT})
        self.tracker, self.rows, self.runner = TurnTracker(), list[dict[str, Any]](), self
        self.sessions = StoredSessions(home, lambda _: SessionDB(self.rows))
        self.hooks = IsolatedHooks(self.process)
        self.host: Any = None
        self.denied, self.says, self.untold = set[str](), True, False
        self.turns: list[str] = []
        self.posts: list[str] = []
        self.go = threading.Event()
        self.go.set()
        self._ids, self._queues = itertools.count(1), dict[str, queue.Queue[str]]()
        (home / "gateway.sock").touch()
        (home / "state.db").touch()
        self.write_state()
        assert self.process.of_gateway()

    def gateway(self, **more: Any) -> IsolatedGateway:
        """Return what wakebus makes of it."""
        return IsolatedGateway(self.process, self.inject, self.sessions, **more)

    def write_state(self, said: str = "running", **more: Any) -> None:
        """gateway/status.py: what the gateway writes of itself."""
        platforms = {"mattermost": {"state": "connected"}, "ntfy": {"state": "retrying"}}
        facts = {"pid": PARENT, "gateway_state": said, "platforms": platforms, **more}
        (self.process.home / "gateway_state.json").write_text(json.dumps(facts))

    def admit(self, fields: Mapping[str, Any] | None = None) -> str:
        """A person's message is let in; return the key of their session."""
        who = dict(fields or source())
        alone = () if who["chat_type"] == "dm" else (who["user_id"],)
        parts = ("agent:main", who["platform"], who["chat_type"], who["chat_id"], *alone)
        key = ":".join(str(part) for part in parts)
        self.rows = [row for row in self.rows if row["session_key"] != key]
        row = {"id": f"id of {key}", "session_key": key, "source": who["platform"]}
        self.rows.append({**row, "origin_json": json.dumps(who)})
        self.hooks.post_gateway_admission(session_key=key, source=who, platform=who["platform"])
        if self.host is not None:
            self.host.on_admitted(key, who)
        return key

    def inject(self, content: str, role: str = "user", **more: Any) -> Any:
        """`inject_message`: True before anything happened."""
        if self.says is True:
            self.queue(content, more["session_key"])
        return self.says

    def queue(self, text: str, key: str) -> None:
        """Begin a turn, after what runs there; or drop it."""
        if key in self.denied:
            return
        if key not in self._queues:
            self._queues[key] = queue.Queue()
            threading.Thread(target=self._run, args=(key,), daemon=True).start()
        self._queues[key].put(text)

    def _run(self, key: str) -> None:
        while True:
            self._turn(self._queues[key].get(), key)

    def _turn(self, text: str, key: str) -> None:
        turn, id = f"turn{next(self._ids)}", f"id of {key}"
        facts = {"session_id": id, "turn_id": turn}
        self.hooks.pre_llm_call(**facts, platform="mattermost")
        self.tracker.on_begin(text, task_id=turn, **facts)
        self.turns.append(text)
        self.go.wait(30)
        answer = f"answer to {text}"
        self.tracker.on_answer(answer, turn_id=turn)
        if not self.untold:
            self.tracker.on_end(turn_id=turn, completed=True, interrupted=False)
            self.hooks.on_session_end(**facts, completed=True)
        self.posts.append(answer)
