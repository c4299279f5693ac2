"""What was asked of a broker, what it answered and when, and what a store must therefore hold."""

import hashlib
import random
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fakes.broker import Broker
from fakes.peer import Peer, posting, reference
from powercut.traced import Operation
from wakebus.broker.store.recovery import open_store
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import message_of

NEVER: Final = 1 << 60
ANSWER: Final = re.compile(rb'\[1,"ok",(\d+),')
DELIVERY: Final = re.compile(rb'\[1,"deliver",0,.{0,300}?"message":\{"id":"([0-9a-f]+)"')
# What becomes of a message by a verb; what is not here leaves it as it was.
ENDS: Final = {
    "send": "open",
    "handled": "handled",
    "refused": "dead",
    "cancel": "dead",
    "purge": "gone",
    "retry": "open",
}
STATES: Final = {"handled": "handled", "refused": "dead", "dead": "dead"}  # else open
CONNECTION: Final = 1_000_000  # requests


class History:
    """
    The load, and a book of it that no cut of power reaches.

    `asked`: of each message id its verbs with their request's number, in order; `texts`: its body.
    """

    def __init__(self, broker: Broker, seed: int) -> None:
        self._broker, self._rnd = broker, random.Random(seed)
        self._connections = 0
        self._peers: list[Peer] = []
        self._open: list[tuple[Peer, int]] = []
        self._payloads: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.texts: dict[str, str] = {}
        self.declared: dict[str, int] = {}
        self.grants: list[tuple[int, str, int]] = []

    # --- the load -------------------------------------------------------------------------

    def connect(self) -> Peer:
        """Return a new peer, whose request numbers nobody else has."""
        self._connections += 1
        self._peers.append(Peer(self._broker.address, first=self._connections * CONNECTION))
        return self._peers[-1]

    def ask(self, peer: Peer, verb: str, payload: dict[str, Any], *ids: str) -> None:
        """Request it; the answer is read by `gather`."""
        number = peer.request(verb, payload)
        for id in ids:
            self.asked[id].append((number, verb))
        self._open.append((peer, number))

    def gather(self) -> None:
        """Read the answers to all that was asked; each must be `ok`."""
        for peer, number in self._open:
            peer.answer(number)
        self._open.clear()

    def declare(self, peer: Peer, name: str) -> None:
        """Make a name known."""
        self.declared[name] = peer.request("declare", {"name": name})
        peer.answer(self.declared[name])

    def register(self, name: str) -> Peer:
        """Return a peer that holds a name."""
        peer = self.connect()
        peer.hello()
        number = peer.request("register", {"name": name, "takeover": True})
        self.grants.append((number, name, int(peer.answer(number)["epoch"])))
        return peer

    def send(self, peer: Peer, to: str, size: int = 0, **fields: Any) -> str:
        """Send a message of a size, drawn where none is said; return its id."""
        text = "x" * (size or self._rnd.choice((20, 300, 3_000, 30_000)))
        payload = posting(to, f"{len(self.texts)} {text}", **fields)
        id = str(payload["message"]["id"])
        self.texts[id] = payload["message"]["body"]["text"]
        self._payloads[id] = payload
        self.ask(peer, "send", payload, id)
        return id

    def work(self, peer: Peer, count: int) -> None:
        """Take so many deliveries, and finish each in one way or another."""
        for _ in range(count):
            delivery = peer.take()
            id = str(delivery["message"]["id"])
            ways: tuple[tuple[str, ...], ...] = (
                ("handled",),
                ("got", "got", "handled"),  # what is said twice is answered twice
                ("started", "handled", "handled"),
                ("started", "refused"),
            )
            for verb in self._rnd.choice(ways):
                more = {"reason": "no"} if verb == "refused" else {}
                self.ask(peer, verb, {**reference(delivery), **more}, id)

    def run(self) -> None:
        """A load over a first start, a SIGKILL with much in flight, and an orderly end."""
        sender, other = self.connect(), self.connect()
        for name in ("away", "author"):
            self.declare(sender, name)
        holder = self.register("worker")
        for number in range(12):
            for peer, lanes in ((sender, "ab"), (other, "cd")):
                for lane in lanes:
                    self.send(peer, "worker", session=lane, sender="author")
            away = [self.send(other, "away") for _ in range(3)]
            self.gather()
            self.work(holder, 4)
            self.gather()
            if number % 3 == 0:
                self._administer(sender, away)
        for _ in range(3):  # enough to be moved from the log into the file in the next pause
            self.send(sender, "away", 400_000)
        self.gather()
        for _ in range(5):
            self.send(sender, "worker")
        self.work(holder, 3)
        self._broker.kill()
        self._close()
        self._broker.start()
        again, holder = self.connect(), self.register("worker")
        for id in [id for id, asked in self.asked.items() if len(asked) == 1]:  # undecided, or not
            self.ask(again, "send", self._payloads[id], id)
        self.gather()
        for _ in range(4):
            self.send(again, "worker", session="e")
            self.gather()
        self._close()
        assert self._broker.stop() == 0

    def _administer(self, peer: Peer, ids: list[str]) -> None:
        for verb, chosen in (("cancel", ids[:2]), ("retry", ids[:1]), ("purge", ids[1:2])):
            for id in chosen:
                self.ask(peer, verb, {"id": id} if verb == "cancel" else {"ids": [id]}, id)
            self.gather()

    def _close(self) -> None:
        for peer in self._peers:
            peer.close()
        self._peers.clear()
        self._open.clear()


