"""
The courier keeps its pace: real broker, real courier service, platforms on loopback that enforce
limits, are down, or throttle for a long time; and kills while messages wait for their places.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from fakes.broker import until
from fakes.platform import Seen, Step
from fakes.stage import Stage, staged
from wakebus.adapters.courier.status_file import read_status
from wakebus.broker import Client
from wakebus.broker.protocol.event import Event

ALL = [f"part-{number}" for number in range(1, 6)]
SLOW = {"FEISHU_RATE_CHAT": "3/3600", "DINGTALK_RATE_CHAT": "3/3600"}
FAST = {"FEISHU_RATE_CHAT": "20/2", "FEISHU_RATE_APP": "30/1"}


@pytest.fixture
def fast() -> Iterator[Stage]:
    """Limits that are published in minutes, in seconds."""
    yield from staged(**FAST)


@pytest.fixture
def slow() -> Iterator[Stage]:
    """Three messages to a chat, and then none for an hour."""
    yield from staged(**SLOW)


@pytest.fixture
def buckets() -> Iterator[Stage]:
    """Matrix as a server of one's own, in seconds."""
    yield from staged("matrix", MATRIX_RATE_APP="10/2", MATRIX_ALLOW_UNENCRYPTED="1")


@pytest.fixture
def plain() -> Iterator[Stage]:
    """The platforms' own limits."""
    yield from staged()


def state(stage: Stage, platform: str) -> dict[str, Any]:
    """Return what the courier's file says of a platform."""
    found = read_status(stage.desk.root / "bus")
    assert found is None or found.alive
    return dict(found.platforms.get(platform, {})) if found else {}


def put_off(bus: Client, id: str) -> list[str]:
    """Return why a message was put off, each time."""
    steps = next(m["steps"] for m in bus.trace(id) if m["id"] == id)
    return [step.get("reason", "") for step in steps if step["what"] == "later"]


def test_no_limit_is_hit(fast: Stage) -> None:
    """ADP-6.15, ADP-6.16: 20 in 2 s to a chat and 30 in 1 s of the app, enforced: not one 429."""
    fast.platform.limit("feishu", "chat", 20, 2.0)
    fast.platform.limit("feishu", "app", 30, 1.0)
    ids, order = [], dict[str, list[str]]()
    with fast.desk.client() as bus:
        for number in range(100):
            # Ten senders to a busy chat, one each to fifteen others: 25 lanes.
            busy = number % 2 == 0
            chat = "oc_busy" if busy else f"oc_{number % 15}"
            sender = f"agent-{number % 20}" if busy else "me"
            order.setdefault(f"{chat} {sender}", []).append(f"msg-{number}")
            sent = bus.send("courier", f"msg-{number}", channel=f"feishu:{chat}", sender=sender)
            ids.append(sent.id)
    assert {fast.outcome(id)["result"] for id in ids} == {"sent"}
    assert not fast.platform.too_fast and len(fast.requested()) == 100
    for lane, wanted in order.items():
        stands = fast.stands(f"feishu:{lane.split()[0]}")
        assert [mark for mark in stands if mark in wanted] == wanted
    until(lambda: state(fast, "feishu").get("sent") == 100)
    assert state(fast, "feishu")["held"] > 0


class Synapse:
    """What Matrix does with a message: a bucket of `count` that is empty again in `seconds`."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds, self.level, self.before = count, seconds, 0.0, 0.0
        self.too_fast = 0

    def __call__(self, seen: Seen) -> Step:
        """Take it, or say that it is too much."""
        now = time.monotonic()
        self.level = max(0.0, self.level - (now - self.before) * self.count / self.seconds)
        self.before = now
        if self.level + 1 > self.count:
            self.too_fast += 1
            return "throttle_429"
        self.level += 1
        return "ok"


def test_a_bucket_never_runs_over(buckets: Stage) -> None:
    """ADP-6.23: ten at once, then one in 0.2 s, enforced: not one 429, and no window's wait."""
    synapse = Synapse(10, 2.0)
    buckets.platform.whim = synapse
    with buckets.desk.client() as bus:
        for number in range(16):
            room = f"matrix:!room{number % 4}:localhost"
            bus.send("courier", f"msg-{number}", channel=room, sender=f"agent-{number}")
    buckets.platform.wait(lambda p: len(p.messages) == 16, 60)
    assert (synapse.too_fast, len(buckets.requested())) == (0, 16)


