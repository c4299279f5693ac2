"""WeCom's rules: every error stands in a 200; what an app sends too much of is cut in silence."""

from fakes.chats.rules import Answer, Call, Rules, reply

_AGENT = 1000002
_CUT = 2048  # bytes of an app's text: 超过将截断
_HOOK = {"text": 2048, "markdown": 4096, "markdown_v2": 4096}


class WeCom(Rules):
    """An app to people and its groups (`send`), and a group's robot (`webhook`)."""

    name = "wecom"
    renews = True

    def settings(self, url: str) -> dict[str, str]:
        """Return an app and a group's robot."""
        return {
            "WECOM_CORP_ID": "ww1",
            "WECOM_CORP_SECRET": "hush-hush",
            "WECOM_AGENT_ID": "1000002",
            "WECOM_CALLBACK_CORP_ID": "ww1",
            "WECOM_CALLBACK_CORP_SECRET": "hush-hush",
            "WECOM_CALLBACK_AGENT_ID": "1000002",
            "WECOM_API_BASE": url,
            "WECOM_WEBHOOK_URL": f"{url}/cgi-bin/webhook/send?key=hush-hook",
        }

    def route(self, call: Call) -> str:
        """Return send, webhook, check or token."""
        names = {"/cgi-bin/gettoken": "token", "/cgi-bin/webhook/send": "webhook"}
        names["/cgi-bin/agent/get"] = "check"
        names |= dict.fromkeys(("/cgi-bin/message/send", "/cgi-bin/appchat/send"), "send")
        return names.get(call.path, "")

    def chat(self, call: Call) -> str:
        """Return the user or the group."""
        return str(call.body.get("touser") or call.body.get("chatid") or self.route(call))

    def text(self, call: Call) -> str:
        """Return what arrives: of an app's text the first 2048 bytes."""
        content = str(call.body[call.body["msgtype"]]["content"])
        if self.route(call) == "webhook":
            return content
        return content.encode()[:_CUT].decode(errors="replace")

    def credential(self, call: Call) -> str:
        """Return the token in the query."""
        return call.query.get("access_token", "")

    def fetched(self, call: Call, token: str) -> Answer:
        """Return an access_token for the app's id and secret."""
        if call.query.get("corpsecret") != "hush-hush":
            return self._error(40001)
        if call.query.get("corpid") != "ww1":
            return self._error(40013)
        return reply({"errcode": 0, "errmsg": "ok", "access_token": token, "expires_in": 7200})

    def too_long(self, call: Call) -> Answer | None:
        """Return 40056 for another app's id, 40058 for a robot's text over its limit."""
        if call.body.get("agentid", _AGENT) != _AGENT:
            return self._error(40056)
        kind = str(call.body["msgtype"])
        size = len(str(call.body[kind]["content"]).encode())
        over = self.route(call) == "webhook" and size > _HOOK[kind]
        return self._error(40058) if over else None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return 45009; WeCom says no wait."""
        return self._error(45009)

    def unauthorized(self, call: Call) -> Answer:
        """Return 42001."""
        return self._error(42001)

    def permanent(self, call: Call) -> Answer:
        """Return that nobody of the receivers is there."""
        return self._error(93000 if self.route(call) == "webhook" else 81013)

    def success(self, call: Call, id_: str) -> Answer:
        """Return errcode 0; only a message to people has an id."""
        told = {"msgid": id_} if call.path.endswith("/message/send") else {}
        return reply({"errcode": 0, "errmsg": "ok", **told})

    def message_id(self, number: int) -> str:
        """Return a msgid."""
        return f"msg-{number}"

    def other(self, call: Call, route: str) -> Answer:
        """Return the app; of another one that there is none."""
        if call.query.get("agentid") != str(_AGENT):
            return self._error(40056)
        return reply({"errcode": 0, "errmsg": "ok", "agentid": _AGENT, "name": "bus"})

    def _error(self, code: int) -> Answer:
        return reply({"errcode": code, "errmsg": f"error {code}, hint: [1]"})
