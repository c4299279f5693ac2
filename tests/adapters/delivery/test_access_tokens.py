"""Access tokens."""

import math
import threading
from collections.abc import Callable

import pytest

from wakebus.adapters.base import Request, Token
from wakebus.adapters.delivery.access_tokens import MOST, TokenCache
from wakebus.adapters.errors import Unavailable

ASK = Request("https://x.test/token", b'{"secret":"hush"}')


class Clock:
    """Shows what it is told."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


class Issuer:
    """Gives t-1, t-2 …; counts."""

    def __init__(self, expires_s: float = 7200.0) -> None:
        self.given = 0
        self.expires_s = expires_s

    def __call__(self, request: Request) -> Token:
        self.given += 1
        return Token(f"t-{self.given}", self.expires_s)


@pytest.mark.parametrize(("expires_s", "good_s"), [(7200.0, 6899.0), (1800.0, 1619.0), (10.0, 8.9)])
def test_kept_while_it_is_good(expires_s: float, good_s: float) -> None:
    """ADP-5.12: renewed early, by the time that the platform said, not by a constant."""
    clock, issuer = Clock(), Issuer(expires_s)
    tokens = TokenCache(clock)
    assert tokens.get(ASK, issuer) == "t-1"
    clock.time = good_s
    assert tokens.get(ASK, issuer) == "t-1"
    clock.time = expires_s
    assert tokens.get(ASK, issuer) == "t-2"


@pytest.mark.parametrize("expires_s", [0.0, -5.0, math.nan, math.inf])
def test_no_sensible_time(expires_s: float) -> None:
    """ADP-5.12: a token whose end is unknown is good for this once."""
    tokens, issuer = TokenCache(Clock()), Issuer(expires_s)
    assert [tokens.get(ASK, issuer), tokens.get(ASK, issuer)] == ["t-1", "t-2"]


def test_accounts_do_not_mix() -> None:
    """ADP-5.12: another secret, way, URL or header is another token."""
    others = [
        ASK,
        Request(ASK.url, b'{"secret":"other"}'),
        Request("https://y.test/token", ASK.body),
        Request(ASK.url, ASK.body, {"x": "1"}),
        Request(ASK.url, ASK.body, method="GET"),
    ]
    tokens, issuer = TokenCache(Clock()), Issuer()
    assert len({tokens.get(ask, issuer) for ask in others}) == len(others)


def test_refused() -> None:
    """ADP-5.12: forgotten, and only if it is still the one that was refused."""
    tokens, issuer = TokenCache(Clock()), Issuer()
    assert tokens.get(ASK, issuer) == "t-1"
    tokens.refuse(ASK, "t-0")
    assert tokens.get(ASK, issuer) == "t-1"
    tokens.refuse(ASK, "t-1")
    assert tokens.get(ASK, issuer) == "t-2"
    tokens.refuse(ASK, "t-1")
    assert tokens.get(ASK, issuer) == "t-2"


def together(count: int, step: Callable[[int], None]) -> None:
    """Run `step` in so many threads that begin at once."""
    line = threading.Barrier(count)

    def run(number: int) -> None:
        line.wait(30)
        step(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_one_flight() -> None:
    """ADP-5.12: twenty threads that need a token at once fetch one."""
    issuer, got = Issuer(), list[str]()
    tokens = TokenCache()
    fetching, go = threading.Event(), threading.Event()

    def slow(request: Request) -> Token:
        fetching.set()
        assert go.wait(30)
        return issuer(request)

    def ask(number: int) -> None:
        if number == 0:
            fetching.wait(30)  # at least one asks while the flight is on
            go.set()
        got.append(tokens.get(ASK, slow))

    together(20, ask)
    assert (issuer.given, got) == (1, ["t-1"] * 20)


def test_one_flight_that_fails() -> None:
    """ADP-5.12: all who wait get its error, not a queue of timeouts; the next asks anew."""
    errors, calls = list[str](), list[int]()
    tokens = TokenCache()
    waiting = threading.Semaphore(0)

    def fail(request: Request) -> Token:
        calls.append(1)
        for _ in range(19 if len(calls) == 1 else 0):
            assert waiting.acquire(timeout=30)
        raise Unavailable("down")

    def ask(number: int) -> None:
        waiting.release()
        try:
            tokens.get(ASK, fail)
        except Unavailable as exc:
            errors.append(exc.text)

    together(20, ask)
    # Whoever asked after the flight had landed began one of its own.
    assert errors == ["down"] * 20 and len(calls) < 20
    assert tokens.get(ASK, Issuer()) == "t-1"


def test_the_race_of_eviction() -> None:
    """ADP-5.12: B15: twenty threads whose token is refused at once make one new token."""
    tokens, issuer = TokenCache(), Issuer()
    assert tokens.get(ASK, issuer) == "t-1"
    got: list[str] = []

    def renew(number: int) -> None:
        tokens.refuse(ASK, "t-1")
        got.append(tokens.get(ASK, issuer))

    together(20, renew)
    assert (set(got), issuer.given) == ({"t-2"}, 2)


def test_bounded() -> None:
    """ADP-5.12: a crowd of accounts pushes out the oldest."""
    tokens, issuer = TokenCache(Clock()), Issuer()
    for number in range(MOST + 1):
        tokens.get(Request(f"https://x.test/{number}"), issuer)
    tokens.get(Request("https://x.test/1"), issuer)
    assert issuer.given == MOST + 1
    tokens.get(Request("https://x.test/0"), issuer)
    assert issuer.given == MOST + 2


def test_shows_nothing() -> None:
    """ADP-1.5: neither the cache nor a token shows its value."""
    tokens = TokenCache()
    tokens.get(ASK, lambda request: Token("hush", 100.0))
    assert "hush" not in f"{tokens!r} {Token('hush')!r}"
