"""
Pairs of endpoints that are paused, as people are told of them; the verb `resume` (PROTOCOL.md
section 10).

Rule 1: a refusal says why, until when, and who lifts it. Rule 2: whoever is on this bus may lift a
pause (one user, one trust); that a model does not lift its own is for its tools.
"""

import time
from typing import Any

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.loop_guard import PausedPair
from wakebus.broker.core.model import ClientRequest
from wakebus.broker.errors import BadMessage, Loop
from wakebus.broker.protocol.message import check_name


def describe_pause(hub: Hub, pair: PausedPair) -> dict[str, Any]:
    """Return what is told of a pause; `until` is wall seconds."""
    until = hub.clock.wall() + pair.until - hub.clock.mono()
    return {"from": pair.sender, "to": pair.to, "reason": pair.reason, "until": round(until, 3)}


def loop_error(hub: Hub, pair: PausedPair) -> Loop:
    """Return the error of a message that is one too many."""
    told = describe_pause(hub, pair)
    clock = time.strftime("%H:%M", time.localtime(told["until"]))
    return Loop(
        # The next step stands first: where this is repeated as a reason, its end is cut off.
        f"a loop, paused until {clock}; a person ends that: wakebus resume {pair.sender} {pair.to};"
        f" {pair.sender} → {pair.to}: {pair.reason}; nothing was stored",
        **told,
    )


def resume(hub: Hub, request: ClientRequest) -> None:
    """Verb `resume`: lift the pause `from` → `to`, or all that `name` is in, or all."""
    payload = request.payload
    given = {
        field: check_name(payload[field], field)
        for field in ("name", "from", "to")
        if payload.get(field) is not None
    }
    pair = (given["from"], given["to"]) if {"from", "to"} <= given.keys() else None
    if given.keys() not in (set(), {"name"}, {"from", "to"}):
        raise BadMessage("resume: `from` and `to`, or `name`, or none of them for all pauses")
    lifted = hub.loops.resume(hub.clock.mono(), name=given.get("name", ""), pair=pair)
    hub.reply(request, {"resumed": [{"from": one.sender, "to": one.to} for one in lifted]})
