"""The topic plane by itself: a proxy in this process, bare sockets around it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from wakebus.broker.core.model import Figures
from wakebus.broker.server import socket_paths
from wakebus.broker.server.proxy import STANDING, Proxy
from wakebus.broker.settings import Settings
from wakebus.broker.system.private_files import CannotStart

Bytes = zmq.Socket[bytes]


class Plane:
    """A proxy and its clients."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.context: zmq.Context[Bytes] = zmq.Context()
        self.paths = socket_paths.choose_paths(folder)
        self.proxy = Proxy(self.context, Settings(**settings))
        self.proxy.bind(self.paths)
        self.proxy.start()
        self.outside: zmq.Context[Bytes] = zmq.Context()
        self._made: list[Bytes] = []

    def socket(self, kind: int, **options: int) -> Bytes:
        """Return a connected client."""
        made: Bytes = self.outside.socket(kind)
        self._made.append(made)
        made.setsockopt(zmq.LINGER, 0)
        for name, value in options.items():
            made.setsockopt(getattr(zmq, name), value)
        path = self.paths.events_in if kind in (zmq.PUB, zmq.XPUB) else self.paths.events_out
        made.connect(f"ipc://{path}")
        return made

    def publisher(self, *prefixes: bytes) -> Bytes:
        """Return an XPUB that knows of these subscriptions."""
        made = self.socket(zmq.XPUB)
        wanted = {b"\x01" + prefix for prefix in (*prefixes, STANDING)}
        while wanted:
            assert made.poll(15_000)
            wanted.discard(made.recv())
        return made

    def subscriber(self, *prefixes: bytes) -> Bytes:
        """Return a SUB."""
        made = self.socket(zmq.SUB)
        for prefix in prefixes:
            made.setsockopt(zmq.SUBSCRIBE, prefix)
        return made

    def figures(self) -> Figures:
        """Ask for the figures."""
        found: list[Figures] = []
        self.proxy.request_figures(found.append)
        assert self.proxy.busy and self.proxy.control.poll(15_000)
        self.proxy.deliver_figures(lambda act: act())
        assert not self.proxy.busy
        return found[0]

    def close(self) -> None:
        """End it."""
        for made in self._made:
            made.close(0)
        self.outside.term()
        self.proxy.stop()
        self.context.term()


@pytest.fixture
def plane(bus_root: Path) -> Iterator[Plane]:
    """A plane with small bounds."""
    found = Plane(bus_root, events_out_hwm=100)
    yield found
    found.close()


def take(socket: Bytes) -> bytes:
    """Return the next frame."""
    assert socket.poll(15_000), "nothing came"
    return socket.recv()


def test_events_pass(plane: Plane) -> None:
    """EVENTS-1.1: to whom they are for, in order, byte by byte."""
    first, second = plane.subscriber(b"a\0"), plane.subscriber(b"")
    publisher = plane.publisher(b"a\0", b"")
    for n in range(50):
        publisher.send(b"a\0%d" % n)
        publisher.send(b"b\0%d" % n)
    assert [take(first) for _ in range(50)] == [b"a\0%d" % n for n in range(50)]
    assert [take(second) for _ in range(100)][1::2] == [b"b\0%d" % n for n in range(50)]


def test_the_standing_subscription_comes_last(plane: Plane) -> None:
    """EVENTS-4.2: an XPUB that connects gets all subscriptions, then this one."""
    wanted = [b"a", b"\xfe\xff", b"zz", b"b.c\0"]
    subscriber = plane.subscriber(*wanted)
    early = plane.publisher(*wanted)  # so they have reached the proxy
    late = plane.socket(zmq.XPUB)
    got = [take(late) for _ in range(5)]
    assert set(got[:4]) == {b"\x01" + prefix for prefix in wanted} and got[4] == b"\x01\xff"
    subscriber.setsockopt(zmq.SUBSCRIBE, b"new")
    assert take(early) == take(late) == b"\x01new"


def test_the_brokers_own_publisher(plane: Plane) -> None:
    """EVENTS-6.1: it connects inside the process, and learns what is subscribed."""
    subscriber = plane.subscriber(b"x")
    heard: list[bytes] = []
    while b"\x01x" not in heard:
        assert plane.proxy.publisher.poll(15_000)
        heard += plane.proxy.subscriptions()
    assert plane.proxy.publish(b"x1")
    assert take(subscriber) == b"x1" and [*plane.proxy.subscriptions()] == []


