"""The pace: a platform that counts in windows of its own never has to say that it was too much."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.pacing import ASKS, Ask, play
from wakebus.adapters.base import Limit, Target
from wakebus.adapters.pacing import rate_limiter
from wakebus.adapters.pacing.rate_buckets import RateRule
from wakebus.adapters.pacing.rate_limiter import (
    EXPIRE_S,
    RateLimiter,
    effective_limits,
    parse_rate,
    rules_for,
)

GROUPS = frozenset({"group"})
CARD = (Limit(1, 1.0), Limit(20, 60.0, kinds=GROUPS), Limit(30, 1.0, "app"))
CHAT = RateRule("chat", 2, 1.0)


def chat(chat_id: str, kind: str = "", thread: str | None = None) -> Target:
    return Target("chatty", chat_id, thread, kind)


# ---- which limits ----------------------------------------------------------------------------


def test_buckets() -> None:
    """ADP-6.15: a chat has a bucket of its own, its threads share it; an app's is everybody's."""
    one, other = rules_for(chat("a"), CARD), rules_for(chat("b"), CARD)
    assert [rule.most for rule in one] == [1, 30]
    assert one[0] != other[0] and one[1] == other[1]
    assert rules_for(chat("a", thread="7"), CARD) == one
    assert [rule.most for rule in rules_for(chat("a", "group"), CARD)] == [1, 20, 30]


def test_settings_change_limits() -> None:
    """ADP-6.16: COUNT/SECONDS takes the place of all limits of its scope; off: there are none."""
    env = {"CHATTY_RATE_CHAT": " 5 / 2.5", "CHATTY_RATE_APP": "off"}
    assert effective_limits("chatty", CARD, env) == ([Limit(5, 2.5)], {})
    assert effective_limits("chatty", CARD, {"CHATTY_RATE_APP": "9/1"})[0] == [
        *CARD[:2],
        Limit(9, 1, "app"),
    ]
    assert effective_limits("chatty", CARD, {"CHATTY_RATE_APP": " "}) == (list(CARD), {})


def test_settings_keep_the_kind_of_limit() -> None:
    """ADP-6.23: other numbers for a bucket make another bucket."""
    card = (Limit(10, 50.0, "app", refills=True), Limit(5, 1.0))
    found, _ = effective_limits(
        "chatty", card, {"CHATTY_RATE_APP": "20/10", "CHATTY_RATE_CHAT": "9/1"}
    )
    assert found == [Limit(9, 1.0), Limit(20, 10.0, "app", refills=True)]
    assert [rule.refills for rule in rules_for(chat("a"), found)] == [False, True]


@pytest.mark.parametrize("wrong", ["0/1", "1/0", "x", "5", "-1/2", "1/1e3", "9999999/1", "1/99999"])
def test_a_wrong_setting(wrong: str) -> None:
    """ADP-6.16: it is named with what is right, and the platform's own limits hold."""
    found, faults = effective_limits("chatty", CARD, {"CHATTY_RATE_CHAT": wrong})
    assert sorted(found, key=CARD.index) == list(CARD)
    assert list(faults) == ["CHATTY_RATE_CHAT"] and "COUNT/SECONDS" in faults["CHATTY_RATE_CHAT"]


def test_rate() -> None:
    """ADP-6.16: what COUNT/SECONDS reads as."""
    assert (parse_rate("20/60"), parse_rate("1/0.5"), parse_rate("OFF")) == (
        (20, 60),
        (1, 0.5),
        None,
    )


# ---- places ----------------------------------------------------------------------------------


def test_a_full_window_passes_at_once() -> None:
    """ADP-6.15: as many as are published go out at once, the next when the first is old enough."""
    limiter = RateLimiter()
    assert [limiter.enter(f"k{n}", [CHAT], 0.0) for n in range(2)] == [0.0, 0.0]
    assert 1.0 < limiter.enter("k2", [CHAT], 0.0) < 1.1


def test_a_place_is_ones_own() -> None:
    """ADP-6.15: each who waits has a time of his own; then he passes, and nobody before him."""
    limiter = RateLimiter()
    for n in range(2):
        limiter.enter(f"k{n}", [CHAT], 0.0)
        limiter.finish(f"k{n}", 0.0)
    waits = [limiter.enter(f"w{n}", [CHAT], 0.0) for n in range(6)]
    assert waits == sorted(waits) and waits[5] > waits[4] - 1e-9 > 2.0
    assert limiter.enter("late", [CHAT], waits[0]) > waits[5] - waits[0]
    assert limiter.enter("w0", [CHAT], waits[0]) == 0.0
    assert 0 < limiter.enter("w4", [CHAT], waits[0]) <= waits[4] - waits[0]


