"""
A gateway by looking inside its GatewayRunner: hermes-agent 0.19.0; a profile's part of a newer one.

Rule 1: every private name is looked up with a default: it may be missing, half built, or of another
Hermes. Rule 2: nothing of Hermes is imported; a module that it has not loaded is not there. Rule 3:
only looks, but for `begin`, `listen`, `send`; what `begin` queued behind a person is taken back at
once. Rule 4: an adapter is listened to once.
"""

import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from wakebus.adapters.channel import Channel
from wakebus.plugin.hermes.host_api.adapter_limits import (
    TextLimit,
    exact_metadata,
    misdirection,
    posts_apart,
    text_limit,
)
from wakebus.plugin.hermes.host_api.heard_log import hearing
from wakebus.plugin.hermes.host_api.loop_calls import call_on_loop
from wakebus.plugin.hermes.host_api.profile_part import ProfilePart, profile_of_key
from wakebus.plugin.hermes.host_api.protocol import (
    CHAT_TYPES,
    CannotBegin,
    StoredSession,
    Unreachable,
)

T = TypeVar("T")

ASK_S: Final = 10.0  # for a platform to say what kind of chat it is
HAND_OVER_S: Final = 30.0  # for a loop that is slow; handle_message itself takes milliseconds
PATIENCE_S: Final = 15.0  # until an interrupted turn is over
POLL_S: Final = 0.05
# A word of Hermes's own, which it puts into no next turn (gateway/run.py:2369, 21707).
STOP: Final = "Stop requested"
CONFIRM_S: Final = 300.0  # tools/slash_confirm.py:48: later a confirmation no longer counts
# Of 0.20 and later (gateway/authz_mixin.py:285 of 0.22.2), and of 0.19 (authz_mixin.py:76).
_ADAPTER_OF_SOURCE: Final = ("_delivery_adapter_for", "_adapter_for_source")
# Of 0.20 and later, in the scope of the profile whose bot it is (gateway/run.py:4020 of 0.22.2).
_MAY_TALK: Final = ("_is_user_authorized_for_source", "_is_user_authorized")
CAME_BETWEEN: Final = "a person's turn came in between"
_LISTENERS: Final = "wakebus_listeners"  # by profile


