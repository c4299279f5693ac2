"""Feishu's rules: errors stand in 200 and 400, a uuid makes one message within an hour."""

import json
from typing import Any

from fakes.chats.rules import Answer, Call, Rules, Step, reply


def error(code: int, status: int = 200, **headers: str) -> Answer:
    """Return an error as Feishu writes it."""
    return reply({"code": code, "msg": f"error {code}"}, status, **headers)


class Feishu(Rules):
    """An app (`send`) and a custom bot (`webhook`)."""

    name = "feishu"
    key_s = 3600.0
    renews = True

    def settings(self, url: str) -> dict[str, str]:
        """Return an app and a custom bot."""
        return {
            "FEISHU_APP_ID": "cli_1",
            "FEISHU_APP_SECRET": "hush-hush",
            "FEISHU_API_BASE": url,
            "FEISHU_WEBHOOK_URL": f"{url}/open-apis/bot/v2/hook/hush-hook",
        }

    def route(self, call: Call) -> str:
        """Return send, webhook, upload or token."""
        if not call.path.startswith("/open-apis/"):
            return ""
        if "tenant_access_token" in call.path:
            return "token"
        if "/bot/v3/info" in call.path:
            return "check"
        if "/im/v1/files" in call.path or "/im/v1/images" in call.path:
            return "upload"
        return "webhook" if "/hook/" in call.path else "send"

    def chat(self, call: Call) -> str:
        """Return the receive_id, or the message that a thread hangs on."""
        thread = call.path.split("/")[-2] if call.path.endswith("/reply") else ""
        return str(call.body.get("receive_id") or thread or self.route(call))

    def text(self, call: Call) -> str:
        """Return the text of a text or a post; of a file its key."""
        content: Any = call.body.get("content") or {}
        found = json.loads(content) if isinstance(content, str) else content
        if "zh_cn" in found:
            found = found["zh_cn"]["content"][0][0]
        return str(found.get("text") or found.get("file_key") or found.get("image_key"))

    def key(self, call: Call) -> str:
        """Return the uuid."""
        return str(call.body.get("uuid", ""))

    def fetched(self, call: Call, token: str) -> Answer:
        """Return a tenant_access_token for the app's secret."""
        if call.body.get("app_secret") != "hush-hush":
            return error(10014, 400)
        return reply({"code": 0, "msg": "ok", "tenant_access_token": token, "expire": 7200})

    def too_long(self, call: Call) -> Answer | None:
        """Return 230025 over 30 KB of body (a custom bot 20 KB), 99992402 for a long uuid."""
        if len(self.key(call)) > 50:
            return error(99992402, 400)
        limit = 20_000 if self.route(call) == "webhook" else 30_000
        return error(230025, 400) if len(call.data) > limit else None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return 99991400 in a 429 with its header, 11232 in a 200 without."""
        if hint is None:
            return error(11232)
        return error(99991400, 429, x_ogw_ratelimit_reset=str(hint))

    def unauthorized(self, call: Call) -> Answer:
        """Return 99991663, in a 400."""
        return error(99991663, 400)

    def permanent(self, call: Call) -> Answer:
        """Return 230001, in a 400."""
        return error(230001, 400)

    def error_in_200(self, call: Call) -> Answer:
        """Return 230001, in a 200."""
        return error(230001)

    def own(self, call: Call, step: Step) -> Answer | None:
        """Feishu's sessions are DingTalk's."""
        return error(230001) if step == "session_expired" else None

    def success(self, call: Call, id_: str) -> Answer:
        """Return code 0; a custom bot tells no id."""
        data = {"message_id": id_} if self.route(call) == "send" else {}
        return reply({"code": 0, "msg": "success", "data": data})

    def message_id(self, number: int) -> str:
        """Return an om_…"""
        return f"om_{number}"

    def other(self, call: Call, route: str) -> Answer:
        """Return a file's key, or who the bot is."""
        if route == "check":
            return reply({"code": 0, "msg": "ok", "bot": {"app_name": "bus", "open_id": "ou_bot"}})
        return reply({"code": 0, "msg": "success", "data": {"file_key": "file_v2_1"}})