def test_what_is_granted_stays_granted() -> None:
    """ADP-6.15: asked again under the same key it passes; after its end it is a new one."""
    limiter, rule = RateLimiter(), RateRule("c", 1, 9.0)
    assert limiter.enter("k", [rule], 0.0) == limiter.enter("k", [rule], 1.0)
    assert limiter.enter("other", [rule], 1.0) > 8.0
    limiter.finish("k", 1.5)
    assert limiter.enter("k", [rule], 1.5) > 9.0


def test_what_goes_out_only_now() -> None:
    """ADP-6.15: after an upload of 10 s, the request counts from its own beginning."""
    limiter, rule = RateLimiter(), RateRule("c", 1, 1.0)
    assert limiter.enter("slow", [rule], 0.0) == 0.0
    limiter.begin("slow", 10.0)
    assert limiter.enter("next", [rule], 10.0) > 1.0
    limiter.finish("slow", 10.1)
    assert 0.0 < limiter.enter("next", [rule], 10.5) <= 0.7
    limiter.begin("next", 10.6)  # not let pass: nothing to begin
    limiter.begin("nobody", 10.6)
    assert limiter.enter("next", [rule], 11.5) == 0.0


def test_what_was_not_used_is_given_back() -> None:
    """ADP-6.15: a place that was granted or promised, and is not needed, is free again."""
    limiter = RateLimiter()
    rule = RateRule("c", 1, 9.0)
    assert limiter.enter("a", [rule], 0.0) == 0.0
    limiter.cancel("a")
    assert limiter.enter("b", [rule], 0.0) == 0.0
    first = limiter.enter("c", [rule], 0.0)
    limiter.cancel("c")
    assert limiter.enter("d", [rule], 0.0) == first


def test_a_slow_platform_counts_from_its_answer() -> None:
    """ADP-6.15: it counted somewhere between; who had a place waits a little more, and keeps it."""
    limiter, rule = RateLimiter(), RateRule("c", 1, 1.0)
    limiter.enter("a", [rule], 0.0)
    waits = [limiter.enter(key, [rule], 0.0) for key in ("b", "c")]
    limiter.finish("a", 0.7)
    again = limiter.enter("b", [rule], waits[0])
    assert waits[0] + again == pytest.approx(1.7, abs=0.01)
    assert limiter.enter("d", [rule], waits[0]) > again
    assert limiter.enter("b", [rule], 1.71) == 0.0


def test_one_that_hangs_blocks_nobody_for_ever() -> None:
    """ADP-6.15: after 2 s it is taken for counted: a hanging chat must not hold the whole app."""
    limiter, rule = RateLimiter(), RateRule("app", 1, 1.0)
    limiter.enter("hangs", [rule], 0.0)
    assert limiter.enter("b", [rule], 3.1) == 0.0


def test_a_place_that_nobody_takes_lapses() -> None:
    """ADP-6.15: after 5 s, so that what was cancelled or expired holds up nobody."""
    limiter, rule = RateLimiter(), RateRule("c", 1, 1.0)
    limiter.enter("a", [rule], 0.0)
    limiter.finish("a", 0.0)
    for n in range(50):
        limiter.enter(f"gone{n}", [rule], 0.0)
    assert len(limiter) == 50
    assert limiter.enter("b", [rule], 60.0 + EXPIRE_S) == 0.0
    assert len(limiter) == 1


def test_several_limits() -> None:
    """ADP-6.15: the longest wait counts, and nothing is taken from the others meanwhile."""
    limiter = RateLimiter()
    app = RateRule("app", 3, 10.0)
    assert limiter.enter("a1", [RateRule("a", 1, 5.0), app], 0.0) == 0.0
    assert 5.0 < limiter.enter("a2", [RateRule("a", 1, 5.0), app], 0.0) < 5.3
    # The place at 5 s is one of the app's three; two more fit before it, the next one does not.
    assert limiter.enter("b", [RateRule("b", 1, 5.0), app], 0.0) == 0.0
    assert 10.0 < limiter.enter("c", [RateRule("c", 1, 5.0), app], 0.0) < 10.5


def test_a_chat_that_waits_long_holds_no_other() -> None:
    """ADP-6.15: a busy chat's places lie far ahead; in the app's row others pass before them."""
    limiter, app = RateLimiter(), RateRule("app", 5, 1.0)
    for n in range(40):
        limiter.enter(f"busy{n}", [RateRule("busy", 1, 10.0), app], 0.0)
    for n in range(20):
        now = 1.0 + 0.3 * n
        assert limiter.enter(f"other{n}", [RateRule(f"o{n}", 1, 10.0), app], now) == 0.0
        limiter.finish(f"other{n}", now)


