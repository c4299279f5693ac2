"""
The courier keeps its word: real broker, real courier service, platforms on loopback.

What is killed is killed by SIGKILL, in the middle of what it does. Feishu makes one message of a
key, so all arrives exactly once; DingTalk knows no keys, so what is in doubt is not sent again, and
its sender is told.
"""

import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from fakes.broker import until
from fakes.desk import BIN
from fakes.platform import Step
from fakes.program import frozen
from fakes.stage import Stage, staged
from wakebus.broker import Client
from wakebus.broker.errors import NotRunning, Undecided
from wakebus.broker.protocol.message import new_id

ALL = [f"part-{number}" for number in range(1, 6)]
SIZE = {"feishu": 15_000, "dingtalk": 12_000}  # of a paragraph: two do not fit into one request
BOTH = ("feishu:oc_a", "dingtalk:cidA")
LOAD = 60
# A broker that dies soon after its courier leaves nobody; one that dies alone leaves an orphan.
KILLS = (*("courier", "broker") * 4, "broker", "courier")
CHATS = (
    "feishu:oc_a",
    "feishu:oc_b",
    "feishu:oc_c",
    "feishu:oc_d",
    "dingtalk:cidA",
    "dingtalk:cidB",
)
TROUBLE: list[Step] = [
    "throttle_429",
    "reset_after_write",
    "reset_lost",
    "half",
    "error_500",
    "html",
    "close_before_read",
    "token_expired_once",
]


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged()


def long_text(channel: str) -> str:
    """Five paragraphs, each of which takes a request of its own."""
    size = SIZE[channel.partition(":")[0]]
    return "\n\n".join(f"{mark} {'x' * size}" for mark in ALL)


def test_an_orderly_stop_of_the_bus_counts_no_attempt(stage: Stage) -> None:
    """PROTOCOL-1.9: services end while the broker still hears what they say last."""
    stage.platform.plan("send", "hang", "hang")
    ids = [stage.send(channel, "once") for channel in BOTH]
    stage.platform.wait_for(2)
    assert stage.desk.run("hermes-busd", "restart").status == 0
    stage.platform.release()
    with stage.desk.client() as bus:
        (told,) = [m for m in bus.trace(ids[0]) if m["id"] == ids[0]]
    assert [step.get("deaths", 0) for step in told["steps"] if step["what"] == "returned"] == [0]


def test_killed_while_it_waits_for_a_platform(stage: Stage) -> None:
    """ADP-6.5, ADP-6.8: what was certainly not accepted is sent by the next one, once."""
    stage.platform.hint = 5.0
    stage.platform.plan("send", "throttle_429", "throttle_429")
    ids = [stage.send(channel, "once") for channel in BOTH]
    stage.platform.wait_for(2)
    until(lambda: stage.begun() == 0)  # killed earlier, it would not have had the answers
    stage.kill("courier")
    assert [stage.outcome(id)["result"] for id in ids] == ["sent", "sent"]
    assert [stage.stands(channel) for channel in BOTH] == [["once"], ["once"]]
    assert len(stage.requested()) == 4


def begin_and_hang(stage: Stage) -> list[str]:
    """Send five parts to both platforms; return when the third is taken, and not answered."""
    for channel in BOTH:
        stage.platform.plan("send", "ok", "ok", "hang", chat=channel.partition(":")[2])
    ids = [stage.send(channel, long_text(channel)) for channel in BOTH]
    stage.platform.wait_for(6)
    return ids


def check_parts(stage: Stage, outcomes: list[dict[str, Any]]) -> None:
    """With a key all parts stand once; without, what follows the doubt was not sent."""
    told = [(one["result"], one["done"], one["parts"]) for one in outcomes]
    assert told == [("sent", 5, 5), ("uncertain", 2, 5)]
    assert stage.stands(BOTH[0]) == ALL
    assert Counter(stage.requested("oc_a")) == {**dict.fromkeys(ALL, 1), "part-3": 2}
    assert stage.requested("cidA") == ALL[:3]


@pytest.mark.parametrize("what", ["courier", "broker"])
def test_killed_between_parts(stage: Stage, what: str) -> None:
    """ADP-6.6, ADP-6.8: with a key the part in doubt is sent again, without one it is told."""
    ids = begin_and_hang(stage)
    stage.kill(what)
    check_parts(stage, [stage.outcome(id) for id in ids])