def test_what_the_broker_cannot_publish(bus_root: Path) -> None:
    """EVENTS-6.5: it does not wait, and is told: a full pipe, a closed socket."""
    context: zmq.Context[Bytes] = zmq.Context()
    proxy = Proxy(context, Settings(events_in_hwm=10))
    proxy.bind(socket_paths.choose_paths(bus_root))  # not started: nobody reads
    while b"\x01" + STANDING not in proxy.subscriptions():
        assert proxy.publisher.poll(15_000)
    assert not all(proxy.publish(STANDING) for _ in range(5_000))
    proxy.publisher.close(0)
    assert not proxy.publish(STANDING)
    proxy.stop()
    context.term()


def test_figures(plane: Plane) -> None:
    """PROTOCOL-11.6: what passed, as libzmq counts; subscriptions are not among it."""
    assert plane.figures() == {"in": 0, "bytes_in": 0, "out": 0, "bytes_out": 0}
    subscriber = plane.subscriber(b"a")
    publisher = plane.publisher(b"a")
    for _ in range(10):
        publisher.send(b"a" * 20)
        publisher.send(b"nobody wants it")
        take(subscriber)
    assert plane.figures() == {"in": 10, "bytes_in": 200, "out": 10, "bytes_out": 200}


def test_a_subscriber_that_does_not_read(plane: Plane) -> None:
    """EVENTS-4.1: it loses its own events beyond the bound; publisher and others go on."""
    frozen, lively = plane.socket(zmq.SUB, RCVHWM=10, RCVBUF=4096), plane.subscriber(b"a")
    frozen.setsockopt(zmq.SUBSCRIBE, b"a frozen\0")
    publisher = plane.publisher(b"a", b"a frozen\0")
    for n in range(5000):
        publisher.send(b"a frozen\0" + b"%06d" % n + b"x" * 1000)
        assert int(take(lively)[9:15]) == n
    got = 0
    while frozen.poll(300):
        frozen.recv()
        got += 1
    assert 10 <= got < 3000


def test_what_is_too_big_closes_its_connection(plane: Plane) -> None:
    """EVENTS-3.3: 65,536 bytes pass; of one more nothing comes, and the next ones come again."""
    subscriber = plane.subscriber(b"a")
    publisher = plane.publisher(b"a")
    publisher.send(b"a" * 65536)
    assert len(take(subscriber)) == 65536
    other = plane.publisher(b"a")
    monitor = publisher.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    publisher.send(b"a" * 65537)
    assert monitor.poll(15_000), "the connection stands"
    publisher.disable_monitor()
    monitor.close(0)
    other.send(b"a is well")
    assert take(subscriber) == b"a is well"


def test_a_place_that_cannot_be_bound(bus_root: Path) -> None:
    """PROTOCOL-1.3: the error names the socket."""
    folder = bus_root / "gone"
    context: zmq.Context[Bytes] = zmq.Context()
    where = socket_paths.SocketPaths(folder / "a", folder / "b", folder / "c")
    with pytest.raises(CannotStart, match=f"{folder}/b cannot be made"):
        Proxy(context, Settings()).bind(where)
    context.destroy(linger=0)


def test_it_ends_when_it_is_told(bus_root: Path) -> None:
    """PROTOCOL-1.6: at once, with all its sockets, also before it was started."""
    plane = Plane(bus_root)
    plane.subscriber(b"a")
    plane.close()
    context: zmq.Context[Bytes] = zmq.Context()
    proxy = Proxy(context, Settings())
    proxy.bind(socket_paths.choose_paths(bus_root))
    proxy.stop()
    context.term()


FAILS = """
import logging, sys, zmq
from pathlib import Path
from typing import Any
from wakebus.broker.core.model import Figures
from wakebus.broker.server import socket_paths
from wakebus.broker.server.proxy import Proxy
from wakebus.broker.settings import Settings
logging.basicConfig(stream=sys.stderr)
context = zmq.Context()
proxy = Proxy(context, Settings())
proxy.bind(socket_paths.choose_paths(Path(sys.argv[1])))
proxy.start()
proxy.control.send(b"TERMINATE")
proxy._thread.join()
print("still here")
"""


def test_a_proxy_that_fails_ends_the_process(bus_root: Path) -> None:
    """EVENTS-1.1: at once and with a word in the log; a mute broker is worse than none."""
    done = subprocess.run(
        [sys.executable, "-c", FAILS, str(bus_root)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 70 and "the broker ends" in done.stderr and not done.stdout
