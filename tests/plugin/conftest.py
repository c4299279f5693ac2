"""Values that the tests of the receive side share."""

from collections.abc import Callable
from typing import Any

import pytest

from wakebus.broker.protocol.message import Message

MakeMessage = Callable[..., Message]


@pytest.fixture
def make() -> MakeMessage:
    """Return a maker of messages: `make("text", type=…, channel=…, sender=…, wake=…)`."""

    def make_message(text: str = "hello", **fields: Any) -> Message:
        body = {"text": text}
        body |= {key: fields.pop(key) for key in ("type", "channel") if key in fields}
        known: dict[str, Any] = {"id": "m1", "ts": 1764288000.5, "sender": "alpha", "to": "lead"}
        return Message(**{**known, "body": body, **fields})

    return make_message
