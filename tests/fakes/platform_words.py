"""What Feishu and DingTalk say, and how their requests are read: the words of fakes/platform.py."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

Step = Literal[
    "ok",
    "slow",  # accepted, and answered byte by byte
    "throttle_429",  # with `hint` seconds in the platform's header
    "throttle_in_200",  # without a hint
    "token_expired_once",  # the token is good no more; another one is
    "error_in_200",  # permanent, and HTTP 200
    "staff_invalid_in_200",
    "staff_flow_in_200",
    "session_expired",
    "html",  # HTTP 200 with a page
    "half",  # accepted; half an answer
    "error_500",  # accepted; and yet 500
    "hang",  # accepted; no answer until `release`
    "hang_lost",
    "reset_after_write",  # accepted; the connection is reset
    "reset_lost",
    "close_before_read",  # reset before the body was read
]
ACCEPTING = {"ok", "slow", "half", "error_500", "hang", "reset_after_write"}
HTML = b"<!doctype html><html><body>please log in</body></html>"


@dataclass(frozen=True)
class Seen:
    """One request; `token`: the credential that it showed."""

    route: str
    path: str
    chat: str
    body: dict[str, Any]
    headers: dict[str, str]
    step: str
    accepted: bool

    @property
    def token(self) -> str:
        """The access token in its header."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return bearer or self.headers.get("x-acs-dingtalk-access-token", "")

    @property
    def uuid(self) -> str:
        """Feishu's key."""
        return str(self.body.get("uuid", ""))


@dataclass(frozen=True)
class Message:
    """What stands in a chat."""

    chat: str
    text: str
    uuid: str
    id: str


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def is_feishu(path: str) -> bool:
    return path.startswith("/open-apis/")


def route(path: str) -> str:
    if "accessToken" in path or "tenant_access_token" in path:
        return "token"
    if "sendBySession" in path:
        return "session"
    return "webhook" if "/hook/" in path or path.startswith("/robot/send") else "send"


def chat(path: str, body: dict[str, Any]) -> str:
    users = body.get("userIds") or [""]
    thread = path.split("/")[-2] if path.endswith("/reply") else ""
    found = body.get("receive_id") or body.get("openConversationId") or users[0] or thread
    return str(found or route(path))


def text(body: dict[str, Any]) -> str:
    content = body.get("msgParam") or body.get("content") or body.get("markdown") or {}
    found = json.loads(content) if isinstance(content, str) else content
    if "zh_cn" in found:
        found = found["zh_cn"]["content"][0][0]
    return str(found["text"])


def reply(value: dict[str, Any], status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, json.dumps(value, ensure_ascii=False).encode(), named)


def error(path: str, feishu: int, dingtalk: str, status: int, **headers: str) -> Answer:
    """Return an error as the platform of this path writes it."""
    if is_feishu(path):
        return reply({"code": feishu, "msg": f"error {feishu}"}, status, **headers)
    if path.startswith("/robot/"):
        code = int(dingtalk) if dingtalk.isdigit() else 310000
        return reply({"errcode": code, "errmsg": f"session, error {code}"}, 200, **headers)
    return reply({"code": dingtalk, "requestid": "R", "message": dingtalk}, status, **headers)


def misdeed(seen: Seen, hint: float | None) -> Answer | None:
    """Return the answer of a step that accepts nothing and says so."""
    path, hook = seen.path, seen.route in ("webhook", "session")
    wait = {} if hint is None else {"x_ogw_ratelimit_reset": str(hint), "retry_after": str(hint)}
    many = "130101" if hook else "Forbidden.AccessDenied.QpsLimitForApi"
    answers: dict[str, Answer] = {
        "throttle_429": error(path, 99991400, many, 429, **wait),
        "throttle_in_200": error(path, 11232, "130101" if hook else "send.too.fast", 200),
        "token_expired_once": error(path, 99991663, "InvalidAuthentication", 400),
        "error_in_200": error(path, 230001, "310000" if hook else "miss.msgKey", 200),
        "staff_invalid_in_200": reply({"processQueryKey": "k", "invalidStaffIdList": ["u"]}),
        "staff_flow_in_200": reply({"processQueryKey": "k", "flowControlledStaffIdList": ["u"]}),
        "session_expired": error(path, 230001, "300001", 200),
        "html": Answer(200, HTML, {"content-type": "text/html"}),
        "hang_lost": Answer(0, b""),
        "reset_lost": Answer(0, b""),
    }
    return answers.get(seen.step)


def limits(seen: Seen) -> Answer | None:
    """Return the platform's refusal of a request over its limits."""
    if len(seen.uuid) > 50:
        return error(seen.path, 99992402, "", 400)
    size = len(json.dumps(seen.body, ensure_ascii=False, separators=(",", ":")).encode())
    if is_feishu(seen.path) and size > (20_000 if seen.route == "webhook" else 30_000):
        return error(seen.path, 230025, "", 400)
    if len(str(seen.body.get("msgParam", "")).encode()) > 15_000:
        return error(seen.path, 0, "invalidParameter.msgParam.tooLong", 400)
    return (
        error(seen.path, 0, "460101", 200) if not is_feishu(seen.path) and size > 20_000 else None
    )


def success(path: str, id_: str) -> Answer:
    if is_feishu(path):
        return reply({"code": 0, "msg": "success", "data": {"message_id": id_} if id_ else {}})
    if path.startswith("/robot/"):
        return reply({"errcode": 0, "errmsg": "ok"})
    return reply({"processQueryKey": f"pqk-{id_}"})
