"""
Whether a text can go to a channel: asked by a host before it begins what an answer comes of.

Rule 1: nothing is performed, nothing is asked of a platform. Rule 2: no is said only of what surely
cannot be delivered: a token that is none or that the adapter cannot read, a platform that no
adapter is for or that the courier of this bus is not set up for. Rule 3: that courier's word counts
(bus/courier.json), and its `.env`; what it has only from its process is not seen from here, and
where it matters all else is left to it. While none runs nobody knows what the next one will have.
"""

import os
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from wakebus.adapters import channel, registry
from wakebus.adapters.base import Outgoing
from wakebus.adapters.channel import Channel
from wakebus.adapters.courier.status_file import Status, read_status
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.deliver import session_webhook
from wakebus.adapters.errors import (
    BadTarget,
    BrokenAdapter,
    DeliveryError,
    Rejected,
    UnknownAdapter,
)
from wakebus.adapters.sanitize import line
from wakebus.adapters.settings.environment import Environment
from wakebus.adapters.settings.redact import redact, secret_values

_ENV_FILE: Final = "$HERMES_HOME/.env"


class Preflight:
    """Asks for the bus of `folder`."""

    def __init__(self, folder: Path, load: registry.LoadAdapter = registry.load) -> None:
        self._folder, self._load = folder, load

    def settings(self) -> str:
        """Return the path of the `.env` that the courier reads, or read last; "" before it ran."""
        status = read_status(self._folder)
        return status.settings if status else ""

    def obstacle(self, token: str, body: Mapping[str, Any] | None = None) -> str:
        """
        Return why no text can go to channel `token`, "" where it can, or may.

        body: of the message that goes there, of which `session_webhook` counts.
        """
        try:
            asked = channel.parse(token)
        except DeliveryError as exc:
            return exc.text
        status = read_status(self._folder)
        row = status.set_up.get(asked.platform) if status and status.alive else None
        if status is None or row is None:
            return self._no_adapter(asked.platform)
        webhook = session_webhook(body or {}, time.time())
        outgoing = Outgoing("text", "preflight", webhook=webhook, at=time.time())
        why = self._refusal(asked, outgoing, status, row)
        where = f"{why} (see: wakebus channels {asked.platform})"
        return where.replace(_ENV_FILE, status.settings) if why else ""

    def _no_adapter(self, platform: str) -> str:
        """Return that no adapter is installed here for a platform of which no courier speaks."""
        try:
            self._load(platform)
        except UnknownAdapter as exc:
            return f"{exc.text} (see: wakebus channels)"
        except DeliveryError:  # the courier's may be another one
            pass
        return ""

    def _refusal(
        self, asked: Channel, outgoing: Outgoing, status: Status, row: Mapping[str, Any]
    ) -> str:
        exact, problem = not row.get("inherited"), str(row.get("problem") or "")
        if not exact and problem and not outgoing.webhook:
            return problem
        try:
            env = _environment(status.settings, exact)()
            secrets = secret_values(env)
            return line(redact(self._rehearsal(asked, outgoing, env, exact), secrets))
        except (UnknownAdapter, BrokenAdapter):  # here; the courier has it
            return problem
        except DeliveryError:  # its settings cannot be read from here, now
            return ""

    def _rehearsal(
        self, asked: Channel, outgoing: Outgoing, env: Mapping[str, str], exact: bool
    ) -> str:
        """Return the first thing that stands in the way of a text there, "" for nothing."""
        first = ""
        try:
            chat = GuardedAdapter.resolve(asked, env, self._load)
            for way in chat.ways(outgoing):
                try:
                    chat.rehearse(outgoing, way)
                    return ""
                except BrokenAdapter:  # a real access token may do better
                    raise
                except Rejected as exc:
                    first = first or exc.text
        except BadTarget as exc:
            return exc.text
        except (UnknownAdapter, BrokenAdapter):
            raise
        except Rejected as exc:
            first = exc.text
        return first if exact else ""


@lru_cache(maxsize=4)
def _environment(settings: str, exact: bool) -> Environment:
    """Return what reads the courier's `.env`; `exact`: nothing of a process counts."""
    return Environment({} if exact else os.environ, Path(settings), warn=lambda *_: None)
