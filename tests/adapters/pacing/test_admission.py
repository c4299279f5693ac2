"""Admission: limits, leases and circuits together, for all deliveries of a host."""

import threading
import time
from bisect import bisect_right, insort
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from wakebus.adapters.base import Capabilities, ChannelResult, Limit, Target
from wakebus.adapters.delivery.context import AllowAll
from wakebus.adapters.errors import (
    DeliveryError,
    Held,
    Rejected,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
)
from wakebus.adapters.pacing.admission import MAX_HOSTS, AdmissionControl, Permit
from wakebus.adapters.platforms.console import Console

SENT = ChannelResult("sent", "chatty", "chatty:a")


class Chatty(Console):
    """A platform with a limit: two messages a second to a chat."""

    capabilities: ClassVar = Capabilities(100, limits=(Limit(2, 1.0),))


class Host:
    """Deliveries at a time of the test's own."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.now = 0.0
        self.control = AdmissionControl(
            lambda: env or {}, ticks=lambda: self.now, wall=lambda: 77.4
        )

    def permit(self, key: str, chat: str = "a", host: str = "") -> Permit:
        return self.control.permit(Target("chatty", chat), Chatty.capabilities.limits, key, host)

    def try_one(
        self, key: str, chat: str = "a", error: DeliveryError | None = None, host: str = ""
    ) -> float:
        """Return 0.0 if it went out, and ended with `error`; else the wait."""
        permit, result = self.permit(key, chat, host), SENT
        try:
            permit.enter()
            permit.report(error)
        except Held as exc:
            result = ChannelResult("not_sent", "chatty", reason=exc.text)
            return exc.retry_after or -1.0
        finally:
            if error:
                result = ChannelResult("not_sent", "chatty", reason=f"masked: {error.text}")
            close(permit, result)
        return 0.0

    def state(self) -> dict[str, Any]:
        return self.control.state(1000.0 + self.now)["chatty"]


def close(permit: Permit, result: ChannelResult | None) -> None:
    """End the delivery, of which this became."""
    with permit:
        permit.result = result


def test_open() -> None:
    """ADP-6.15: a host without a permit holds nothing back."""
    for _ in range(1000):
        AllowAll().enter()
        AllowAll().begin()
        AllowAll().report(None)


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
        permit = host.permit(f"k{n}")
        permit.enter()
        permit.enter()
        permit.report(None)
        close(permit, SENT)
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
    probe = host.permit("probe", "a")
    probe.enter()
    assert host.state()["circuit"] == "probing"
    assert host.try_one("x", "d") > 0
    probe.report(None)
    close(probe, SENT)
    assert host.state()["circuit"] == "closed" and "why" not in host.state()
    assert host.try_one("x", "d") == 0.0


def test_a_dead_host_holds_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.37: a circuit is a host's: its chats wait, those of others go; the state names it."""
    host, dead = Host({"CHATTY_RATE_CHAT": "off"}), "dead.example"
    for n in range(6):
        host.try_one(f"k{n}", "ab"[n % 2], Unavailable("refused"), dead)
    assert host.try_one("x", "c", host=dead) > 0
    for n in range(20):
        assert host.try_one(f"l{n}", "d", host="lives.example") == 0.0
    state = host.state()
    assert (state["circuit"], state["hosts"]) == ("open", dead)
    assert "dead.example: no answer several times" in caplog.text
    with pytest.raises(Held, match=r"dead\.example gave no answer several times"):
        host.permit("y", "e", dead).enter()
    # Of the chat that moved to another host nothing is known there.
    assert host.try_one("z", "a", host="lives.example") == 0.0
    host.now = 5.0
    assert host.try_one("probe", "a", host=dead) == 0.0
    assert "hosts" not in host.state() and host.state()["circuit"] == "closed"


def test_a_host_that_hangs_takes_no_others_places() -> None:
    """ADP-6.37, ADP-6.22: 32 requests under way to one host are in nobody else's way."""
    host = Host({"CHATTY_RATE_CHAT": "off"})
    for n in range(32):
        host.permit(f"k{n}", f"c{n}", "dead.example").enter()
    with pytest.raises(Held, match=r"dead\.example: many requests are under way"):
        host.permit("more", "more", "dead.example").enter()
    assert host.try_one("other", "other", host="lives.example") == 0.0


