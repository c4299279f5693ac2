"""
The platform `apprise`: whatever Apprise reaches and we do not (mail, Pushover, Teams, …).

A chat is a name, its URL stands in the settings; apprise_call.py performs it, if the extra is
installed. Source: github.com/caronc/apprise.
"""

from collections.abc import Mapping
from typing import ClassVar

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import BadSetting
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import apprise_facts as facts


class Apprise:
    """Services by their names in the settings; no threads, no keys, no ids."""

    capabilities: ClassVar = facts.CARD

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: env[name] for name in env if name.startswith(facts.PREFIX)}

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the service."""
        kind = ids.kind_of("apprise", chat_id, ids.NAMES, facts.RIGHT)
        ids.no_thread("apprise", chat_id, thread)
        return Target("apprise", chat_id, kind=kind)

    def measure(self, text: str) -> int:
        """Return the characters of the text as it goes out: names in it call nobody."""
        return len(marks.quiet(text))

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request to notify this service; raise BadSetting that names the variable."""
        name = facts.variable(target.chat_id)
        url = urls.setting(self._env, name)
        urls.needed(url, name, ids.variables(self._env, facts.PREFIX))
        if problem := facts.ours([url.partition(":")[0].lower()]):
            raise BadSetting(f"{name}: {problem}")
        body, headers = marks.quiet(outgoing.text).encode(), {facts.URL_HEADER: url}
        return Request(f"apprise:{target.chat_id}", body, headers, "NOTIFY")

    def parse_response(self, response: Response) -> Sent:
        """Return Sent, without an id, or raise what the answer means."""
        facts.read(response)
        return Sent()
