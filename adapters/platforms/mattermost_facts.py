"""
What Mattermost says and wants to hear: ids, the ways from a name to a channel, codes, answers.

Rule 1: pure. Rule 2: `id` is a post's in a success and an error's in a refusal: only a 2xx with
26 characters is one of ours. Rule 3: a name leads to its channel in steps, each of which is a
Target whose kind says what is asked next.
Source: developers.mattermost.com/api-documentation; server/channels/app/post.go, ratelimit.go.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from wakebus.adapters.base import File, Response, Target
from wakebus.adapters.errors import BadTarget, Rejected
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning, error
from wakebus.adapters.kit.requests import compact
from wakebus.adapters.sanitize import line

ID: Final = re.compile(r"[a-z0-9]{26}")
IDS: Final[Shapes] = {
    "channel": re.compile(r"([a-z0-9]{26})"),
    "user": re.compile(r"@([a-z0-9_][a-z0-9._-]{0,63})"),
    "named": re.compile(r"([a-z0-9-]{2,64}/[a-z0-9_-]{1,64})"),
    "name": re.compile(r"[#~]([a-z0-9_-]{1,64})"),
}
RIGHT: Final = (
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


class Question(NamedTuple):
    """What is asked next about a chat."""

    path: str
    body: bytes = b""
    method: str = "GET"


def read(response: Response) -> dict[str, Any]:
    """Return the object of a request that was taken, or raise what the answer means."""
    wait = answers.seconds(response, "retry-after", "x-ratelimit-reset")
    if response.status == 429:  # before any code of the API: a plain text
        raise error(Meaning("throttled", scope="app"), "429: too many requests", wait)
    found = answers.answer(response)
    if answers.fine(response):
        return found
    code = found.get("id")
    if not isinstance(code, str) or "." not in code:
        raise answers.stranger(response)
    meaning = CODES.get(code, _BY_STATUS.get(response.status))
    table = {} if meaning is None else {code: meaning}
    raise answers.refusal(table, code, found.get("message"), response, wait)


def id_of(response: Response, name: str = "id") -> str:
    """Return the id in an answer, or raise what the answer means."""
    found = read(response).get(name)
    if isinstance(found, str) and ID.fullmatch(found):
        return found
    raise answers.stranger(response)


def who(response: Response) -> str:
    """Return the bot's name."""
    id_of(response)
    return line(f"@{answers.text_of(read(response), 'username', response)}", 80)


def in_thread(target: Target, thread: str | None) -> Target:
    """Return the chat with its thread, or raise BadTarget: a thread is named by a post's id."""
    if thread is not None and not ID.fullmatch(thread):
        raise BadTarget(f"{target}: thread {thread[:80]!r} is no post's id (26 characters)")
    return replace(target, thread=thread)


def uploaded(file: File, response: Response) -> File:
    """Return the file with the id that the upload gave it, or raise what the answer means."""
    infos = read(response).get("file_infos")
    first = infos[0] if isinstance(infos, list) and infos else None
    if not isinstance(first, dict) or not ID.fullmatch(str(first.get("id"))):
        raise answers.stranger(response)
    return replace(file, ref=str(first["id"]))


def question(target: Target) -> Question | None:
    """Return what is asked next about this chat, None when it is a channel and a thread's root."""
    chat = quote(target.chat_id.lstrip("@#~"), safe="")
    if target.kind == "user":
        return Question(f"/users/username/{chat}")
    if target.kind == "person":
        return Question("/users/me")
    if target.kind == "pair":
        return Question("/channels/direct", compact(target.chat_id.split(" ")).encode(), "POST")
    if target.kind == "name":
        return Question("/users/me/teams")
    if target.kind == "named":
        team, _, name = target.chat_id.partition("/")
        return Question(f"/teams/name/{team}/channels/name/{name}")
    if target.kind == "channel" and target.thread:
        return Question(f"/posts/{target.thread}")
    return None


def step(target: Target, response: Response) -> Target:
    """Return the chat one step nearer, or raise what the answer means."""
    if target.kind == "user":
        return replace(target, kind="person", chat_id=id_of(response))
    if target.kind == "person":
        return replace(target, kind="pair", chat_id=f"{id_of(response)} {target.chat_id}")
    if target.kind == "name":
        return replace(target, kind="named", chat_id=f"{_team(response)}/{target.chat_id[1:]}")
    if target.kind == "channel":
        return replace(target, kind="thread", thread=_root(target, response))
    return replace(target, kind="channel", chat_id=id_of(response))


def _team(response: Response) -> str:
    """Return the name of the bot's only team."""
    try:
        found = json.loads(response.body) if answers.fine(response) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        read(response)  # raises what a refusal means
        raise answers.stranger(response)
    names = [answers.text_of(one, "name", response) for one in found if isinstance(one, dict)]
    if len(names) != 1 or not IDS["named"].fullmatch(f"{names[0]}/x"):
        raise Rejected(f"the bot is in {len(names)} teams; write team/name, not #name")
    return names[0]


def _root(target: Target, response: Response) -> str:
    """Return the post that opened the thread: a reply opens none (hermes-agent #28005)."""
    found = read(response)
    own, root, channel = (
        found.get("id"),
        found.get("root_id") or found.get("id"),
        found.get("channel_id"),
    )
    if not isinstance(own, str) or not isinstance(root, str) or not ID.fullmatch(root):
        raise answers.stranger(response)
    if channel != target.chat_id:
        raise Rejected(f"the thread {target.thread} is in another channel; {_ROOT}")
    return root
