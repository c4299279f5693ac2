"""
Ending the broker: `stop` (section 1 of PROTOCOL.md).

Rule 1: who asks names the broker that it means, so that no other one ends, started meanwhile.
"""

import os

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest
from wakebus.broker.errors import BadMessage, Refused


def stop(hub: Hub, request: ClientRequest) -> None:
    """Verb `stop`: answer, finish what is accepted, end."""
    if request.uid not in (os.getuid(), 0):
        raise Refused(f"this broker is of user {os.getuid()}, you are user {request.uid}")
    if request.payload.get("boot") != hub.boot:
        raise BadMessage("`boot` is not that of this broker, which `hello` and address.json tell")
    hub.reply(request, {"pid": os.getpid()})
    hub.stop()
