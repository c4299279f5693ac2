"""
Where an answer goes: to the sender, to the chat that the channel names, or nowhere.

Rule 1: the channel and session are carried unchanged. Rule 2: an answer that exists is never lost:
while the broker is away the send is repeated under the same id; what nobody takes is told in the
outcome. Rule 3: nobody is told the same twice: a key names message and text, and the broker drops
the second; nor is it for us to speak once the delivery is lost. Rule 4: chats are the courier's; an
answer is queued for it even before it has ever run, a print that it cannot take belongs on the
terminal.
"""

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wakebus.adapters.base import COURIER
from wakebus.adapters.courier.preflight import Preflight
from wakebus.broker import Client, Delivery, Refusal
from wakebus.broker.errors import (
    Fenced,
    MailboxFull,
    NotNow,
    NotRunning,
    TimedOut,
    Undecided,
    UnknownTarget,
    WakebusError,
)
from wakebus.broker.paths import bus_dir
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol import wire
from wakebus.plugin.receive.failure import was_failure
from wakebus.plugin.receive.host import Told, begins_turn
from wakebus.plugin.rules.match import Plan, is_notice
from wakebus.plugin.rules.model import Reply

WEBHOOK: Final = "session_webhook"  # a platform's own short-lived way back (ADAPTERS.md 6)
PAUSE_S: Final = 0.5
FULL_S: Final = 60.0  # how long a full mailbox may hold up a turn's place
MAX_TEXT: Final = wire.MAX_BODY - (8 << 10)  # bytes as JSON; beside it: type, channel
NO_ENDPOINT: Final = "{}, who sent it, is no endpoint and does not wait for an answer"
_TOLD: Final = 1500  # characters of an answer that nobody took, kept in the outcome


class Answers:
    """Sends what an endpoint has to say; `stop` ends the repeating."""

    def __init__(
        self,
        client: Client,
        endpoint: str,
        stop: threading.Event,
        preflight: Preflight | None = None,
    ) -> None:
        self._client, self._endpoint, self._stop = client, endpoint, stop
        self._preflight = preflight or Preflight(bus_dir())

    def if_reachable(self, delivery: Delivery, plan: Plan) -> Plan | Refusal:
        """Return the plan, or why no turn is begun whose answer could not go where it should."""
        why = self._obstacle(delivery, plan.reply) if begins_turn(delivery, plan) else ""
        if why and is_notice(delivery.message):  # it is read; nobody waits for an answer to it
            return plan._replace(reply="none")
        return Refusal(why) if why else plan

    def _obstacle(self, delivery: Delivery, reply: Reply) -> str:
        """Return why no answer could go to the chat that `reply` means, "" where it can or may."""
        named = delivery.message.channel
        if not named or reply in ("sender", "none"):
            return ""
        return self.unreachable(delivery, _channel(delivery, reply) or named)

    def unreachable(self, delivery: Delivery, channel: str) -> str:
        """Return why the courier could not take an answer to `channel`, "" where it can or may."""
        why = self._preflight.obstacle(channel, _say(delivery, channel, ""))
        return why and f"no answer could go to {channel!r}: {why}"

    def courier_settings(self) -> str:
        """Return the path of the `.env` that the courier reads, "" where none is known."""
        return self._preflight.settings()

    def answer(self, delivery: Delivery, reply: Reply, text: str) -> dict[str, Told]:
        """
        Send `text` as `reply` says; return what the outcome tells of it: `answer`, `channel`, or
        `unsent`, the beginning of a text that goes to nobody.

        Raises NotRunning when the host stopped before the broker had it, Fenced when the message
        went to another holder.
        """
        told: dict[str, Told] = {}
        if reply in ("sender", "both"):
            told["answer"] = self.to_sender(delivery, text)
        if channel := _channel(delivery, reply):
            told["channel"] = _with_text(self.to_chat(delivery, channel, text), text)
        elif reply in ("channel", "both", "home"):
            told["channel"] = _with_text(not_sent("the message names no channel"), text)
        return told or unsent(text)

    def show(self, delivery: Delivery, text: str, channel: str = "", what: str = "print") -> Told:
        """
        Hand a print to the courier, unless it surely could not deliver it.

        channel: where it goes, if not to the message's own. what: each is handed over once of a
        message. Raises NotRunning as `answer` does.
        """
        channel = channel or delivery.message.channel
        body = _say(delivery, channel, cut_to_body(text))
        if why := self._preflight.obstacle(channel, body):
            return not_sent(why)
        key = f"{what}-{delivery.message.id}"
        return {"to": COURIER, **self._send(delivery, COURIER, body, key=key)}

    def spoke(self, delivery: Delivery) -> bool:
        """
        Whether anything was sent from inside the turn that works on this delivery, as the broker
        knows by its token. Raises NotRunning when the host stops before the broker says so.
        """
        return _sent_within(self._trace(delivery), delivery)

    def failed_before(self, delivery: Delivery) -> bool:
        """Whether work on it failed before it was brought back. Raises as `spoke` does."""
        steps = _steps(self._trace(delivery), delivery.message.id)
        reasons = (one.get("reason", "") for one in steps if one["what"] == "refused")
        return any(map(was_failure, reasons))

    def _trace(self, delivery: Delivery) -> Sequence[Mapping[str, Any]]:
        while True:
            try:
                return self._client.trace(delivery.message.id)
            except (NotNow, NotRunning, TimedOut) as exc:
                if self._stop.wait(PAUSE_S):
                    raise NotRunning(
                        f"stopped before the broker said what was done: {exc}"
                    ) from exc

    def to_sender(self, delivery: Delivery, text: str) -> Told:
        """Send `text` as the answer to the delivery's sender. Raises as `answer` does."""
        message = delivery.message
        body = {"type": "answer", "text": cut_to_body(text)}
        if message.channel:
            body["channel"] = message.channel
        key = _key("answer", message.id, text)
        told = self._send(delivery, message.sender, body, reply_to=message.id, key=key)
        return _with_text(told, text)

    def to_chat(self, delivery: Delivery, channel: str, text: str) -> Told:
        """Queue `text` for the courier as the answer. Raises as `answer` does."""
        key = _key("say", delivery.message.id, text)
        body = _say(delivery, channel, cut_to_body(text))
        return {"to": COURIER, **self._send(delivery, COURIER, body, queue=True, key=key)}

    def _send(self, delivery: Delivery, to: str, body: dict[str, Any], **fields: Any) -> Told:
        message, id = delivery.message, messages.new_id(time.time())
        fields |= {
            "id": id,
            "sender": self._endpoint,
            "session": message.session,
            "cause": message.id,
            "hops": message.hops + 1,
            "path": (*message.path, self._endpoint)[-messages.MAX_PATH :],
        }
        give_up = time.monotonic() + FULL_S
        while True:
            if delivery.lost:
                raise Fenced(f"{message.id} went to another holder; its answer is not ours to give")
            try:
                found = self._client.send(to, body, **fields).id
                again = {} if found == id else {"again": True}
                return {"result": "queued", "id": found, "at": time.time(), **again}
            except (Undecided, NotNow, NotRunning, TimedOut) as exc:
                if isinstance(exc, MailboxFull) and time.monotonic() > give_up:
                    return not_sent(exc.text)
                if self._stop.wait(PAUSE_S):
                    raise NotRunning(f"stopped before the broker took the answer: {exc}") from exc
            except WakebusError as exc:
                # A command line, or a session that has ended: no name that was written wrongly.
                gone = isinstance(exc, UnknownTarget) and to == message.sender
                return not_sent(NO_ENDPOINT.format(to) if gone else exc.text)


