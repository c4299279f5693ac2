"""
A Hermes gateway, as far as wakebus sees one: look-alikes of hermes-agent 0.19.0 on a real loop.

Each class names the source that it copies. `Town` holds them together: people write, an agent
answers, a platform takes posts or does not.
"""

import asyncio
import itertools
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fakes.broker import until
from wakebus.plugin.hermes.host_api.private_gateway import PrivateGateway
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker


class Platform(Enum):
    """gateway/config.py:272."""

    MATTERMOST = "mattermost"
    DINGTALK = "dingtalk"
    NTFY = "ntfy"


class MessageType(Enum):
    """gateway/platforms/base.py:1737."""

    TEXT = "text"


class ProcessingOutcome(Enum):
    """gateway/platforms/base.py:1750."""

    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


@dataclass
class SessionSource:
    """gateway/session.py:149."""

    platform: Platform
    chat_id: str
    chat_type: str = "dm"
    user_id: str | None = None
    thread_id: str | None = None
    message_id: str | None = None
    profile: str | None = None

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "SessionSource":
        """gateway/session.py:250."""
        return cls(**{**fields, "platform": Platform(fields["platform"])})


@dataclass
class MessageEvent:
    """gateway/platforms/base.py:1759."""

    text: str
    message_type: MessageType = MessageType.TEXT
    source: Any = None
    internal: bool = False


@dataclass
class SendResult:
    """gateway/platforms/base.py:1898; always true as an object."""

    success: bool
    message_id: str | None = None
    error: str | None = None
    retry_after: float | None = None
    error_kind: str | None = None


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
) -> str:
    """gateway/session.py:904, without WhatsApp and chats without ids."""
    parts = [f"agent:{profile or 'main'}", source.platform.value, source.chat_type, source.chat_id]
    if source.thread_id:
        parts.append(source.thread_id)
    alone = group_sessions_per_user and (not source.thread_id or thread_sessions_per_user)
    if source.chat_type != "dm" and alone and source.user_id:
        parts.append(source.user_id)
    return ":".join(parts)


class Store:
    """gateway/session.py:2473, 2487."""

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}

    def put(self, source: SessionSource) -> Any:
        """A turn was run as `source`: its session is the newest now (850)."""
        key = build_session_key(source, profile=source.profile)
        entry = self.entries.pop(key, None) or SimpleNamespace(
            session_key=key, session_id=f"id of {key}", origin=source
        )
        self.entries[key] = entry
        return entry

    def list_sessions(self) -> list[Any]:
        """The newest first."""
        return list(reversed(self.entries.values()))

    def lookup_by_session_id(self, session_id: str) -> Any:
        """By the id of a history."""
        return next((e for e in self.entries.values() if e.session_id == session_id), None)


Agent = Callable[[str], Awaitable[str]]


class Adapter:
    """
    gateway/platforms/base.py:2317: handle_message (4762), _process_message_background (4985).

    `sends`: what the platform says to the next sends, SendResults or exceptions; else success.
    """

    def __init__(self, runner: Any, platform: Platform) -> None:
        self.runner, self.platform = runner, platform
        self.config = SimpleNamespace(extra={})
        self._reply_mode = "thread"  # Mattermost's own (plugins/platforms/mattermost/adapter.py)
        self._active_sessions: dict[str, Any] = {}
        self._pending_messages: dict[str, Any] = {}
        self._session_tasks: dict[str, Any] = {}
        self.posts: list[tuple[str, str, Any]] = []
        self.sends: list[Any] = []
        self.types: dict[str, str] = {}
        self.recovery: Callable[[], None] = lambda: None
        self.handled = 0

    async def handle_message(self, event: MessageEvent) -> None:
        """Begin a turn, or queue behind the one that runs; merged as merge_pending_… (2126)."""
        self.handled += 1
        await asyncio.to_thread(self.recovery)
        key = build_session_key(event.source)
        if key in self._active_sessions:
            if key in self._pending_messages:
                self._pending_messages[key].text += f"\n{event.text}"
            else:
                self._pending_messages[key] = event
            if not event.internal:
                self.runner.interrupt(key)
            return
        self.start(event, key)

    def start(self, event: MessageEvent, key: str) -> None:
        """_start_session_processing (4584)."""
        self._active_sessions[key] = asyncio.Event()
        self._session_tasks[key] = asyncio.ensure_future(self._process(event, key))

    async def _process(self, event: MessageEvent, key: str) -> None:
        outcome = ProcessingOutcome.SUCCESS
        try:
            response = await self.runner.handle(event)
            if response:
                result = await self.send(event.source.chat_id, response)
                if not (result and result.success):
                    outcome = ProcessingOutcome.FAILURE
            await self.on_processing_complete(event, outcome)
        except Exception:  # 5476: told to the hook, and to the person
            await self.on_processing_complete(event, ProcessingOutcome.FAILURE)
        finally:
            follow_up = self._pending_messages.pop(key, None)
            del self._active_sessions[key]
            if follow_up is not None:
                self.start(follow_up, key)

    async def on_processing_complete(self, event: Any, outcome: Any) -> None:
        """The hook for subclasses (4167)."""

    async def send(
        self, chat_id: str, content: str, reply_to: Any = None, metadata: Any = None
    ) -> Any:
        """Post; 3009."""
        said = self.sends.pop(0) if self.sends else SendResult(True, f"p{len(self.posts)}")
        if isinstance(said, Exception):
            raise said
        if callable(said):
            said = await said()
        if said and said.success:
            self.posts.append((chat_id, content, metadata))
        return said

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        """5762."""
        return {"name": chat_id, "type": self.types.get(chat_id, "channel")}


