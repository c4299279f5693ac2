"""
Where in a gateway a message belongs: which session, or not now, or never.

Rule 1: nothing is done here. Rule 2: first the session that it names, then, in the chat that its
channel names or where it names none, the session that asked (it answers something that was sent
from there), then the persons of its channel, then the home channel where the rule says so; never
any other. Rule 3: what needs the chat waits until the gateway and the platform's adapter are there;
what only waits for a session's next turn needs neither. Rule 4: authorization is asked now, and
again when the turn begins (turn.py). Rule 5: a turn whose answer would be in another chat than the
message says is none. Rule 6: what the broker tells of a message (a notice) is never refused: it is
for the session that sent that message, else for the inbox.
"""

from collections.abc import Callable, Collection
from typing import Final

from wakebus.adapters import channel as channels
from wakebus.adapters import registry
from wakebus.adapters.channel import Channel
from wakebus.adapters.errors import BadChannel
from wakebus.broker import Delivery, Later, Refusal
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.gateway.conversations import (
    Conversation,
    Conversations,
    canonical_token,
    channel_token,
)
from wakebus.plugin.hermes.host_api.protocol import platform_name
from wakebus.plugin.hermes.shared.turn_grant import TurnGrant
from wakebus.plugin.rules.match import Plan, is_notice

AGAIN_S: Final = 3.0  # until what is not there now is looked for again
NOWHERE: Final = (
    "it names neither channel nor session (--channel platform:chat_id, --session KEY): kept in the"
    " inbox (`wakebus inbox`)"
)
_TO_CHAT: Final = frozenset({"channel", "both", "home"})  # `reply`: the chat has the answer
_ENDED: Final = "it may have ended; send to a channel (platform:chat_id) instead"


class Unroutable(Exception):
    """It belongs nowhere here; its text says why and what to do."""


