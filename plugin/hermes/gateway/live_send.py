"""
Prints in a chat: by the gateway's live adapter, else by our own.

Rule 1: `send` itself is called: Hermes's `_send_with_retry` adds texts and may say it twice. Rule
2: what came of it is read from the SendResult's fields; the object is true also when it failed
(gateway/platforms/base.py:1898). Rule 3: a second way only after `not_sent`, or where the platform
is not in this gateway; never after `uncertain` or `rejected`. It leads to the same chat: a home
that was found here goes by its id. Rule 4: what is not sent because the platform asks to wait is
sent again, for a minute.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from wakebus.adapters import channel as channels
from wakebus.adapters.channel import Channel
from wakebus.adapters.errors import BadChannel
from wakebus.broker import Delivery
from wakebus.plugin.hermes.gateway import conversations as origin
from wakebus.plugin.hermes.gateway import loop_calls as onloop
from wakebus.plugin.hermes.gateway.conversations import Heard
from wakebus.plugin.hermes.shared import safe_chat_text as chattext
from wakebus.plugin.receive.answers import Answers
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


def told(result: Any, now: float) -> Told:
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


def not_sent(reason: str) -> Told:
    """Return the channel result for what was not tried."""
    return {"result": "not_sent", "reason": reason, "at": time.time()}


class Prints:
    """`stop` ends the waiting."""

    def __init__(
        self,
        runner: Any,
        answers: Answers,
        heard: Heard,
        stop: threading.Event,
        environ: Mapping[str, str],
    ) -> None:
        self._runner, self._answers, self._heard = runner, answers, heard
        self._stop, self._environ = stop, environ

    def show(self, delivery: Delivery, text: str) -> Told:
        """Show `text` in the chat of the message's channel. Raises NotRunning as Answers does."""
        try:
            named = channels.parse(delivery.message.channel)
            if named.platform.lower() not in origin.platforms(self._runner):
                missing = not_sent(f"no {named.platform} here")
                return self._second(delivery, named, text, missing)
            channel = origin.home(self._runner, named, self._environ)
            if channel is not named:  # the courier may know another home
                channel = channel._replace(token=origin.canonical(channel))
        except BadChannel as exc:
            return not_sent(exc.text)
        first = self._first(channel, text)
        return (
            first if first["result"] != "not_sent" else self._rest(delivery, channel, text, first)
        )

    def _rest(self, delivery: Delivery, channel: Channel, text: str, first: Told) -> Told:
        """After `not_sent`: the other way, else the same way while the platform asks to wait."""
        told = self._second(delivery, channel, text, first)
        give_up = time.monotonic() + AGAIN_S
        while told["result"] == "not_sent" and "retry_after" in first:
            pause = first["retry_after"] or PAUSE_S
            if time.monotonic() + pause > give_up or self._stop.wait(pause):
                break
            first = told = self._first(channel, text)
        return told

    def _second(self, delivery: Delivery, channel: Channel, text: str, first: Told) -> Told:
        told = self._answers.show(delivery, text, channel.token)
        if told["result"] != "not_sent":
            return told
        return {**told, "reason": f"{first['reason']}; {told['reason']}"}

    def _first(self, channel: Channel, text: str) -> Told:
        seen = origin.people(self._runner, self._heard, channel)
        adapter = self._adapter(channel, seen)
        if adapter is None:
            return not_sent(f"{channel.platform} is not connected to the gateway now")
        metadata = _metadata(channel, seen)
        if channel.platform.lower() in _EXTRACTS:
            text = chattext.inert(text)

        def send() -> Any:
            return adapter.send(channel.chat_id, text, metadata=metadata)

        return {"to": channel.token, **told_by(lambda: onloop.call(self._runner, send, SEND_S))}

    def _adapter(self, channel: Channel, seen: list[Any]) -> Any:
        for source in seen:
            return origin.adapter_for(self._runner, source)
        member = origin.platforms(self._runner).get(channel.platform.lower())
        return dict(getattr(self._runner, "adapters", None) or {}).get(member)


def told_by(send: Callable[[], Any]) -> Told:
    """Return the channel result of a call that ends with a SendResult, or does not."""
    began = time.monotonic()
    try:
        result = send()
    except onloop.LoopGone:
        return not_sent("the gateway is stopping")
    except TimeoutError:
        reason = f"the platform did not answer within {time.monotonic() - began:.0f} s"
        return {"result": "uncertain", "reason": reason, "at": time.time()}
    except Exception as exc:
        reason = f"{type(exc).__name__}: {exc}"[:300]
        return {"result": "uncertain", "reason": reason, "at": time.time()}
    return told(result, time.time())


def _metadata(channel: Channel, seen: list[Any]) -> dict[str, Any] | None:
    """Return what leads to the thread; as Hermes makes it, where it knows the chat (base.py:55)."""
    make = getattr(sys.modules.get("gateway.platforms.base"), "_thread_metadata_for_source", None)
    if seen and callable(make):
        try:
            found = make(seen[0])
            return dict(found) if found else None
        except Exception:  # another Hermes
            pass
    return {"thread_id": channel.thread} if channel.thread else None
