"""
What a client may have had comes again labelled: random lives of a broker without sockets.

The receivers are modelled: what they had and did not give back. The store fails now and then, the
broker is killed with what it had not stored, receivers die, come back, or lose the name.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.core import dispatch, holders
from wakebus.broker.core.model import ClientRequest
from wakebus.broker.core.restore import restore_hub
from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.protocol import wire
from wakebus.broker.verbs import VERBS

STEPS = 400
WORDS = ("got", "got", "started", "handled", "handled", "handled", "refused", "later")


class Life:
    """One broker after another on one store, and one receiver after another."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.had: set[str] = set()  # somebody has had it, and did not give it back
        self.mine: dict[str, dict[str, Any]] = {}  # what the receiver of now has
        self.over: dict[str, str] = {}  # the end that it has said of that, until it is answered
        self.again = self.sent = self.receivers = 0
        self.conn = b""
        self.begin()

    def begin(self) -> None:
        """A broker starts."""
        self.bench = Bench(self.folder, window_lanes=3)
        self.bench.hub.offer, self.bench.hub.reply = self.offer, self.reply
        store = self.bench.slow.store
        real = store.transaction

        def transaction(operations: Any) -> list[Any]:
            if self.chance.random() < 0.1:
                return [BrokerUnavailable("full")] * len(operations)
            return real(operations)

        store.transaction = transaction  # type: ignore[method-assign]
        restore_hub(self.bench.hub, store)

    def offer(self, conn: bytes, frame: bytes) -> bool:
        """A frame leaves; it may get lost with its connection."""
        told = wire.decode(frame).payload
        id = told["message"]["id"]
        if id in self.mine:
            return True  # a living client has it: no handler is called
        self.again += id in self.had
        assert told["redelivered"] or id not in self.had
        if self.chance.random() < 0.9:
            self.had.add(id)
            self.mine[id] = told
        return True

    def reply(self, request: ClientRequest, answer: dict[str, Any]) -> None:
        """An end is stored: the receiver lets go of it."""
        if request.conn == self.conn and self.over.pop(str(answer.get("id")), ""):
            del self.mine[answer["id"]]

    def ask(self, verb: str, payload: dict[str, Any], conn: bytes) -> None:
        """Have a verb served as the router does."""
        request = ClientRequest(conn, 1, payload)
        try:
            VERBS[verb](self.bench.hub, request)
        except Exception as exc:
            if not hasattr(exc, "code"):
                raise

    def send(self) -> None:
        """Somebody sends."""
        self.sent += 1
        fields = {"id": f"m{self.sent}", "session": str(self.chance.randrange(5))}
        self.ask("send", posting("e", queue=True, **fields), b"sender")

    def say(self) -> None:
        """The receiver says a word of what it has."""
        if not (open_ := [*(self.mine.keys() - self.over)]):
            return
        id, verb = self.chance.choice(sorted(open_)), self.chance.choice(WORDS)
        epoch = self.mine[id]["epoch"]
        if verb == "later":
            self.had.discard(id)
            del self.mine[id]
        elif verb in ("handled", "refused"):
            self.over[id] = verb
        more = {"more": self.chance.random() < 0.3, "after_s": 0.01}
        self.ask(verb, {"to": "e", "id": id, "epoch": epoch, **more}, self.conn)

    def come(self) -> None:
        """Another receiver takes the name over."""
        self.receivers += 1
        self.mine.clear()
        self.over.clear()
        self.conn = f"c{self.receivers}".encode()
        self.instance = f"{self.receivers:016x}"
        self.register(takeover=True)

    def register(self, **fields: Any) -> None:
        """The receiver of now registers, again or for the first time: it lists what it has."""
        self.bench.greeted(self.conn, self.instance)
        holding = [{"id": id, "more": False} for id in self.mine]
        self.ask("register", {"name": "e", "holding": holding, **fields}, self.conn)
        endpoint = self.bench.hub.endpoints["e"]
        self.mine = {id: {**told, "epoch": endpoint.epoch} for id, told in self.mine.items()}
        for id, verb in [*self.over.items()]:
            self.ask(verb, {"to": "e", "id": id, "epoch": endpoint.epoch}, self.conn)

    def die(self) -> None:
        """The receiver dies, and another one comes."""
        endpoint = self.bench.hub.endpoint("e")
        if endpoint.holder is not None:
            holders._lose(self.bench.hub, endpoint, endpoint.holder, died=True)
            holders.save_holder(self.bench.hub, endpoint)
        self.come()

    def kill(self, *, both: bool) -> None:
        """The broker is killed with all that it had not stored; the receiver lives, or not."""
        self.bench.slow.store.abandon()
        self.begin()
        if both:
            self.come()
        else:
            self.register()

    def step(self) -> None:
        """Something happens."""
        does = self.chance.choices(
            [self.send, self.say, self.bench.slow.run_all, self.pass_time, self.die, self.come],
            [30, 40, 30, 10, 3, 2],
        )[0]
        does()
        if self.chance.random() < 0.01:
            self.kill(both=self.chance.random() < 0.7)

    def pass_time(self) -> None:
        """Enough for whatever is tried again."""
        self.bench.pass_time(1.1)
        endpoint = self.bench.hub.endpoint("e")
        if endpoint.holder:
            endpoint.holder.beat = self.bench.mono
        self.bench.hub.timers.run_due()
        dispatch.dispatch(self.bench.hub, endpoint)


@pytest.mark.parametrize("seed", range(20))
def test_what_somebody_had_is_never_new(tmp_path: Path, seed: int) -> None:
    """PROTOCOL-6.2, PROTOCOL-6.15: whatever fails, and in whatever order."""
    life = Life(tmp_path, seed)
    life.come()
    for _ in range(STEPS):
        life.step()
    assert life.sent > 50 and life.again
    life.bench.close()
