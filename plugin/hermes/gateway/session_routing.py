"""
Where in a gateway a message belongs: which session, or not now, or never.

Rule 1: nothing is done here. Rule 2: first the session that it names, then, in the
chat that its channel names or where it names none, the session that asked (it answers something
that was sent from there), then the persons of its channel, then the home channel where the rule
says so; never any other. Rule 3: what needs the chat waits until
the gateway and the platform's adapter are there; what only waits for a session's next turn needs
neither. Rule 4: authorization is asked now, and again when the turn begins (turning.py).
"""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from wakebus.adapters import channel as channels
from wakebus.adapters import registry
from wakebus.adapters.channel import Channel
from wakebus.adapters.errors import BadChannel
from wakebus.broker import Delivery, Later, Refusal
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.gateway import conversations as origin
from wakebus.plugin.hermes.gateway import loop_calls as onloop
from wakebus.plugin.hermes.gateway import session_idle as idle
from wakebus.plugin.hermes.gateway.conversations import Heard, Origin
from wakebus.plugin.hermes.shared import turn_grant as grant
from wakebus.plugin.rules.match import Plan

AGAIN_S: Final = 3.0  # until what is not there now is looked for again
INFO_S: Final = 10.0  # for a platform to say what kind of chat it is
NOWHERE: Final = "it names neither channel nor session: kept in the inbox (`wakebus inbox`)"
_ENDED: Final = "it may have ended; send to a channel (platform:chat_id) instead"
UNGRANTED: Final = f"no turn, it waits for the session's next one: {grant.HOW_TO_GRANT}"


class Unplaceable(Exception):
    """It belongs nowhere here; its text says why and what to do."""


