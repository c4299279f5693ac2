"""
The platform `mattermost`: a bot that posts to channels, threads and people.

Rule 1: pure. Rule 2: `id` is a post's in a success and an error's in a refusal: only a 2xx with
26 characters is one of ours. Rule 3: a name leads to its channel in steps, each of which is a
Target whose kind says what is asked next.
Source: developers.mattermost.com/api-documentation (posts, files, channels); the server's post.go
(deduplicateCreatePost, PostMessageMaxRunesV2), ratelimit.go, file.go and config.go (defaults).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote, urlencode

from wakebus.adapters import markdown
from wakebus.adapters.base import (
    Capabilities,
    File,
    Limit,
    Outgoing,
    Request,
    Response,
    Sent,
    Target,
)
from wakebus.adapters.errors import BadTarget, Rejected
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning, error_for
from wakebus.adapters.sanitize import line

_ACCOUNT: Final = ("MATTERMOST_URL", "MATTERMOST_TOKEN")
ID: Final = re.compile(r"[a-z0-9]{26}")
IDS: Final[Shapes] = {
    "channel": re.compile(r"([a-z0-9]{26})"),
    "user": re.compile(r"@([a-z0-9_][a-z0-9._-]{0,63})"),
    "named": re.compile(r"([a-z0-9-]{2,64}/[a-z0-9_-]{1,64})"),
    "name": re.compile(r"[#~]([a-z0-9_-]{1,64})"),
}
ID_HELP: Final = (
    "write the channel's id (26 characters), @name (a person), team/name or #name, all lower case"
)

_TOKEN: Final = "check MATTERMOST_TOKEN"
_NAME: Final = "is the name right, and is the bot in this team and channel?"
_POST: Final = "the thread's first message is gone"
_RIGHTS: Final = "add the bot to the channel, and let it post there"
_ROOT: Final = "a thread is named by the id of a message in this channel"
CODES: Final[Mapping[str, Meaning]] = {
    # The first request with this key is still being stored; what becomes of it, the next one tells.
    "api.post.deduplicate_create_post.pending": Meaning("uncertain"),
    "api.context.session_expired.app_error": Meaning(advice=_TOKEN),
    "api.context.invalid_token.error": Meaning(advice=_TOKEN),
    "api.context.permissions.app_error": Meaning(advice=_RIGHTS),
    "api.post.create_post.root_id.app_error": Meaning(advice=_ROOT),
    "api.post.create_post.channel_root_id.app_error": Meaning(advice=_ROOT),
    "api.post.create_post.can_not_post_to_deleted.error": Meaning(advice="it is archived"),
    "app.post.get.app_error": Meaning(advice=_POST),
    "app.user.missing_account.const": Meaning(advice=_NAME),
    "app.user.get_by_username.app_error": Meaning(advice=_NAME),
    "app.channel.get_by_name.missing.app_error": Meaning(advice=_NAME),
    "app.team.get_by_name.missing.app_error": Meaning(advice=_NAME),
    "model.post.is_valid.message_length.app_error": Meaning(
        advice="an old database takes 4,000 characters; send shorter texts"
    ),
    "api.file.upload_file.too_large_detailed.app_error": Meaning(
        advice="the server's own limit is lower; send a link"
    ),
}
_BY_STATUS: Final = {401: Meaning(advice=_TOKEN), 403: Meaning(advice=_RIGHTS)}


class Mattermost:
    """The server remembers a pending_post_id for 30 s; what is in doubt goes again within 25."""

    # RateLimitSettings' defaults, off in most servers: 10 a second, 100 at once, a bucket (GCRA of
    # throttled/throttled: app/ratelimit.go); MaxFileSize 100 M.
    capabilities: ClassVar = Capabilities(
        max_text=16_383,
        threads=True,
        idempotent_s=25.0,
        limits=(Limit(100, 10.0, "app", refills=True),),
        max_file=100 << 20,
        settings=_ACCOUNT,
        needs=(_ACCOUNT,),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        pair = urls.pair(env, *_ACCOUNT)
        urls.require(pair, " and ".join(_ACCOUNT))
        self._api = urls.base_url(env, "MATTERMOST_URL", "https://chat.example.com") + "/api/v4"
        self._headers = {"Authorization": f"Bearer {urls.credential(env, _ACCOUNT[1])}"}

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is channel, user, named (team/name) or name (#name)."""
        kind = chat_ids.kind_of("mattermost", chat_id, IDS, ID_HELP)
        target = Target("mattermost", chat_id, thread, kind)
        if thread is not None and not ID.fullmatch(thread):
            chat = replace(target, thread=None)
            raise BadTarget(f"{chat}: thread {thread[:80]!r} is no post's id (26 characters)")
        return target

    def lookup(self, target: Target) -> Request | None:
        """Return the question that leads from a name to its channel, from a reply to its root."""
        asked = lookup_question(target)
        if asked is None:
            return None
        return Request(self._api + asked.path, asked.body, self._headers, asked.method)

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the chat one step nearer."""
        return next_target(target, response)

    def measure(self, text: str) -> int:
        """Return the runes of the text as it goes out."""
        return markdown.size(text, markdown.mattermost, self.capabilities.max_text)

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the request that brings the file to the channel; the body is the file."""
        file = outgoing.file
        if file is None or file.ref:
            return None
        query = urlencode({"channel_id": target.chat_id, "filename": file.name})
        headers = self._headers | {"Content-Type": file.media_type}
        return Request(f"{self._api}/files?{query}", file.data, headers)

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with the id that the upload gave it."""
        infos = read_answer(response).get("file_infos")
        first = infos[0] if isinstance(infos, list) and infos else None
        if not isinstance(first, dict) or not ID.fullmatch(str(first.get("id"))):
            raise responses.unexpected(response)
        return replace(file, ref=str(first["id"]))

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request for a post; the key is its pending_post_id."""
        body: dict[str, Any] = {
            "channel_id": target.chat_id,
            "message": markdown.mattermost(outgoing.text),
            "pending_post_id": outgoing.key,
        }
        body |= {"root_id": target.thread} if target.thread else {}
        body |= {"file_ids": [outgoing.file.ref]} if outgoing.file else {}
        return requests.post_json(f"{self._api}/posts", body, **self._headers)

    def parse_response(self, response: Response) -> Sent:
        """Return the post's id, or raise what the error's id means."""
        return Sent(read_id(response))

    def check_request(self, token: str) -> Request | None:
        """Return the request for the bot's own user."""
        return Request(f"{self._api}/users/me", headers=self._headers, method="GET")

    def parse_check(self, response: Response) -> str:
        """Return the bot's name."""
        read_id(response)
        return line(f"@{responses.text_field(read_answer(response), 'username', response)}", 80)