class Promises:
    """
    What the broker had said by each operation.

    `answered`: by request; `left`: by message, when it first left for a receiver.
    """

    def __init__(self, history: History, operations: list[Operation]) -> None:
        self._history = history
        self.answered: dict[int, int] = {}
        self.left: dict[str, int] = {}
        tails: dict[str, bytes] = {}
        for number, operation in enumerate(operations):
            if operation.what == "out":
                data = tails.get(operation.path, b"") + operation.data
                for found in ANSWER.finditer(data):
                    self.answered.setdefault(int(found[1]), number)
                for found in DELIVERY.finditer(data):
                    self.left.setdefault(found[1].decode(), number)
                tails[operation.path] = data[-400:]

    def at(self, request: int) -> int:
        """Return the operation by which a request was answered."""
        return self.answered.get(request, NEVER)

    def states(self, id: str, cut: int) -> set[str]:
        """Return what may have become of a message after a cut."""
        asked = self._history.asked[id]
        answered = [n for n, (request, _) in enumerate(asked) if self.at(request) <= cut]
        found, state = set[str](), "gone"
        for n, (_, verb) in enumerate(asked):
            if n > max(answered, default=-1):
                found.add(state)
            state = ENDS.get(verb, state)
        return found | {state}

    def broken(self, store: Store, cut: int) -> Iterator[str]:
        """Yield each promise that a store does not keep after a cut."""
        rows = {row["id"]: row for row in store.db.execute("SELECT * FROM message ORDER BY seq")}
        for id, text in self._history.texts.items():
            row, may = rows.get(id), self.states(id, cut)
            found = STATES.get(row["state"], "open") if row else "gone"
            if found not in may:
                yield f"{id} is {found}, and may be {may}"
            if row and (message_of(row["message"]) or {"body": {}})["body"].get("text") != text:
                yield f"the body of {id} is torn"
            started = [at for at, verb in self._history.asked[id] if verb == "started"]
            known = row and (row["state"] == "started" or row["started_before"] or row["done"])
            if row and any(self.at(at) <= cut for at in started) and not known:
                yield f"{id} was started, which is forgotten"
            known = known or (row and (row["state"] != "queued" or row["redelivered"]))
            if self.left.get(id, NEVER) <= cut and not known:
                yield f"{id} had left, which is forgotten"
        yield from self._broken_names(store, cut)
        yield from _broken_order(rows)
        told = [row["reply_to"] for row in rows.values() if row["type"] == "notice"]
        dead = [id for id, row in rows.items() if row["state"] == "refused"]
        if sorted(told) != sorted(dead):
            yield "who sent what was refused is told of it in the same commit, once"

    def _broken_names(self, store: Store, cut: int) -> Iterator[str]:
        names = {row["name"]: row for row in store.endpoints()}
        for name, request in self._history.declared.items():
            if self.at(request) <= cut and not (name in names and names[name]["declared"]):
                yield f"{name} was declared, and is not known"
        for request, name, epoch in self._history.grants:
            if self.at(request) <= cut and (name not in names or names[name]["epoch"] < epoch):
                yield f"{name} was granted with epoch {epoch}"


def _broken_order(rows: dict[str, Any]) -> Iterator[str]:
    lanes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in rows.values():
        if row["type"] != "notice" and not row["retried"]:
            text = (message_of(row["message"]) or {"body": {}})["body"].get("text", "0")
            lanes[row["endpoint"], row["lane"]].append(int(text.split()[0]))
    for lane, numbers in lanes.items():
        if numbers != sorted(numbers):
            yield f"the order of lane {lane} is {numbers}"


def opened(folder: Path, boot: str = "after the cut") -> Store:
    """Open a store after another boot of the machine; raise if not all of it is in order."""
    (folder / "bus").mkdir(parents=True, exist_ok=True)
    store = open_store(folder / "bus" / "bus.db", boot)
    assert store.db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    return store


def digest(store: Store) -> str:
    """Return what tells one committed state from another."""
    found = hashlib.sha256()
    for table in ("message", "endpoint"):
        for row in store.db.execute(f"SELECT * FROM {table} ORDER BY 1"):
            found.update(repr(tuple(row)).encode())
    return found.hexdigest()


def commits(numbers: list[int], digests: list[str], cut: int) -> set[str]:
    """Return the digests of the last commit before a cut, and of the one that may be under way."""
    last = bisect_right(numbers, cut) - 1
    return set(digests[max(0, last) : last + 2])
