"""
Names of events and the patterns that select them (EVENTS.md section 2).

Rule 1: strings in, values out; no sockets, no clock. Rule 2: what a peer wrote costs a bounded
time, whatever it wrote: a match looks at each pair of a topic's and a pattern's segment at most
once or so, where a regular expression for `**.*.**.*.a` would try thousands of ways.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final

from wakebus.broker.errors import BadTopic

MAX_TOPIC: Final = 255  # bytes; one length byte of a NATS or MQTT relay is enough for it
MAX_SEGMENTS: Final = 16
MAX_SEGMENT: Final = 64  # as an endpoint's name, so that any name can be a segment

ANY: Final = "*"  # one segment
REST: Final = "**"  # zero or more

_LETTERS: Final = "A-Za-z0-9_:@-"
_SEGMENT: Final = re.compile(rf"[{_LETTERS}]{{1,{MAX_SEGMENT}}}")
_TOPIC: Final = re.compile(
    rf"(?=.{{1,{MAX_TOPIC}}}\Z){_SEGMENT.pattern}(?:\.{_SEGMENT.pattern}){{0,{MAX_SEGMENTS - 1}}}"
)


def check_topic(topic: object, field: str = "topic") -> str:
    """Return `topic`, or raise BadTopic: 1 to 16 segments of `[A-Za-z0-9_:@-]{1,64}`."""
    if isinstance(topic, str) and _TOPIC.fullmatch(topic):
        return topic
    if isinstance(topic, str) and ANY in topic:
        raise BadTopic(f"{field} {topic[:300]!r}: a pattern; an event is published on one topic")
    raise BadTopic(f"{field} {_shown(topic)}: {_problem(topic, ())}")


def check_pattern(pattern: object, field: str = "pattern") -> str:
    """Return `pattern`, or raise BadTopic: a topic some of whose segments are `*` or `**`."""
    if problem := _problem(pattern, (ANY, REST)):
        raise BadTopic(f"{field} {_shown(pattern)}: {problem}")
    return str(pattern)


def _shown(value: object) -> str:
    return ascii(value)[:300]


def _problem(value: object, wildcards: tuple[str, ...]) -> str:
    if not isinstance(value, str) or not value:
        return "a text like agent.turn.done is needed"
    if len(value) > MAX_TOPIC:
        return f"{len(value)} characters; the limit is {MAX_TOPIC}"
    segments = value.split(".")
    if len(segments) > MAX_SEGMENTS:
        return f"{len(segments)} segments; the limit is {MAX_SEGMENTS}"
    for one in segments:
        if one not in wildcards and not _SEGMENT.fullmatch(one):
            return _wrong(one, wildcards)
    return ""


def _wrong(segment: str, wildcards: tuple[str, ...]) -> str:
    if not segment:
        return "a segment is empty; dots stand between segments"
    allowed = f"1 to {MAX_SEGMENT} of the characters A-Z a-z 0-9 _ : @ -"
    if wildcards and ANY in segment:
        return f"segment {_shown(segment)}: `*` and `**` stand for whole segments"
    return f"segment {_shown(segment)}: {allowed}"


def shown_patterns(patterns: Sequence[str]) -> str:
    """Return patterns for people: the first three, and how many more."""
    more = f" and {len(patterns) - 3} more" if len(patterns) > 3 else ""
    return f"{' '.join(patterns[:3])}{more}"


def matches(pattern: str, topic: str) -> bool:
    """Whether `pattern` selects `topic`; to ask often, keep its `matcher`."""
    return matcher(pattern)(topic)


def matcher(pattern: str) -> Callable[[str], bool]:
    """
    Return whether a topic is selected by `pattern`, as a function of the topic.

    `*` is one segment, `**` zero or more: `a.**` selects `a`, `a.b` and `a.b.c`.
    """
    parts = _parts(pattern)
    if ANY not in parts and REST not in parts:
        return pattern.__eq__
    if parts == (REST,):
        return _always
    if parts[-1] == REST and ANY not in parts and REST not in parts[:-1]:
        return _below(".".join(parts[:-1]))
    return lambda topic: _select(parts, topic.split("."))


def matcher_of_any(patterns: Iterable[str]) -> Callable[[str], bool]:
    """
    Return whether a topic is selected by one of `patterns`, as a function of the topic.

    Only those are looked at that begin with segments of the topic, whatever their number.
    """
    by_stem: dict[str, list[Callable[[str], bool]]] = {}
    for pattern in patterns:
        by_stem.setdefault(_stem(_parts(pattern)), []).append(matcher(pattern))

    def selected(topic: str) -> bool:
        stems = accumulate(topic.split("."), "{}.{}".format)
        return any(match(topic) for stem in ("", *stems) for match in by_stem.get(stem, ()))

    return selected


def _stem(parts: tuple[str, ...]) -> str:
    """Return the segments before the first wildcard."""
    wild = [number for number, one in enumerate(parts) if one in (ANY, REST)]
    return ".".join(parts[: wild[0]] if wild else parts)


def _parts(pattern: str) -> tuple[str, ...]:
    """Return the segments; `**.**` is `**`."""
    segments = pattern.split(".")
    pairs = zip(segments, ["", *segments[:-1]], strict=True)
    return tuple(one for one, before in pairs if not one == before == REST)


def _always(topic: str) -> bool:
    return True


def _below(root: str) -> Callable[[str], bool]:
    stem = root + "."
    return lambda topic: topic.startswith(stem) or topic == root


def _select(parts: tuple[str, ...], topic: list[str]) -> bool:
    """Match segment by segment; only the newest `**` is ever stretched, which is enough."""
    at = segment = stretched = 0
    rest = -1  # where the newest `**` stands
    while segment < len(topic):
        if at < len(parts) and parts[at] == REST:
            rest, stretched = at, segment
            at += 1
        elif at < len(parts) and parts[at] in (ANY, topic[segment]):
            at += 1
            segment += 1
        elif rest >= 0:
            stretched += 1
            at, segment = rest + 1, stretched
        else:
            return False
    return parts[at:] in ((), (REST,))


def filters(pattern: str) -> tuple[bytes, ...]:
    """
    Return what a SUB subscribes to for `pattern`; ZeroMQ compares beginnings of frames.

    A frame begins with `topic NUL`. What passes a filter may still not match.
    """
    parts = _parts(pattern)
    stem = _stem(parts)
    if stem == pattern:
        return (stem.encode() + b"\0",)
    if not stem:
        return (b"",)
    if ".".join(parts) == f"{stem}.{REST}":
        return (stem.encode() + b"\0", stem.encode() + b".")
    return (stem.encode() + b".",)
