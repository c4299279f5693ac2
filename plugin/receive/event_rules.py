"""
Events that rules with `match_topic` ask for (RULES.md section 2).

Rule 1: an event that meets a rule becomes a message of this endpoint to itself: from there on it
waits while the agent is busy, is acknowledged and traced as any other. Rule 2: only a message that
the broker proves to be ours stands for an event. Rule 3: what the bus says of this endpoint's own
messages, and of any endpoint's to itself, starts nothing: it would never end. Rule 4: what is lost
is told.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker import Client, Delivery
from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.message import MAX_CHANNEL, Message
from wakebus.broker.protocol.topics import matcher_of_any
from wakebus.plugin.rules.load import RulesFile
from wakebus.plugin.rules.match import first_match
from wakebus.plugin.rules.model import Rules

if TYPE_CHECKING:
    from wakebus.broker import Event, Gap, Subscription

TOPIC: Final = "topic"  # the body's field by which a record is known
MAX_TYPE: Final = 128
SEEN: Final = 10_000  # events remembered, to take each once; one SUB holds 2,000
_PLAIN: Final = {"id": "event", "ts": 0, "from": "event", "to": "event", "body": {}}
_STAMPS: Final = frozenset({"type", "ts", "src"})


def unpack(delivery: Delivery, endpoint: str) -> str:
    """
    Return the topic of the event that a message of `endpoint` to itself stands for, else "".

    Its sender is then the event's source, to whom nobody answers.
    """
    message = delivery.message
    topic = message.body.get(TOPIC)
    if delivery.claimed or message.sender != endpoint or not isinstance(topic, str):
        return ""
    source = message.body.get("src")
    delivery.message = message._replace(sender=source if isinstance(source, str) else "event")
    return topic


def type_of(topic: str, stated: object) -> str:
    """Return the message type of an event: its own `type`, else its topic."""
    fits = isinstance(stated, str) and 0 < len(stated.strip()) <= MAX_TYPE and stated.isprintable()
    return str(stated) if fits else topic[:MAX_TYPE]


def message_body(event: "Event") -> dict[str, Any]:
    """Return the body of the message that an event becomes."""
    envelope = event.envelope
    rest = {name: value for name, value in envelope.items() if name not in _STAMPS}
    text = envelope.get("text")
    body: dict[str, Any] = {
        "type": type_of(event.topic, envelope.get("type")),
        TOPIC: event.topic,
        "src": event.topic.partition(".")[0],
        "text": text if isinstance(text, str) else json.dumps(rest, ensure_ascii=False),
        "event": dict(envelope),
    }
    channel = envelope.get("channel")
    if isinstance(channel, str) and channel.strip() and len(channel.encode()) <= MAX_CHANNEL:
        body["channel"] = channel
    return body


def message_of(event: "Event", endpoint: str) -> Message:
    """Return the message that an event becomes, as its rules see it: its sender is its source."""
    body = message_body(event)
    session = _session(event).get("session")
    return Message("", event.ts, str(body["src"]), endpoint, body, session=session)


def patterns(rules: Rules) -> tuple[str, ...]:
    """Return what the rules want to hear of."""
    return tuple(sorted({p for rule in rules.callbacks for p in rule.match_topic or ()}))


def concerns(event: "Event", endpoint: str) -> bool:
    """
    Whether the bus tells here of a message from or to `endpoint`, or of any endpoint to itself.

    The latter is what an event becomes elsewhere: two endpoints would feed each other.
    """
    if not event.topic.startswith("bus.message."):
        return False
    sender, to = event.envelope.get("from"), event.envelope.get("to")
    return sender == to or endpoint in (sender, to)


class RuleSubscriptions:
    """Keeps subscribed to what the rules in force name; `say` tells people of what was lost."""

    def __init__(
        self, client: Client, endpoint: str, rules: RulesFile, say: Callable[[str], None]
    ) -> None:
        self._client, self._endpoint, self._rules, self._say = client, endpoint, rules, say
        self._subscriptions: list[Subscription] = []
        self._names = matcher_of_any(())
        self._seen: dict[tuple[str, str, int, bool], None] = {}
        self._said = ""
        self.lost = 0

    def follow(self) -> None:
        """Subscribe to what the rules name now. Raises WakebusError: call it again."""
        wanted = {*patterns(self._rules.current())}
        self._names = matcher_of_any(wanted)
        # One that still has a wanted pattern stays, with what waits in it: nothing that both rules
        # want may be missed. What comes by the others of its patterns meets no rule.
        kept = [one for one in self._subscriptions if not wanted.isdisjoint(one.patterns)]
        if new := wanted.difference(*(one.patterns for one in kept)):
            kept.append(self._client.subscribe(sorted(new), self._take, on_gap=self._gap))
        for left in [one for one in self._subscriptions if one not in kept]:
            left.close()
        self._subscriptions = kept

    def _first(self, topic: str, pub: str, n: int, *, gap: bool = False) -> bool:
        """Whether this comes for the first time: patterns may overlap (events thread)."""
        key = (topic, pub, n, gap)
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    def _take(self, event: "Event") -> None:
        probe = message_of(event, self._endpoint)
        if concerns(event, self._endpoint) or not self._first(event.topic, event.pub, event.n):
            return
        if first_match(self._rules.current(), probe, event.topic) is None:
            return
        fields = {**_turn_of(event), **_session(event)}
        try:
            self._client.send(self._endpoint, probe.body, sender=self._endpoint, **fields)
            self._said = ""
        except WakebusError as exc:
            self._tell(1, f"an event on {event.topic} is lost: {exc.text}", exc.code)

    def _gap(self, gap: "Gap") -> None:
        if self._names(gap.topic) and self._first(gap.topic, gap.pub, gap.n, gap=True):
            self._tell(gap.missed, f"{gap.missed} events on {gap.topic} were missed", "gap")

    def _tell(self, missed: int, text: str, kind: str) -> None:
        self.lost += missed
        if self._said != kind:  # once per kind until one gets through: a flood needs no flood
            self._said = kind
            self._say(f"· {text} ({self.lost} since the start)")


def _turn_of(event: "Event") -> Mapping[str, Any]:
    """Return what caused an event, where the broker says that a turn did (EVENTS-3.5)."""
    turn = event.envelope.get("turn")
    if not isinstance(turn, dict):
        return {"outside_turn": True}
    told = {"cause": turn.get("id"), "hops": turn.get("hops"), "path": turn.get("path")}
    try:
        checked = messages.from_wire({**_PLAIN, **told})
    except WakebusError:  # somebody's own field
        return {"outside_turn": True}
    if checked.cause is None:
        return {"outside_turn": True}
    return {"cause": checked.cause, "hops": checked.hops, "path": checked.path}


def _session(event: "Event") -> Mapping[str, Any]:
    session = event.envelope.get("session")
    fits = isinstance(session, str) and session.strip() and len(session.encode()) <= 256
    return {"session": session} if fits else {}
