"""
What becomes of messages whose receiver dies with them (PROTOCOL.md section 7).

The receivers are processes (receiver.py); some messages make theirs SIGKILL itself.
"""

import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.program import Program, Run, lines
from wakebus.broker import Client, Receipt

ATTEMPTS = 5
INNOCENTS = 40


def _calls(record: Path, id: str) -> list[dict[str, Any]]:
    return [line for line in lines(record) if line["id"] == id and line["what"] == "called"]


def _hold(client: Client, name: str, pid: int) -> None:
    until(lambda: any(e["name"] == name and e.get("pid") == pid for e in client.list()))


@pytest.mark.parametrize("text", ["poison", "started poison"])
def test_a_dead_receivers_message_comes_again_labelled(
    broker: Broker, run: Run, record: Path, text: str
) -> None:
    """The next holder gets it as redelivered, second attempt, and told whether work had begun."""
    with Client() as client:
        first = run("receiver.py", "worker", record, 1, 0)
        _hold(client, "worker", first.pid)
        id = client.send("worker", text).id
        until(lambda: not first.alive)
        second = run("receiver.py", "worker", record, 2, 0)
        until(lambda: not second.alive)
    one, two = _calls(record, id)
    assert (one["attempt"], one["redelivered"], one["started_before"]) == (1, False, False)
    assert (two["attempt"], two["redelivered"]) == (2, True)
    assert two["started_before"] is text.startswith("started")


def test_what_was_queued_behind_a_death_is_handled(broker: Broker, run: Run, record: Path) -> None:
    """A later message of the same lane waits for the one that came back, and keeps its place."""
    with Client() as client:
        first = run("receiver.py", "worker", record, 1, 600)
        _hold(client, "worker", first.pid)
        ids = [client.send("worker", str(number)).id for number in range(3)]
        until(lambda: _calls(record, ids[0]))
        first.process.kill()
        run("receiver.py", "worker", record, 2, 0)
        assert [client.wait(id, 30).state for id in ids] == ["handled"] * 3
    handled = [line["id"] for line in lines(record) if line["what"] == "handled"]
    assert handled == ids


class _Supervisor:
    """Starts the receiver again each time that it dies."""

    def __init__(self, run: Run, record: Path) -> None:
        self.deaths = 0
        self._run, self._record = run, record
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep)

    def __enter__(self) -> "_Supervisor":
        self._thread.start()
        return self

    def _start(self) -> Program:
        return self._run("receiver.py", "worker", self._record, self.deaths, 40)

    def _keep(self) -> None:
        program = self._start()
        while not self._stop.wait(0.02):
            if not program.alive:
                self.deaths += 1
                program = self._start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _send_poison_among_innocents(client: Client) -> tuple[str, list[str]]:
    innocents = [client.send("worker", "work", session=f"s{n}").id for n in range(INNOCENTS // 2)]
    poison = client.send("worker", "poison", session="poison").id
    innocents += [client.send("worker", "work", session=f"t{n}").id for n in range(INNOCENTS // 2)]
    return poison, innocents


def _check_who_died(poison: Receipt, innocents: list[Receipt]) -> None:
    assert poison.state == "dead"
    assert f"died {ATTEMPTS} times" in poison.reason
    ends = Counter(receipt.reason or receipt.state for receipt in innocents)
    assert ends == {"handled": INNOCENTS}, ends


def test_a_poison_message_dies_alone(broker: Broker, run: Run, record: Path) -> None:
    """A message that kills its receiver five times is dead, and none of forty others with it."""
    with Client() as client:
        client.declare("worker")
        poison, innocents = _send_poison_among_innocents(client)
        with _Supervisor(run, record) as supervisor:
            dead = client.wait(poison, 60)
            others = [client.wait(id, 60) for id in innocents]
            assert supervisor.deaths == ATTEMPTS
    _check_who_died(dead, others)
    attempts = [line["attempt"] for line in _calls(record, poison)]
    assert attempts == [1, 2, 3, 4, 5]
    # In its hands at the first death: at most one attempt is counted for somebody else's poison.
    assert max(line["attempt"] for id in innocents for line in _calls(record, id)) <= 2


def test_a_poison_message_dies_alone_also_when_the_broker_is_killed(
    broker: Broker, run: Run, record: Path
) -> None:
    """The count survives the broker: poison and innocents end as they do without its kills."""
    chance = random.Random(3)
    with Client(timeout=30) as client:
        client.declare("worker")
        poison, innocents = _send_poison_among_innocents(client)
        stop = threading.Event()

        def kill() -> None:
            while not stop.is_set():
                time.sleep(chance.uniform(0.1, 0.6))
                broker.restart()

        killer = threading.Thread(target=kill)
        with _Supervisor(run, record):
            killer.start()
            dead = client.wait(poison, 60)
            stop.set()
            killer.join()
            others = [client.wait(id, 60) for id in innocents]
    _check_who_died(dead, others)
    handled = Counter(line["id"] for line in lines(record) if line["what"] == "handled")
    assert set(handled) >= set(innocents)
