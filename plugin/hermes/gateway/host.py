"""
A Hermes gateway as a host: turns in the sessions of its chats, prints by its live adapters.

Rule 1: nothing of Hermes raises through us, and nothing of ours blocks its loop. Rule 2: whose turn
it is comes from persons that Hermes has heard (conversations.py), asked for their right when it is
routed and when it begins. Rule 3: the core delivers what a turn answers; we never say it again.
Rule 4: all memory is bounded.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from wakebus.adapters import channel as channels
from wakebus.adapters.errors import BadChannel
from wakebus.broker import Delivery, Later, Refusal
from wakebus.broker.errors import NotNow
from wakebus.plugin.hermes.gateway.conversations import (
    Conversation,
    Conversations,
    canonical_token,
    channel_token,
)
from wakebus.plugin.hermes.gateway.foreign_bots import ForeignBots
from wakebus.plugin.hermes.gateway.live_send import LiveSender
from wakebus.plugin.hermes.gateway.session_routing import SessionRouter
from wakebus.plugin.hermes.gateway.turn import GatewayTurns
from wakebus.plugin.hermes.gateway.turn_end import Intervals
from wakebus.plugin.hermes.host_api.answer_filter import is_silence
from wakebus.plugin.hermes.host_api.loaded_functions import session_env
from wakebus.plugin.hermes.host_api.protocol import GatewayApi, platform_name
from wakebus.plugin.hermes.shared.bounded_map import BoundedMap
from wakebus.plugin.hermes.shared.turn_grant import TurnGrant
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.receive.answers import Answers, not_sent, unsent
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules import model
from wakebus.plugin.rules.match import Plan

log = logging.getLogger("wakebus")

AT_ONCE: Final = 64  # sessions with a turn of ours; Hermes runs any number
MAX_SENT: Final = 10_000  # messages whose answers find their session
MAX_ROUTED: Final = 2_000  # sessions whose person is known
STEERED: Final = "a person wrote into the turn: the answer is for the chat"
_NO_CHATS: Final = frozenset({"", "api_server", "webhook", "local", "cli", "cron"})

# Whose message the task handles, and whose command runs. Hermes tells a command of no session: it
# binds HERMES_SESSION_* for turns only (gateway/run.py:12128); pre_gateway_dispatch and the command
# run in one task (run.py:10010, 11195).
_speaking: ContextVar[Any] = ContextVar("wakebus_speaking", default=None)
_commanding: ContextVar[Any] = ContextVar("wakebus_commanding", default=None)


class GatewayHost:
    """
    See receive/host.py. `hermes`: the live gateway; it is never replaced, its host is.

    `granted`: whether the owner lets the bus start turns (turn_grant.py); `stop` is set when this
    profile leaves the bus. `neighbour`: the endpoint of another profile of the same gateway, "" for
    none; `foreign_bot`: whose bots the courier has.
    """

    kind: model.HostKind = "gateway"
    at_once = AT_ONCE
    prompt_limit: int | None = None  # Hermes 0.19.0 takes a user message of any length

    def __init__(
        self,
        hermes: GatewayApi,
        endpoint: str,
        answers: Answers,
        tracker: TurnTracker,
        granted: TurnGrant,
        stop: threading.Event,
        environ: Mapping[str, str] = os.environ,
        intervals: Intervals | None = None,
        neighbour: Callable[[str], str] = lambda profile: "",
        foreign_bot: ForeignBots | None = None,
    ) -> None:
        self._hermes, self._endpoint, self._answers = hermes, endpoint, answers
        self._tracker, self._granted = tracker, granted
        self._conversations = Conversations(hermes, environ)
        self._sent_from, self._routed = BoundedMap(MAX_SENT), BoundedMap(MAX_ROUTED)
        self._foreign_bot = foreign_bot
        self._router = SessionRouter(
            self._conversations, granted, self.session_of_sent, self._unreachable, neighbour
        )
        self._sender = LiveSender(
            self._conversations, answers, stop, environ, self._not_the_couriers
        )
        self._person_wrote = BoundedMap(MAX_ROUTED)  # into the turn of ours, by session
        self._unseen = BoundedMap(MAX_ROUTED)  # Hermes's ids of sessions
        hermes.withhold(self.is_unseen)
        self._turns = GatewayTurns(
            hermes, tracker, stop, granted, self._joined, intervals or Intervals()
        )
        self._explained = False

    # --- the host -------------------------------------------------------------------------

    def place(self, delivery: Delivery, plan: Plan) -> Plan | Later | Refusal:
        """Return the plan with Hermes's session key, or why it cannot be now, or never."""
        routed = self._router.route(delivery, plan)
        if isinstance(routed, Later | Refusal):
            return routed
        found, whose = routed
        if whose is not None:
            self._routed.put(whose.key, whose)
        if found.note == self._granted.waiting_note and not self._explained:
            self._explained = True
            log.warning("gateway turns are off; what would start one waits. %s", self._granted.how)
        return found

    def show(self, delivery: Delivery, text: str, what: str = "print") -> Told:
        """Show a line in the chat by the live adapter, else by the courier."""
        return self._sender.show(delivery, text, what)

    def ready(self, session: str, job: Job, cancel: Cancel) -> None:
        """
        Return when the session is idle. Raises NotNow when the message was cancelled.

        `cancel` is not looked at: a message that interrupts ends no turn here.
        """
        whose, waits = self._conversation_of(session), job.delivery.wait_because
        if self._turns.until_idle(whose, lambda: job.cancelled, waits):
            job.outcome["queued_behind"] = True

    def turn(self, order: TurnRequest) -> TurnResult:
        """Run a turn in the person's session and wait for its end."""
        whose = self._conversation_of(order.session)
        self._person_wrote.put(order.session, False)
        return self._turns.run(order, whose)

    def _joined(self, order: TurnRequest) -> bool:
        """Whether a person wrote in the middle of the turn: it is theirs, too."""
        return bool(self._person_wrote.get(order.session)) or self._hermes.joined(order.session)

    def answer(self, order: TurnRequest, turn: TurnResult) -> dict[str, Told]:
        """The chat has it from the core; send it to the sender where the plan says so."""
        told: dict[str, Told] = {}
        if order.jobs[-1].plan.reply in ("sender", "both"):
            if turn.outcome.get("steered"):
                told["answer"] = not_sent(STEERED)
            else:
                told["answer"] = self._answers.to_sender(order.delivery, turn.answer)
        if turn.shown is not None:
            told["channel"] = turn.shown
        elif turn.outcome.get("hidden") and (chat := self._detour(order)):
            told["channel"] = self._answers.to_chat(order.delivery, chat, turn.answer)
        return told or unsent(turn.answer)

    def _withheld(self, order: TurnRequest) -> bool:
        """Whether the chat is not to see what Hermes would post of the turn's answer."""
        if self._person_wrote.get(order.session):  # the answer is theirs
            return False
        if order.jobs[-1].plan.reply not in ("sender", "none") and not self._detour(order):
            return False
        whose: Conversation | None = self._routed.get(order.session)
        return self._hermes.can_withhold(
            platform_name(getattr(getattr(whose, "source", None), "platform", None))
        )

    def _detour(self, order: TurnRequest) -> str:
        """Return the channel to which the courier takes the answer: Hermes would miss it; or ""."""
        if order.jobs[-1].plan.reply in ("sender", "none"):
            return ""
        whose: Conversation | None = self._routed.get(order.session)
        if whose is None or not self._router.misdirection(whose):
            return ""
        channel = channel_token(whose.source)
        return "" if self._not_the_couriers(channel) else channel

    def _not_the_couriers(self, channel: str) -> str:
        """Return why the courier may not speak there for this profile, "" where it may."""
        platform = channel.partition(":")[0]
        bots = self._foreign_bot
        return bots.reason(platform, self._hermes.all_platforms()) if bots else ""

    def _unreachable(self, delivery: Delivery, channel: str) -> str:
        why = self._not_the_couriers(channel)
        return why or self._answers.unreachable(delivery, channel)

    def _conversation_of(self, session: str) -> Conversation:
        found: Conversation | None = self._routed.get(session) or self._router.known(session)
        if found is None:  # pushed out, and not stored: it is routed again
            raise NotNow(f"session {session!r} is looked for again")
        return found

    def session_of_sent(self, id: str) -> str:
        """Return the key of the session from which message `id` was sent, or ""."""
        return self._sent_from.get(id) or ""

    # --- what hooks and tools tell and ask ------------------------------------------------

    def on_message(self, event: Any) -> None:
        """A message arrived (pre_gateway_dispatch, before Hermes asks for anybody's right)."""
        source = getattr(event, "source", None)
        heard = source is not None and not getattr(event, "internal", False)
        if heard and self._hermes.is_ours(source):
            self._conversations.remember_speaker(source)
            self._note_person(self._conversations.key_of(source))
            _speaking.set(source)

    def on_admitted(self, session_key: str, fields: Mapping[str, Any]) -> None:
        """Hermes lets a person's message into this session (post_gateway_admission)."""
        if not session_key or self._hermes.profile_of(session_key):
            return
        self._note_person(session_key)
        if (source := self._hermes.source_of(fields)) is not None:
            self._conversations.remember_admitted(source, session_key)

    def _note_person(self, key: str) -> None:
        if key and self._person_wrote.get(key) is not None:
            self._person_wrote.put(key, True)

    @contextmanager
    def commanding(self, words: str = "") -> Iterator[None]:
        """Inside, the session that runs here is whose person gave `/bus` with these words."""
        before = _commanding.set(_speaking.get() or self._hermes.commander(words))
        try:
            yield
        finally:
            _commanding.reset(before)

    def names(self, session_id: str) -> tuple[str, ...]:
        """Return what the session that runs here and now is called: its key, its channel."""
        stored = self._conversations.by_id(session_id)
        key = session_env("KEY") or (stored.key if stored else "")
        channel = self.channel(session_id) or (channel_token(stored.source) if stored else "")
        return tuple(name for name in (key, channel) if name)

    def channel(self, session_id: str = "") -> str:
        """
        Return the channel of the session that runs here and now, "" where it has none.

        `session_id`: Hermes's own, for where it does not tell the rest (in a process of its own).
        """
        platform, chat = session_env("PLATFORM"), session_env("CHAT_ID")
        source = _commanding.get()
        if source is None and not platform and (kept := self._conversations.by_id(session_id)):
            source = kept.source
        if source is not None:
            found = channel_token(source)
            return "" if found.partition(":")[0] in _NO_CHATS else found
        if platform in _NO_CHATS or not chat:
            return ""
        thread = session_env("THREAD_ID")
        return f"{platform}:{chat}?thread={thread}" if thread else f"{platform}:{chat}"

    def may_show(self, session_id: str) -> Callable[[str, str], bool]:
        """
        Return whether a message, by channel and session, is for the session that runs here and now.

        What names neither is for nobody in particular, and so for all.
        """
        names = self.names(session_id)

        def may_show(channel: str, session: str) -> bool:
            if session:
                return session in names
            return not channel or self._with_chat(channel) in names

        return may_show

    def _with_chat(self, channel: str) -> str:
        """Return a channel with its chat, also where it says only the platform: home."""
        try:
            found = self._conversations.home(channels.parse(channel))
        except BadChannel:
            return channel
        return canonical_token(found)

    def remember_sent(self, id: str, session_id: str = "") -> None:
        """A tool sent message `id` in the session that runs here: its answer belongs there."""
        source = _commanding.get()
        key = self._hermes.key_of(source) if source is not None else session_env("KEY")
        if not key and source is None and (stored := self._conversations.by_id(session_id)):
            key = stored.key
        if key:
            self._sent_from.put(id, key)

    def on_answer(self, text: str, session_id: str) -> None:
        """
        The model has answered (post_llm_call): is its chat to see that?

        Where the rule says `reply: sender` or `none`, or the courier takes the answer, Hermes shows
        nothing; the history keeps it. Not where answers are shown as they are written.
        """
        turn = self._tracker.running(session_id=session_id)
        if turn is None or turn.steered or is_silence(text):
            return  # a person's words are answered, too, or nobody's
        if self._withheld(turn.order):
            turn.withheld = True
            self._unseen.put(session_id, True)

    def is_unseen(self, session_id: str) -> bool:
        """Return whether the chat is not to see what the session's turn has answered."""
        return bool(self._unseen.get(session_id))

    def on_turn_begin(self, session_id: str) -> None:
        """A turn begins in this session (pre_llm_call): what was left there is over."""
        self._unseen.put(session_id, False)
