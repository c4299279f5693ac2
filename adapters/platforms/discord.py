"""
The platform `discord`: a bot that writes to channels, threads and people, or a channel's webhook.

Source: docs.discord.com/developers, resources/message (create-message), resources/user (create-dm),
resources/webhook (execute-webhook), reference (uploading files, user agent).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Capabilities, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import BadTarget
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import discord_facts as facts


class Discord:
    """A nonce makes one message of a bot's resends for some minutes; a webhook has none."""

    # "Up to 2000 characters", and nobody says which: UTF-16 is never too little.
    capabilities: ClassVar = Capabilities(
        *(2000, "utf16", True, facts.NONCE_S, facts.LIMITS),
        max_file=10 << 20,  # discord.py, DEFAULT_FILE_SIZE_LIMIT_BYTES; boosted servers take more
        settings=("DISCORD_BOT_TOKEN", "DISCORD_WEBHOOK_URL", "DISCORD_API_BASE"),
        needs=(("DISCORD_BOT_TOKEN",), ("DISCORD_WEBHOOK_URL",)),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._token = facts.token(urls.setting(env, "DISCORD_BOT_TOKEN"))
        self._webhook = urls.webhook(env, "DISCORD_WEBHOOK_URL")
        self._api = urls.base(env, "DISCORD_API_BASE", "https://discord.com/api/v10")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is channel, user or webhook."""
        chat_id, thread = ids.with_thread("discord", chat_id, thread, facts.BOTH, facts.THREAD)
        kind = ids.kind_of("discord", chat_id, facts.IDS, facts.RIGHT)
        if kind == "user" and thread is not None:
            raise BadTarget(f"discord chat {chat_id[:80]!r}: a direct chat has no threads")
        return Target("discord", chat_id, thread, kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the one way to this chat, or raise BadSetting that names what it needs."""
        hook = target.kind == "webhook"
        urls.needed(self._webhook or not hook, "DISCORD_WEBHOOK_URL")
        urls.needed(self._token or hook, "DISCORD_BOT_TOKEN")
        return ("webhook" if hook else "bot",)

    def key_time(self, target: Target, way: str) -> float:
        """Return 120, and 0 for a webhook, which enforces no nonce."""
        return 0.0 if target.kind == "webhook" else facts.NONCE_S

    def measure(self, text: str) -> int:
        """Return the UTF-16 units of the content."""
        return marks.size(text, marks.discord, self.capabilities.max_text, bodies.utf16)

    def lookup(self, target: Target) -> Request | None:
        """Return the request for a person's direct chat."""
        if target.kind != "user":
            return None
        urls.needed(self._token, "DISCORD_BOT_TOKEN")
        person = {"recipient_id": ids.bare(target.chat_id, facts.IDS["user"])}
        return bodies.post(f"{self._api}/users/@me/channels", person, **self._headers())

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the direct chat, a channel."""
        return replace(target, chat_id=facts.id_of(response), kind="channel")

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the message, with its file as a form; a thread is a channel of its own."""
        self.ways(target, outgoing)
        channel = target.thread or ids.bare(target.chat_id, facts.IDS[target.kind])
        url, headers = f"{self._api}/channels/{channel}/messages", self._headers()
        body = facts.QUIET | facts.keyed(outgoing)
        if target.kind == "webhook":
            url, body = facts.hook(self._webhook, target.thread), dict(facts.QUIET)
            headers = {"User-Agent": facts.AGENT}
        if file := outgoing.file:
            form = {"payload_json": bodies.compact(body | facts.shown(file))}
            return bodies.multipart(url, form, {"files[0]": file}, **headers)
        return bodies.post(url, {"content": marks.discord(outgoing.text)} | body, **headers)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id, or raise what the code means."""
        return Sent(facts.id_of(response))

    def check_request(self, token: str) -> Request | None:
        """Return the request that asks who the bot is; None where there is a webhook only."""
        url = f"{self._api}/users/@me"
        return Request(url, headers=self._headers(), method="GET") if self._token else None

    def parse_check(self, response: Response) -> str:
        """Return the bot's name and id."""
        return facts.who(response)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bot {self._token}", "User-Agent": facts.AGENT}