def test_killed_while_they_wait_for_their_places(slow: Stage) -> None:
    """ADP-6.8, ADP-6.15: nothing is in doubt then: all goes on, once, also without a key."""
    ids = [slow.send(chat, long_text(chat)) for chat in ("feishu:oc_a", "dingtalk:cidA")]
    single = [slow.send("dingtalk:cidB", f"msg-{n}", f"agent-{n}") for n in range(5)]
    with slow.desk.client() as bus:
        until(lambda: all(put_off(bus, id) for id in ids) and waiting(bus, single) == 2)
    slow.kill("both")  # the broker alone would leave an orphan, who remembers the places
    told = [slow.outcome(id) for id in ids + single]
    assert [(one["result"], one.get("done", 5)) for one in told] == [("sent", 5)] * 7
    assert slow.stands("feishu:oc_a") == slow.stands("dingtalk:cidA") == ALL
    assert sorted(slow.stands("dingtalk:cidB")) == [f"msg-{n}" for n in range(5)]
    assert len(slow.requested()) == 15


def long_text(channel: str) -> str:
    """Five paragraphs, each of which takes a request of its own."""
    size = 15_000 if channel.startswith("feishu") else 12_000
    return "\n\n".join(f"{mark} {'x' * size}" for mark in ALL)


def waiting(bus: Client, ids: list[str]) -> int:
    """How many were put off and have not ended; all others have ended."""
    traced = [next(m for m in bus.trace(id) if m["id"] == id) for id in ids]
    still = [m for m in traced if m["state"] != "handled"]
    put = [m for m in still if any(step["what"] == "later" for step in m["steps"])]
    return len(put) if len(put) == len(still) else -1


def test_a_platform_that_hangs_and_is_down(plain: Stage) -> None:
    """ADP-6.18, ADP-6.19, ADP-6.22: others flow; its circuit opens, shows, and closes by itself."""
    now: list[Step] = ["hang"]
    plain.platform.whim = lambda seen: now[0] if seen.platform == "feishu" else "ok"
    with plain.desk.client() as bus:
        sent = [bus.send("courier", f"msg-{n}", channel=f"feishu:oc_{n}") for n in range(80)]
    plain.platform.wait_for(32)
    assert plain.outcome(plain.send("dingtalk:cidA", "hi"))["result"] == "sent"
    tried = {seen.chat for seen in plain.platform.requests() if seen.platform == "feishu"}
    assert len(tried) < 64
    now[0] = "error_500_lost"
    plain.platform.release()
    until(lambda: state(plain, "feishu").get("why"), 60)
    assert state(plain, "feishu")["circuit"] in ("open", "probing")
    assert plain.outcome(plain.send("dingtalk:cidA", "hi"))["result"] == "sent"
    # Each of those had two tries at most, and a probe now and then.
    assert len(plain.platform.requests()) < 140
    now[0] = "ok"
    assert {plain.outcome(one.id)["result"] for one in sent} == {"sent"}
    stands = [mark for mark in plain.stands() if mark.startswith("msg-")]
    assert sorted(stands) == sorted(f"msg-{n}" for n in range(80))
    until(lambda: state(plain, "feishu").get("circuit") == "closed")


