"""
Every disk that a cut of power may leave is opened by today's code, and keeps what was promised.

POWERCUT says how many disks of the load (`make powercut`: 5,000); 200 belong to the tests.
"""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from fakes.faulty import FaultyBroker
from fakes.hub import put
from fakes.peer import MakePeer
from powercut.cuts import NAMING, SEED, Cut, drawn_cut, states
from powercut.disk import Disk
from powercut.history import History, Promises, commits, digest, opened
from powercut.traced import Operation, traced
from wakebus.broker.store.store import Store
from wakebus.broker.system.sqlite_file import close_as_it_is

MANY: Final = int(os.environ.get("POWERCUT", "200"))
REAL: Final = MANY // 25  # of these also by a real broker

OLD: Final = Path(__file__).parents[1] / "conformance" / "store-version-1.sql"


class Record(NamedTuple):
    """A load that was run under strace in `root`."""

    root: Path
    history: History
    operations: list[Operation]
    promises: Promises

    def states(
        self, chosen: list[Cut], target: Path, operations: list[Operation] | None = None
    ) -> Iterator[Cut]:
        """Write what each cut leaves to `target`, one after the other."""
        return states(operations or self.operations, Disk(), chosen, self.root, target)


@pytest.fixture(scope="module")
def record() -> Iterator[Record]:
    """The load that most tests here look at."""
    with traced() as broker:
        history = History(broker.start(), SEED)
        history.run()
        operations = broker.operations()
        yield Record(broker.root, history, operations, Promises(history, operations))


