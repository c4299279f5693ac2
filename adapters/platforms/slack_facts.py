"""
What Slack says and wants to hear: ids, codes, answers of the Web API and of incoming webhooks.

Rule 1: pure. Rule 2: `ok` decides, not the status: errors stand in 200. A webhook says `ok` and
its errors in plain words. Rule 3: what is about a thread, a chat or a right is final.
Source: docs.slack.dev, chat.postMessage (errors), rate-limits, changelog 2016-05-17 (webhooks'
errors), conversations.open, files.completeUploadExternal; slack_sdk 3.48.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeGuard
from urllib.parse import urlencode, urlsplit

from wakebus.adapters.base import File, Limit, Outgoing, Request, Response, Target
from wakebus.adapters.errors import BadSetting
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit import urls
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
RIGHT: Final = "write an id, C… or G… (channel), D… (direct chat), U… (person), or webhook; no name"
DIRECT: Final = re.compile(r"D[A-Z0-9]{1,40}")
FILE: Final = re.compile(r"F[A-Z0-9]{1,40}")
# Hermes writes channel:ts; a thread is the ts of the message that opened it.
BOTH: Final = re.compile(r"([CGD][A-Z0-9]{8,30}):(\d{1,12}\.\d{6})", re.ASCII)
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


def read(response: Response, scope: str = "chat:write") -> dict[str, Any]:
    """
    Return the JSON of an answer with ok true, or raise what its error means.

    scope: what the app has to be granted where Slack says missing_scope.
    """
    found = answers.answer(response)
    code = found.get("error")
    if found.get("ok") is True and answers.fine(response):
        return found
    if found.get("ok") is not False or not isinstance(code, str) or not code:
        raise answers.stranger(response)
    table = {**CODES, "missing_scope": Meaning(advice=_grant(scope))}
    raise answers.refusal(table, code, "refused by Slack", response, _wait(response))


def token(value: str) -> str:
    """Return the bot's token ("" for none), or raise BadSetting for another kind of token."""
    first = value.partition(",")[0].strip()
    if first.startswith("xapp-"):
        raise BadSetting("SLACK_BOT_TOKEN: this is the app-level token; write the bot's, xoxb-…")
    if first and not TOKEN.fullmatch(first):
        raise BadSetting("SLACK_BOT_TOKEN: no bot token; write xoxb-…")
    return first


def asked(url: str, file: File, token: str) -> Request:
    """Return the request for a file's place; of this method Slack reads a form and no JSON."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    fields = {"filename": file.name, "length": str(len(file.data))}
    return Request(url, urlencode(fields).encode(), headers | {"Authorization": f"Bearer {token}"})


def shown(file: File, target: Target) -> dict[str, Any]:
    """Return what shows a stored file in a channel."""
    return {"files": [{"id": file.ref, "title": file.name}], "channel_id": target.chat_id}


def thread(target: Target, outgoing: Outgoing) -> dict[str, str]:
    """Return the thread, which is named by its first message; an answer opens one."""
    found = target.thread or outgoing.reply_to or ""
    return {"thread_ts": found} if THREAD.fullmatch(found) else {}


def sent(response: Response, hook: bool) -> str:
    """
    Return the ts of a message, the id of a file, "" of a webhook's `ok`; or raise.

    hook: it may be a webhook's answer, a plain word. Of the Web API a word is none.
    """
    if hook and _WORD.fullmatch(response.body):
        return _of_webhook(response)
    found = read(response)
    files = found.get("files")
    first = files[0] if isinstance(files, list) and files else None
    held = first.get("id") if isinstance(first, dict) else found.get("ts")
    if not isinstance(held, str) or not held:
        raise answers.stranger(response)
    return held


def opened(response: Response) -> str:
    """Return the id of the direct chat that conversations.open opened."""
    channel = read(response, scope="im:write").get("channel")
    found = channel.get("id") if isinstance(channel, dict) else None
    if not isinstance(found, str) or not DIRECT.fullmatch(found):
        raise answers.stranger(response)
    return found


def uploaded(file: File, response: Response, api: str) -> File:
    """Return the file with its place at Slack; then, what was put there answers, as stored."""
    if file.url:
        if not answers.fine(response):
            raise answers.stranger(response)
        return replace(file, stored=True)
    found = read(response, scope="files:write")
    ref, url = found.get("file_id"), found.get("upload_url")
    if not isinstance(ref, str) or not FILE.fullmatch(ref) or not _of_slack(url, api):
        raise answers.stranger(response)
    return replace(file, ref=ref, url=url)


def who(response: Response) -> str:
    """Return the bot's name and workspace, of an auth.test."""
    found = read(response)
    user, team = (answers.text_of(found, name, response) for name in ("user", "team"))
    return line(f"{user} in {team}", 100)


def _of_slack(url: object, api: str) -> TypeGuard[str]:
    """Whether a file may go there: to Slack itself, or to the host that the settings name."""
    if not isinstance(url, str) or not urls.safe(url):
        return False
    place, ours = urlsplit(url), urlsplit(api)
    if (place.scheme, place.netloc) == (ours.scheme, ours.netloc):
        return True
    return place.scheme == "https" and (place.hostname or "").endswith(".slack.com")


def _of_webhook(response: Response) -> str:
    word = response.body.decode().strip()
    if answers.fine(response):
        if word == "ok":
            return ""
        raise answers.stranger(response)
    raise answers.refusal(CODES, word, "refused by Slack", response, _wait(response))


def _grant(scope: str) -> str:
    return f"grant the app the scope {scope} and install it again"


def _wait(response: Response) -> float | None:
    return answers.seconds(response, "retry-after")
