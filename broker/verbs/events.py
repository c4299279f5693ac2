"""
The verbs `publish` and `probe`, and what clients report of events they missed (section 11 of
PROTOCOL.md).

Rule 1: an answer says that the event was handed to the proxy, not that somebody got it. Rule 2:
what belongs to an event on the wire (pub, n) is kept as the publisher gave it. Rule 3: what is kept
for a connection is bounded, also for one that says nothing but lies.
"""

from wakebus.broker.core.broker_events import is_ours
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest, digest
from wakebus.broker.errors import BadMessage, Busy, Refused
from wakebus.broker.protocol.event import check_numbers, encode, stamp
from wakebus.broker.protocol.message import INSTANCE
from wakebus.broker.protocol.topics import check_topic
from wakebus.broker.protocol.wire import MAX_SEQUENCE


def publish(hub: Hub, request: ClientRequest) -> None:
    """Verb `publish`: one event, confirmed; for publishers that end at once."""
    payload = request.payload
    topic, fields = check_topic(payload.get("topic")), payload.get("event")
    if is_ours(topic):
        raise Refused(f"{topic}: `bus` and all below it is published by the broker alone")
    if not isinstance(fields, dict):
        raise BadMessage("event: an object")
    pub, n = check_numbers(payload.get("pub"), payload.get("n"))
    token = payload.get("token")
    if isinstance(token, str) and (turn := hub.token_owners.get(digest(token))):
        fields = {**fields, "turn": {"id": turn.id, "hops": turn.hops + 1, "path": turn.path_on}}
    if not hub.events.publish(encode(topic, pub, n, stamp(topic, fields, hub.clock.wall()))):
        raise Busy("more events are waiting than the broker takes; try again in a second")
    hub.reply(request, {"topic": topic})


def probe(hub: Hub, request: ClientRequest) -> None:
    """Verb `probe`: publish `bus.probe.<instance>`, for whoever just subscribed to it."""
    instance = request.payload.get("instance")
    if not isinstance(instance, str) or not INSTANCE.match(instance):
        raise BadMessage("probe: `instance` is 16 hex digits")
    hub.events.probe(instance)
    hub.reply(request, {})


def count_missed(hub: Hub, request: ClientRequest) -> None:
    """Take a beat's `missed`: how many events this client has missed since it began."""
    missed = request.payload.get("missed", 0)
    if type(missed) is not int or not 0 <= missed <= MAX_SEQUENCE:
        raise BadMessage("beat: `missed` is a number of events")
    if missed:
        hub.missed.report(_reporter(hub, request), missed)


def _reporter(hub: Hub, request: ClientRequest) -> str | bytes:
    """Return what stays the same while a client connects again."""
    conn, said = hub.conns.get(request.conn), request.payload.get("instance")
    if conn is not None:
        return conn.instance
    return said if isinstance(said, str) and INSTANCE.match(said) else request.conn