def test_not_before() -> None:
    """ADP-6.17: what the platform asked for counts whatever the limits say, one after the other."""
    limiter, rule = RateLimiter(), RateRule("c", 1, 1.0)
    waits = [limiter.enter(key, [rule], 0.0, after=30.0) for key in ("a", "b")]
    assert waits[0] == 30.0 and 31.0 < waits[1] < 31.2
    assert (
        limiter.enter("free", [], 0.0, after=30.0) == 30.0
        and limiter.enter("free2", [], 0.0) == 0.0
    )


def test_changed_limits() -> None:
    """ADP-6.16: a place under limits that hold no more is given up for one under the new ones."""
    limiter = RateLimiter()
    limiter.enter("a", [RateRule("old", 1, 99.0)], 0.0)
    assert limiter.enter("b", [RateRule("old", 1, 99.0)], 0.0) > 98
    assert limiter.enter("b", [RateRule("new", 1, 1.0)], 0.0) == 0.0


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.15: buckets and places are bounded; idle ones go first."""
    monkeypatch.setattr(rate_limiter, "MAX_BUCKETS", 20)
    monkeypatch.setattr(rate_limiter, "MAX_RESERVATIONS", 30)
    limiter = RateLimiter()
    busy = [RateRule("busy", 1, 50.0)]
    for n in range(200):
        assert limiter.enter(f"k{n}", [RateRule(n, 1, 1.0)], float(n)) == 0.0
        limiter.finish(f"k{n}", float(n))
        limiter.enter(f"busy{n}", busy, float(n))
    assert limiter.buckets <= 20 and len(limiter) <= 31
    assert limiter.enter("one more", busy, 200.0) > 0


# ---- a platform that counts ------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(ASKS, st.integers(1, 5), st.integers(1, 8))
def test_no_window_is_too_full(asks: list[Ask], of_chat: int, of_app: int) -> None:
    """ADP-6.15: however slow the way there and back is, and wherever windows begin; all pass."""
    played = play(asks, (of_chat, 1.0), (of_app, 1.5))
    assert played.most(None, 1.5) <= of_app
    for where in {ask.chat for ask in asks}:
        assert played.most(where, 1.0) <= of_chat
    assert len(played.passed) == len(asks)


@settings(max_examples=60, deadline=None)
@given(ASKS, st.integers(1, 5), st.integers(1, 8))
def test_who_waits_asks_once_more(asks: list[Ask], of_chat: int, of_app: int) -> None:
    """ADP-6.15: of a platform that is quick; and a chat goes out in the order of asking."""
    quick = [ask._replace(there=0.0, back=0.0) for ask in asks]
    played = play(quick, (of_chat, 1.0), (of_app, 1.5))
    assert max(played.asked.values()) <= 2
    assert played.in_order(quick)


@settings(max_examples=60, deadline=None)
@given(ASKS, st.integers(1, 5), st.integers(1, 8), st.booleans())
def test_no_bucket_runs_over(asks: list[Ask], of_chat: int, of_app: int, window: bool) -> None:
    """ADP-6.23: however slow the platform is, whose bucket it is, and beside a window; all pass."""
    played = play(asks, (of_chat, 1.0, not window), (of_app, 4.0, True))
    assert played.level(None, of_app, 4.0) <= of_app
    for where in {ask.chat for ask in asks}:
        if window:
            assert played.most(where, 1.0) <= of_chat
        else:
            assert played.level(where, of_chat, 1.0) <= of_chat
    assert len(played.passed) == len(asks)


@settings(max_examples=60, deadline=None)
@given(ASKS, st.integers(1, 5), st.integers(1, 8))
def test_who_waits_for_a_bucket_asks_once_more(asks: list[Ask], of_chat: int, of_app: int) -> None:
    """ADP-6.23: of a platform that is quick; and a chat goes out in the order of asking."""
    quick = [ask._replace(there=0.0, back=0.0) for ask in asks]
    played = play(quick, (of_chat, 1.0, True), (of_app, 4.0, True))
    assert max(played.asked.values()) <= 2
    assert played.in_order(quick)


def test_it_is_not_much_slower_than_it_may() -> None:
    """ADP-6.15: 100 messages by 20 in 2 s take 8 s; the margin is below a tenth."""
    played = play([Ask(0.0, 0, 0.0, 0.0)] * 100, (20, 2.0), (30, 1.0))
    assert 8.0 <= played.passed[-1][0] < 8.8


def test_ten_thousand_at_once() -> None:
    """ADP-6.15: a queue of thousands costs no more than its places."""
    limiter = RateLimiter()
    app = RateRule("app", 30, 1.0)
    waits = [limiter.enter(f"k{n}", [RateRule(n, 1, 1.0), app], 0.0) for n in range(3_000)]
    assert waits == sorted(waits) and 99 <= waits[-1] < 108
