"""What is asked once, however many need it. (Under threads: test_access_tokens.py.)"""

import pytest

from wakebus.adapters.base import Request
from wakebus.adapters.delivery.single_flight import Fetched, SingleFlight, name_of
from wakebus.adapters.errors import Unavailable


class Clock:
    """Shows what it is told."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


def test_kept_for_its_time() -> None:
    """ADP-5.12, ADP-5.20: then fetched again; 0 seconds: this once."""
    clock = Clock()
    flights = SingleFlight[int](9, clock)
    assert flights.get("a", lambda: Fetched(1, 10.0)) == 1
    clock.time = 9.9
    assert flights.get("a", lambda: Fetched(2, 10.0)) == 1
    clock.time = 10.0
    assert flights.get("a", lambda: Fetched(2, 0.0)) == 2
    assert flights.get("a", lambda: Fetched(3, 10.0)) == 3


def test_an_error_is_not_kept() -> None:
    """ADP-5.12: who asks next asks anew."""
    flights = SingleFlight[int](9)

    def fail() -> Fetched[int]:
        raise Unavailable("down")

    with pytest.raises(Unavailable):
        flights.get("a", fail)
    assert flights.get("a", lambda: Fetched(1, 10.0)) == 1


def test_dropped_only_if_it_is_still_the_one() -> None:
    """ADP-5.12: another thread may have a new one already."""
    flights = SingleFlight[int](9)
    flights.get("a", lambda: Fetched(1, 10.0))
    flights.discard("a", 0)
    assert flights.get("a", lambda: Fetched(2, 10.0)) == 1
    flights.discard("a", 1)
    assert flights.get("a", lambda: Fetched(2, 10.0)) == 2
    flights.discard("b", 1)


def test_the_oldest_goes() -> None:
    """ADP-5.12: all memory is bounded."""
    flights = SingleFlight[int](2)
    for name in "abc":
        flights.get(name, lambda: Fetched(1, 10.0))
    assert [flights.get(name, lambda: Fetched(2, 0.0)) for name in "bca"] == [1, 1, 2]


def test_names() -> None:
    """ADP-5.12: method, URL, headers and body make the name, and it shows none of them."""
    one = Request("https://x.test/hush", b"{}", {"a": "hush"})
    others = [
        Request("https://y.test/hush", b"{}", {"a": "hush"}),
        Request("https://x.test/hush", b"[]", {"a": "hush"}),
        Request("https://x.test/hush", b"{}", {"b": "hush"}),
        Request("https://x.test/hush", b"{}", {"a": "hush"}, "GET"),
    ]
    names = {name_of(request) for request in (one, *others)}
    assert len(names) == 5 and not [name for name in names if "hush" in name]
    assert name_of(one) == name_of(Request("https://x.test/hush", b"{}", {"a": "hush"}))
