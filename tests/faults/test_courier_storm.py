"""
The courier in a storm: five platforms that fail at random, and three kills of the courier.

Every message bears its number. What a platform does to it is drawn from a seed, the number and
the try, so that a run can be done again whatever the timing was. At the end each message stands
in its chat, or is a dead letter, or its outcome says that nobody knows; nothing stands twice.
STORM says how many messages (`make storm`: 10,000); 400 belong to the tests.
"""

import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from fakes.broker import until
from fakes.desk import BIN, Desk
from fakes.platform import Platform, Seen, Step
from wakebus.broker import Client
from wakebus.broker.errors import NotNow, NotRunning, Undecided
from wakebus.broker.protocol.message import new_id

MANY: Final = int(os.environ.get("STORM", "400"))
SEED: Final = 20261128
KILLS: Final = 3
# With a key a resend makes no second message: feishu, discord, matrix, webhook. Telegram has none.
PLATFORMS: Final = ("feishu", "telegram", "discord", "matrix", "webhook")
# A key of hours settles every doubt in the end; Discord's is trusted for two minutes.
LASTING: Final = frozenset({"feishu", "matrix", "webhook"})
ROWS: Final = 8  # chats of each platform
SHAPES: Final = {
    "feishu": "feishu:oc_{}",
    "telegram": "telegram:{}",
    "discord": "discord:123456789012345678{}",
    "matrix": "matrix:!room{}:localhost",
    "webhook": "webhook:w{}",
}
CHATS: Final = [SHAPES[name].format(row) for row in range(1, ROWS + 1) for name in PLATFORMS]
# Out of a hundred requests so many meet this; and out of a hundred texts so many are refused.
TROUBLE: Final[dict[Step, float]] = {
    "throttle_429": 3,
    "throttle_in_200": 1,
    "error_500": 2,
    "error_500_lost": 2,
    "reset_after_write": 2,
    "reset_lost": 2,
    "half": 1,
    "html": 1,
    "hang": 0.2,
    "hang_lost": 0.2,
}
REFUSED: Final = 0.5


def refused(mark: str) -> bool:
    """Whether this text is refused, at every try: what was taken is not refused later."""
    return random.Random(f"{SEED} {mark}").random() * 100 < REFUSED


class Sky:
    """What the platforms do: the same for the same message and try, in every run."""

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()
        self.done: Counter[Step] = Counter()

    def __call__(self, seen: Seen) -> Step:
        """Return what this request meets."""
        mark = f"{seen.chat} {seen.text.split()[0]}"
        self.tries[mark] += 1
        chance = random.Random(f"{SEED} {mark} {self.tries[mark]}")
        rest = 100 - sum(TROUBLE.values())
        step = chance.choices([*TROUBLE, "ok"], [*TROUBLE.values(), rest])[0]
        if refused(mark):
            step = "permanent"
        if step == "html" and seen.platform == "webhook":
            step = "ok"  # by its contract any 2xx is a yes
        self.done[step] += 1
        return step


class Storm:
    """A desk, the platforms, and a courier that can be killed and is then started again."""

    def __init__(self) -> None:
        # As a service the courier would come back after 1, 2, 4 … seconds: in test_courier.py.
        self.desk, self.platform, self.sky = Desk(attempts=20), Platform(), Sky()
        self.platform.whim, self.over = self.sky, threading.Event()
        # A connection that hangs is dropped after 1 s; silence without end is in test_courier.py.
        self.platform.patience = 1.0
        lines = dict(self.platform.settings(*PLATFORMS))
        for name in PLATFORMS:  # the pace is in another test
            lines |= {f"{name.upper()}_RATE_{scope}": "off" for scope in ("CHAT", "APP")}
        env = "".join(f"{name}={value}\n" for name, value in lines.items())
        (self.desk.root / ".env").write_text(env)
        self.desk.start()
        self.courier = self._start()

    def kill(self) -> None:
        """SIGKILL the courier and start another, which takes the name when it can."""
        self.courier.kill()
        self.courier.wait(30)
        self.courier = self._start()

    def close(self) -> None:
        """End all."""
        self.over.set()
        self.courier.kill()
        self.courier.wait(30)
        self.platform.close()
        self.desk.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        with (self.desk.root / "courier.out").open("ab") as out:
            words = [str(BIN / "wakebus"), "courier"]
            started = subprocess.Popen(words, env=self.desk.env, stdout=out, stderr=out)
        until(partial(self._holds, started.pid), 60)
        return started

    def _holds(self, pid: int) -> bool:
        with self.desk.client() as bus:
            return any(one["name"] == "courier" and one.get("pid") == pid for one in bus.list())


@pytest.fixture
def storm() -> Iterator[Storm]:
    found = Storm()
    yield found
    found.close()


