"""The gate: limits and circuits together, for all deliveries of a host."""

import threading
import time
from bisect import bisect_right, insort
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from wakebus.adapters.base import Capabilities, ChannelResult, Limit, Target
from wakebus.adapters.console import Console
from wakebus.adapters.errors import (
    DeliveryError,
    Held,
    Rejected,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
)
from wakebus.adapters.gate import Gates, Open, Passage

SENT = ChannelResult("sent", "chatty", "chatty:a")


class Chatty(Console):
    """A platform with a limit: two messages a second to a chat."""

    capabilities: ClassVar = Capabilities(100, limits=(Limit(2, 1.0),))


class Host:
    """Deliveries at a time of the test's own."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.now = 0.0
        self.gates = Gates(lambda: env or {}, ticks=lambda: self.now)

    def passage(self, key: str, chat: str = "a") -> Passage:
        return self.gates.passage(Chatty({}), Target("chatty", chat), key)

    def try_one(self, key: str, chat: str = "a", error: DeliveryError | None = None) -> float:
        """Return 0.0 if it went out, and ended with `error`; else the wait."""
        passage, result = self.passage(key, chat), SENT
        try:
            enter(passage)
            leave(passage, error)
        except Held as exc:
            result = ChannelResult("not_sent", "chatty", reason=exc.text)
            return exc.retry_after or -1.0
        finally:
            if error:
                result = ChannelResult("not_sent", "chatty", reason=f"masked: {error.text}")
            passage.close(result)
        return 0.0

    def state(self) -> dict[str, Any]:
        return self.gates.state(1000.0 + self.now)["chatty"]


def enter(passage: Passage) -> None:
    passage.enter(Chatty({}), Target("chatty", "a"), "part")


def leave(passage: Passage, error: DeliveryError | None) -> None:
    passage.leave(Chatty({}), Target("chatty", "a"), error)


def test_open() -> None:
    """ADP-6.15: a host without a gate holds nothing back."""
    for _ in range(1000):
        Open().enter(Chatty({}), Target("chatty", "a"), "k")
        Open().leave(Chatty({}), Target("chatty", "a"), None)


def test_the_pace_is_kept_for_all_deliveries() -> None:
    """ADP-6.15: two a second to one chat, whoever sends; another chat has its own."""
    host = Host()
    waits = [host.try_one(f"k{n}") for n in range(4)]
    assert waits[:2] == [0.0, 0.0] and all(1.0 < wait < 1.2 for wait in waits[2:])
    assert host.try_one("other", "b") == 0.0
    host.now = max(waits)
    assert [host.try_one(f"k{n}") for n in (2, 3)] == [0.0, 0.0]


def test_the_chat_is_the_messages_own() -> None:
    """ADP-6.15: what a look-up makes of it changes no bucket; parts share their message's place."""
    host = Host()
    for n in range(2):
        passage = host.passage(f"k{n}")
        enter(passage)
        passage.enter(Chatty({}), Target("chatty", "looked-up"), f"k{n}.1")
        passage.leave(Chatty({}), Target("chatty", "looked-up"), None)
        passage.close(SENT)
    assert host.try_one("k3") > 0


@pytest.mark.parametrize("error", [None, Rejected("no"), Throttled("slow"), TokenRefused("old")])
def test_any_answer_closes_a_circuit(error: DeliveryError | None) -> None:
    """ADP-6.18: refused, throttled, a stale token: the platform lives."""
    host = Host({"CHATTY_RATE_CHAT": "off"})
    for n in range(4):
        host.try_one(f"k{n}", "ab"[n % 2], Uncertain("reset"))
    host.try_one("answer", "a", error)
    for n in range(4):
        assert host.try_one(f"l{n}", "ab"[n % 2], Unavailable("down")) == 0.0
    assert host.state()["circuit"] == "closed"


def test_two_silent_chats_open_the_platforms_circuit() -> None:
    """ADP-6.18, ADP-6.19: all of it waits; the state says why and until when, masked."""
    host = Host()
    for n in range(6):
        host.try_one(f"k{n}", "abc"[n % 3], Unavailable("Bearer secret is down"))
    assert 0 < host.try_one("x", "d") <= 5
    state = host.state()
    assert (state["circuit"], state["until"]) == ("open", 1005.0)
    assert state["why"] == "masked: Bearer secret is down" == state["last_error"]
    host.now = 5.0
    probe = host.passage("probe", "a")
    enter(probe)
    assert host.state()["circuit"] == "probing"
    assert host.try_one("x", "d") > 0
    leave(probe, None)
    probe.close(SENT)
    assert host.state()["circuit"] == "closed" and "why" not in host.state()
    assert host.try_one("x", "d") == 0.0


