"""
What Hermes's plugin hooks tell and are told (HERMES.md section 4).

Rule 1: keyword arguments only, any of them may be missing; nothing is raised; nothing waits for the
broker. Rule 2: Hermes's own forks are no turns: a review in the background has the session of the
turn that it reviews (run_agent.py:1668 of hermes-agent 0.19.0), and would eat what waits for it.
Rule 3: registered again, the hooks are there again and know what they knew.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final
from weakref import WeakKeyDictionary

from wakebus.plugin.hermes.host_api.loaded_functions import context_limit, has_hook
from wakebus.plugin.hermes.isolated.isolation import is_isolated
from wakebus.plugin.hermes.runtime import Runtime, all_runtimes
from wakebus.plugin.hermes.shared.context_injection import ContextInjection
from wakebus.plugin.hermes.shared.host_calls import ask_host
from wakebus.plugin.hermes.shared.turn_tracker import TrackedTurn

log = logging.getLogger("wakebus")

REVIEW: Final = "bg-review"  # a thread's name
# platform= of agents that no person talks to: tools/delegate_tool.py:1382, cron/scheduler.py:3368,
# agent/curator.py:1931.
FORKS: Final = frozenset({"subagent", "cron", "curator"})
STEER: Final = "[OUT-OF-BAND USER MESSAGE"
REDIRECT: Final = "[Context from the interrupted assistant response]"
NEWER: Final = ("post_gateway_admission", "agent_loop_stopped")  # since 0.20
MAX_SESSIONS: Final = 1000  # that know their source
# Where Hermes lists tools only for a search (`tools.tool_search`), this is how a model comes to
# know ours. `tool_call` takes these two fields in both generations, in 0.22 in `calls`, too.
HOW_TO_SEND: Final = (
    "To message another agent: bus_send(target, type, text). If it is not in your tool list: "
    'tool_call with name "bus_send" and these as arguments.'
)
_TITLES: Final = {"cli": "CLI", "dingtalk": "DingTalk", "wecom": "WeCom", "whatsapp": "WhatsApp"}

Hook = Callable[..., Any]


class HookState:
    """What the hooks know: which sessions know their source, what stands in front of turns."""

    def __init__(self) -> None:
        self.injection = ContextInjection()
        self._lock = threading.Lock()
        self._sources: OrderedDict[str, tuple[str, str]] = OrderedDict()  # line, turn or "" if seen

    def unseen_source(self, session_id: str, turn_id: str, line: str) -> str:
        """Return `line` for this turn if no turn of the session has shown it yet, else ""."""
        with self._lock:
            if not line or self._sources.get(session_id) == (line, ""):
                return ""
            self._sources[session_id] = (line, turn_id)
            self._sources.move_to_end(session_id)
            if len(self._sources) > MAX_SESSIONS:
                self._sources.popitem(last=False)
        return line

    def end_turn(
        self, session_id: str, turn_id: str, *, completed: bool, interrupted: bool
    ) -> None:
        """A turn is over; only one that is completed has surely shown what it was told."""
        with self._lock:
            line, turn = self._sources.get(session_id, ("", ""))
            if completed and turn and turn == turn_id:
                self._sources[session_id] = (line, "")
        self.injection.end_turn(turn_id, seen=None if interrupted and not completed else completed)

    def end_session(self, session_id: str) -> None:
        """The session has ended."""
        with self._lock:
            self._sources.pop(session_id, None)
        self.injection.end_session(session_id)


_made = threading.Lock()
_states: "WeakKeyDictionary[Any, HookState]" = WeakKeyDictionary()


def _state_of(runtime: Any) -> HookState:
    with _made:
        return _states.setdefault(runtime, HookState())


def _never_raises(hook: Hook) -> Hook:
    @wraps(hook)
    def call(self: "Hooks", **kw: Any) -> Any:
        try:
            if threading.current_thread().name == REVIEW or kw.get("platform") in FORKS:
                return None
            return hook(self, **kw)
        except Exception as exc:
            log.warning("hook %s: %s: %s", hook.__name__, type(exc).__name__, exc)
            return None

    return call


class Hooks:
    """The callbacks of one process's Runtime. Made again, it goes on where the last one was."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._state = _state_of(runtime)

    def register(self, ctx: Any) -> None:
        """Register all callbacks (hermes_cli/plugins.py:1158)."""
        for name in (
            "pre_gateway_dispatch",
            "pre_llm_call",
            "post_llm_call",
            "api_request_error",
            "on_session_end",
            "on_session_finalize",
            "on_session_reset",
            *(name for name in NEWER if is_isolated() or has_hook(name)),
        ):
            ctx.register_hook(name, getattr(self, name))

    @_never_raises
    def pre_gateway_dispatch(self, event: Any = None, **_: Any) -> None:
        """
        A person's message arrives; Hermes does with it what it would do without us.

        It asks the profile whose bot heard it, and may run the turn in another (`profile_routes`,
        gateway/session_identity.py:222 of 0.22.2): each host knows what is its own.
        """
        for one in {self._runtime, *all_runtimes()}:
            ask_host(one.host, "on_message", event)

    @_never_raises
    def post_gateway_admission(self, session_key: str = "", source: Any = None, **_: Any) -> None:
        """Hermes lets it in: whoever wrote it may talk to the agent, in that session."""
        for one in {self._runtime, *all_runtimes()} if isinstance(source, Mapping) else ():
            ask_host(one.host, "on_admitted", session_key, source)

    @_never_raises
    def agent_loop_stopped(self, session_key: str = "", reason: Any = "", **_: Any) -> None:
        """A person has ended the turn that ran (`/stop`, `/new`)."""
        for one in {self._runtime, *all_runtimes()}:
            one.tracker.on_stopped((session_key,), f"a stop ({reason or 'no reason given'})")

    @_never_raises
    def pre_llm_call(
        self,
        session_id: str = "",
        task_id: str = "",
        turn_id: str = "",
        user_message: Any = "",
        conversation_history: Any = (),
        **_: Any,
    ) -> dict[str, str] | None:
        """A turn begins: is it ours, does anything wait for it, does it know where it is?"""
        self._end_untold(session_id, turn_id)
        ask_host(self._runtime.host, "on_turn_begin", session_id)
        begun = self._runtime.tracker.on_begin(
            message_text(user_message), session_id=session_id, task_id=task_id, turn_id=turn_id
        )
        if not begun:
            ask_host(self._runtime.host, "on_other_turn", session_id)
        self._tell_late(begun)
        names = self._names(session_id)
        if joined(conversation_history) or (not names and not begun):
            return None
        where = self._source(session_id, names)
        source = self._state.unseen_source(
            session_id, turn_id, f"{where}\n{HOW_TO_SEND}" if where else ""
        )
        waiting = "" if begun else self._waiting(names, session_id, turn_id, len(source) + 2)
        text = "\n\n".join(part for part in (source, waiting) if part)
        return {"context": text} if text else None

    @_never_raises
    def post_llm_call(
        self,
        session_id: str = "",
        turn_id: str = "",
        assistant_response: Any = "",
        conversation_history: Any = (),
        **_: Any,
    ) -> None:
        """The model has answered."""
        text, mixed = str(assistant_response or ""), steered(conversation_history)
        self._runtime.tracker.on_answer(text, turn_id=turn_id, steered=mixed)
        ask_host(self._runtime.host, "on_answer", text, session_id)

    @_never_raises
    def api_request_error(self, turn_id: str = "", error: Any = None, **_: Any) -> None:
        """The model's API has failed; Hermes may try again (run_agent.py:2587)."""
        said = error.get("message") if isinstance(error, Mapping) else error
        self._runtime.tracker.on_trouble(str(said or "no reason given"), turn_id=turn_id)

    @_never_raises
    def on_session_end(
        self,
        session_id: str = "",
        turn_id: str = "",
        completed: bool = False,
        interrupted: bool = False,
        failed: bool = False,
        turn_exit_reason: Any = "",
        **_: Any,
    ) -> None:
        """A turn is over (in spite of the hook's name: agent/turn_finalizer.py:615)."""
        how = {"completed": bool(completed), "interrupted": bool(interrupted)}
        reason = str(turn_exit_reason or "")
        self._runtime.tracker.on_end(
            turn_id=turn_id, failed=bool(failed), exit_reason=reason, **how
        )
        self._state.end_turn(session_id, turn_id, **how)

    @_never_raises
    def on_session_finalize(self, session_id: str = "", **_: Any) -> None:
        """A session is over."""
        self._state.end_session(session_id)

    @_never_raises
    def on_session_reset(self, session_id: str = "", old_session_id: str = "", **_: Any) -> None:
        """A new session takes a session's place (`/new`)."""
        self._runtime.tracker.on_stopped(self._names(session_id), "a reset of its session")
        for ended in (session_id, old_session_id):
            self._state.end_session(ended)

    # --- what a turn is told ----------------------------------------------------------------

    def _end_untold(self, session_id: str, turn_id: str) -> None:
        """A session has one turn at a time: an older one is over, though Hermes has not said so."""
        tracker = self._runtime.tracker
        while (old := tracker.running(session_id=session_id)) and old.turn_id != turn_id:
            tracker.on_end(turn_id=old.turn_id, completed=False, interrupted=False)
        self._state.injection.end_session(session_id, turn_id)

    def _tell_late(self, begun: Iterable[TrackedTurn]) -> None:
        """Who sent it has been told of a doubt, and nobody waits for its end any more."""
        for turn in begun:
            if turn.doubt:
                ids = ", ".join(job.delivery.message.id for job in turn.order.jobs)
                told = f"{ids}: told as uncertain, its turn has begun after all"
                self._runtime.tell_failure(told)

    def _names(self, session_id: str) -> tuple[str, ...]:
        host = self._runtime.host
        return tuple(host.names(session_id)) if host is not None and session_id else ()

    def _waiting(self, names: tuple[str, ...], session_id: str, turn_id: str, taken: int) -> str:
        context = self._runtime.context
        if context is None or not names or not turn_id:
            return ""
        limit = context_limit() - taken
        return self._state.injection.begin_turn(context, names, session_id, turn_id, limit)

    def _source(self, session_id: str, names: tuple[str, ...]) -> str:
        """Return where this conversation is on the bus; "" before it is."""
        runtime = self._runtime
        if not runtime.endpoint:
            return ""
        if runtime.mode == "cli":
            return f"**Source:** CLI (endpoint: {runtime.endpoint})"
        if runtime.mode == "tui":
            session = f", session: {names[0]}" if names else ""
            return f"**Source:** TUI (endpoint: {runtime.endpoint}{session})"
        channel = str(runtime.host.channel(session_id) or "")
        platform = channel.partition(":")[0]
        if not platform:
            return f"**Source:** Gateway (endpoint: {runtime.endpoint})"
        title = _TITLES.get(platform, platform.capitalize())
        return f"**Source:** {title} (endpoint: {runtime.endpoint}, channel: {channel})"


def joined(history: Any) -> bool:
    """
    Whether Hermes will join this turn's message with the one before, which had no answer. It then
    drops what hooks gave (agent/agent_runtime_helpers.py:645): it has to wait for the next turn.
    """
    last = history[-2:] if isinstance(history, list) else []
    return [one.get("role") for one in last if isinstance(one, dict)] == ["user", "user"]


def steered(history: Any) -> bool:
    """
    Whether a person's words were put into the turn that ends: Hermes appends them to a tool's
    result (agent/prompt_builder.py:631), newer ones to what was answered so far
    (agent/conversation_loop.py:322 of 0.22.2).
    """
    for one in reversed(history if isinstance(history, list) else []):
        if not isinstance(one, dict):
            return False
        if one.get("role") == "user":
            return str(one.get("api_content") or "").startswith(REDIRECT)
        if one.get("role") == "tool" and STEER in message_text(one.get("content")):
            return True
    return False


def message_text(message: Any) -> str:
    """Return the text of a user message, which with a picture is a list of parts."""
    if isinstance(message, str):
        return message
    if not isinstance(message, list):
        return ""
    texts = (part.get("text") for part in message if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
