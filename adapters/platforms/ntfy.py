"""
The platform `ntfy`: notifications of a topic, at ntfy.sh or a server of one's own.

Rule 1: pure. Rule 2: a code says more than its status: a day's quota is a 429 that no short wait
mends. Rule 3: a header is ASCII, so a file's name goes as RFC 2047 writes it. Rule 4: there is no
key: nothing is sent twice in doubt.
Source: docs.ntfy.sh/publish (publish as JSON, attach local file, limitations); server/errors.go,
server/server.go (handlePublishBody), config.go.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from wakebus.adapters import markdown
from wakebus.adapters.base import Capabilities, Limit, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning

IDS: Final[Shapes] = {"topic": re.compile(r"([-_A-Za-z0-9]{1,64})")}
ID_HELP: Final = "a topic has 1 to 64 of A-Z a-z 0-9 _ -"
_TOPIC: Final = "the server keeps this name for itself; take another topic"
_RIGHTS: Final = "check NTFY_TOKEN, and what it may do with this topic"
_SIZE: Final = "the server's limits are lower than ntfy's defaults"
CODES: Final[Mapping[int, Meaning]] = {
    40009: Meaning(advice=ID_HELP),
    40010: Meaning(advice=_TOPIC),
    40014: Meaning(advice="the server takes no files, or no text over its message-size-limit"),
    **dict.fromkeys((40101, 40301), Meaning(advice=_RIGHTS)),
    **dict.fromkeys((41301, 41303), Meaning(advice=_SIZE)),
    # 60 at once, then one in 5 s: server.yml, visitor-request-limit-replenish.
    42901: Meaning("throttled", wait_s=5.0, scope="app"),
    42909: Meaning("throttled", "check NTFY_TOKEN", wait_s=60.0, scope="app"),
    # Of a day: they are full again at midnight UTC, and the message is still good then.
    **dict.fromkeys((42905, 42908), Meaning("throttled", wait_s=3600.0, scope="app")),
    50701: Meaning(advice="nobody has subscribed to this topic"),
}
_ENVELOPE: Final = 120  # bytes around the text: the topic, names, braces


class Ntfy:
    """A topic is a chat; no threads, no keys. Without a token it writes where anybody may."""

    # message-size-limit 4K, attachment-file-size-limit 15M; 60 requests, then one in 5 s.
    capabilities: ClassVar = Capabilities(
        max_text=4096,
        unit="bytes",
        limits=(Limit(60, 300.0, "app", refills=True),),
        max_file=15 << 20,
        settings=("NTFY_SERVER_URL", "NTFY_TOKEN"),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._server = urls.base_url(env, "NTFY_SERVER_URL", "https://ntfy.sh")
        self._headers = authorization(env, "NTFY_TOKEN")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the topic."""
        kind = chat_ids.kind_of("ntfy", chat_id, IDS, ID_HELP)
        chat_ids.refuse_thread("ntfy", chat_id, thread)
        return Target("ntfy", chat_id, kind=kind)

    def measure(self, text: str) -> int:
        """Return the bytes of the text as it goes out: over 4096 it becomes an attachment."""
        return markdown.size(text, markdown.ntfy, self.capabilities.max_text, message_size)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request: JSON for a text; a file is its body, and its name a header."""
        if outgoing.file:
            name = {"Filename": header_text(outgoing.file.name)}
            url = f"{self._server}/{target.chat_id}"
            return Request(url, outgoing.file.data, self._headers | name, "PUT")
        body: dict[str, Any] = {"topic": target.chat_id, "message": outgoing.text}
        if markdown.has_marks(outgoing.whole or outgoing.text):
            body |= {"message": markdown.ntfy(outgoing.text), "markdown": True}
        return requests.post_json(f"{self._server}/", body, **self._headers)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id, or raise what the code means."""
        found = read_answer(response)
        if found.get("event") == "message" and isinstance(found.get("id"), str) and found["id"]:
            return Sent(found["id"])
        raise responses.unexpected(response)

    def check_request(self, token: str) -> Request | None:
        """Return the request for the account: of a wrong token or password it is a 401."""
        return Request(f"{self._server}/v1/account", headers=self._headers, method="GET")

    def parse_check(self, response: Response) -> str:
        """Return who we are; `*` is what ntfy calls everybody."""
        found = read_answer(response)
        if not isinstance(name := found.get("username"), str) or not name:
            raise responses.unexpected(response)
        return "anybody (no NTFY_TOKEN)" if name == "*" else name


def read_answer(response: Response) -> dict[str, Any]:
    """Return the answer to a request that was taken, or raise what it means."""
    found = responses.json_answer(response)
    if responses.succeeded(response):
        return found
    code = found.get("code")
    if type(code) is not int:
        raise responses.unexpected(response)
    wait = responses.retry_after(response, "retry-after")
    raise responses.refusal(CODES, code, found.get("error"), response, wait)


def authorization(env: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the header of a setting: `tk_…`, or `user:password` as Hermes takes it."""
    if ":" in (both := urls.setting(env, name)):
        return {"Authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}
    token = urls.credential(env, name)
    return {"Authorization": f"Bearer {token}"} if token else {}


def message_size(text: str) -> int:
    """Return the bytes of a text, or half of those it takes as JSON: ntfy reads twice its limit."""
    return max(requests.utf8_length(text), (requests.json_size(text) + _ENVELOPE + 1) // 2)


def header_text(name: str) -> str:
    """Return a file's name as a header may hold it; ntfy reads RFC 2047."""
    if name.isascii() and name.isprintable() and "=?" not in name:
        return name
    return f"=?UTF-8?B?{base64.b64encode(name.encode()).decode()}?="
