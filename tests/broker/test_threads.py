"""Eight threads publish, subscribe and close at once; Ctrl-C in the middle of it."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from fakes.broker import Broker, until
from wakebus.broker import Client, Event
from wakebus.broker.errors import NotRunning, Undecided, WakebusError

THREADS = 8
ROUNDS = 10  # for each of the two ways


@contextmanager
def watched(client: Client, topic: str, got: list[object]) -> Iterator[None]:
    """A subscription that lives on: what is confirmed must reach it."""
    with client.subscribe(f"{topic}.**", lambda event: got.append(event.envelope["x"])):
        yield


class Crowd:
    """Threads that begin together; what they raise is kept."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.confirmed: list[str] = []

    def run(self, work: Callable[[int], None]) -> None:
        """Run `work` in all of them; each must end."""
        barrier = threading.Barrier(THREADS)

        def begin(number: int) -> None:
            barrier.wait(30)
            try:
                work(number)
            except BaseException as exc:
                self.errors.append(exc)

        threads = [threading.Thread(target=begin, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a deadlock"

    def act(self, client: Client, topic: str, number: int, seed: int) -> None:
        """Publish and subscribe at random until the client is closed, by whomever."""
        chance = random.Random(seed * THREADS + number)
        seen: list[Event] = []
        try:
            for step in range(chance.randrange(4, 10)):
                time.sleep(chance.random() * 0.002)
                what = chance.randrange(4)
                if what == 0:
                    client.publish(f"{topic}.plain", {"x": None})
                elif what == 1:
                    self._confirm(client, topic, f"{seed}-{number}-{step}")
                else:
                    subscription = client.subscribe(f"{topic}.**", seen.append)
                    if what == 2:
                        subscription.close()
            client.close()
        except NotRunning as exc:
            assert "closed" in exc.text, exc.text

    def _confirm(self, client: Client, topic: str, word: str) -> None:
        try:
            client.publish(f"{topic}.confirmed", {"x": word}, confirm=True)
        except Undecided as exc:
            assert "closed" in exc.text, exc.text
        else:
            self.confirmed.append(word)


def size() -> tuple[int, int]:
    """Return how many files and threads this process has."""
    process = psutil.Process()
    return process.num_fds(), process.num_threads()


@pytest.mark.parametrize("shared", [True, False], ids=["one client", "eight clients"])
def test_eight_threads_publish_subscribe_and_close_at_once(
    shared_broker: Broker, name: str, shared: bool
) -> None:
    """No deadlock and no crash; no confirmed event is lost; no file and no thread is left."""
    crowd = Crowd()
    got: list[object] = []

    def connect() -> Client:
        return Client(shared_broker.address, timeout=30)

    with connect() as witness, watched(witness, name, got):
        witness.publish(f"{name}.plain", {"x": None})
        until(lambda: got)
        before = size()
        for seed in range(ROUNDS):
            clients = [connect()] * THREADS if shared else [connect() for _ in range(THREADS)]
            crowd.run(lambda n, c=clients, s=seed: crowd.act(c[n], name, n, s))  # type: ignore[misc]
            for client in clients:
                client.close()
            assert not crowd.errors, crowd.errors
        until(lambda: set(crowd.confirmed) <= set(got))
        assert crowd.confirmed
        until(lambda: all(now <= then for now, then in zip(size(), before, strict=True)))


CHILD = """\
import sys, threading, time
from wakebus.broker import Client

topic, way = sys.argv[1:]

def busy(bus):
    while True:
        if way != "subscribe":
            bus.publish(topic, {"x": 1}, confirm=way == "confirm")
        if way != "publish":
            bus.subscribe(topic, lambda event: None).close()

with Client(timeout=30) as bus:
    bus.subscribe(topic, lambda event: None)
    bus.publish(topic)
    if way == "close":
        for _ in range(4):
            threading.Thread(target=busy, args=(bus,), daemon=True).start()
        threading.excepthook = lambda args: None
    print("ready", flush=True)
    while way == "close":
        with Client(timeout=30) as other:
            other.subscribe(topic, lambda event: None)
            other.publish(topic)
    busy(bus)
"""


@pytest.mark.parametrize("way", ["publish", "confirm", "subscribe", "both", "close"])
def test_ctrl_c_ends_a_program_in_the_middle_of_it(
    shared_broker: Broker, name: str, way: str
) -> None:
    """KeyboardInterrupt, as from any Python; no crash, and nothing to wait for."""
    children = [_child(shared_broker, name, way) for _ in range(3)]
    for number, child in enumerate(children):
        assert child.stdout and child.stdout.readline() == "ready\n"
        time.sleep(0.013 * number)  # somewhere in the middle
        child.send_signal(signal.SIGINT)
    for child in children:
        _, errors = child.communicate(timeout=60)
        assert child.returncode in (-signal.SIGINT, 130), (child.returncode, errors)
        assert "KeyboardInterrupt" in errors
        assert "Assertion" not in errors and "WakebusError" not in errors


def _child(broker: Broker, name: str, way: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", CHILD, name, way],
        env={**broker.env, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_closed_client_says_so_in_every_call(shared_broker: Broker, name: str) -> None:
    """Whoever comes too late is told: it is closed, not that no broker is there."""
    client = Client(shared_broker.address, timeout=30)
    client.close()
    for call in (
        lambda: client.publish(name),
        lambda: client.publish(name, confirm=True),
        lambda: client.subscribe(name, print),
        lambda: client.send(name, "x"),
    ):
        with pytest.raises(WakebusError, match="closed"):
            call()
