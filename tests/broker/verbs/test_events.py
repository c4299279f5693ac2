"""The verbs `publish` and `probe` on a hub without sockets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench
from wakebus.broker.errors import BadMessage, BadTopic, Busy, NotRegistered, Refused, TooBig
from wakebus.broker.protocol.event import decode
from wakebus.broker.verbs.events import count_missed, probe, publish
from wakebus.broker.verbs.registration import beat

EVENT = {"topic": "a.b", "event": {"x": 1}, "pub": "0" * 16, "n": 7}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def test_publish(bench: Bench) -> None:
    """PROTOCOL-11.2: stamped where it is not; pub and n are kept."""
    publish(bench.hub, bench.request(EVENT))
    assert bench.answers == [{"topic": "a.b"}]
    event = decode(bench.events[0])
    assert (event.topic, event.pub, event.n) == ("a.b", "0" * 16, 7)
    assert event.envelope == {"type": "a.b", "ts": bench.wall, "src": "a", "x": 1}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"topic": "a..b"}, BadTopic),
        ({"topic": "a.*"}, BadTopic),
        ({"topic": None}, BadTopic),
        ({"topic": "bus"}, Refused),
        ({"topic": "bus.message.dead"}, Refused),
        ({"event": []}, BadMessage),
        ({"event": None}, BadMessage),
        ({"event": {"t": "x" * 66_000}}, TooBig),
        ({"pub": "x"}, BadMessage),
        ({"n": 0}, BadMessage),
        ({"n": 1.0}, BadMessage),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_not_published(bench: Bench, change: dict[str, Any], error: type[Refused]) -> None:
    """PROTOCOL-11.3: nothing leaves, nothing is answered with ok."""
    with pytest.raises(error):
        publish(bench.hub, bench.request({**EVENT, **change}))
    assert bench.events == [] and bench.answers == []


def test_busy(bench: Bench) -> None:
    """PROTOCOL-11.3: an event that did not go out is not confirmed; it may be tried again."""
    bench.events_taken = False
    with pytest.raises(Busy) as caught:
        publish(bench.hub, bench.request(EVENT))
    assert caught.value.retry and bench.answers == []


def test_probe(bench: Bench) -> None:
    """PROTOCOL-11.4: one event of the broker's own publisher, always its first."""
    for _ in range(2):
        probe(bench.hub, bench.request({"instance": "ab" * 8}))
    assert bench.answers == [{}, {}] and bench.events[0] == bench.events[1]
    event = decode(bench.events[0])
    assert event[:3] == (f"bus.probe.{'ab' * 8}", bench.hub.events.pub, 1)
    for wrong in (None, "AB" * 8, "a" * 15, "a" * 16 + "\n", 1):
        with pytest.raises(BadMessage, match="16 hex digits"):
            probe(bench.hub, bench.request({"instance": wrong}))


def test_missed(bench: Bench) -> None:
    """PROTOCOL-11.5: counted before the beat is refused; a client is known by its instance."""
    hub = bench.hub
    with pytest.raises(NotRegistered):
        beat(hub, bench.request({"missed": 5}, b"c1"))
    assert hub.missed.total == 5
    bench.greeted(b"c2", "d" * 16)
    for conn, more in ((b"c2", {}), (b"c3", {"instance": "d" * 16}), (b"c1", {})):
        count_missed(hub, bench.request({"missed": 7, **more}, conn))
    assert hub.missed.total == 7 + 7
    count_missed(hub, bench.request({}))
    for wrong in (-1, "1", 1.0, True, None, 2**60):
        with pytest.raises(BadMessage, match="missed"):
            count_missed(hub, bench.request({"missed": wrong}))
    assert hub.missed.total == 14