@dataclass
class Runner:
    """gateway/run.py:3072: what wakebus looks at. `agent`: what a turn says to a text."""

    tracker: TurnTracker
    loop: Any
    allowed: set[str] = field(default_factory=set)
    agent: Agent | None = None

    def __post_init__(self) -> None:
        self._gateway_loop = self.loop
        self._running, self._draining = True, False
        self._running_agents: dict[str, Any] = {}
        self._update_prompt_pending: dict[str, bool] = {}
        self._profile_adapters: dict[str, dict[Platform, Adapter]] = {}
        self.session_store = Store()
        self.adapters = {p: Adapter(self, p) for p in (Platform.MATTERMOST, Platform.DINGTALK)}
        platforms = {p: SimpleNamespace(enabled=True, home_channel=None) for p in self.adapters}
        self.config = SimpleNamespace(
            platforms=platforms, get_home_channel=lambda p: platforms[p].home_channel
        )
        self.turns: list[str] = []
        self.history: list[str] = []  # what was answered, as it is stored
        self.ends: dict[str, Any] = {}  # what on_session_end tells more of a turn, since 0.20
        self.interrupted: list[str] = []
        self.stopped: list[tuple[str, str | None]] = []
        self.host: Any = None  # the GatewayHost, to which hooks.py passes on what they tell
        self._ids = itertools.count(1)
        self._asked: dict[str, asyncio.Event] = {}

    def _adapter_for_source(self, source: SessionSource) -> Any:
        """authz_mixin.py:76."""
        if source.profile:
            return self._profile_adapters.get(source.profile, {}).get(source.platform)
        return self.adapters.get(source.platform)

    def _is_user_authorized(self, source: SessionSource) -> bool:
        """authz_mixin.py:250: by the allow-list."""
        return source.user_id in self.allowed

    def _session_key_for_source(self, source: SessionSource) -> str:
        """3830."""
        return build_session_key(source, profile=source.profile)

    def interrupt(self, key: str) -> None:
        """A person writes in the middle (busy_input_mode: interrupt)."""
        self.interrupted.append(key)
        if key in self._asked:
            self._asked[key].set()

    steered = False  # what hooks.py finds in the turn's history

    async def handle(self, event: MessageEvent) -> str:
        """_handle_message and the turn's hooks, as hooks.py passes them on."""
        if not event.internal and not self._is_user_authorized(event.source):
            return ""
        entry = self.session_store.put(event.source)
        key, id, turn = entry.session_key, entry.session_id, f"turn{next(self._ids)}"
        self.turns.append(event.text)
        self._running_agents[key], self._asked[key] = RunningAgent(self, key), asyncio.Event()
        try:
            self._begun(event.text, id, turn)
            return await self._answer(event.text, key, id, turn)
        finally:
            del self._running_agents[key]

    def _begun(self, text: str, id: str, turn: str) -> None:
        if self.host is not None:
            self.host.on_turn_begin(id)
        self.tracker.on_begin(text, session_id=id, task_id=turn, turn_id=turn)

    async def _answer(self, text: str, key: str, id: str, turn: str) -> str:
        assert self.agent is not None
        work = asyncio.ensure_future(self.agent(text))
        stop = asyncio.ensure_future(self._asked[key].wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not work.done():
            work.cancel()
            self.tracker.on_end(turn_id=turn, completed=False, interrupted=True)
            return ""
        answer = work.result()
        self.history.append(answer)
        self.tracker.on_answer(answer, turn_id=turn, steered=self.steered)
        if self.host is not None:
            self.host.on_answer(answer, id)
        self.tracker.on_end(turn_id=turn, completed=True, interrupted=False, **self.ends)
        result = {"session_id": id, "final_response": answer, **self.ends}
        filters = sys.modules["gateway.response_filters"]  # as run.py:12976
        return "" if filters.is_intentional_silence_agent_result(result, answer) else answer


class RunningAgent:
    """run_agent.py:2788: what wakebus asks of the agent of a turn that runs."""

    def __init__(self, runner: Runner, key: str) -> None:
        self._runner, self._key, self._interrupt_requested = runner, key, False

    def interrupt(self, message: str | None = None) -> None:
        self._runner.stopped.append((self._key, message))
        self._runner._asked[self._key].set()

    def clear_interrupt(self) -> None:
        self._interrupt_requested = False


def is_intentional_silence_response(response: Any) -> bool:
    """gateway/response_filters.py:56."""
    return str(response).strip().upper() in ("NO_REPLY", "[SILENT]")


def is_intentional_silence_agent_result(agent_result: Any, response: Any) -> bool:
    """gateway/response_filters.py:75."""
    return not agent_result.get("failed") and is_intentional_silence_response(response)


SESSION: ContextVar[dict[str, str] | None] = ContextVar("SESSION", default=None)


def modules(monkeypatch: pytest.MonkeyPatch, **confirming: Any) -> None:
    """Load what a live gateway has loaded."""
    here = sys.modules[__name__]

    def get_session_env(name: str, default: str = "") -> str:
        return (SESSION.get() or {}).get(name.removeprefix("HERMES_SESSION_"), default)

    for name, parts in {
        "gateway.session": vars(here),
        "gateway.platforms.base": vars(here),
        "gateway.session_context": {"get_session_env": get_session_env},
        "gateway": {},
        "gateway.response_filters": {
            one.__name__: one
            for one in (is_intentional_silence_response, is_intentional_silence_agent_result)
        },
    }.items():
        module = ModuleType(name)
        module.__dict__.update(
            {k: v for k, v in parts.items() if not k.startswith("__")},
        )
        monkeypatch.setitem(sys.modules, name, module)


class Town:
    """A gateway with people: `say`, `runner`, `hermes`, `adapter` (Mattermost's), `tracker`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.tracker = loop, TurnTracker()
        self.runner = Runner(self.tracker, loop, {"u1", "u2"}, agent=self._agent)
        self.hermes = PrivateGateway(self.runner)
        self.adapter = self.runner.adapters[Platform.MATTERMOST]
        self.held = threading.Event()
        self.held.set()

    def is_unseen(self, session_id: str) -> bool:
        """Every chat sees what is answered."""
        return False

    async def _agent(self, text: str) -> str:
        while "HOLD" in text and not self.held.is_set():
            await asyncio.sleep(0.005)
        return "NO_REPLY" if "SILENT" in text else f"answer to {text[-30:]}"

    def say(self, text: str, source: SessionSource) -> None:
        """A person writes; what is heard of it (pre_gateway_dispatch) is not told."""
        adapter = self.runner._adapter_for_source(source)
        event = MessageEvent(text, source=source)
        asyncio.run_coroutine_threadsafe(adapter.handle_message(event), self.loop).result(30)

    def ask(self, text: str, source: SessionSource) -> None:
        """A person writes, and has the answer when this returns."""
        before = len(self.adapter.posts)
        self.say(text, source)
        until(lambda: len(self.adapter.posts) > before and not self.adapter._active_sessions)


@contextmanager
def town() -> Iterator[Town]:
    """A town whose loop runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gateway loop")
    thread.start()
    found = Town(loop)
    found.hermes.withhold(found.is_unseen)
    try:
        yield found
    finally:
        found.held.set()
        until(lambda: not any(a._active_sessions for a in found.runner.adapters.values()))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def dm(chat: str = "dm1", user: str = "u1", **fields: Any) -> SessionSource:
    """A person's direct chat."""
    return SessionSource(Platform.MATTERMOST, chat, "dm", user, **fields)


def group(chat: str = "grp1", user: str = "u1", **fields: Any) -> SessionSource:
    """A person in a group."""
    return SessionSource(Platform.MATTERMOST, chat, "channel", user, **fields)
