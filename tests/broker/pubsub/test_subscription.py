"""`subscription`: which events are handed out, which gaps are told, how a handler fails."""

import logging
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.protocol.event import Event, decode, encode, stamp
from wakebus.broker.pubsub.sequences import Gap
from wakebus.broker.pubsub.subscription import Subscription

PUB, BUS = "a" * 16, "b" * 16


class Thread:
    """The little that a subscription knows of its thread."""

    def __init__(self) -> None:
        self.missed = self.woken = 0

    def is_bus(self, pub: str) -> bool:
        """Only BUS is the broker."""
        return pub == BUS

    def exit_child(self, error: BaseException | None = None) -> None:
        """Nobody has forked."""

    def wake(self) -> None:
        """Count it."""
        self.woken += 1


class Heard:
    """A subscription and all that it handed out, in order."""

    def __init__(self, *patterns: str) -> None:
        self.all: list[Event | Gap] = []
        self.thread = Thread()
        self.it = Subscription(self.thread, patterns, self.all.append, self.all.append)

    def take(self, topic: str, n: int = 1, pub: str = PUB, **fields: Any) -> None:
        """Let an event come."""
        self.it.on_frame(encode(topic, pub, n, stamp(topic, fields, 1.0)))

    def topics(self) -> list[str]:
        """Return the topics of all events."""
        return [one.topic for one in self.all if isinstance(one, Event)]


def test_it_matches_in_full_behind_the_filter() -> None:
    """What passes the prefix filter and does not match is not handed out, the second time too."""
    heard = Heard("a.*.c")
    for n in (1, 2):
        heard.take("a.b.c", n)
        heard.take("a.b.d", n)
        heard.take("a.b", n)
    assert heard.topics() == ["a.b.c", "a.b.c"] and heard.it.received == 2


def test_overlapping_patterns_hand_out_once() -> None:
    """One subscription is one stream."""
    heard = Heard("a.**", "a.b", "**")
    heard.take("a.b")
    assert heard.topics() == ["a.b"]


def test_the_first_and_the_following_are_decoded_alike() -> None:
    """The short way for a known head says what `decode` says."""
    heard = Heard("a")
    frames = [encode("a", PUB, n, stamp("a", {"x": [n, {"y": None}]}, 1.5)) for n in (1, 2, 3)]
    for frame in frames:
        heard.it.on_frame(frame)
    assert heard.all == [decode(frame) for frame in frames]
    assert isinstance(heard.all[2], Event) and heard.all[2].src == "a"


def test_a_gap_is_told_just_before_the_event_that_shows_it() -> None:
    """Exactly, for each publisher and topic apart; never for the first one."""
    heard = Heard("a", "b")
    heard.take("a", 5)
    heard.take("b", 9)
    heard.take("a", 9)
    heard.take("a", 2, pub="c" * 16)
    heard.take("b", 10)
    gaps = [one for one in heard.all if isinstance(one, Gap)]
    assert gaps == [Gap("a", PUB, 3, 9)] and heard.all[2] == gaps[0]
    assert heard.it.missed == 3 and heard.thread.missed == 3 and heard.it.received == 5


def test_the_same_event_twice_is_handed_out_once() -> None:
    """At most once, also when a request was written twice."""
    heard = Heard("a")
    for n in (1, 2, 2, 1, 3):
        heard.take("a", n)
    assert [one.n for one in heard.all if isinstance(one, Event)] == [1, 2, 1, 3]
    assert heard.it.missed == 0


def test_only_the_broker_speaks_of_the_bus() -> None:
    """EVENTS-6.1: a forged `bus.**` is not handed out and makes no gap; probes are never shown."""
    heard = Heard("**")
    heard.take("bus.message.dead", 1, pub=BUS)
    heard.take("bus.message.dead", 7, pub=PUB)
    heard.take("bus.message.dead", 2, pub=BUS)
    heard.take("bus.message.dead", 5, pub=BUS)
    heard.take("bus.probe." + "0" * 16, 1, pub=BUS)
    assert [one.n for one in heard.all] == [1, 2, 5, 5]
    assert heard.it.missed == 2


