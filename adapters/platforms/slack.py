"""
The platform `slack`: an app that posts to channels, people and threads, or an incoming webhook.

Rule 1: pure. Rule 2: `ok` decides, not the status: errors stand in 200. A webhook says `ok` and
its errors in plain words. Rule 3: what is about a thread, a chat or a right is final. Rule 4: there
is no key: what may have been accepted is not sent again.
Source: docs.slack.dev, chat.postMessage (errors), conversations.open, files.getUploadURLExternal,
files.completeUploadExternal, auth.test, rate-limits, incoming webhooks, changelog 2016-05-17
(webhooks' errors); slack_sdk 3.48.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeGuard
from urllib.parse import urlencode, urlsplit

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
from wakebus.adapters.errors import BadSetting, Rejected
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import THROTTLED, Meaning
from wakebus.adapters.sanitize import line

# As Hermes tells them apart (send_message_tool.py): nine characters at least, or DEVOPS is a DM.
IDS: Final[Shapes] = {
    "channel": re.compile(r"([CG][A-Z0-9]{8,30})"),
    "dm": re.compile(r"(D[A-Z0-9]{8,30})"),
    "user": re.compile(r"([UW][A-Z0-9]{8,30})"),
    "webhook": re.compile(r"(webhook)"),
}
ID_HELP: Final = (
    "write an id, C… or G… (channel), D… (direct chat), U… (person), or webhook; no name"
)
DIRECT: Final = re.compile(r"D[A-Z0-9]{1,40}")
FILE: Final = re.compile(r"F[A-Z0-9]{1,40}")
# Hermes writes channel:ts; a thread is the ts of the message that opened it.
CHANNEL_AND_THREAD: Final = re.compile(r"([CGD][A-Z0-9]{8,30}):(\d{1,12}\.\d{6})", re.ASCII)
THREAD: Final = re.compile(r"\d{1,12}\.\d{6}", re.ASCII)
TOKEN: Final = re.compile(r"xox[a-z](?:\.xox[a-z])?-[!-~]{1,500}")

# "One message per second per channel", and bursts at Slack's mercy.
LIMITS: Final = (Limit(1, 1.0),)

_TOKEN: Final = "check SLACK_BOT_TOKEN"
_HOOK: Final = "check SLACK_WEBHOOK_URL"
_INVITE: Final = "is the id right? invite the bot to the channel"
_ARCHIVED: Final = "unarchive the channel"
_THREAD: Final = "is the thread's first message there? the text does not go to the whole channel"
_RULES: Final = "the workspace or channel does not let the app post"

CODES: Final[Mapping[str, Meaning]] = {
    # Retry-After says how long; a free workspace's own limits hold for all its apps.
    **dict.fromkeys(("ratelimited", "rate_limited"), THROTTLED),
    "message_limit_exceeded": Meaning("throttled", scope="app"),
    # request_timeout: "POST data was either missing or truncated".
    **dict.fromkeys(("service_unavailable", "request_timeout"), Meaning("unavailable")),
    "team_added_to_org": Meaning("unavailable"),
    # "It's possible some aspect of the operation succeeded before the error was raised."
    **dict.fromkeys(("internal_error", "fatal_error", "rollup_error"), Meaning("uncertain")),
    **dict.fromkeys(("invalid_auth", "not_authed", "account_inactive"), Meaning(advice=_TOKEN)),
    **dict.fromkeys(("token_revoked", "token_expired"), Meaning(advice=_TOKEN)),
    "not_allowed_token_type": Meaning(advice=f"{_TOKEN}: it must be a bot's, xoxb-…"),
    **dict.fromkeys(("channel_not_found", "not_in_channel"), Meaning(advice=_INVITE)),
    "invalid_channel": Meaning(advice=_INVITE),
    **dict.fromkeys(("user_not_found", "user_disabled"), Meaning(advice="is this person there?")),
    "users_not_found": Meaning(advice="is this person in the token's workspace?"),
    "cannot_dm_bot": Meaning(advice="write the id of a person"),
    **dict.fromkeys(("is_archived", "channel_is_archived"), Meaning(advice=_ARCHIVED)),
    "messages_tab_disabled": Meaning(advice="turn on the app's Messages Tab (App Home)"),
    **dict.fromkeys(("cannot_reply_to_message", "thread_not_found"), Meaning(advice=_THREAD)),
    **dict.fromkeys(("restricted_action", "action_prohibited"), Meaning(advice=_RULES)),
    **dict.fromkeys(("ekm_access_denied", "access_denied"), Meaning(advice=_RULES)),
    **dict.fromkeys(("no_permission", "posting_to_general_channel_denied"), Meaning(advice=_RULES)),
    **dict.fromkeys(("no_service", "no_team", "invalid_token"), Meaning(advice=_HOOK)),
    **dict.fromkeys(("no_active_hooks", "no_service_id"), Meaning(advice=_HOOK)),
    "msg_too_long": Meaning(advice="send less, or a file"),
    **dict.fromkeys(("file_uploads_disabled", "blocked_file_type"), Meaning(advice="send a link")),
}

# No previews of links; mrkdwn is a message's default, and said.
QUIET: Final = {"mrkdwn": True, "unfurl_links": False, "unfurl_media": False}
# Of a webhook: an answer in one word, with a _ unless it is ok. (A proxy says forbidden.)
_WORD: Final = re.compile(rb"(?:ok|[a-z]{1,40}(?:_[a-z]{1,40}){1,9})\s*")


class Slack:
    """A person's direct chat is opened first; a text is mrkdwn, and mentions nobody."""

    # Advised: 4000; from 4041 characters on Slack cuts by itself (FerroxLabs/wayland, measured).
    capabilities: ClassVar = Capabilities(
        max_text=4000,
        unit="utf16",
        threads=True,
        limits=LIMITS,
        max_file=1 << 30,  # slack_sdk, MAX_V2_FILE_SIZE
        settings=("SLACK_BOT_TOKEN", "SLACK_WEBHOOK_URL", "SLACK_API_BASE"),
        needs=(("SLACK_BOT_TOKEN",), ("SLACK_WEBHOOK_URL",)),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._token = bot_token(urls.setting(env, "SLACK_BOT_TOKEN"))
        self._webhook = urls.webhook_url(env, "SLACK_WEBHOOK_URL")
        self._api = urls.base_url(env, "SLACK_API_BASE", "https://slack.com/api")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is channel, dm, user or webhook."""
        chat_id, thread = chat_ids.split_thread(
            "slack", chat_id, thread, CHANNEL_AND_THREAD, THREAD
        )
        kind = chat_ids.kind_of("slack", chat_id, IDS, ID_HELP)
        return Target("slack", chat_id, thread, kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the one way to this chat, or raise BadSetting that names what it needs."""
        way = "webhook" if target.kind == "webhook" else "app"
        urls.require(self._token or way == "webhook", "SLACK_BOT_TOKEN")
        urls.require(self._webhook or way == "app", "SLACK_WEBHOOK_URL")
        return (way,)

    def measure(self, text: str) -> int:
        """Return the UTF-16 units of the mrkdwn."""
        return markdown.size(
            text, markdown.slack, self.capabilities.max_text, requests.utf16_length
        )

    def lookup(self, target: Target) -> Request | None:
        """Return the request that opens a person's direct chat."""
        user = target.kind == "user"
        return self._call("conversations.open", {"users": target.chat_id}) if user else None

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the direct chat."""
        return replace(target, chat_id=read_direct_chat(response), kind="dm")

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the request for a place for the file, then the one that puts it there."""
        file = outgoing.file
        if file is None or file.stored or target.kind == "webhook":
            return None
        if file.url:
            return Request(file.url, file.data, {"Content-Type": "application/octet-stream"})
        return upload_request(f"{self._api}/files.getUploadURLExternal", file, self._token)

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with its place, then as stored there."""
        return read_upload(file, response, self._api)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return a chat.postMessage, a webhook's message, or what ends an upload."""
        way, thread = self.ways(target, outgoing)[0], thread_fields(target, outgoing)
        if file := outgoing.file:
            if way == "webhook":
                raise Rejected("slack:webhook takes no files; write a channel's id")
            return self._call("files.completeUploadExternal", shared_file(file, target) | thread)
        body = {"text": markdown.slack(outgoing.text), **thread, **QUIET}
        if way == "webhook":
            return requests.post_json(self._webhook, body)
        return self._call("chat.postMessage", {"channel": target.chat_id} | body)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's ts, a file's id, "" of a webhook; or raise what the error means."""
        return Sent(read_sent_id(response, hook=bool(self._webhook)))

    def check_request(self, token: str) -> Request | None:
        """Return auth.test; None where there is a webhook only."""
        return self._call("auth.test", {}) if self._token else None

    def parse_check(self, response: Response) -> str:
        """Return the bot's name and workspace."""
        found = read_answer(response)
        user, team = (responses.text_field(found, name, response) for name in ("user", "team"))
        return line(f"{user} in {team}", 100)

    def _call(self, method: str, body: Mapping[str, Any]) -> Request:
        urls.require(self._token, "SLACK_BOT_TOKEN")
        return requests.post_json(
            f"{self._api}/{method}", body, Authorization=f"Bearer {self._token}"
        )


def read_answer(response: Response, scope: str = "chat:write") -> dict[str, Any]:
    """
    Return the JSON of an answer with ok true, or raise what its error means.

    scope: what the app has to be granted where Slack says missing_scope.
    """
    found = responses.json_answer(response)
    code = found.get("error")
    if found.get("ok") is True and responses.succeeded(response):
        return found
    if found.get("ok") is not False or not isinstance(code, str) or not code:
        raise responses.unexpected(response)
    table = {**CODES, "missing_scope": Meaning(advice=_grant_advice(scope))}
    raise responses.refusal(table, code, "refused by Slack", response, _wait(response))


def bot_token(value: str) -> str:
    """Return the bot's token ("" for none), or raise BadSetting for another kind of token."""
    first = value.partition(",")[0].strip()
    if first.startswith("xapp-"):
        raise BadSetting("SLACK_BOT_TOKEN: this is the app-level token; write the bot's, xoxb-…")
    if first and not TOKEN.fullmatch(first):
        raise BadSetting("SLACK_BOT_TOKEN: no bot token; write xoxb-…")
    return first


def upload_request(url: str, file: File, token: str) -> Request:
    """Return the request for a file's place; of this method Slack reads a form and no JSON."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    fields = {"filename": file.name, "length": str(len(file.data))}
    return Request(url, urlencode(fields).encode(), headers | {"Authorization": f"Bearer {token}"})


def shared_file(file: File, target: Target) -> dict[str, Any]:
    """Return what shows a stored file in a channel."""
    return {"files": [{"id": file.ref, "title": file.name}], "channel_id": target.chat_id}


def thread_fields(target: Target, outgoing: Outgoing) -> dict[str, str]:
    """Return the thread, which is named by its first message; an answer opens one."""
    found = target.thread or outgoing.reply_to or ""
    return {"thread_ts": found} if THREAD.fullmatch(found) else {}


def read_sent_id(response: Response, hook: bool) -> str:
    """
    Return the ts of a message, the id of a file, "" of a webhook's `ok`; or raise.

    hook: it may be a webhook's answer, a plain word. Of the Web API a word is none.
    """
    if hook and _WORD.fullmatch(response.body):
        return _read_webhook_answer(response)
    found = read_answer(response)
    files = found.get("files")
    first = files[0] if isinstance(files, list) and files else None
    held = first.get("id") if isinstance(first, dict) else found.get("ts")
    if not isinstance(held, str) or not held:
        raise responses.unexpected(response)
    return held


def read_direct_chat(response: Response) -> str:
    """Return the id of the direct chat that conversations.open opened."""
    channel = read_answer(response, scope="im:write").get("channel")
    found = channel.get("id") if isinstance(channel, dict) else None
    if not isinstance(found, str) or not DIRECT.fullmatch(found):
        raise responses.unexpected(response)
    return found


def read_upload(file: File, response: Response, api: str) -> File:
    """Return the file with its place at Slack; then, what was put there answers, as stored."""
    if file.url:
        if not responses.succeeded(response):
            raise responses.unexpected(response)
        return replace(file, stored=True)
    found = read_answer(response, scope="files:write")
    ref, url = found.get("file_id"), found.get("upload_url")
    if not isinstance(ref, str) or not FILE.fullmatch(ref) or not _may_upload_to(url, api):
        raise responses.unexpected(response)
    return replace(file, ref=ref, url=url)


def _may_upload_to(url: object, api: str) -> TypeGuard[str]:
    """Whether a file may go there: to Slack itself, or to the host that the settings name."""
    if not isinstance(url, str) or not urls.is_safe(url):
        return False
    place, ours = urlsplit(url), urlsplit(api)
    if (place.scheme, place.netloc) == (ours.scheme, ours.netloc):
        return True
    return place.scheme == "https" and (place.hostname or "").endswith(".slack.com")


def _read_webhook_answer(response: Response) -> str:
    word = response.body.decode().strip()
    if response.status < 400:
        if responses.succeeded(response) and word == "ok":
            return ""
        raise responses.unexpected(response)
    raise responses.refusal(CODES, word, "refused by Slack", response, _wait(response))


def _grant_advice(scope: str) -> str:
    return f"grant the app the scope {scope} and install it again"


def _wait(response: Response) -> float | None:
    return responses.retry_after(response, "retry-after")
