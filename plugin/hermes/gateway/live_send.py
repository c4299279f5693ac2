"""
Lines of our own in chats (prints): by the gateway's live adapter, else by the courier.

Rule 1: `send` itself is called: Hermes's `_send_with_retry` adds texts and may say it twice. Rule
2: what came of it is read from the SendResult's fields and the adapter's words (send_result.py).
Rule 3: what Hermes would post elsewhere than the channel says is not given to it. Rule 4: what was
certainly not sent is sent again for a while, then it is the courier's; that way too is taken only
after `not_sent`, or where the platform is not in this gateway; never after `uncertain` or
`rejected`. It leads to the same chat: a home that was found here goes by its id. Rule 5: a text
that is no single message there goes in parts, the courier's or ours; what is cut is never called
sent. Rule 6: nobody is mentioned, and no file is uploaded, by a text from the bus.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from wakebus.adapters import channel as channels
from wakebus.adapters.channel import Channel
from wakebus.adapters.delivery.split import split
from wakebus.adapters.errors import BadChannel, Rejected
from wakebus.adapters.markdown import quiet, safe
from wakebus.adapters.sanitize import line
from wakebus.adapters.settings.redact import redact, secret_values
from wakebus.broker import Delivery
from wakebus.broker.errors import NotNow, NotRunning
from wakebus.plugin.hermes.gateway.conversations import Conversations, canonical_token
from wakebus.plugin.hermes.gateway.send_result import channel_result, failure_result
from wakebus.plugin.hermes.host_api.adapter_limits import posts_apart, unconfirmed
from wakebus.plugin.hermes.host_api.protocol import Unreachable
from wakebus.plugin.hermes.shared.safe_chat_text import without_uploads
from wakebus.plugin.receive.answers import Answers, not_sent
from wakebus.plugin.receive.host import Told

log = logging.getLogger("wakebus")

SEND_S: Final = 60.0  # for one send
SOON_TRIES: Final = 3  # so often, and for waits up to SOON_S, before the courier is asked
SOON_S: Final = 5.0
AGAIN_S: Final = 30.0  # so long it is sent again, where that cannot have it
ASKED_S: Final = 60.0  # so long, where the platform says when
PAUSE_S: Final = 1.0  # before the second try, where it does not; doubled
LONGEST_PAUSE_S: Final = 5.0
STOPPING: Final = "this gateway is leaving the bus"
# `send` itself uploads files that a text names (weixin:1854, simplex:827).
_EXTRACTS: Final = frozenset({"simplex", "weixin"})
_PERSON: Final = re.compile(r"<(?=/?person\b)", re.IGNORECASE)  # Feishu's second way to name one


class _Chat(NamedTuple):
    """Where a line goes: `source` of somebody heard there, or None."""

    channel: Channel
    source: Any


class LiveSender:
    """
    Sends lines. `stop` ends the waiting; values of secrets in `environ` are in no reason.

    `not_the_couriers`: why the courier may not speak in a channel, "" where it may.
    """

    def __init__(
        self,
        conversations: Conversations,
        answers: Answers,
        stop: threading.Event,
        environ: Mapping[str, str],
        not_the_couriers: Callable[[str], str] = lambda channel: "",
    ) -> None:
        self._conversations, self._hermes = conversations, conversations.hermes
        self._answers, self._stop, self._environ = answers, stop, environ
        self._not_the_couriers = not_the_couriers

    def show(self, delivery: Delivery, text: str, what: str = "print") -> Told:
        """
        Show `text` in the chat of the message's channel; `what`: each is told once of a message.

        Returns sent, queued (the courier has it), not_sent, rejected, uncertain. Raises NotNow
        while the platform reconnects, NotRunning at our stop, and as Answers does.
        """
        told = self._show(delivery, text, what)
        told.pop("hopeless", None)
        if "reason" in told:
            told["reason"] = redact(line(told["reason"]), secret_values(self._environ))
        if told["result"] not in ("sent", "queued"):
            told["to"] = delivery.message.channel
            id, to, result = delivery.message.id, line(told["to"]), told["result"]
            log.warning("%s of %s to %s: %s: %s", what, id, to, result, told.get("reason"))
        return told

    def _show(self, delivery: Delivery, text: str, what: str) -> Told:
        try:
            named = channels.parse(delivery.message.channel)
            if named.platform.lower() not in self._hermes.platforms():
                missing = not_sent(f"no {named.platform} here")
                return self._by_courier(delivery, named.token, text, what, missing)
            channel = self._conversations.home(named)
        except BadChannel as exc:
            return not_sent(exc.text)
        if channel is not named:  # the courier may know another home
            channel = channel._replace(token=canonical_token(channel))
        chat = _Chat(channel, next(iter(self._conversations.people(channel)), None))
        told = self._by_gateway(delivery, chat, text, what)
        if told["result"] == "sent" and (why := unconfirmed(channel.platform.lower())):
            return {**told, "result": "uncertain", "reason": why}
        return told

    def _by_gateway(self, delivery: Delivery, chat: _Chat, text: str, what: str) -> Told:
        def by_courier(first: Told) -> Told:
            return self._by_courier(delivery, chat.channel.token, text, what, first)

        if why := self._hermes.platform_away(chat.channel.platform, chat.source):
            told = by_courier(not_sent(why))
            if told["result"] == "not_sent":
                raise NotNow(told["reason"])
            return told
        if why := self._hermes.misdirection(*chat):
            return by_courier(not_sent(why))
        try:
            parts = self._parts(chat, text)
        except Rejected as exc:  # the courier may take more in one message
            told = by_courier(not_sent(exc.text))
            return {**told, "result": "rejected"} if told["result"] == "not_sent" else told
        if len(parts) == 1:
            return self._patiently(chat, parts[0], by_courier)
        long = not_sent(f"it would take {len(parts)} messages there")
        told = by_courier(long)
        return self._in_parts(chat, parts) if told["result"] == "not_sent" else told

    def _parts(self, chat: _Chat, text: str) -> list[str]:
        """Return the text as it goes out, in parts that are one message each. Raises Rejected."""
        text = _PERSON.sub("＜", quiet(safe(text)))
        if chat.channel.platform.lower() in _EXTRACTS:
            text = without_uploads(text)
        found = self._hermes.text_limit(*chat)
        return [text] if found is None else split(text, found.measure, found.limit) or [text]

    def _in_parts(self, chat: _Chat, parts: list[str]) -> Told:
        """Send them in order, until one is not sent; what is told has the first one's id."""
        first: Told = {}
        for number, part in enumerate(parts):
            try:
                told = self._patiently(chat, part, None)
            except (NotNow, NotRunning) as exc:
                if not number:
                    raise
                told = not_sent(exc.text)
            first = first or told
            if told["result"] != "sent":
                break
        else:
            return {**first, "parts": len(parts), "done": len(parts)}
        if number:  # some of it is there: again would be twice
            told = {**told, "result": "uncertain"}
            told["reason"] = f"{number} of {len(parts)} parts are there, then: {told['reason']}"
        return {**told, "parts": len(parts), "done": number}

    def _patiently(self, chat: _Chat, text: str, by_courier: Callable[[Told], Told] | None) -> Told:
        """Send one message; while it is certainly not sent, again, then by the other way."""
        told, tries, pause, courier_said = self._by_adapter(chat, text), 1, PAUSE_S, ""
        began = time.monotonic()  # a try that took long is no reason not to try again
        while told["result"] == "not_sent":
            asked, last = told.get("retry_after"), told.get("hopeless", False)
            wait = asked or pause
            due = time.monotonic() - began + wait
            if by_courier and (last or tries >= SOON_TRIES or wait > SOON_S):
                second = by_courier(told)
                if second["result"] != "not_sent":
                    return second
                courier_said, by_courier = second["reason"].removeprefix(told["reason"]), None
            if last or due > (ASKED_S if asked else AGAIN_S):
                if why := self._hermes.platform_away(chat.channel.platform, chat.source):
                    raise NotNow(why)
                reason = f"{told['reason']} (tried {tries} times){courier_said}"
                return {**told, "reason": reason}
            if self._stop.wait(wait):
                raise NotRunning(STOPPING)
            tries, pause = tries + 1, min(2 * pause, LONGEST_PAUSE_S)
            told = self._by_adapter(chat, text)
        return told

    def _by_courier(
        self, delivery: Delivery, token: str, text: str, what: str, first: Told
    ) -> Told:
        if why := self._not_the_couriers(token):
            return not_sent(f"{first['reason']}; {why}")
        told = self._answers.show(delivery, text, token, what)
        if told["result"] != "not_sent":
            return told
        return {**told, "reason": f"{first['reason']}; by the courier: {told['reason']}"}

    def _by_adapter(self, chat: _Chat, text: str) -> Told:
        if why := self._hermes.platform_away(chat.channel.platform, chat.source):
            return not_sent(why)
        heard: list[str] = []
        channel, source = chat
        told = result_of_call(
            lambda: self._hermes.send(channel, text, source, SEND_S, heard), heard
        )
        platform = channel.platform.lower()
        if told["result"] == "not_sent" and posts_apart(platform, text):
            told |= {"result": "uncertain"}  # some of its messages may be there
        return {"to": channel.token, **told}


def result_of_call(send: Callable[[], Any], heard: list[str]) -> Told:
    """Return the channel result of a call that ends with a SendResult, or does not."""
    began = time.monotonic()
    try:
        result = send()
    except Unreachable as exc:
        return not_sent(str(exc))
    except TimeoutError:
        reason = f"the platform did not answer within {time.monotonic() - began:.0f} s"
        return {"result": "uncertain", "reason": reason, "at": time.time()}
    except Exception as exc:
        return failure_result(exc, time.time(), heard)
    return channel_result(result, time.time(), heard)
