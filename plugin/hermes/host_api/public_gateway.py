"""
A gateway by what newer Hermes offers to its plugins; what it does not offer yet, by looking inside.

Rule 1: `ctx.inject_message(session_key=)` begins a turn only in a session that is stored, and only
as somebody whom today's authorization admits: nobody (the owner's home channel) is refused, after
it has said that all is well. So it is asked beforehand, and there the turn is begun as in 0.19.
(`origin=` asks the same, so it is no other door.) Rule 2: the grant that it asks is the one that we
ask. Rule 3: it waits for the gateway's loop itself, so it is not called there.
"""

from collections.abc import Callable
from typing import Any

from wakebus.plugin.hermes.host_api.private_gateway import PrivateGateway
from wakebus.plugin.hermes.host_api.profile_part import ProfilePart
from wakebus.plugin.hermes.host_api.protocol import CannotBegin

REFUSED = "Hermes refused the turn (inject_message); its log says why"


class PublicGateway(PrivateGateway):
    """See protocol.GatewayApi. `inject`: Hermes's `ctx.inject_message`."""

    def __init__(
        self, runner: Any, inject: Callable[..., Any], part: ProfilePart | None = None
    ) -> None:
        super().__init__(runner, part)
        self._inject = inject

    def begin(
        self,
        text: str,
        source: Any,
        key: str,
        look: Callable[[], str],
        handed: Callable[[Any], None],
    ) -> str:
        """Let Hermes queue the text in the session itself; it makes the event."""
        stored = next((one for one in self.sessions() if one.key == key), None)
        if stored is None or not self.may_inject(stored.source):
            return super().begin(text, source, key, look, handed)

        async def looked() -> str:
            return look()

        if why := self._hand_over(looked):
            return why
        if self._inject(text, session_key=key) is False:
            raise CannotBegin(REFUSED)
        return ""
