"""
A gateway by looking inside its GatewayRunner: hermes-agent 0.19.0; a profile's part of a newer one.

Rule 1: every private name is looked up with a default: it may be missing, half built, or of another
Hermes. Rule 2: nothing of Hermes is imported; a module that it has not loaded is not there. Rule 3:
only looks, but for `begin`, `withdraw`, `listen`, `send`; what `begin` queued behind a person is
taken back at once. Rule 4: an adapter is listened to once.
"""

import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from wakebus.adapters.channel import Channel
from wakebus.plugin.hermes.host_api.adapter_limits import (
    TextLimit,
    exact_metadata,
    misdirection,
    text_limit,
)
from wakebus.plugin.hermes.host_api.answer_filter import withhold
from wakebus.plugin.hermes.host_api.heard_log import hearing
from wakebus.plugin.hermes.host_api.loaded_functions import paused
from wakebus.plugin.hermes.host_api.loop_calls import call_on_loop
from wakebus.plugin.hermes.host_api.profile_part import ProfilePart, profile_of_key
from wakebus.plugin.hermes.host_api.protocol import (
    CHAT_TYPES,
    CannotBegin,
    StoredSession,
    Unreachable,
)
from wakebus.plugin.hermes.host_api.session_state import (
    going_on,
    session_names,
    shows_turns,
    take_back,
)

T = TypeVar("T")

ASK_S: Final = 10.0  # for a platform to say what kind of chat it is
HAND_OVER_S: Final = 30.0  # for a loop that is slow; handle_message itself takes milliseconds
PATIENCE_S: Final = 15.0  # until an interrupted turn is over
POLL_S: Final = 0.05
# A word of Hermes's own, which it puts into no next turn (gateway/run.py:2369, 21707).
STOP: Final = "Stop requested"
# Of 0.20 and later (gateway/authz_mixin.py:285 of 0.22.2), and of 0.19 (authz_mixin.py:76).
_ADAPTER_OF_SOURCE: Final = ("_delivery_adapter_for", "_adapter_for_source")
# Of 0.20 and later, in the scope of the profile whose bot it is (gateway/run.py:4020 of 0.22.2).
_MAY_TALK: Final = ("_is_user_authorized_for_source", "_is_user_authorized")
NOT_TAKEN: Final = "Hermes did not take the turn (gateway.log may say why)"
CAME_BETWEEN: Final = "a person's turn came in between"
_LISTENERS: Final = "wakebus_listeners"  # by profile


class PrivateGateway:
    """See protocol.GatewayApi. `runner`: the live GatewayRunner; `part`: what of it is ours."""

    unseen = ""

    def __init__(self, runner: Any, part: ProfilePart | None = None) -> None:
        self._runner, self._part = runner, part or ProfilePart(runner)
        self._withholds = False

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

    def may_talk(self, source: Any) -> bool | None:
        """Return whether this person may talk to the agent now, as the bot that heard them says."""
        check = _first(self._runner, _MAY_TALK)
        if check is None:
            return None
        try:
            return check(source) is True
        except Exception:  # half built; then nobody
            return False

    def may_inject(self, source: Any) -> bool:
        """
        Return whether Hermes would let a plugin begin a turn as this source.

        The question that it asks itself, once it has said yes (gateway/run_plugin_injection.py:95
        of 0.22.2): adapters' own grants, as of Discord roles, do not count.
        """
        ask = getattr(self._runner, "_is_user_authorized_for_source", None)
        if not callable(ask):
            return bool(getattr(source, "user_id", None))
        try:
            return ask(source, allow_adapter_delegation=False) is True
        except Exception:  # another Hermes
            return False

    def source_of(self, fields: Mapping[str, Any]) -> Any:
        """Return the SessionSource that a hook tells of as a mapping (gateway/session.py)."""
        make = getattr(sys.modules.get("gateway.session"), "SessionSource", None)
        try:
            return make.from_dict(dict(fields)) if make is not None else None
        except Exception:  # another Hermes
            return None

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

    def commander(self, words: str) -> Any:
        """Here a command is called in the task of its message: who spoke is known."""
        return None

    # --- what goes on ---------------------------------------------------------------------

    def away(self) -> str:
        """Return why the gateway takes no turns now, or "" (gateway/run.py:7859, 8951)."""
        if getattr(self._runner, "_draining", False):
            return "the gateway is stopping"
        starting = getattr(self._runner, "_startup_restore_in_progress", False)
        if starting or not getattr(self._runner, "_running", False):
            return "the gateway is starting"
        return ""

    def paused(self) -> str:
        """Return why no new work is to begin, or "": the owner's emergency stop."""
        with self._part.at_home():
            return paused()

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
        return going_on(self._runner, adapter, names)

    def joined(self, key: str) -> bool:
        """
        Return whether a person has steered, redirected or interrupted it
        (agent/interrupt_control.py:161, 280 of 0.22.2): Hermes tells no hook of that.
        """
        agent = (getattr(self._runner, "_running_agents", None) or {}).get(key)
        return getattr(agent, "_turn_user_intervened", False) is True

    def shows_turns(self, source: Any) -> bool:
        """Return whether `busy` and `in_turn` could tell of a turn."""
        return shows_turns(self._runner, self._adapter_of(source))

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
        return self._withholds and self._part.busy_input_mode != "steer" and not shown

    # --- what is done ---------------------------------------------------------------------

    def withhold(self, withheld: Callable[[str], bool]) -> None:
        """Have the answer of a session's turn kept from its chat, where `withheld(session_id)`."""
        self._withholds = withhold(withheld)

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
            adapter, event = self._adapter_of(source), _event(text, source, key)
            handed(event)
            async with self._part.scope():
                await adapter.handle_message(event)
            if take_back(self._runner, adapter, lambda queued: queued is event):
                return CAME_BETWEEN
            if getattr(event, "_gateway_accepted", None) is False:  # 0.22: base.py:4033
                raise CannotBegin(NOT_TAKEN)
            return ""

        return self._hand_over(hand_over)

    def withdraw(self, text: str, source: Any) -> bool:
        """Take back what waits in Hermes's queue, in this process; return whether it was there."""

        async def withdraw() -> bool:
            adapter = self._adapter_of(source)
            return take_back(self._runner, adapter, lambda event: _text_of(event) == text)

        try:
            return self._call(withdraw, HAND_OVER_S)
        except (Unreachable, TimeoutError):
            return False

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


# --- turns and sends ------------------------------------------------------------------------------


def _event(text: str, source: Any, key: str) -> Any:
    """
    Return Hermes's MessageEvent for a turn of ours (gateway/platforms/base.py:1759).

    Newer ones are told that the text commands and answers nothing, and that its session is settled
    (`allow_gateway_control`, `metadata`: gateway/platforms/event.py of 0.22.2).
    """
    base = sys.modules["gateway.platforms.base"]
    known = {one.name for one in fields(base.MessageEvent)}
    more = {"allow_gateway_control": False, "metadata": {"gateway_session_key": key}}
    newer = more if known.issuperset(more) else {}
    # A plain `replace` loses by which bot the session was heard (session_identity.py:114, 0.22.2).
    copy = getattr(sys.modules.get("gateway.session_identity"), "replace_source", replace)
    return base.MessageEvent(
        text=text,
        message_type=base.MessageType.TEXT,
        source=copy(source, message_id=None),
        internal=True,
        **newer,
    )


def _text_of(event: Any) -> Any:
    return getattr(event, "text", None)


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