class Boss:
    """A sender with an endpoint: what it is told, and what anybody may hear."""

    def __init__(self, bus: Client) -> None:
        self.bus = bus
        self.got: list[str] = []
        self.dead: list[Event] = []
        bus.register("boss", lambda delivery: self.got.append(delivery.message.text))
        bus.subscribe("bus.message.dead", self.dead.append)

    def send(self, text: str, chat: str, ttl_s: float = 30.0) -> str:
        """Hand a text to the courier; return the message's id."""
        return self.bus.send("courier", text, channel=chat, sender="boss", ttl_s=ttl_s).id

    def is_told(self, id: str, words: str) -> None:
        """Wait for the death of a message; `words` are in the letter, the event, the notice."""
        until(lambda: self.bus.wait(id, 30).state == "dead")
        until(lambda: [event for event in self.dead if event.envelope.get("id") == id])
        until(lambda: [text for text in self.got if id in text])
        (letter,) = (one for one in self.bus.dead_letters() if one["id"] == id)
        (event,) = (event for event in self.dead if event.envelope.get("id") == id)
        (notice,) = (text for text in self.got if id in text)
        for told in (letter["reason"], event.envelope["reason"], notice):
            assert words in told


def test_the_end_of_a_message_is_told(plain: Stage) -> None:
    """ADP-6.4, ADP-6.17, ADP-6.20: refused, or throttled until it expires."""
    plain.platform.hint = 600.0
    plain.platform.plan("send", "permanent", chat="oc_c")
    plain.platform.plan("send", "throttle_429", chat="oc_a")
    with plain.desk.client() as bus:
        boss = Boss(bus)
        boss.is_told(boss.send("no", "feishu:oc_c"), "230001")
        late = boss.send("late", "feishu:oc_a", ttl_s=0.5)
        until(lambda: put_off(bus, late))
        other = boss.send("other", "feishu:oc_b")
        until(lambda: put_off(bus, other))
        # All of the app waits, and the other chat's message is not tried; other platforms go on.
        assert "99991400" in put_off(bus, other)[0]
        assert plain.outcome(plain.send("dingtalk:cidA", "hi"))["result"] == "sent"
        boss.is_told(late, "99991400")
    assert plain.requested() == ["no", "late", "hi"]
    until(lambda: state(plain, "feishu").get("throttled_until"))


@pytest.fixture
def telegram() -> Iterator[Stage]:
    """Telegram's limit of a chat, in seconds."""
    yield from staged("telegram", TELEGRAM_RATE_CHAT="4/1")


def test_two_long_texts_to_one_chat(telegram: Stage) -> None:
    """ADP-6.27: at the platform's pace, each in one piece; a short one goes between or behind."""
    texts = {name: "\n\n".join(f"{name}{n} {'y' * 3000}" for n in range(4)) for name in "AB"}
    ids = [telegram.send("telegram:5", text, f"agent-{name}") for name, text in texts.items()]
    ids.append(telegram.send("telegram:5", "short", "agent-C"))
    told = [telegram.outcome(id) for id in ids]
    assert [(one["result"], one.get("done")) for one in told] == [
        ("sent", 4),
        ("sent", 4),
        ("sent", None),
    ]
    stands = [mark for mark in telegram.stands("telegram:5") if mark != "short"]
    assert "".join(mark[0] for mark in stands) in ("AAAABBBB", "BBBBAAAA")
    assert [mark[1] for mark in stands] == [*"01230123"]


def test_a_long_wait_outlives_the_courier(plain: Stage) -> None:
    """ADP-6.28: the next courier asks for nothing before the time that its predecessor was told."""
    plain.platform.hint = 600.0
    plain.platform.plan("send", "throttle_429", chat="oc_a")
    with plain.desk.client() as bus:
        first = plain.send("feishu:oc_a", "one")
        until(lambda: put_off(bus, first), 30)
        until(lambda: notebook_has_a_wait(plain), 30)
        plain.kill("courier")
        plain.courier()
        other = plain.send("feishu:oc_b", "two")
        until(lambda: put_off(bus, other), 30)
        assert "asked to wait" in put_off(bus, other)[0]
    assert plain.requested() == ["one"]


def notebook_has_a_wait(stage: Stage) -> bool:
    """Whether the courier has written one down."""
    with closing(sqlite3.connect(stage.desk.root / "bus" / "courier.db")) as db:
        return bool(db.execute("SELECT count(*) FROM shut").fetchone()[0])