class PrivateGateway:
    """See protocol.GatewayApi. `runner`: the live GatewayRunner; `part`: what of it is ours."""

    def __init__(self, runner: Any, part: ProfilePart | None = None) -> None:
        self._runner, self._part = runner, part or ProfilePart(runner)

    # --- who is where ---------------------------------------------------------------------

    def platforms(self) -> tuple[str, ...]:
        """Return the names of this gateway's platforms, enabled or connected."""
        return tuple(self._part.platforms())

    def all_platforms(self) -> tuple[str, ...]:
        """Return the names of the platforms of every profile of this gateway."""
        return (*self._part.platforms(), *ProfilePart(self._runner).platforms())

    def has_sessions(self) -> bool:
        """Return whether the store is there yet."""
        return getattr(self._runner, "session_store", None) is not None

    def sessions(self) -> list[StoredSession]:
        """Return the stored sessions that have a source, newest first (gateway/session.py:2473)."""
        listed = getattr(getattr(self._runner, "session_store", None), "list_sessions", None)
        found = [self._stored(entry) for entry in (listed() if callable(listed) else [])]
        return [stored for stored in found if stored is not None]

    def _stored(self, entry: Any) -> StoredSession | None:
        key = str(getattr(entry, "session_key", None) or "")
        if getattr(entry, "origin", None) is None or not self._part.owns(key):
            return None
        return StoredSession(key, self._part.stored_source(entry))

    def session_of(self, session_id: str) -> StoredSession | None:
        """Return the session whose history has this id now (gateway/session.py:2487)."""
        store = getattr(self._runner, "session_store", None)
        find = getattr(store, "lookup_by_session_id", None)
        return self._stored(find(session_id)) if callable(find) and session_id else None

    def key_of(self, source: Any) -> str:
        """Return the session key that Hermes gives a source (gateway/run.py:3830), or ""."""
        make = getattr(self._runner, "_session_key_for_source", None)
        try:
            return str(make(source)) if callable(make) else ""
        except Exception:
            return ""

    def is_ours(self, source: Any) -> bool:
        """Return whether what is said there is for this profile."""
        return self._part.owns(self.key_of(source)) if self._part.name else True

    def profile_of(self, key: str) -> str:
        """Return the profile that a session key is of, "" where it is ours or says none."""
        return "" if self._part.owns(key) else profile_of_key(key)

    def may_talk(self, source: Any) -> bool:
        """Return whether this person may talk to the agent now, as the bot that heard them says."""
        check = _first(self._runner, _MAY_TALK)
        try:
            return callable(check) and check(source) is True
        except Exception:  # half built; then nobody
            return False

    def home(self, platform: str) -> tuple[str, str] | None:
        """Return chat and thread of the configured HomeChannel (gateway/config.py:967)."""
        if self._part.name:  # /sethome of any profile changes it (slash_commands.py:656 of 0.22.2)
            return None
        find = getattr(getattr(self._runner, "config", None), "get_home_channel", None)
        member = self._part.platforms().get(platform.lower())
        found = find(member) if callable(find) and member is not None else None
        chat = getattr(found, "chat_id", None)
        return (str(chat), str(getattr(found, "thread_id", None) or "")) if chat else None

    def owner_source(self, channel: Channel, chat_type: str) -> Any:
        """Return a source of nobody for the owner's home channel, or None."""
        make = getattr(sys.modules.get("gateway.session"), "SessionSource", None)
        member = self._part.platforms().get(channel.platform.lower())
        if not callable(make) or member is None:
            return None
        source = make(
            platform=member,
            chat_id=channel.chat_id,
            chat_type=chat_type,
            thread_id=channel.thread,
        )
        return self._part.marked(source)

    def chat_type(self, channel: Channel) -> str:
        """Return the chat's type by Hermes's channel directory, else by its platform, or ""."""
        look = getattr(sys.modules.get("gateway.channel_directory"), "lookup_channel_type", None)
        try:
            with self._part.at_home():
                found = look(channel.platform.lower(), channel.chat_id) if callable(look) else ""
        except Exception:  # a broken directory file
            found = ""
        return found if found in CHAT_TYPES else self._asked_type(channel)

    def _asked_type(self, channel: Channel) -> str:
        ask = getattr(self._adapter(channel.platform), "get_chat_info", None)
        try:
            info = self._call(lambda: ask(channel.chat_id), ASK_S) if ask else {}
            found = str(info.get("type") or "")
        except Exception:  # whatever the platform says
            found = ""
        return found if found in CHAT_TYPES else ""

    # --- what goes on ---------------------------------------------------------------------

    def away(self) -> str:
        """Return why the gateway takes no turns now, or "" (gateway/run.py:7859, 8951)."""
        if getattr(self._runner, "_draining", False):
            return "the gateway is stopping"
        starting = getattr(self._runner, "_startup_restore_in_progress", False)
        if starting or not getattr(self._runner, "_running", False):
            return "the gateway is starting"
        return ""

    def platform_away(self, platform: str, source: Any = None) -> str:
        """Return why nothing reaches the platform (of this source's profile) now, or ""."""
        if self._adapter(platform, source) is not None:
            return ""
        return f"{platform} is not connected to the gateway now"

    def _adapter(self, platform: str, source: Any = None) -> Any:
        """Return the live adapter, of the source's profile, or None: never another profile's."""
        if source is None:
            return self._part.adapters().get(self._part.platforms().get(platform.lower()))
        if callable(find := _first(self._runner, _ADAPTER_OF_SOURCE)):
            return find(source)
        of = ProfilePart(self._runner, getattr(source, "profile", None) or self._part.name)
        return of.adapters().get(getattr(source, "platform", None))

    def _adapter_of(self, source: Any) -> Any:
        return self._adapter("", source)

    def busy(self, source: Any, key: str) -> str:
        """Return what goes on in the session, or ""."""
        adapter = self._adapter_of(source)
        names = (key,) if self._part.name else session_names(adapter, source, key)
        for name in names:
            for why, look in _LOOKS:
                if look(self._runner, adapter, name):
                    return why
        return ""

    def in_turn(self, key: str) -> bool:
        """Return whether a turn runs in the session, also in a gateway that is away."""
        return key in (getattr(self._runner, "_running_agents", None) or {})

    def can_withhold(self, platform: str) -> bool:
        """
        Return whether a turn's answer can be kept from the chat.

        Not where Hermes puts what a person writes into the running turn (gateway/run.py:5321), nor
        where answers are shown while they are written.
        """
        with self._part.at_home():
            shown = streams(self._part.streaming, platform)
        return self._part.busy_input_mode != "steer" and not shown

    # --- what is done ---------------------------------------------------------------------

    def begin(
        self,
        text: str,
        source: Any,
        key: str,
        look: Callable[[], str],
        handed: Callable[[Any], None],
    ) -> str:
        """Hand the adapter an event, as Hermes does with its own (gateway/run.py:16851)."""

        async def hand_over() -> str:
            if why := look():
                return why
            adapter, event = self._adapter_of(source), _event(text, source)
            handed(event)
            async with self._part.scope():
                await adapter.handle_message(event)
            return CAME_BETWEEN if _taken_back(adapter, event) else ""

        return self._hand_over(hand_over)

    def _hand_over(self, make: Callable[[], Awaitable[str]]) -> str:
        try:
            return self._call(make, HAND_OVER_S)
        except TimeoutError:
            raise CannotBegin(f"Hermes did not take it within {HAND_OVER_S:g} s") from None

    def _call(self, make: Callable[[], Awaitable[T]], timeout: float) -> T:
        return call_on_loop(getattr(self._runner, "_gateway_loop", None), make, timeout)

    def interrupt(self, key: str, over: Callable[[], bool]) -> bool:
        """As `/stop` does (gateway/run.py:17804), and not its queue: that is the person's."""

        async def ask() -> Any:
            agent: Any = (getattr(self._runner, "_running_agents", None) or {}).get(key)
            if over() or not callable(getattr(agent, "interrupt", None)):  # it is just made
                return None
            agent.interrupt(STOP)
            return agent

        asked = self._call(ask, HAND_OVER_S)
        until = time.monotonic() + PATIENCE_S
        while asked is not None and not over() and time.monotonic() < until:
            time.sleep(POLL_S)
        # Heard by nobody, it would end the session's next turn at its beginning: it is cleared
        # before the turn's end is told (agent/turn_finalizer.py:570, 616).
        if asked is not None and over() and getattr(asked, "_interrupt_requested", False):
            asked.clear_interrupt()
        return asked is not None

    def listen(self, source: Any, told: Callable[[Any, Any], None]) -> bool:
        """Hear what the core says of this adapter's events; return whether that is possible."""
        return listen_to(self._adapter_of(source), told, self._part.name)

    def misdirection(self, channel: Channel, source: Any, *, answer: bool = False) -> str:
        """Return why a text for the channel would land elsewhere, or nowhere; or ""."""
        adapter = self._adapter(channel.platform, source)
        return misdirection(adapter, channel, seen=source is not None, answer=answer)

    def text_limit(self, channel: Channel, source: Any) -> TextLimit | None:
        """Return how much one `send` posts as one message."""
        return text_limit(self._adapter(channel.platform, source), channel.platform.lower())

    def posts_apart(self, channel: Channel, text: str, source: Any) -> bool:
        """Return whether one `send` posts this text as several messages, whatever its length."""
        return posts_apart(self._adapter(channel.platform, source), channel.platform.lower(), text)

    def send(
        self, channel: Channel, text: str, source: Any, timeout: float, heard: list[str]
    ) -> Any:
        """Return the SendResult of the adapter's own `send`: `_send_with_retry` adds texts."""
        adapter = self._adapter(channel.platform, source)
        if adapter is None:
            raise Unreachable(self.platform_away(channel.platform, source))
        metadata = exact_metadata(adapter, channel, _metadata(channel, source) or {}) or None

        async def send() -> Any:
            async with self._part.scope():
                with hearing(heard):
                    return await adapter.send(channel.chat_id, text, metadata=metadata)

        return self._call(send, timeout)


