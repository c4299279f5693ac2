"""Our webhook contract, as a receiver keeps it (Standard Webhooks): a webhook-id makes one."""

import base64
import hashlib
import hmac

from fakes.chats.rules import Answer, Call, Rules, reply, whole

_RAW = b"hush-hush-hush-hush-hush"


class Webhook(Rules):
    """A receiver at /hooks/NAME; its chat is the name."""

    name = "webhook"
    key_s = 86_400.0
    token = "signed"
    secret = "whsec_" + base64.b64encode(_RAW).decode()

    def settings(self, url: str) -> dict[str, str]:
        """Return the receivers one to nine."""
        found = {}
        for number in range(1, 10):
            found[f"WEBHOOK_W{number}_URL"] = f"{url}/hooks/w{number}"
            found[f"WEBHOOK_W{number}_SECRET"] = self.secret
        return found

    def route(self, call: Call) -> str:
        """Return send."""
        return "send" if call.path.startswith("/hooks/") else ""

    def chat(self, call: Call) -> str:
        """Return the receiver's name."""
        return call.path.removeprefix("/hooks/")

    def key(self, call: Call) -> str:
        """Return the webhook-id."""
        return call.headers.get("webhook-id", "")

    def credential(self, call: Call) -> str:
        """Return `signed` where the signature is that of the very bytes."""
        parts = (self.key(call), call.headers.get("webhook-timestamp", ""), "")
        digest = hmac.new(_RAW, ".".join(parts).encode() + call.data, hashlib.sha256).digest()
        good = f"v1,{base64.b64encode(digest).decode()}"
        return "signed" if call.headers.get("webhook-signature") == good else "forged"

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return a 429, with Retry-After where it is known."""
        return reply({}, 429, **({} if hint is None else {"retry_after": whole(hint)}))

    def unauthorized(self, call: Call) -> Answer:
        """Return a 401."""
        return reply({"error": "bad signature"}, 401)

    def permanent(self, call: Call) -> Answer:
        """Return a 410: never again."""
        return reply({"error": "gone"}, 410)

    def success(self, call: Call, id_: str) -> Answer:
        """Return a 200."""
        return reply({"id": id_})