class Letters:
    """All messages, sent to their chats in turn; their ids by chat, in order of sending."""

    def __init__(self, storm: Storm) -> None:
        self.ids: dict[str, list[str]] = {chat: [] for chat in CHATS}
        self._desk, self._over = storm.desk, storm.over
        self.thread = threading.Thread(target=self._send)
        self.thread.start()

    def _send(self) -> None:
        with self._desk.client() as bus:
            for number in range(MANY):
                chat = CHATS[number % len(CHATS)]
                self.ids[chat].append(self._surely(bus, chat, f"msg-{number}"))

    def _surely(self, bus: Client, chat: str, text: str) -> str:
        id = new_id(time.time())
        while not self._over.is_set():
            try:
                bus.send("courier", text, channel=chat, sender="me", id=id, timeout=30)
                break
            except (NotRunning, Undecided, NotNow):
                self._over.wait(0.05)
        return id


def kill_on_the_way(storm: Storm) -> None:
    """Kill the courier when a quarter, a half and three quarters of the texts stand there."""
    for place in range(1, KILLS + 1):
        until(partial(stand, storm.platform, MANY * place // (KILLS + 1)), 300)
        storm.kill()


def stand(platform: Platform, many: int) -> bool:
    """Whether so many texts stand in all chats together."""
    return len(platform.messages) >= many


def outcomes(desk: Desk, ids: list[str]) -> list[dict[str, Any]]:
    """Wait until all of a chat have ended; return what became of them there."""
    found = []
    with desk.client() as bus:
        for id in ids:
            receipt = bus.wait(id, 120)
            assert receipt.outcome, receipt
            channel = receipt.outcome["channel"]
            assert (receipt.state == "dead") == (channel["result"] == "rejected"), receipt
            found.append(channel)
    return found


def wanted_of(chat: str) -> list[str]:
    """Return the marks that were sent to a chat, in order."""
    return [f"msg-{number}" for number in range(CHATS.index(chat), MANY, len(CHATS))]


def check_chat(chat: str, told: list[dict[str, Any]], stands: list[str]) -> list[str]:
    """What a reader sees is what the outcomes say, once and in order; return who is uncertain."""
    wanted = wanted_of(chat)
    by: dict[str, list[str]] = {}
    for mark, one in zip(wanted, told, strict=True):
        by.setdefault(one["result"], []).append(mark)
    assert set(by) <= {"sent", "rejected", "uncertain"}, (chat, by.keys())
    assert len(stands) == len(set(stands)), (chat, "twice")
    assert stands == [mark for mark in wanted if mark in set(stands)], (chat, "out of order")
    assert set(by.get("sent", [])) <= set(stands), (chat, "lost")
    assert not set(by.get("rejected", [])) & set(stands), (chat, "refused, and yet there")
    if chat.partition(":")[0] in LASTING:
        # Killed before it had read the refusal, the courier never knows about the first try.
        id = chat.partition(":")[2]
        assert all(refused(f"{id} {mark}") for mark in by.get("uncertain", [])), (chat, told)
    return [f"{chat} {mark}" for mark in by.get("uncertain", [])]


@pytest.mark.timeout(900)
def test_storm(storm: Storm) -> None:
    """ADP-6.6, ADP-6.8: none lost, none doubled, order per chat; every doubt has its outcome."""
    began = time.monotonic()
    letters = Letters(storm)
    kill_on_the_way(storm)
    letters.thread.join()
    told = {chat: outcomes(storm.desk, ids) for chat, ids in letters.ids.items()}
    took = time.monotonic() - began
    results = Counter(one["result"] for some in told.values() for one in some)
    uncertain = []
    for chat, some in told.items():
        id = chat.partition(":")[2]
        stands = [text.split()[0] for text in storm.platform.texts(id)]
        uncertain += check_chat(chat, some, stands)
    assert sum(results.values()) == MANY and results["uncertain"] == len(uncertain)
    report(storm, took, results, uncertain)


def report(storm: Storm, took: float, results: Counter[str], uncertain: list[str]) -> None:
    """Say what it was."""
    requests = len(storm.platform.requests())
    print(
        f"\n{MANY} messages, {len(CHATS)} chats, {KILLS} kills, {requests} requests, {took:.1f} s"
    )
    print(f"{dict(results)}; the platforms did {dict(storm.sky.done)}")
    stand = {f"{m.platform}:{m.chat} {m.text.split()[0]}" for m in storm.platform.messages}
    by = Counter(one.partition(":")[0] for one in uncertain)
    print(
        f"uncertain: {dict(by)}, of which {len(stand & {*uncertain})} stand there: {uncertain[:9]}"
    )
