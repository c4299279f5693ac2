"""
Prints in a chat: by the gateway's live adapter, else by our own.

Rule 1: `send` itself is called: Hermes's `_send_with_retry` adds texts and may say it twice. Rule
2: what came of it is read from the SendResult's fields; the object is true also when it failed
(gateway/platforms/base.py:1898). Rule 3: a second way only after `not_sent`, or where the platform
is not in this gateway; never after `uncertain` or `rejected`. It leads to the same chat: a home
that was found here goes by its id. Rule 4: what is not sent because the platform asks to wait is
sent again, for a minute.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from wakebus.adapters import channel as channels
from wakebus.adapters.channel import Channel
from wakebus.adapters.errors import BadChannel
from wakebus.broker import Delivery
from wakebus.plugin.hermes.gateway.conversations import Conversations, canonical_token
from wakebus.plugin.hermes.host_api.protocol import Unreachable
from wakebus.plugin.hermes.shared.safe_chat_text import without_uploads
from wakebus.plugin.receive.answers import Answers, not_sent
from wakebus.plugin.receive.host import Told

SEND_S: Final = 60.0  # for one send; a long text is several posts
AGAIN_S: Final = 60.0  # how long a platform may ask to wait
PAUSE_S: Final = 5.0  # where it does not say how long
# `send` itself takes files that a text names out of it, and uploads them (weixin.py:1854).
_EXTRACTS: Final = frozenset({"weixin"})
_KINDS: Final = {
    "too_long": "rejected",
    "bad_format": "rejected",
    "forbidden": "rejected",
    "not_found": "rejected",
    "rate_limited": "not_sent",
}
# How adapters of 0.19.0 say that they have not even tried.
_UNTRIED: Final = (
    "not connected",
    "line adapter not connected",
    "http client not initialized",
    "teams app not initialized",
    "no valid session_webhook",
)


def channel_result(result: Any, now: float) -> Told:
    """
    Return the channel result of a SendResult.

    success → sent; too_long, bad_format, forbidden, not_found → rejected; rate_limited, and what
    was not tried → not_sent; anything else → uncertain.
    """
    if getattr(result, "success", None) is True:
        id = getattr(result, "message_id", None)
        return {"result": "sent", "at": now, **({"id": str(id)} if id is not None else {})}
    error = str(getattr(result, "error", None) or "")
    kind = str(getattr(result, "error_kind", None) or "")
    found = "not_sent" if error.lower().startswith(_UNTRIED) else _KINDS.get(kind, "uncertain")
    reason = ": ".join(part for part in (kind, error[:300]) if part)
    answer: Told = {"result": found, "at": now, "reason": reason or "the adapter does not say"}
    after = getattr(result, "retry_after", None)
    if found == "not_sent" and isinstance(after, int | float) and after >= 0:
        answer["retry_after"] = float(after)
    return answer


class LiveSender:
    """Sends prints. `stop` ends the waiting."""

    def __init__(
        self, conversations: Conversations, answers: Answers, stop: threading.Event
    ) -> None:
        self._conversations, self._hermes = conversations, conversations.hermes
        self._answers, self._stop = answers, stop

    def show(self, delivery: Delivery, text: str) -> Told:
        """Show `text` in the chat of the message's channel. Raises NotRunning as Answers does."""
        try:
            named = channels.parse(delivery.message.channel)
            if named.platform.lower() not in self._hermes.platforms():
                missing = not_sent(f"no {named.platform} here")
                return self._by_courier(delivery, named, text, missing)
            channel = self._conversations.home(named)
            if channel is not named:  # the courier may know another home
                channel = channel._replace(token=canonical_token(channel))
        except BadChannel as exc:
            return not_sent(exc.text)
        first = self._by_adapter(channel, text)
        if first["result"] != "not_sent":
            return first
        return self._after_not_sent(delivery, channel, text, first)

    def _after_not_sent(self, delivery: Delivery, channel: Channel, text: str, first: Told) -> Told:
        """After `not_sent`: the other way, else the same way while the platform asks to wait."""
        told = self._by_courier(delivery, channel, text, first)
        give_up = time.monotonic() + AGAIN_S
        while told["result"] == "not_sent" and "retry_after" in first:
            pause = first["retry_after"] or PAUSE_S
            if time.monotonic() + pause > give_up or self._stop.wait(pause):
                break
            first = told = self._by_adapter(channel, text)
        return told

    def _by_courier(self, delivery: Delivery, channel: Channel, text: str, first: Told) -> Told:
        told = self._answers.show(delivery, text, channel.token)
        if told["result"] != "not_sent":
            return told
        return {**told, "reason": f"{first['reason']}; {told['reason']}"}

    def _by_adapter(self, channel: Channel, text: str) -> Told:
        seen = self._conversations.people(channel)
        source = seen[0] if seen else None
        if why := self._hermes.platform_away(channel.platform, source):
            return not_sent(why)
        if channel.platform.lower() in _EXTRACTS:
            text = without_uploads(text)
        sent = result_of_call(lambda: self._hermes.send(channel, text, source, SEND_S))
        return {"to": channel.token, **sent}


def result_of_call(send: Callable[[], Any]) -> Told:
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
        reason = f"{type(exc).__name__}: {exc}"[:300]
        return {"result": "uncertain", "reason": reason, "at": time.time()}
    return channel_result(result, time.time())