@pytest.mark.parametrize("awake", [True, False])
def test_taken_over_in_the_middle(stage: Stage, awake: bool) -> None:
    """ADP-6.10: the loser begins nothing more, also where it was stopped and missed its loss."""
    ids = begin_and_hang(stage)
    with nullcontext() if awake else frozen(stage.courier()):
        command = [str(BIN / "wakebus"), "courier"]
        winner = subprocess.Popen(
            command, env=stage.desk.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            outcomes = [stage.outcome(id) for id in ids]
            stage.platform.release()
        finally:
            winner.terminate()
            assert winner.wait(30) == 0
    # The loser has its name back, and takes texts: what was left over has come to its end.
    until(lambda: stage.courier() != winner.pid, 60)
    assert stage.outcome(stage.send("feishu:oc_b", "hi"))["result"] == "sent"
    assert "the name is lost" in (stage.desk.root / "bus" / "courier.log").read_text()
    check_parts(stage, outcomes)


def test_what_the_sender_is_told(stage: Stage) -> None:
    """ADP-6.6, ADP-6.13: how many parts were sent, uncertain by status 5, and no credential."""
    stage.platform.plan("send", "ok", "ok", "reset_after_write")
    done = stage.desk.wakebus("send", "dingtalk:cidA", long_text("dingtalk:"))
    assert done.status == 5 and "uncertain" in done.both and "2 of 5 parts sent" in done.both
    done = stage.desk.wakebus("send", "feishu:oc_a", long_text("feishu:"))
    assert done.status == 0 and "in 5 parts" in done.out
    check_session_webhook(stage)


def check_session_webhook(stage: Stage) -> None:
    """It is used while it is good, and stands in no log, outcome or trace."""
    now, url = time.time(), f"{stage.platform.url}/robot/sendBySession?session=hush-hush"
    stage.platform.plan("session", "ok", "reset_after_write")
    told, words = "", []
    with stage.desk.client() as bus:
        for ends in (now + 600, now + 600, now - 1):
            webhook = {"url": url, "expires_at": ends}
            body = {"text": "hi", "channel": "dingtalk:cidB", "session_webhook": webhook}
            receipt = bus.send("courier", body, sender="me", wait=60)
            told += f"{receipt} {bus.trace(receipt.id)}"
            assert receipt.outcome
            words.append(receipt.outcome["channel"]["result"])
    assert words == ["sent", "uncertain", "sent"]
    assert len(stage.platform.requests("session")) == 2 and stage.requested("cidB") == ["hi"]
    logs = "".join(file.read_text() for file in (stage.desk.root / "bus").glob("*.log"))
    assert "uncertain" in logs and "hush" not in logs + told


class Load:
    """Sixty messages to six chats, sent while everything dies; ids by chat, in order."""

    def __init__(self, stage: Stage) -> None:
        self.ids: dict[str, list[str]] = {chat: [] for chat in CHATS}
        self._stage = stage
        self.thread = threading.Thread(target=self._send)
        self.thread.start()

    def _send(self) -> None:
        with self._stage.desk.client() as bus:
            for number in range(LOAD):
                chat = CHATS[number % len(CHATS)]
                self.ids[chat].append(self._surely(bus, chat, f"msg-{number}"))
                time.sleep(0.05)

    def _surely(self, bus: Client, chat: str, text: str) -> str:
        id = new_id(time.time())
        while True:
            try:
                bus.send("courier", text, channel=chat, sender="me", id=id, timeout=5)
                return id
            except (NotRunning, Undecided):
                time.sleep(0.02)


def test_ten_kills_under_load(stage: Stage) -> None:
    """ADP-6.8: none lost; none doubled where a key exists; each chat in the order of sending."""
    chance = random.Random(7)
    good: list[Step] = ["ok"] * 16
    stage.platform.plan("send", *(chance.choice(good + TROUBLE) for _ in range(400)))
    load = Load(stage)
    for what in KILLS:
        time.sleep(chance.uniform(0.05, 0.4))
        stage.kill(what)
    load.thread.join()
    results: Counter[str] = Counter()
    for place, (chat, ids) in enumerate(load.ids.items()):
        words = [stage.outcome(id)["result"] for id in ids]
        results.update(words)
        wanted = [f"msg-{number}" for number in range(place, LOAD, len(CHATS))]
        check_chat(chat, wanted, words, stage.stands(chat))
    requests = len(stage.platform.requests())
    print(f"\n{LOAD} messages, {len(KILLS)} kills, {requests} requests, {dict(results)}")


def check_chat(chat: str, wanted: list[str], words: list[str], stands: list[str]) -> None:
    """What a reader sees is what the outcomes say, once and in order."""
    if chat.startswith("feishu"):
        assert words == ["sent"] * len(wanted) and stands == wanted
        return
    sent = [mark for mark, word in zip(wanted, words, strict=True) if word == "sent"]
    assert set(words) <= {"sent", "uncertain"}
    assert set(sent) <= set(stands)
    assert stands == [mark for mark in wanted if mark in stands]