def describe_route(message: messages.Message, told: Mapping[str, Told]) -> str:
    """Return in words where an answer to `message` goes; `told` is what `answer` returned."""
    ways = {"answer": f"answer to {message.sender}", "channel": f"answer for {message.channel}"}
    found = [text for way, text in ways.items() if told.get(way, {}).get("result") == "queued"]
    return f"{' and '.join(found)} queued" if found else "done; nobody waits for its answer:"


def cut_to_body(text: str) -> str:
    """Return `text`, or as much of it as one message holds."""
    whole = len(text)
    while (size := len(wire.dumps(text))) > MAX_TEXT:
        text = text[: int(len(text) * 0.98 * MAX_TEXT / size)]
    return text if len(text) == whole else f"{text}\n[cut: {len(text)} of {whole} characters]"


def _sent_within(rows: Sequence[Mapping[str, Any]], delivery: Delivery) -> bool:
    """Whether some of these rows of a trace were sent by the turn that began last on a message."""
    id = delivery.message.id
    begun = max(_times(_steps(rows, id), "started"), default=0.0)
    return any(
        row.get("cause") == id
        and row.get("from") == delivery.name
        and not row.get("claimed")
        and max(_times(row["steps"], "accepted"), default=0.0) >= begun
        for row in rows
    )


def _steps(rows: Sequence[Mapping[str, Any]], id: str) -> Sequence[Mapping[str, Any]]:
    return next((row["steps"] for row in rows if row["id"] == id), ())


def _times(steps: Sequence[Mapping[str, Any]], what: str) -> list[float]:
    return [step["t"] for step in steps if step["what"] == what]


def _channel(delivery: Delivery, reply: Reply) -> str:
    channel = delivery.message.channel
    if reply == "home":
        return channel.partition(":")[0]
    return channel if reply in ("channel", "both") else ""


def _say(delivery: Delivery, channel: str, text: str) -> dict[str, Any]:
    body: dict[str, Any] = {"type": "say", "text": text, "channel": channel}
    if WEBHOOK in delivery.message.body and channel == delivery.message.channel:
        body[WEBHOOK] = delivery.message.body[WEBHOOK]
    return body


def _key(what: str, id: str, text: str) -> str:
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
    return f"{what}-{id}-{digest[:16]}"


def not_sent(reason: str) -> Told:
    """Return what is told of a text that was not tried."""
    return {"result": "not_sent", "reason": reason, "at": time.time()}


def unsent(text: str) -> dict[str, Told]:
    """Return what is told of a text that goes to nobody."""
    return {"unsent": {"text": text[:_TOLD]}}


def _with_text(told: Told, text: str) -> Told:
    return told if told["result"] == "queued" else {**told, "text": text[:_TOLD]}
