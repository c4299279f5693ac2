"""DingTalk's rules: OpenAPI, session webhooks and custom robots; no key anywhere."""

import json

from fakes.chats.rules import Answer, Call, Rules, Step, reply


class DingTalk(Rules):
    """A robot (`send`), a message's session (`session`) and a custom robot (`webhook`)."""

    name = "dingtalk"
    renews = True

    def settings(self, url: str) -> dict[str, str]:
        """Return an app and a custom robot."""
        return {
            "DINGTALK_CLIENT_ID": "ding1",
            "DINGTALK_CLIENT_SECRET": "hush-hush",
            "DINGTALK_API_BASE": url,
            "DINGTALK_WEBHOOK_BASE": url,
            "DINGTALK_WEBHOOK_URL": f"{url}/robot/send?access_token=hush-hook",
        }

    def route(self, call: Call) -> str:
        """Return send, session, webhook or token."""
        if not call.path.startswith(("/v1.0/", "/robot/")):
            return ""
        if "accessToken" in call.path:
            return "token"
        if "sendBySession" in call.path:
            return "session"
        return "webhook" if call.path == "/robot/send" else "send"

    def chat(self, call: Call) -> str:
        """Return the conversation or the user."""
        users = call.body.get("userIds") or [""]
        return str(call.body.get("openConversationId") or users[0] or self.route(call))

    def text(self, call: Call) -> str:
        """Return the Markdown."""
        content = call.body.get("msgParam") or call.body.get("markdown") or "{}"
        found = json.loads(content) if isinstance(content, str) else content
        return str(found["text"])

    def credential(self, call: Call) -> str:
        """Return its header of its own."""
        return call.headers.get("x-acs-dingtalk-access-token", "")

    def fetched(self, call: Call, token: str) -> Answer:
        """Return an accessToken for the app's secret."""
        if call.body.get("appSecret") != "hush-hush":
            return self._error(call, "invalidClientIdOrSecret", 400)
        return reply({"accessToken": token, "expireIn": 7200})

    def too_long(self, call: Call) -> Answer | None:
        """Return tooLong over 15,000 bytes of msgParam, 460101 over 20,000 of a webhook's body."""
        if len(str(call.body.get("msgParam", "")).encode()) > 15_000:
            return self._error(call, "invalidParameter.msgParam.tooLong", 400)
        return self._error(call, "460101") if len(call.data) > 20_000 else None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return a 403 that is none, or a code in a 200; webhooks know one code."""
        if self._hook(call):
            return self._error(call, "130101")
        if hint is None:
            return self._error(call, "send.too.fast")
        name = "Forbidden.AccessDenied.QpsLimitForApi"
        return self._error(call, name, 403, retry_after=str(hint))

    def unauthorized(self, call: Call) -> Answer:
        """Return InvalidAuthentication, in a 400."""
        return self._error(call, "InvalidAuthentication", 400)

    def permanent(self, call: Call) -> Answer:
        """Return that the robot is not there."""
        return self._error(call, "310000" if self._hook(call) else "resource.not.found", 400)

    def error_in_200(self, call: Call) -> Answer:
        """Return an error in a 200."""
        return self._error(call, "310000" if self._hook(call) else "miss.msgKey")

    def own(self, call: Call, step: Step) -> Answer | None:
        """Return a list that names the user, or that the session is over."""
        lists = {
            "staff_invalid_in_200": "invalidStaffIdList",
            "staff_flow_in_200": "flowControlledStaffIdList",
        }
        if step in lists:
            return reply({"processQueryKey": "k", lists[step]: ["u"]})
        return self._error(call, "300001") if step == "session_expired" else None

    def success(self, call: Call, id_: str) -> Answer:
        """Return the task's key; webhooks tell no id."""
        if self._hook(call):
            return reply({"errcode": 0, "errmsg": "ok"})
        return reply({"processQueryKey": id_})

    def message_id(self, number: int) -> str:
        """Return a processQueryKey."""
        return f"pqk-{number}"

    def _hook(self, call: Call) -> bool:
        return self.route(call) in ("webhook", "session")

    def _error(self, call: Call, code: str, status: int = 200, **headers: str) -> Answer:
        if self._hook(call):
            number = int(code) if code.isdigit() else 310000
            return reply({"errcode": number, "errmsg": f"session, error {number}"})
        return reply({"code": code, "requestid": "R", "message": code}, status, **headers)
