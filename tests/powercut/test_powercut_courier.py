"""
No text is in a chat twice after a cut of power: what left the courier stands as begun on the disk.

DingTalk knows no keys: what is in doubt there is not sent again. `make powercut` looks at more.
"""

import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from fakes.broker import until
from fakes.faulty import FaultyBroker
from fakes.platform import Platform
from powercut.cuts import NAMING, SEED, Cut, drawn_cut, states
from powercut.disk import Disk
from powercut.traced import Operation, TracedBroker, traced
from wakebus.adapters.courier.delivery_log_file import open_file
from wakebus.broker import Client
from wakebus.broker.errors import UnknownId

MANY: Final = int(os.environ.get("POWERCUT", "200")) // 4
REAL: Final = 1 + MANY // 50
CHATS: Final = [f"dingtalk:cid{letter}" for letter in "ABCD"]
PART: Final = 12_000  # bytes of a paragraph: two do not fit into one request


class Sent(NamedTuple):
    """Texts that were sent under strace: `texts` by id, `posted` by operation."""

    root: Path
    texts: dict[str, str]
    operations: list[Operation]
    posted: list[tuple[int, str]]

    def before(self, cut: Cut) -> Counter[str]:
        """Return how often each part had left before a cut."""
        return Counter(mark for number, mark in self.posted if number <= cut.number)


def marks(data: str) -> set[str]:
    """Return the first words of parts."""
    return {*re.findall(r"mark-\d+-\d", data)}


def find_posted(operations: list[Operation]) -> Iterator[tuple[int, str]]:
    """Yield each part that leaves for a platform, with its operation."""
    to_platforms = {one.path for one in operations if one.data.startswith(b"POST ")}
    for number, one in enumerate(operations):
        if one.what == "out" and one.path in to_platforms:
            yield from ((number, mark) for mark in marks(one.data.decode("latin-1")))


def set_up(root: Path, platform: Platform) -> None:
    """Let a courier in `root` find the platform."""
    lines = (f"{name}={value}\n" for name, value in platform.settings("dingtalk").items())
    (root / ".env").write_text("".join(lines))
    (root / ".env").chmod(0o600)


@pytest.fixture(scope="module")
def sent() -> Iterator[Sent]:
    """Two texts to each of some chats, of one part and of two."""
    texts: dict[str, str] = {}
    with closing(Platform()) as platform, traced(services=True) as broker:
        set_up(broker.root, platform)
        send_all(broker.start(), texts)
        assert broker.stop() == 0
        operations = broker.operations()
        yield Sent(broker.root, texts, operations, [*find_posted(operations)])


def send_all(broker: TracedBroker, texts: dict[str, str]) -> None:
    """Send them, and remember them by their ids; return when each has ended."""
    with Client(broker.address, timeout=30) as bus:
        until(lambda: any(one["name"] == "courier" for one in bus.list()))
        for number in range(2 * len(CHATS)):
            parts = [f"mark-{number}-{part} {'x' * PART}" for part in range(1 + number % 2)]
            text = "\n\n".join(parts)
            channel = CHATS[number % len(CHATS)]
            texts[bus.send("courier", text, type="say", channel=channel).id] = text
        assert all(bus.wait(id, 60).outcome for id in texts)


def draw_cuts(sent: Sent, many: int) -> list[Cut]:
    """Return cuts at requests to the platform, and around commits."""
    rnd = random.Random(SEED)
    numbers = [number for number, _ in sent.posted]
    others = [n for n, one in enumerate(sent.operations) if one.what in ("sync", *NAMING)]
    both = (numbers, others) * (many // 2)
    return [drawn_cut(rnd.choice(some), rnd) for some in both]


def test_what_left_has_begun(sent: Sent, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.5: a part whose request had left stands as begun, or its text has ended."""
    assert len({mark for _, mark in sent.posted}) == sum(len(marks(t)) for t in sent.texts.values())
    target = tmp_path / "disk"
    for cut in states(sent.operations, Disk(), draw_cuts(sent, MANY), sent.root, target):
        caplog.clear()
        (target / "bus").mkdir(exist_ok=True)
        with closing(open_file(target / "bus" / "courier.db")) as db:
            rows = db.execute("SELECT message FROM part").fetchall()
            ended = {row[0] for row in db.execute("SELECT id FROM message WHERE ended")}
        begun, left = Counter(row[0] for row in rows), sent.before(cut)
        for id, text in sent.texts.items():
            wanted = sum(mark in left for mark in marks(text))
            assert begun[id] >= wanted or id in ended, (cut, id)
        assert not caplog.messages, cut


class ChatsBroker(FaultyBroker):
    """A broker whose courier finds its chats."""

    @property
    def env(self) -> dict[str, str]:
        """The environment, with HERMES_HOME."""
        return {**super().env, "HERMES_HOME": str(self.root)}


def test_a_real_courier_after_the_cut(sent: Sent, bus_root: Path) -> None:
    """ADP-6.5, ADP-6.8: each text ends, and no part of it leaves twice, over the cut too."""
    rnd = random.Random(SEED)
    numbers = [number for number, _ in sent.posted]
    chosen = [drawn_cut(rnd.choice(numbers), rnd) for _ in range(REAL)]
    target = bus_root / "disk"
    for n, cut in enumerate(states(sent.operations, Disk(), chosen, sent.root, target)):
        platform = Platform()
        set_up(target, platform)
        broker = ChatsBroker(target, services=True, attempts=20).fault(boot=f"after {n}").start()
        try:
            with Client(broker.address, timeout=30) as bus:
                stored = 0
                for id in sent.texts:
                    try:
                        assert bus.wait(id, 60).outcome
                        stored += 1
                    except UnknownId:
                        assert not marks(sent.texts[id]) & {*sent.before(cut)}, cut
            assert broker.stop() == 0
            twice = sent.before(cut) + Counter(seen.text.split()[0] for seen in platform.requests())
            assert stored and max(twice.values()) == 1, (cut, twice)
        finally:
            platform.close()
