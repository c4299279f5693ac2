"""
Where an answer goes: to the sender, to the chat that the channel names, or nowhere.

Rule 1: the channel and session are carried unchanged. Rule 2: an answer that exists is never lost:
while the broker is away the send is repeated under the same id. Rule 3: chats are the courier's;
it is queued for it even before it has ever run.
"""

import threading
import time
from typing import Any, Final

from wakebus.broker import Client, Delivery
from wakebus.broker import message as messages
from wakebus.broker.errors import NotNow, NotRunning, TimedOut, Undecided, WakebusError
from wakebus.plugin.rules.model import Reply

COURIER: Final = "courier"
PAUSE_S: Final = 0.5


class Answers:
    """Sends what an endpoint has to say; `stop` ends the repeating."""

    def __init__(self, client: Client, endpoint: str, stop: threading.Event) -> None:
        self._client, self._endpoint, self._stop = client, endpoint, stop

    def answer(self, delivery: Delivery, reply: Reply, text: str) -> dict[str, Any]:
        """Send `text` as `reply` says; return what the outcome tells of it."""
        told: dict[str, Any] = {}
        if reply in ("sender", "both"):
            told["answer"] = self._to_sender(delivery, text)
        channel = self._channel(delivery, reply)
        if channel:
            told["channel"] = self.say(delivery, channel, text)
        elif reply in ("channel", "both", "home"):
            told["channel"] = {"result": "not_sent", "reason": "the message names no channel"}
        return told

    def _channel(self, delivery: Delivery, reply: Reply) -> str:
        channel = delivery.message.channel
        if reply == "home":
            return channel.partition(":")[0]
        return channel if reply in ("channel", "both") else ""

    def _to_sender(self, delivery: Delivery, text: str) -> dict[str, Any]:
        message = delivery.message
        body = {"type": "answer", "text": text}
        if message.channel:
            body["channel"] = message.channel
        return self._send(delivery, message.sender, body, reply_to=message.id)

    def say(self, delivery: Delivery, channel: str, text: str) -> dict[str, Any]:
        """Hand `text` to the courier for `channel`."""
        body = {"type": "say", "text": text, "channel": channel}
        return {"to": COURIER, **self._send(delivery, COURIER, body, queue=True)}

    def _send(
        self, delivery: Delivery, to: str, body: dict[str, Any], **fields: Any
    ) -> dict[str, Any]:
        message = delivery.message
        id = messages.new_id(time.time())
        while True:
            try:
                receipt = self._client.send(
                    to,
                    body,
                    id=id,
                    sender=self._endpoint,
                    session=message.session,
                    cause=message.id,
                    hops=message.hops + 1,
                    path=(*message.path, self._endpoint)[-messages.MAX_PATH :],
                    **fields,
                )
                return {"result": receipt.state, "id": receipt.id}
            except (Undecided, NotNow, NotRunning, TimedOut) as exc:
                if self._stop.wait(PAUSE_S):
                    return {"result": "not_sent", "reason": str(exc)}
            except WakebusError as exc:
                return {"result": "not_sent", "reason": str(exc)}