def test_hosts_are_bounded() -> None:
    """Rule 5: those with nothing under way are forgotten, the oldest first."""
    host = Host({"CHATTY_RATE_CHAT": "off"})
    host.permit("busy", "busy", "busy.example").enter()
    for n in range(MAX_HOSTS + 10):
        assert host.try_one(f"k{n}", "a", host=f"h{n}.example") == 0.0
    assert len(host.control._bulkheads) == MAX_HOSTS + 1


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
    permit = host.permit("probe", "a")
    permit.enter()
    close(permit, None)
    assert host.try_one("next", "b") == 0.0


def test_its_reason_does_not_grow() -> None:
    """ADP-6.20: however often it fails, it is the platform's last words."""
    host, reason = Host({"CHATTY_RATE_CHAT": "off"}), ""
    for n in range(40):
        permit = host.permit(f"k{n}", "ab"[n % 2])
        try:
            permit.enter()
            permit.report(Unavailable("down"))
            permit.enter()
            permit.report(Unavailable("down"))
            reason = "down"
        except Held as exc:
            reason = exc.text
        close(permit, ChannelResult("not_sent", "chatty", reason=reason))
        host.now += 30.0
    assert len(reason) < 100 and reason.endswith("down")


def test_an_upload_is_not_the_message() -> None:
    """ADP-6.15, ADP-5.22: who follows an upload of 10 s waits from its message on."""
    host = Host({"CHATTY_RATE_CHAT": "1/1"})
    permit = host.permit("slow")
    permit.enter()
    host.now = 10.0
    permit.begin()
    permit.report(None)
    close(permit, SENT)
    assert host.try_one("next") > 0.9


def test_a_grant_of_one_that_is_held_back_after_all() -> None:
    """ADP-6.15: granted, and then the circuit opened: the place is free, not lost."""
    host = Host({"CHATTY_RATE_CHAT": "1/9"})
    permit = host.permit("k", "a")
    permit.enter()
    for n in range(5):
        host.try_one(f"k{n}", f"c{n}", Unavailable("down"))
    with pytest.raises(Held):
        permit.enter()
    close(permit, ChannelResult("not_sent", "chatty"))
    host.now = 5.0
    assert host.try_one("next", "a") == 0.0


def test_the_state_stands_still() -> None:
    """ADP-6.19: two clocks that differ by milliseconds are no change that is written."""
    host = Host()
    for n in range(6):
        host.try_one(f"k{n}", "abc"[n % 3], Unavailable("down"))
    host.try_one("m", "a", Throttled("slow", retry_after=30, scope="app"))
    for n in range(6):
        host.try_one(f"l{n}", "abc"[n % 3], Unavailable("down"))
    seen = [host.control.state(1000.0 + wobble)["chatty"] for wobble in (0.0, 0.002, -0.003, 0.04)]
    assert seen[0]["until"] and seen == [seen[0]] * 4


@pytest.mark.parametrize("hint", [None, 0.0, 0.001, float("nan"), float("inf"), "30", -1.0])
def test_a_throttle_without_a_usable_hint(hint: Any) -> None:
    """ADP-6.17: it holds nobody else back; the message itself comes again by 6.5."""
    host = Host()
    host.try_one("k", "a", Throttled("slow", retry_after=hint, scope="app"))
    assert host.try_one("l", "b") == 0.0 and "throttled_until" not in host.state()


def test_the_longest_throttle_counts() -> None:
    """ADP-6.17, ADP-6.19: a shorter hint of a later answer does not shorten it; an hour at most."""
    host = Host()
    host.try_one("k", "a", Throttled("slow", retry_after=1e9, scope="app"))
    late = host.permit("l", "b")
    late.report(Throttled("slow", retry_after=3, scope="app"))
    assert host.state()["throttled_until"] == 1000.0 + 3600
    assert host.try_one("m", "c") == 3600.0
    host.now = 3600.0
    assert host.try_one("m", "c") == 0.0 and "throttled_until" not in host.state()


