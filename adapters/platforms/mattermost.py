"""
The platform `mattermost`: a bot that posts to channels, threads and people.

Source: developers.mattermost.com/api-documentation (posts, files, channels); the server's
post.go (deduplicateCreatePost, PostMessageMaxRunesV2), file.go and config.go (defaults).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from wakebus.adapters import base
from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Capabilities, File, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import mattermost_facts as facts

_SETTINGS: Final = ("MATTERMOST_URL", "MATTERMOST_TOKEN")

# A bucket (GCRA of throttled/throttled: app/ratelimit.go).
_PACE: Final = base.Limit(100, 10.0, "app", refills=True)


class Mattermost:
    """The server remembers a pending_post_id for 30 s; what is in doubt goes again within 25."""

    # RateLimitSettings' defaults, off in most servers: 10 a second, 100 at once; MaxFileSize 100 M.
    capabilities: ClassVar = Capabilities(
        *(16_383, "characters", True, 25.0, (_PACE,), 100 << 20),
        settings=_SETTINGS,
        needs=(_SETTINGS,),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        pair = urls.pair(env, *_SETTINGS)
        urls.needed(pair, " and ".join(_SETTINGS))
        self._api = urls.base(env, "MATTERMOST_URL", "https://chat.example.com") + "/api/v4"
        self._headers = {"Authorization": f"Bearer {urls.credential(env, _SETTINGS[1])}"}

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is channel, user, named (team/name) or name (#name)."""
        kind = ids.kind_of("mattermost", chat_id, facts.IDS, facts.RIGHT)
        return facts.in_thread(Target("mattermost", chat_id, kind=kind), thread)

    def lookup(self, target: Target) -> Request | None:
        """Return the question that leads from a name to its channel, from a reply to its root."""
        asked = facts.question(target)
        if asked is None:
            return None
        return Request(self._api + asked.path, asked.body, self._headers, asked.method)

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the chat one step nearer."""
        return facts.step(target, response)

    def measure(self, text: str) -> int:
        """Return the runes of the text as it goes out."""
        return marks.size(text, marks.mattermost, self.capabilities.max_text)

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the request that brings the file to the channel; the body is the file."""
        file = outgoing.file
        if file is None or file.ref:
            return None
        query = urlencode({"channel_id": target.chat_id, "filename": file.name})
        headers = self._headers | {"Content-Type": file.media_type}
        return Request(f"{self._api}/files?{query}", file.data, headers)

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with its id."""
        return facts.uploaded(file, response)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request for a post; the key is its pending_post_id."""
        body: dict[str, Any] = {
            "channel_id": target.chat_id,
            "message": marks.mattermost(outgoing.text),
            "pending_post_id": outgoing.key,
        }
        body |= {"root_id": target.thread} if target.thread else {}
        body |= {"file_ids": [outgoing.file.ref]} if outgoing.file else {}
        return bodies.post(f"{self._api}/posts", body, **self._headers)

    def parse_response(self, response: Response) -> Sent:
        """Return the post's id, or raise what the error's id means."""
        return Sent(facts.id_of(response))

    def check_request(self, token: str) -> Request | None:
        """Return the request for the bot's own user."""
        return Request(f"{self._api}/users/me", headers=self._headers, method="GET")

    def parse_check(self, response: Response) -> str:
        """Return the bot's name."""
        return facts.who(response)