def _first(runner: Any, names: tuple[str, ...]) -> Any:
    """Return the first of these methods that the runner has, or None."""
    return next((found for name in names if callable(found := getattr(runner, name, None))), None)


# --- whether a session is busy --------------------------------------------------------------------


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


# --- turns and sends ------------------------------------------------------------------------------


def _event(text: str, source: Any) -> Any:
    """Return Hermes's MessageEvent for a turn of ours (gateway/platforms/base.py:1759)."""
    base = sys.modules["gateway.platforms.base"]
    return base.MessageEvent(
        text=text,
        message_type=base.MessageType.TEXT,
        source=replace(source, message_id=None),
        internal=True,
    )


def _taken_back(adapter: Any, event: Any) -> bool:
    """Undo what handle_message queued: a person came in between while it awaited (base.py:4776)."""
    waiting: dict[str, Any] = getattr(adapter, "_pending_messages", None) or {}
    for key, queued in list(waiting.items()):
        if queued is event:
            del waiting[key]
            return True
    return False


def listen_to(adapter: Any, told: Callable[[Any, Any], None], profile: str = "") -> bool:
    """
    Have `told` called on what `on_processing_complete(event, outcome)` of the adapter is.

    The core says an answer's delivery in that one place (gateway/platforms/base.py:4167, 5455); it
    is always called on, whatever fails here. profile: who asks, for one bot may serve several.
    """
    current = getattr(adapter, "on_processing_complete", None)
    if not callable(current):
        return False
    listeners: dict[str, Callable[[Any, Any], None]] | None = getattr(current, _LISTENERS, None)
    if listeners is not None:
        listeners[profile] = told
        return True
    listeners = {profile: told}

    async def complete(event: Any, outcome: Any, *more: Any, **named: Any) -> Any:
        for one in list(listeners.values()):
            with suppress(Exception):
                one(event, outcome)
        return await current(event, outcome, *more, **named)

    setattr(complete, _LISTENERS, listeners)
    try:
        adapter.on_processing_complete = complete
    except AttributeError:
        return False
    return True


def streams(own: Any, platform: str, modules: Mapping[str, Any] = sys.modules) -> bool:
    """
    Return whether answers are shown while they are written (gateway/run.py:19977).

    own: the gateway's setting `streaming`.
    """
    overall = bool(getattr(own, "enabled", False)) and getattr(own, "transport", "") != "off"
    resolve = getattr(modules.get("gateway.display_config"), "resolve_display_setting", None)
    load = getattr(modules.get("gateway.run"), "_load_gateway_config", None)
    try:
        said = resolve(load(), platform, "streaming")  # type: ignore[misc]
    except Exception:  # not loaded, or another Hermes
        said = None
    return overall or said is True


def _metadata(channel: Channel, source: Any) -> dict[str, Any] | None:
    """Return what leads to the thread; as Hermes makes it, where it knows the chat (base.py:55)."""
    make = getattr(sys.modules.get("gateway.platforms.base"), "_thread_metadata_for_source", None)
    if source is not None and callable(make):
        try:
            found = make(source)
            return dict(found) if found else None
        except Exception:  # another Hermes
            pass
    return {"thread_id": channel.thread} if channel.thread else None
