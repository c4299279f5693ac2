"""A hub without sockets: clocks that a test moves, a real store that answers when it is told to."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from wakebus.broker.core.dispatch import do_nothing
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest, Connection, Effects, Endpoint, Figures, Holder
from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.broker.settings import Settings
from wakebus.broker.store.group_commit import Writer
from wakebus.broker.store.rows import Put
from wakebus.broker.store.store import Store
from wakebus.broker.system.clock import Clock
from wakebus.broker.system.processes import Process


def put(id: str = "m1", **changes: Any) -> Put:
    """Return a message on its way into the store."""
    beside = {k: changes.pop(k) for k in Put.__dataclass_fields__ if k in changes}
    data = {"id": id, "ts": 1.0, "from": "ci", "to": "worker", "body": {"text": "hi"}, **changes}
    message = messages.from_wire(data)
    blob = json.dumps(message.to_wire()).encode()
    now = time.time()
    made = Put(message, blob, now, now + 60, "", True, "", False, False)
    return replace(made, **beside)


class SlowWriter(Writer):
    """The writer without its thread; what was submitted runs in `run_all`, in one transaction."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        super().__init__(self.store, do_nothing, Store.close)

    def run_all(self) -> None:
        """Run all that is queued, and what comes of it."""
        while self._queue:
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            for one, result in zip(batch, self._run_batch(batch), strict=True):
                if one.done is not None:
                    one.done(result)


class Bench:
    """The hub, its clocks, and all that it said."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.wall, self.mono = 1.8e9, 1_000.0
        clock = Clock(lambda: self.wall, lambda: self.mono, lambda: self.mono)
        self.slow = SlowWriter(folder / "bus.db")
        self.posted: list[bytes] = []
        self.answers: list[Any] = []
        self.events: list[bytes] = []
        self.events_taken = True
        self.stopped = False
        effects = Effects(
            self._post,
            self._post,
            self._reply,
            self._fail,
            self.slow,
            self._publish,
            self._figures,
            self._stop,
        )
        self.hub = Hub(Settings(**settings), clock, "boot/1", effects)

    def _publish(self, frame: bytes) -> bool:
        self.events += [frame] if self.events_taken else []
        return self.events_taken

    def _figures(self, done: Callable[[Figures], None]) -> None:
        done({})

    def _stop(self) -> None:
        self.stopped = True

    def _post(self, conn: bytes, frame: bytes) -> bool:
        self.posted.append(frame)
        return True

    def _reply(self, request: ClientRequest, payload: dict[str, Any]) -> None:
        self.answers.append(payload)

    def _fail(self, request: ClientRequest, error: WakebusError) -> None:
        self.answers.append(error)

    def request(self, payload: dict[str, Any], conn: bytes = b"c") -> ClientRequest:
        """Return a request of a connection."""
        return ClientRequest(conn, 1, payload)

    def greeted(self, conn: bytes = b"c", instance: str = "a" * 16) -> Connection:
        """Return a connection that said hello."""
        made = Connection(instance, 0, self.mono)
        self.hub.conns[conn] = made
        return made

    def held(self, name: str, conn: bytes = b"c") -> Endpoint:
        """Return an endpoint that is live."""
        endpoint = self.hub.endpoint(name)
        endpoint.epoch += 1
        endpoint.holder = Holder("a" * 16, Process(0), endpoint.epoch, conn)
        endpoint.holder.beat = self.mono
        return endpoint

    def pass_time(self, seconds: float) -> None:
        """Both clocks go on."""
        self.wall += seconds
        self.mono += seconds

    def close(self) -> None:
        """Close the store."""
        self.slow.store.close()