def draw_cuts(record: Record, many: int) -> list[Cut]:
    """Return cuts at answers, around commits and at changes of names, a third of each."""
    rnd = random.Random(SEED)
    steps = [*enumerate(record.operations)]
    answers = [*record.promises.answered.values()]
    names = [number for number, one in steps if one.what in NAMING]
    syncs = [(one.at, number) for number, one in steps if one.what == "sync"]
    chosen = list[Cut]()
    for _ in range(many // 3 + 1):
        begun, ended = rnd.choice(syncs)
        near = rnd.choice((rnd.randint(begun, ended), ended - 1, ended))
        for number in (rnd.choice(answers), near, rnd.choice(names)):
            chosen.append(drawn_cut(number, rnd))
    return chosen


def find_commits(record: Record, target: Path) -> tuple[list[int], list[str]]:
    """Return after which operations a commit was sure, and the digest of what it left."""
    synced = [
        Cut(number, "all", "all")
        for number, operation in enumerate(record.operations)
        if operation.what == "sync" and "bus.db" in operation.path
    ]
    numbers, digests = list[int](), list[str]()
    for cut in record.states(synced, target):
        store = opened(target)
        numbers.append(cut.number)
        digests.append(digest(store))
        store.abandon()
    return numbers, digests


def test_what_was_promised(
    record: Record, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL-8.1, PROTOCOL-8.12, PROTOCOL-6.15: none lost, doubled, torn; nothing is alarming."""
    asked = {number for steps in record.history.asked.values() for number, _ in steps}
    assert len(asked & record.promises.answered.keys()) > 150 and len(record.promises.left) > 40
    numbers, digests = find_commits(record, tmp_path / "disk")
    for cut in record.states(draw_cuts(record, MANY), tmp_path / "disk"):
        caplog.clear()
        store = opened(tmp_path / "disk")
        broken = [*record.promises.broken(store, cut.number), *caplog.messages]
        if digest(store) not in commits(numbers, digests, cut.number):
            broken.append("it is the state of no commit")
        store.abandon()
        before = record.operations[max(0, cut.number - 3) : cut.number + 1]
        assert not broken, (cut, [one._replace(data=one.data[:60]) for one in before])
    print(f"{MANY} disks, {len(asked)} promises, {len(numbers)} commits")


def test_that_the_method_sees_what_is_lost(record: Record, tmp_path: Path) -> None:
    """PROTOCOL-8.1: with `synchronous=OFF` (no fsync of the log) the same disks break promises."""
    without = [
        Operation("nothing") if one.what == "sync" and one.path.endswith("-wal") else one
        for one in record.operations
    ]
    ends = sorted(record.promises.answered.values())
    chosen = [Cut(number, "none", "none") for number in ends[20:200:20]]
    for cut in record.states(chosen, tmp_path / "disk", without):
        store = opened(tmp_path / "disk")
        assert [*record.promises.broken(store, cut.number)]
        store.abandon()


def test_a_real_broker_after_the_cut(record: Record, peers: MakePeer, bus_root: Path) -> None:
    """PROTOCOL-8.2, PROTOCOL-6.15: it starts; what is open comes once, its label true."""
    rnd = random.Random(SEED)
    ends = sorted(record.promises.answered.values())
    chosen = [drawn_cut(rnd.choice(ends[50:]), rnd) for _ in range(REAL)]
    for n, cut in enumerate(record.states(chosen, bus_root / "disk")):
        broker = FaultyBroker(bus_root / "disk", attempts=20).fault(boot=f"after {n}")
        try:
            assert broker.start().word == "ready" and "CRITICAL" not in broker.log
            peer = peers(broker)
            peer.hello()
            peer.ask("register", name="worker", takeover=True)
            waiting = [
                id
                for id in record.history.texts
                if record.promises.states(id, cut.number) == {"open"}
                and peer.ask("trace", id=id)["messages"][0]["to"] == "worker"
            ]
            taken = list[str]()
            while set(waiting) - {*taken}:
                delivery = peer.take()
                taken.append(delivery["message"]["id"])
                peer.say("handled", delivery)
                left = record.promises.left.get(taken[-1], cut.number + 1) <= cut.number
                assert delivery["redelivered"] or not left, cut
            assert len(taken) == len({*taken}), cut
            for id in taken:
                assert record.promises.states(id, cut.number) & {"open", "gone"}, cut
        finally:
            broker.kill()


def cuts_of_a_start(root: Path, files: dict[str, bytes], target: Path) -> Iterator[Cut]:
    """Write to `target` what cuts leave while a broker starts in `root`, where `files` are."""
    with traced(root) as broker:
        broker.start().stop()
        operations = broker.operations()
    rnd = random.Random(SEED)
    chosen = [
        cut
        for number, operation in enumerate(operations)
        if operation.what in (*NAMING, "sync")
        for cut in (Cut(number, "none", "none"), drawn_cut(number, rnd), drawn_cut(number, rnd))
    ]
    return states(operations, Disk(files), chosen, root, target)


@pytest.mark.parametrize("damage", ["head", "page", "log"])
def test_a_cut_while_a_damaged_store_is_set_aside(
    bus_root: Path, tmp_path: Path, damage: str
) -> None:
    """PROTOCOL-8.4: at no moment is a byte of it lost, or its log hidden."""
    opened(bus_root).close()
    store = opened(bus_root, "before")
    store.transaction([partial(Store.put, put=put(f"m{n:020}")) for n in range(300)])
    store.abandon()
    path, log = bus_root / "bus" / "bus.db", bus_root / "bus" / "bus.db-wal"
    data = bytearray(path.read_bytes())
    if damage == "log":  # without it the file is whole, and older
        log.write_bytes(b"\xa5" * log.stat().st_size)
    else:
        begin = 0 if damage == "head" else len(data) - 4096
        data[begin : begin + 4096] = b"\xa5" * 4096
        path.write_bytes(data)
    files = {str(file): file.read_bytes() for file in (path, log)}
    for cut in cuts_of_a_start(bus_root, files, tmp_path / "disk"):
        store = opened(tmp_path / "disk")
        assert store.open_messages() == [], cut
        names = store.set_aside()
        store.abandon()
        found = [tmp_path / "disk" / "bus" / name for name in names]
        kept = [Path(f"{file}-wal").read_bytes() for file in found if file.read_bytes() == data]
        assert files[str(log)] in kept, (cut, names)


def test_a_cut_while_an_older_store_is_brought_up_to_date(
    bus_root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL-8.8: at each moment all of it is there, and a copy that has its name is whole."""
    path, log = bus_root / "bus" / "bus.db", bus_root / "bus" / "bus.db-wal"
    path.parent.mkdir()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.executescript(f"{OLD.read_text()}; PRAGMA user_version=1")
    columns = "id, sender, endpoint, lane, type, state, size, accepted, deadline, message, log"
    values = "?, 's', 'e', 's', 't', 'queued', 2, 1.0, 9e9, x'7b7d', ''"
    ids = [f"m{number:020}" for number in range(300)]
    db.executemany(f"INSERT INTO message ({columns}) VALUES ({values})", [(id,) for id in ids])
    close_as_it_is(db, path)
    files = {str(file): file.read_bytes() for file in (path, log)}
    copies = 0
    for cut in cuts_of_a_start(bus_root, files, tmp_path / "disk"):
        caplog.clear()
        for copy in (tmp_path / "disk" / "bus").glob("bus.db.version-1"):
            with closing(sqlite3.connect(copy)) as found:
                assert [row[0] for row in found.execute("SELECT id FROM message")] == ids, cut
            copies += 1
        store = opened(tmp_path / "disk")
        assert [row["id"] for row in store.open_messages()] == ids and not caplog.messages, cut
        store.abandon()
    assert copies
