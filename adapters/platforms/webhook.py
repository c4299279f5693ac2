"""
The platform `webhook`: a JSON to a URL of the settings, signed as Standard Webhooks are.

Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from wakebus.adapters.base import Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import BadTarget
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import webhook_facts as facts

_PREFIX: Final = "WEBHOOK_"


class Webhook:
    """Receivers by their names in the settings; each drops what came twice by `webhook-id`."""

    capabilities: ClassVar = facts.CARD

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: env[name] for name in env if name.startswith(_PREFIX)}

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the receiver; a thread is a field for it to read."""
        kind = ids.kind_of("webhook", chat_id, ids.NAMES, facts.RIGHT)
        if thread is not None and not facts.THREAD.fullmatch(thread):
            raise BadTarget(
                f"webhook chat {chat_id!r}: thread {thread[:80]!r} has other than words"
            )
        return Target("webhook", chat_id, thread, kind)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request, signed where the receiver has a secret."""
        name = target.chat_id
        place, secret = (ids.variable(_PREFIX, name, what) for what in ("_URL", "_SECRET"))
        url = urls.webhook(self._env, place)
        urls.needed(url, place, ids.variables(self._env, _PREFIX, "_URL"))
        value = urls.setting(self._env, secret)
        key = facts.secret(value, secret) if value else b""
        body = {"id": outgoing.key, "platform": "webhook", "chat_id": name, "text": outgoing.text}
        plain = bodies.post(url, body | ({"thread": target.thread} if target.thread else {}))
        signed = facts.headers(key, outgoing.key, outgoing.at, plain.body)
        return Request(url, plain.body, {**plain.headers, **signed})

    def parse_response(self, response: Response) -> Sent:
        """Return the receiver's id for it, if it gave one, or raise what the status means."""
        return Sent(facts.read(response))
