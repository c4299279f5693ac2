"""
The platform `ntfy`: notifications of a topic, at ntfy.sh or a server of one's own.

Source: docs.ntfy.sh/publish (publish as JSON, attach local file, limitations). There is no key:
nothing is sent twice in doubt.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Capabilities, Limit, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import ntfy_facts as facts

_SERVER: Final = "https://ntfy.sh"
_PACE: Final = Limit(60, 300.0, "app", refills=True)
_SETTINGS: Final = ("NTFY_SERVER_URL", "NTFY_TOKEN")


class Ntfy:
    """A topic is a chat; no threads, no keys. Without a token it writes where anybody may."""

    # message-size-limit 4K, attachment-file-size-limit 15M; 60 requests, then one in 5 s.
    capabilities: ClassVar = Capabilities(
        *(4096, "bytes"), limits=(_PACE,), max_file=15 << 20, settings=_SETTINGS
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._server = urls.base(env, "NTFY_SERVER_URL", _SERVER)
        self._headers = facts.credential(env, "NTFY_TOKEN")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the topic."""
        kind = ids.kind_of("ntfy", chat_id, facts.IDS, facts.RIGHT)
        ids.no_thread("ntfy", chat_id, thread)
        return Target("ntfy", chat_id, kind=kind)

    def measure(self, text: str) -> int:
        """Return the bytes of the text as it goes out: over 4096 it becomes an attachment."""
        return marks.size(text, marks.ntfy, self.capabilities.max_text, facts.size)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request: JSON for a text; a file is its body, and its name a header."""
        if outgoing.file:
            name = {"Filename": facts.header(outgoing.file.name)}
            url = f"{self._server}/{target.chat_id}"
            return Request(url, outgoing.file.data, self._headers | name, "PUT")
        body: dict[str, Any] = {"topic": target.chat_id, "message": outgoing.text}
        if marks.has_marks(outgoing.whole or outgoing.text):
            body |= {"message": marks.ntfy(outgoing.text), "markdown": True}
        return bodies.post(f"{self._server}/", body, **self._headers)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id, or raise what the code means."""
        found = facts.read(response)
        if found.get("event") == "message" and isinstance(found.get("id"), str) and found["id"]:
            return Sent(found["id"])
        raise answers.stranger(response)

    def check_request(self, token: str) -> Request | None:
        """Return the request for the account: of a wrong token or password it is a 401."""
        return Request(f"{self._server}/v1/account", headers=self._headers, method="GET")

    def parse_check(self, response: Response) -> str:
        """Return who we are; `*` is what ntfy calls everybody."""
        found = facts.read(response)
        if not isinstance(name := found.get("username"), str) or not name:
            raise answers.stranger(response)
        return "anybody (no NTFY_TOKEN)" if name == "*" else name