class Placing:
    """`sent_from`: the session key from which a message with this id was sent, or ""."""

    def __init__(
        self,
        runner: Any,
        heard: Heard,
        granted: Callable[[], bool],
        sent_from: Callable[[str], str],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._runner, self._heard, self._granted = runner, heard, granted
        self._sent_from, self._environ = sent_from, environ

    def place(self, delivery: Delivery, plan: Plan) -> tuple[Plan, Origin | None] | Later | Refusal:
        """Return the plan with the session's key, and whose it is; see receive/host.py."""
        try:
            if plan.context and plan.wake != "silent":
                return self._context(delivery.message, plan)
            if plan.prints == "channel" and delivery.message.channel:
                if why := self._no_chat(delivery.message.channel):
                    return Later(AGAIN_S, why)
                if plan.command is None:  # else something is done all the same
                    self._check(channels.parse(delivery.message.channel), registry.known())
        except (Unplaceable, BadChannel) as exc:
            return Refusal(str(exc))
        return plan, None

    def _context(
        self, message: Message, plan: Plan
    ) -> tuple[Plan, Origin | None] | Later | Refusal:
        turn = plan.wake == "immediate"
        if turn and not self._granted():
            plan, turn = plan._replace(wake="next_turn", note=UNGRANTED), False
        if why := idle.away(self._runner):
            known = not turn and getattr(self._runner, "session_store", None) is not None
            if not known:
                return Later(AGAIN_S, why)
        found = self._whose(message, plan, turn)
        if found is None:
            return plan._replace(wake="silent", prints="terminal", note=NOWHERE), None
        if isinstance(found, str):
            note = plan.note or f"no conversation in {found} yet; it waits for the first one"
            return plan._replace(session=found, note=note), None
        if turn and origin.adapter_for(self._runner, found.source) is None:
            name = origin.platform_name(getattr(found.source, "platform", None))
            return Later(AGAIN_S, f"{name} is not connected to the gateway now")
        return plan._replace(session=found.key), found

    def _whose(self, message: Message, plan: Plan, turn: bool) -> Origin | str | None:
        """Return the session, or the channel whose first session it will be, or None: nowhere."""
        if message.session:
            return self._named(message.session)
        asked = self._asked(message)
        if asked and not message.channel:
            return asked
        channel = self._channel(message, plan)
        if channel is None:
            return None
        if asked and _same_chat(asked, channel):
            return asked
        if turn:
            return self._in_chat(channel)
        return origin.in_chat(self._runner, self._heard, channel) or origin.canonical(channel)

    def _asked(self, message: Message) -> Origin | None:
        for id in (message.reply_to, message.cause):
            key = self._sent_from(id) if id else ""
            if key and (found := self.known(key)):
                return found
        return None

    def _named(self, key: str) -> Origin:
        found = origin.by_key(self._runner, key)
        if found is None:
            raise Unplaceable(f"no such session: {key!r}; {_ENDED}")
        # Settings that make keys have changed: a turn there would be in another session.
        if origin.key_of(self._runner, found.source) != key:
            raise Unplaceable(f"session {key!r} is no longer where its chat leads; {_ENDED}")
        if (known := self._may(found)) is None:
            who = getattr(found.source, "user_id", None) or "nobody that is known"
            raise Unplaceable(f"session {key!r} is of {who}, who may not talk to this agent (now)")
        return known

    def known(self, key: str) -> Origin | None:
        """Return the stored session with this key, if turns may be run in it now."""
        found = origin.by_key(self._runner, key)
        return None if found is None else self._may(found)

    def _may(self, found: Origin) -> Origin | None:
        if origin.authorized(self._runner, found.source):
            return found
        return found._replace(owner=True) if self._of_owner(found) else None

    def _of_owner(self, found: Origin) -> bool:
        if getattr(found.source, "user_id", None):
            return False
        channel = origin.token(found.source)
        return bool(channel) and origin.is_home(
            self._runner, channels.parse(channel), self._environ
        )

    # --- channels -------------------------------------------------------------------------

    def _channel(self, message: Message, plan: Plan) -> Channel | None:
        """Return the chat that the message, or its rule, names. Raises Unplaceable, BadChannel."""
        if not message.channel:
            return self._only_home() if plan.reply == "home" else None
        channel = channels.parse(message.channel)
        self._check(channel)
        if plan.reply == "home":
            channel = Channel(channel.platform, None, None, channel.platform)
        return origin.home(self._runner, channel, self._environ)

    def _check(self, channel: Channel, others: Collection[str] = ()) -> None:
        """Raise Unplaceable where neither this gateway has the platform nor `others`."""
        known = origin.platforms(self._runner)
        if channel.platform.lower() not in (*known, *others):
            names = ", ".join(sorted(known)) or "none"
            raise Unplaceable(
                f"channel {channel.token!r}: this gateway has no platform {channel.platform!r};"
                f" it has: {names}"
            )

    def _only_home(self) -> Channel:
        found = origin.homes(self._runner, self._environ)
        if len(found) == 1:
            return found[0]
        names = ", ".join(origin.canonical(channel) for channel in found)
        if found:
            raise Unplaceable(f"reply: home, and there are several: {names}; name a channel")
        raise Unplaceable("reply: home, and no platform has a home channel: write /sethome in one")

    def _in_chat(self, channel: Channel) -> Origin:
        found = origin.in_chat(self._runner, self._heard, channel)
        if found is None and origin.is_home(self._runner, channel, self._environ):
            type_ = self._type(channel)
            found = origin.at_home(self._runner, self._heard, channel, type_)
        if found is None:
            raise Unplaceable(self._nobody(channel))
        return found

    def _nobody(self, channel: Channel) -> str:
        text = (
            f"nobody who may talk to this agent has written in {origin.canonical(channel)};"
            " write there once, or name a session"
        )
        threads = origin.threads(self._runner, self._heard, channel)
        return f"{text} or a thread, as {threads[0]}" if threads and not channel.thread else text

    def _type(self, channel: Channel) -> str:
        if known := origin.known_type(self._runner, self._heard, channel):
            return known
        adapter = self._adapter(channel)
        ask, chat = getattr(adapter, "get_chat_info", None), channel.chat_id
        try:
            info = onloop.call(self._runner, lambda: ask(chat), INFO_S) if ask else {}
            found = str(info.get("type") or "")
        except Exception:  # whatever the platform says; then Hermes's own default
            found = ""
        return found if found in origin.TYPES else "dm"

    def _adapter(self, channel: Channel) -> Any:
        member = origin.platforms(self._runner).get(channel.platform.lower())
        return dict(getattr(self._runner, "adapters", None) or {}).get(member)

    def _no_chat(self, token: str) -> str:
        """Return why a print cannot go to this channel now, though later it can; or ""."""
        try:
            channel = channels.parse(token)
        except BadChannel:
            return ""
        if channel.platform.lower() not in origin.platforms(self._runner):
            ours = channel.platform in registry.known()  # another way
            return "" if ours else idle.away(self._runner)
        if why := idle.away(self._runner):
            return why
        there = self._adapter(channel) or any(
            origin.adapter_for(self._runner, source)
            for source in origin.people(self._runner, self._heard, channel)
        )
        return "" if there else f"{channel.platform} is not connected to the gateway now"


def _same_chat(found: Origin, channel: Channel) -> bool:
    """Whether a session is in the channel's chat, and in its thread where it names one."""
    there = channels.parse(origin.token(found.source))
    same = (there.platform, there.chat_id) == (channel.platform.lower(), channel.chat_id)
    return same and channel.thread in (None, there.thread)