class SessionRouter:
    """
    `sent_from`: the session key from which a message with this id was sent, or "". `unreachable`:
    why the courier could not take an answer to a channel, or "". `neighbour`: the endpoint of
    another profile of the same gateway, "" for none.
    """

    def __init__(
        self,
        conversations: Conversations,
        granted: TurnGrant,
        sent_from: Callable[[str], str],
        unreachable: Callable[[Delivery, str], str],
        neighbour: Callable[[str], str] = lambda profile: "",
    ) -> None:
        self._conversations, self._hermes = conversations, conversations.hermes
        self._granted, self._sent_from, self._unreachable = granted, sent_from, unreachable
        self._neighbour = neighbour

    def route(
        self, delivery: Delivery, plan: Plan
    ) -> tuple[Plan, Conversation | None] | Later | Refusal:
        """Return the plan with the session's key, and whose it is; see receive/host.py."""
        try:
            if plan.context and plan.wake != "silent":
                return self._route_context(delivery, plan)
            if plan.prints == "channel" and delivery.message.channel:
                if why := self._print_obstacle(delivery.message.channel):
                    return Later(AGAIN_S, why)
                if plan.command is None:  # else something is done all the same
                    self._check_print(channels.parse(delivery.message.channel))
        except (Unroutable, BadChannel) as exc:
            if is_notice(delivery.message):
                return plan._replace(wake="silent", prints="terminal", note=f"kept: {exc}"), None
            return Refusal(str(exc))
        return plan, None

    def _route_context(
        self, delivery: Delivery, plan: Plan
    ) -> tuple[Plan, Conversation | None] | Later | Refusal:
        message = delivery.message
        turn = plan.wake == "immediate"
        if turn and not self._granted():
            plan, turn = plan._replace(wake="next_turn", note=self._granted.waiting_note), False
        if (why := self._hermes.away()) and (turn or not self._hermes.has_sessions()):
            return Later(AGAIN_S, why)
        if turn and (why := self._hermes.paused()):
            return Later(AGAIN_S, why)
        found = self._conversation_for(message, plan, turn)
        if found is None:
            return plan._replace(wake="silent", prints="terminal", note=NOWHERE), None
        if turn and isinstance(found, Conversation):
            self._check_answer(found, message, plan)
        if isinstance(found, str):
            note = plan.note or f"no conversation in {found} yet; it waits for the first one"
            return plan._replace(session=found, note=note), None
        platform = platform_name(getattr(found.source, "platform", None))
        if turn and (why := self._hermes.platform_away(platform, found.source)):
            return Later(AGAIN_S, why)
        if turn and plan.reply in _TO_CHAT and (why := self.misdirection(found)):
            if not self._hermes.can_withhold(platform):
                raise Unroutable(why)
            if other := self._unreachable(delivery, channel_token(found.source)):
                raise Unroutable(f"{why}; by the courier: {other}")
            plan = plan._replace(note=f"the courier takes the answer: {why}")
        return plan._replace(session=found.key), found

    def _conversation_for(
        self, message: Message, plan: Plan, turn: bool
    ) -> Conversation | str | None:
        """Return the session, or the channel whose first session it will be, or None: nowhere."""
        asked = self._that_asked(message)
        if asked and is_notice(message):
            return asked
        if message.session:
            return self._named_session(message.session)
        if asked and not message.channel and plan.reply != "home":
            return asked
        channel = self._channel(message, plan)
        if channel is None:
            return None
        if asked and _same_chat(asked, channel):
            return asked
        if turn:
            return self._in_chat(channel)
        return self._conversations.in_chat(channel) or canonical_token(channel)

    def misdirection(self, found: Conversation) -> str:
        """Return why what Hermes answers in this session would land elsewhere, or ""."""
        if not (token := channel_token(found.source)):
            return ""
        return self._hermes.misdirection(channels.parse(token), found.source, answer=True)

    def _that_asked(self, message: Message) -> Conversation | None:
        for id in (message.reply_to, message.cause):
            key = self._sent_from(id) if id else ""
            if key and (found := self.known(key)):
                return found
        return None

    def _named_session(self, key: str) -> Conversation:
        found = self._conversations.by_key(key)
        if found is None:
            raise Unroutable(self._foreign(key) or f"no such session: {key!r}; {_ENDED}")
        # Settings that make keys have changed: a turn there would be in another session.
        if self._conversations.key_of(found.source) != key:
            raise Unroutable(f"session {key!r} is no longer where its chat leads; {_ENDED}")
        if (known := self._if_allowed(found)) is None:
            who = getattr(found.source, "user_id", None) or "nobody that is known"
            raise Unroutable(f"session {key!r} is of {who}, who may not talk to this agent (now)")
        return known

    def _foreign(self, key: str) -> str:
        """Return why a session of another profile is none here, "" for any other."""
        if not (profile := self._hermes.profile_of(key)):
            return ""
        to = self._neighbour(profile)
        step = f"send it to {to}" if to else "`wakebus endpoints` lists those that are"
        return f"session {key!r} is of profile {profile}, which is another endpoint: {step}"

    def known(self, key: str) -> Conversation | None:
        """Return the stored session with this key, if turns may be run in it now."""
        found = self._conversations.by_key(key)
        return None if found is None else self._if_allowed(found)

    def _if_allowed(self, found: Conversation) -> Conversation | None:
        if self._conversations.may_talk(found.source):
            return found
        return found._replace(owner=True) if self._of_owner(found) else None

    def _of_owner(self, found: Conversation) -> bool:
        if getattr(found.source, "user_id", None):
            return False
        channel = channel_token(found.source)
        return bool(channel) and self._conversations.is_home(channels.parse(channel))

    # --- channels -------------------------------------------------------------------------

    def _check_answer(self, found: Conversation, message: Message, plan: Plan) -> None:
        """Raise Unroutable where the turn's answer would be in another chat than it is to be."""
        if plan.reply not in _TO_CHAT:
            return
        named = self._channel(message, plan) if message.channel or plan.reply == "home" else None
        if named is not None and not _same_chat(found, named):
            there = channel_token(found.source)
            raise Unroutable(
                f"session {found.key!r} is in {there}, and its answer would be there, not in"
                f" {canonical_token(named)}: name one of the two"
            )

    def _check_print(self, channel: Channel) -> None:
        """Raise Unroutable, BadChannel where no way leads to the chat of a print."""
        self._require_platform(channel, registry.known())
        if channel.platform.lower() in self._hermes.platforms():
            self._conversations.home(channel)

    def _channel(self, message: Message, plan: Plan) -> Channel | None:
        """Return the chat that the message, or its rule, names. Raises Unroutable, BadChannel."""
        if not message.channel:
            return self._only_home() if plan.reply == "home" else None
        channel = channels.parse(message.channel)
        self._require_platform(channel)
        if plan.reply == "home":
            channel = Channel(channel.platform, None, None, channel.platform)
        return self._conversations.home(channel)

    def _require_platform(self, channel: Channel, others: Collection[str] = ()) -> None:
        """Raise Unroutable where neither this gateway has the platform nor `others`."""
        known = self._hermes.platforms()
        if channel.platform.lower() not in (*known, *others):
            names = ", ".join(sorted(known)) or "none"
            raise Unroutable(
                f"channel {channel.token!r}: this gateway has no platform {channel.platform!r};"
                f" it has: {names}"
            )

    def _only_home(self) -> Channel:
        found = self._conversations.homes()
        if len(found) == 1:
            return found[0]
        names = ", ".join(canonical_token(channel) for channel in found)
        if found:
            raise Unroutable(f"reply: home, and there are several: {names}; name a channel")
        raise Unroutable("reply: home, and no platform has a home channel: write /sethome in one")

    def _in_chat(self, channel: Channel) -> Conversation:
        found = self._conversations.in_chat(channel)
        if found is None and self._conversations.is_home(channel):
            chat_type = self._conversations.type_of_chat(channel)
            found = self._conversations.at_home(channel, chat_type)
        if found is None:
            raise Unroutable(self._nobody(channel))
        return found

    def _nobody(self, channel: Channel) -> str:
        text = (
            f"nobody who may talk to this agent has written in {canonical_token(channel)};"
            " write there once, or name a session"
        )
        threads = self._conversations.threads(channel)
        return f"{text} or a thread, as {threads[0]}" if threads and not channel.thread else text

    def _print_obstacle(self, named: str) -> str:
        """Return why a print cannot go to this channel now, though later it can; or ""."""
        try:
            channel = channels.parse(named)
        except BadChannel:
            return ""
        if channel.platform.lower() not in self._hermes.platforms():
            ours = channel.platform in registry.known()  # another way
            return "" if ours else self._hermes.away()
        if why := self._hermes.away():
            return why
        seen = self._conversations.people(channel)
        ways = [self._hermes.platform_away(channel.platform, source) for source in (None, *seen)]
        return ways[0] if all(ways) else ""


def _same_chat(found: Conversation, channel: Channel) -> bool:
    """Whether a session is in the channel's chat, and in its thread where it names one."""
    there = channels.parse(channel_token(found.source))
    same = (there.platform, there.chat_id) == (channel.platform.lower(), channel.chat_id)
    return same and channel.thread in (None, there.thread)