class Question(NamedTuple):
    """What is asked next about a chat."""

    path: str
    body: bytes = b""
    method: str = "GET"


def read_answer(response: Response) -> dict[str, Any]:
    """Return the object of a request that was taken, or raise what the answer means."""
    wait = responses.retry_after(response, "retry-after", "x-ratelimit-reset")
    if response.status == 429:  # before any code of the API: a plain text
        raise error_for(Meaning("throttled", scope="app"), "429: too many requests", wait)
    found = responses.json_answer(response)
    if responses.succeeded(response):
        return found
    code = found.get("id")
    if not isinstance(code, str) or "." not in code:
        raise responses.unexpected(response)
    meaning = CODES.get(code, _BY_STATUS.get(response.status))
    table = {} if meaning is None else {code: meaning}
    raise responses.refusal(table, code, found.get("message"), response, wait)


def read_id(response: Response) -> str:
    """Return the id in an answer, or raise what the answer means."""
    return responses.text_field(read_answer(response), "id", response, ID)


def lookup_question(target: Target) -> Question | None:
    """Return what is asked next about this chat, None when it is a channel and a thread's root."""
    chat = quote(target.chat_id.lstrip("@#~"), safe="")
    if target.kind == "user":
        return Question(f"/users/username/{chat}")
    if target.kind == "person":
        return Question("/users/me")
    if target.kind == "pair":
        return Question(
            "/channels/direct", requests.compact_json(target.chat_id.split(" ")).encode(), "POST"
        )
    if target.kind == "name":
        return Question("/users/me/teams")
    if target.kind == "named":
        team, _, name = target.chat_id.partition("/")
        return Question(f"/teams/name/{team}/channels/name/{name}")
    if target.kind == "channel" and target.thread:
        return Question(f"/posts/{target.thread}")
    return None


def next_target(target: Target, response: Response) -> Target:
    """Return the chat one step nearer, or raise what the answer means."""
    if target.kind == "user":
        return replace(target, kind="person", chat_id=read_id(response))
    if target.kind == "person":
        return replace(target, kind="pair", chat_id=f"{read_id(response)} {target.chat_id}")
    if target.kind == "name":
        return replace(target, kind="named", chat_id=f"{_only_team(response)}/{target.chat_id[1:]}")
    if target.kind == "channel":
        return replace(target, kind="thread", thread=_thread_root(target, response))
    return replace(target, kind="channel", chat_id=read_id(response))


def _only_team(response: Response) -> str:
    """Return the name of the bot's only team."""
    try:
        found = json.loads(response.body) if responses.succeeded(response) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        read_answer(response)  # raises what a refusal means
        raise responses.unexpected(response)
    names = [responses.text_field(one, "name", response) for one in found if isinstance(one, dict)]
    if len(names) != 1 or not IDS["named"].fullmatch(f"{names[0]}/x"):
        raise Rejected(f"the bot is in {len(names)} teams; write team/name, not #name")
    return names[0]


def _thread_root(target: Target, response: Response) -> str:
    """Return the post that opened the thread: a reply opens none (hermes-agent #28005)."""
    found = read_answer(response)
    own, channel = found.get("id"), found.get("channel_id")
    root = found.get("root_id") or own
    if not isinstance(own, str) or not isinstance(root, str) or not ID.fullmatch(root):
        raise responses.unexpected(response)
    if channel != target.chat_id:
        raise Rejected(f"the thread {target.thread} is in another channel; {_ROOT}")
    return root