def test_one_silent_chat_holds_only_itself() -> None:
    """ADP-6.18: a chat that hangs has a circuit of its own."""
    host = Host({"CHATTY_RATE_CHAT": "off"})
    for n in range(5):
        assert host.try_one(f"k{n}", "hangs", Uncertain("silence")) == 0.0
    assert host.try_one("k9", "hangs") == 5.0
    assert host.try_one("other", "b") == 0.0


def test_no_probe_is_lost() -> None:
    """ADP-6.18: one that does not go out after all makes room for another."""
    host = Host({"CHATTY_RATE_CHAT": "off"})
    for n in range(5):
        host.try_one(f"k{n}", "ab"[n % 2], Unavailable("down"))
    host.now = 5.0
    passage = host.passage("probe", "a")
    enter(passage)
    passage.close(None)
    assert host.try_one("next", "b") == 0.0


def test_its_reason_does_not_grow() -> None:
    """ADP-6.20: however often it fails, it is the platform's last words."""
    host, reason = Host({"CHATTY_RATE_CHAT": "off"}), ""
    for n in range(40):
        passage = host.passage(f"k{n}", "ab"[n % 2])
        try:
            enter(passage)
            leave(passage, Unavailable("down"))
            enter(passage)
            leave(passage, Unavailable("down"))
            reason = "down"
        except Held as exc:
            reason = exc.text
        passage.close(ChannelResult("not_sent", "chatty", reason=reason))
        host.now += 30.0
    assert len(reason) < 100 and reason.endswith("down")


def test_a_grant_of_one_that_is_held_back_after_all() -> None:
    """ADP-6.15: granted, and then the circuit opened: the place is free, not lost."""
    host = Host({"CHATTY_RATE_CHAT": "1/9"})
    passage = host.passage("k", "a")
    enter(passage)
    for n in range(5):
        host.try_one(f"k{n}", f"c{n}", Unavailable("down"))
    with pytest.raises(Held):
        enter(passage)
    passage.close(ChannelResult("not_sent", "chatty"))
    host.now = 5.0
    assert host.try_one("next", "a") == 0.0


@pytest.mark.parametrize("hint", [None, 0.0, float("nan"), float("inf"), "30", -1.0])
def test_a_throttle_without_a_usable_hint(hint: Any) -> None:
    """ADP-6.17: it holds nobody else back; the message itself comes again by 6.5."""
    host = Host()
    host.try_one("k", "a", Throttled("slow", retry_after=hint, scope="app"))
    assert host.try_one("l", "b") == 0.0 and "throttled_until" not in host.state()


def test_the_longest_throttle_counts() -> None:
    """ADP-6.17, ADP-6.19: a shorter hint of a later answer does not shorten it; an hour at most."""
    host = Host()
    host.try_one("k", "a", Throttled("slow", retry_after=1e9, scope="app"))
    late = host.passage("l", "b")
    leave(late, Throttled("slow", retry_after=3, scope="app"))
    assert host.state()["throttled_until"] == 1000.0 + 3600
    assert host.try_one("m", "c") == 3600.0
    host.now = 3600.0
    assert host.try_one("m", "c") == 0.0 and "throttled_until" not in host.state()


def test_threads() -> None:
    """ADP-6.15: no window of a second is too full, with 32 threads and a real clock."""
    gates, seen, lock = Gates(dict), list[float](), threading.Lock()
    until = time.monotonic() + 1.2

    def work(name: int) -> None:
        number = 0
        while time.monotonic() < until:
            passage = gates.passage(Chatty({}), Target("chatty", "a"), f"{name}.{number}")
            try:
                enter(passage)
                with lock:
                    insort(seen, time.monotonic())
                leave(passage, None)
                number += 1
            except Held as exc:
                time.sleep(min(exc.retry_after or 0, 0.3))
            passage.close(None)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    counts = [bisect_right(seen, at + 1.0) - place for place, at in enumerate(seen)]
    assert max(counts) <= 2 and len(seen) >= 2