@given(st.binary(max_size=200), st.integers(0, 60), st.integers(0, 60))
def test_garbage_is_an_event_or_nothing(noise: bytes, start: int, end: int) -> None:
    """EVENTS-3.4: any bytes, on a known head too: no fault, and good ones come."""
    logging.disable(logging.CRITICAL)
    try:
        heard = Heard("**")
        good = encode("a.b", PUB, 1, stamp("a.b", None, 1.0))
        heard.it.on_frame(good)
        for frame in (noise, good[:start] + noise + good[end:], good[:29] + noise):
            heard.it.on_frame(frame)
        heard.take("good")
        assert isinstance(heard.all[0], Event) and heard.all[-1].topic == "good"
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "rest",
    [
        *(b" 0\0{}", b" 02\0{}", b" +2\0{}", b" 2_0\0{}", b"  2\0{}", b" 2\0[]", b" 2\0{", b" 2{}"),
        *(b" 99999999999999999999\0{}", b' 2\0{"x":' + b"9" * 400 + b"}", b' 2\0{"x":NaN}'),
        *(b' 2\0{"x":' + b"[" * 40 + b"]" * 40 + b"}", b' 2\0{"x":"' + b"x" * 70_000 + b'"}'),
    ],
)
def test_a_known_head_opens_no_door(rest: bytes) -> None:
    """What `decode` refuses is refused behind a head that is known, too."""
    heard = Heard("**")
    heard.take("a.b", 1)
    heard.it.on_frame(b"a.b\0" + PUB.encode() + rest)
    heard.take("a.b", 2)
    assert [one.n for one in heard.all] == [1, 2] and heard.it.missed == 0


def test_a_handler_that_raises_is_logged_once_for_each_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the next event comes all the same; so for `on_gap`."""

    def fail(item: Event | Gap) -> None:
        raise {1: KeyError, 2: ValueError, 3: SystemExit}.get(item.n % 4, KeyError)(item.n)

    it = Subscription(Thread(), ("a",), fail, fail)
    for n in (1, 2, 3, 4, 5, 6, 9):
        it.on_frame(encode("a", PUB, n, stamp("a", {"secret": "hush"}, 1.0)))
    assert it.received == 7 and it.missed == 2
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 4 and len(set(said)) == 4
    assert said[0].startswith("a handler of the subscription to a raised KeyError")
    assert any(text.startswith("on_gap of") for text in said)
    assert "hush" not in caplog.text


def test_what_is_no_event_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """EVENTS-3.4: dropped; a peer's mistake is no traceback of this program."""
    it = Subscription(Thread(), ("**",), lambda event: None, None)
    for frame in (b"a.b\0zz\0{}", b"", b"a\0" + PUB.encode() + b" 1\0{"):
        it.on_frame(frame)
    # Those of this thread: clients of other tests may speak, too, while they end.
    (told,) = [one for one in caplog.records if one.thread == threading.get_ident()]
    assert told.exc_info is None
    assert "an event was dropped" in caplog.text


def test_nothing_is_handed_out_after_close() -> None:
    """Not even what had come already; closing twice is closing once."""
    heard = Heard("**")
    with heard.it as it:
        heard.take("a", 1)
    assert it.closed and heard.thread.woken
    it.close()
    heard.take("a", 2)
    heard.take("b", 1)
    assert heard.topics() == ["a"] and it.received == 1


def test_without_room_events_are_missed_exactly() -> None:
    """What comes meanwhile is a gap before the next event of its line, also of a new line."""
    heard = Heard("a.**")
    thread: Any = heard.thread
    room = True
    heard.it = Subscription(thread, ("a.**",), heard.all.append, heard.all.append, lambda: room)
    heard.take("a.b", 1)
    room = False
    for n in (2, 3, 5):  # 4 is lost on the way
        heard.take("a.b", n)
    heard.take("a.new", 7)
    assert heard.topics() == ["a.b"] and heard.it.missed == 0
    room = True
    heard.take("a.b", 6)
    heard.take("a.new", 8)
    told = [(one.topic, one.missed) for one in heard.all if isinstance(one, Gap)]
    assert told == [("a.b", 4), ("a.new", 1)] and heard.it.missed == heard.thread.missed == 5
    assert heard.it.received == 3
