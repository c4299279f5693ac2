"""Loop limits: what is counted, when a pair is paused, and what ends that."""

from typing import Any

from wakebus.broker.core.loop_guard import (
    MAX_PAIRS,
    LoopGuard,
    LoopLimits,
    PausedPair,
    ends_pauses,
    is_guarded,
)
from wakebus.broker.protocol.message import Message

LIMITS = LoopLimits(hops=4, messages=3, alone=2, window_s=60, pause_s=100)


def message(sender: str = "a", to: str = "b", hops: int = 1, **fields: Any) -> Message:
    body = {"text": "x", **({"type": fields.pop("type")} if "type" in fields else {})}
    return Message("m", 0.0, sender, to, body, hops=hops, **fields)


def admitted(guard: LoopGuard, times: int, now: float = 0.0, **fields: Any) -> list[bool]:
    return [guard.admit(message(**fields), now) is None for _ in range(times)]


def test_what_is_guarded() -> None:
    """What a turn caused, unless its type starts no turn."""
    assert is_guarded(message()) and is_guarded(message(type="directive"))
    assert not is_guarded(message(hops=0))
    assert not any(is_guarded(message(type=t)) for t in ("ack", "progress", "answer", "say"))


def test_what_an_event_becomes() -> None:
    """A message to oneself for what others' turns did is no loop; for one's own it is."""
    assert not is_guarded(message("a", "a", hops=5, path=("x", "y")))
    assert is_guarded(message("a", "a", hops=5, path=("x", "a", "y")))
    assert is_guarded(message("a", "a", hops=5)) and is_guarded(message(hops=5, path=("x", "y")))


def test_whose_message_ends_a_pause() -> None:
    """A person's: caused by no turn, no answer of a type, and not an endpoint's to itself."""
    assert ends_pauses(message(hops=0)) and ends_pauses(message(hops=0, type="directive"))
    assert not ends_pauses(message()) and not ends_pauses(message(hops=0, type="ack"))
    assert not ends_pauses(message(to="a", hops=0))  # an event that a rule asked for


def test_a_pair_has_its_window() -> None:
    """The fourth within 60 s is one too many; the other direction and later ones are not."""
    guard = LoopGuard(LIMITS)
    assert admitted(guard, 3) == [True] * 3
    met = guard.admit(message(), 1.0)
    assert met == PausedPair("a", "b", "its turns sent 3 messages to b within 60 s", 101.0)
    assert admitted(guard, 1, sender="b", to="a") == [True]
    assert admitted(guard, 1, now=60.0) == [True], "nobody paused it"


def test_oneself_has_less() -> None:
    """Two to itself here."""
    guard = LoopGuard(LIMITS)
    assert admitted(guard, 3, to="a") == [True, True, False]
    met = guard.admit(message(to="a"), 0.0)
    assert met is not None and met.reason == "its turns sent 2 messages to itself within 60 s"


def test_a_chain_is_not_endless() -> None:
    """`hops` counts turns; the path says whose."""
    guard = LoopGuard(LIMITS)
    assert guard.admit(message(hops=4), 0.0) is None
    met = guard.admit(message(hops=5, path=("a", "b") * 4), 0.0)
    assert met is not None
    assert met.reason == "more than 4 turns caused each other (… → b → a → b → a → b → b)"


def test_a_pause_holds_until_its_end() -> None:
    """It is new once; afterwards the pair counts from nothing."""
    guard = LoopGuard(LIMITS)
    admitted(guard, 3)
    met = guard.admit(message(), 0.0)
    assert met is not None and guard.pause(met) and not guard.pause(met)
    assert guard.admit(message(), 99.0) == met and guard.paused(99.0) == [met]
    assert admitted(guard, 4, now=100.0) == [True, True, True, False]
    assert guard.paused(100.0) == []


def test_what_was_not_stored_does_not_count() -> None:
    """A resend, a full mailbox."""
    guard = LoopGuard(LIMITS)
    for _ in range(9):
        assert guard.admit(message(), 0.0) is None
        guard.discount(message())
    guard.discount(message(sender="never"))


def test_resuming() -> None:
    """One pair, all of a name, all."""
    guard = LoopGuard(LIMITS)
    pairs = [PausedPair(a, b, "r", 50.0) for a, b in ("ab", "ba", "bc", "cd")]
    for pair in pairs:
        guard.pause(pair)
    assert guard.resume(0.0, pair=("a", "x")) == []
    assert guard.resume(0.0, pair=("a", "b")) == [pairs[0]]
    assert guard.resume(0.0, name="b") == [pairs[1], pairs[2]]
    assert guard.resume(60.0) == [], "it was over by itself"


def test_memory_is_bounded() -> None:
    """Pairs that are not heard of again are forgotten."""
    guard = LoopGuard(LIMITS)
    for n in range(MAX_PAIRS + 5):
        admitted(guard, 1, sender=f"s{n}", now=n / 1e6)
        guard.pause(PausedPair(f"s{n}", "b", "r", 1e9))
    assert len(guard._sent) == len(guard._paused) == MAX_PAIRS
    admitted(guard, 1, sender="new", now=1e6)
    assert len(guard._sent) == 1


def test_what_is_passed_on_is_not_counted() -> None:
    """Only what comes back is: to whose turn led to it, in a circle of any length, or to itself."""
    guard = LoopGuard(LIMITS)
    assert admitted(guard, 20, path=("a",)) == [True] * 20
    for _ in range(20):
        guard.discount(message(path=("a",)))
    assert admitted(guard, 4, path=("b", "c", "a")) == [True] * 3 + [False]
    assert admitted(guard, 1, path=("a",)) == [True], "nobody paused it"
    assert admitted(guard, 3, to="a", path=("a",)) == [True] * 2 + [False]
    met = guard.admit(message(hops=5, path=("x", "a")), 0.0)
    assert met is not None and guard.pause(met)
    assert admitted(guard, 1, path=("a",)) == [False], "a pause holds for all of its pair"