def test_threads() -> None:
    """ADP-6.15: no window of a second is too full, with 32 threads and a real clock."""
    control, seen, lock = AdmissionControl(dict), list[float](), threading.Lock()
    until = time.monotonic() + 1.2

    def work(name: int) -> None:
        number = 0
        while time.monotonic() < until:
            permit = control.permit(
                Target("chatty", "a"), Chatty.capabilities.limits, f"{name}.{number}"
            )
            try:
                permit.enter()
                with lock:
                    insort(seen, time.monotonic())
                permit.report(None)
                number += 1
            except Held as exc:
                time.sleep(min(exc.retry_after or 0, 0.3))
            close(permit, None)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    counts = [bisect_right(seen, at + 1.0) - place for place, at in enumerate(seen)]
    assert max(counts) <= 2 and len(seen) >= 2


def test_a_text_in_parts_has_the_chat_to_itself() -> None:
    """ADP-6.27: others wait without a place of their own, until it has ended; another chat goes."""
    host = Host({"CHATTY_RATE_CHAT": "1/1"})
    long = host.permit("long")
    long.enter()
    long.enter(3)
    long.report(None)
    close(long, ChannelResult("not_sent", retry_after=1.0, again=True, done=1, parts=3))
    other = host.permit("other")
    with pytest.raises(Held, match="behind another text"):
        other.enter()
    close(other, ChannelResult("not_sent", "chatty", again=True))
    assert host.try_one("away", "b") == 0.0
    for left in (2, 1):
        host.now += 1.1
        long = host.permit("long")
        long.enter(left)
        long.report(None)
        close(long, SENT if left == 1 else ChannelResult("not_sent", again=True, done=2, parts=3))
    host.now += 1.1
    assert host.try_one("other") == 0.0


@pytest.mark.parametrize(
    "result",
    [
        ChannelResult("not_sent", again=True, parts=3),  # nothing of it has begun
        ChannelResult("not_sent", again=True, done=1, parts=3, retry_after=31.0),
        ChannelResult("rejected", done=1, parts=3),
        ChannelResult("uncertain", done=1, parts=3),
        None,
    ],
)
def test_a_text_in_parts_that_is_over(result: ChannelResult | None) -> None:
    """ADP-6.27: what ends, or is put off for long, has the chat no more."""
    host = Host({"CHATTY_RATE_CHAT": "off"})
    long = host.permit("long")
    long.enter(3)
    long.report(None)
    assert host.try_one("other") > 0
    close(long, result)
    assert host.try_one("other") == 0.0


def test_an_error_before_it_was_held_back() -> None:
    """ADP-6.19: a delivery whose request failed was tried, whatever holds its next one."""
    host = Host({"CHATTY_RATE_CHAT": "1/9"})
    permit = host.permit("k")
    permit.enter()
    permit.report(Unavailable("down"))
    with pytest.raises(Held):
        permit.enter()
    assert permit.held and not permit.untried
    close(permit, ChannelResult("not_sent", "chatty", reason="down"))
    state = host.state()
    assert (state["held"], state["not_sent"], state["last_error"]) == (0, 1, "down")
    assert state["last_error_at"] == 77
    assert host.try_one("l") > 0 and host.state()["held"] == 1


def test_chats_that_are_held() -> None:
    """ADP-6.19: how many have a circuit of their own that is open; none is named."""
    host = Host({"CHATTY_RATE_CHAT": "off"})
    for chat in ("hangs", "dead"):
        for n in range(5):
            host.try_one(f"{chat}{n}", chat, Uncertain("silence"))
        host.try_one(f"alive{chat}", "alive")
    assert host.state()["chats_held"] == 2 and host.state()["circuit"] == "closed"
    host.now = 5.0
    host.try_one("again", "dead")
    assert host.state()["chats_held"] == 1


def test_long_waits_are_handed_on() -> None:
    """ADP-6.28: once, and another host keeps what is left of them."""
    host, other = Host(), Host()
    assert host.control.long_cooldowns() is None
    host.try_one("k", "a", Throttled("slow", retry_after=60))
    host.try_one("l", "b", Throttled("slow", retry_after=2))
    waits = host.control.long_cooldowns()
    assert waits == {("chatty", "a"): 60.0} and host.control.long_cooldowns() is None
    other.control.restore_cooldowns({name: wait - 20 for name, wait in waits.items()})
    assert other.try_one("m", "a") == 40.0 and other.try_one("m2", "b") == 0.0
