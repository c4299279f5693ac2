"""
The platform `console`: a chat is a file in the bus's own folder. No account, nothing to install.

`console:NAME` is `bus/console-NAME.log`; console_log.py writes it. The reference of the contract:
everything an adapter is, in the least space.
"""

import math
import re
from collections.abc import Mapping
from typing import ClassVar, Final

from wakebus.adapters.base import (
    Capabilities,
    Outgoing,
    Request,
    Response,
    Sent,
    Target,
)
from wakebus.adapters.errors import BadTarget, Rejected, Unavailable, Uncertain
from wakebus.adapters.kit.responses import json_object

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class Console:
    """Appends to a file. A key makes a resend safe for as long as the file stands."""

    # A message's body ends at 1 MiB, so no text of the bus is ever over this.
    capabilities: ClassVar = Capabilities(max_text=1 << 20, unit="bytes", idempotent_s=math.inf)

    def __init__(self, env: Mapping[str, str]) -> None:
        """Need nothing from `env`."""

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat, or raise BadTarget: the name becomes part of a file's name."""
        if not _NAME.match(chat_id):
            raise BadTarget(f"console chat {chat_id[:80]!r}: a name has 1 to 64 of A-Z a-z 0-9 _ -")
        if thread is not None:
            raise BadTarget(f"console:{chat_id}: a console has no threads; leave ?thread= out")
        return Target("console", chat_id)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request that appends this text."""
        headers = {"key": outgoing.key}
        return Request(f"console:{target.chat_id}", outgoing.text.encode(), headers, "APPEND")

    def parse_response(self, response: Response) -> Sent:
        """Return the entry's id (its key), or raise by status: 4xx never, 5xx later."""
        answer = json_object(response)
        reason = str(answer.get("error", "no reason given"))
        if 400 <= response.status < 500:
            raise Rejected(reason)
        if response.status >= 500:
            raise Unavailable(reason)
        if response.status != 200 or not isinstance(answer.get("id"), str):
            raise Uncertain(f"status {response.status} without an id")
        return Sent(answer["id"])
