"""
The platform `slack`: an app that posts to channels, people and threads, or an incoming webhook.

Source: docs.slack.dev, chat.postMessage, conversations.open, files.getUploadURLExternal, auth.test,
incoming webhooks. There is no key: what may have been accepted is not sent again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Capabilities, File, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import Rejected
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import slack_facts as facts


class Slack:
    """A person's direct chat is opened first; a text is mrkdwn, and mentions nobody."""

    # Advised: 4000; from 4041 characters on Slack cuts by itself (FerroxLabs/wayland, measured).
    capabilities: ClassVar = Capabilities(
        *(4000, "utf16", True, 0.0, facts.LIMITS),
        max_file=1 << 30,  # slack_sdk, MAX_V2_FILE_SIZE
        settings=("SLACK_BOT_TOKEN", "SLACK_WEBHOOK_URL", "SLACK_API_BASE"),
        needs=(("SLACK_BOT_TOKEN",), ("SLACK_WEBHOOK_URL",)),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._token = facts.token(urls.setting(env, "SLACK_BOT_TOKEN"))
        self._webhook = urls.webhook(env, "SLACK_WEBHOOK_URL")
        self._api = urls.base(env, "SLACK_API_BASE", "https://slack.com/api")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is channel, dm, user or webhook."""
        chat_id, thread = ids.with_thread("slack", chat_id, thread, facts.BOTH, facts.THREAD)
        kind = ids.kind_of("slack", chat_id, facts.IDS, facts.RIGHT)
        return Target("slack", chat_id, thread, kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the one way to this chat, or raise BadSetting that names what it needs."""
        way = "webhook" if target.kind == "webhook" else "app"
        urls.needed(self._token or way == "webhook", "SLACK_BOT_TOKEN")
        urls.needed(self._webhook or way == "app", "SLACK_WEBHOOK_URL")
        return (way,)

    def measure(self, text: str) -> int:
        """Return the UTF-16 units of the mrkdwn."""
        return marks.size(text, marks.slack, self.capabilities.max_text, bodies.utf16)

    def lookup(self, target: Target) -> Request | None:
        """Return the request that opens a person's direct chat."""
        user = target.kind == "user"
        return self._call("conversations.open", {"users": target.chat_id}) if user else None

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the direct chat."""
        return replace(target, chat_id=facts.opened(response), kind="dm")

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the request for a place for the file, then the one that puts it there."""
        file = outgoing.file
        if file is None or file.stored or target.kind == "webhook":
            return None
        if file.url:
            return Request(file.url, file.data, {"Content-Type": "application/octet-stream"})
        return facts.asked(f"{self._api}/files.getUploadURLExternal", file, self._token)

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with its place, then as stored there."""
        return facts.uploaded(file, response, self._api)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return a chat.postMessage, a webhook's message, or what ends an upload."""
        way, thread = self.ways(target, outgoing)[0], facts.thread(target, outgoing)
        if file := outgoing.file:
            if way == "webhook":
                raise Rejected("slack:webhook takes no files; write a channel's id")
            return self._call("files.completeUploadExternal", facts.shown(file, target) | thread)
        body = {"text": marks.slack(outgoing.text), **thread, **facts.QUIET}
        if way == "webhook":
            return bodies.post(self._webhook, body)
        return self._call("chat.postMessage", {"channel": target.chat_id} | body)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's ts, a file's id, "" of a webhook; or raise what the error means."""
        return Sent(facts.sent(response, hook=bool(self._webhook)))

    def check_request(self, token: str) -> Request | None:
        """Return auth.test; None where there is a webhook only."""
        return self._call("auth.test", {}) if self._token else None

    def parse_check(self, response: Response) -> str:
        """Return the bot's name and workspace."""
        return facts.who(response)

    def _call(self, method: str, body: Mapping[str, Any]) -> Request:
        urls.needed(self._token, "SLACK_BOT_TOKEN")
        return bodies.post(f"{self._api}/{method}", body, Authorization=f"Bearer {self._token}")
