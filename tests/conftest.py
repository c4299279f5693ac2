"""What all tests share: a clean environment, folders with short paths, brokers that end."""

import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fakes.broker import Broker, MakeBroker
from fakes.desk import Desk, Listener
from fakes.peer import MakePeer, Peer
from fakes.tmux import Tmux, serve

# A shell that starts us in the background has SIGINT ignored, and our children would inherit that:
# tests of Ctrl-C need what a terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A machine where others work too is slow; what a test asserts is no speed.
settings.register_profile("wakebus", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("wakebus")

# Without compiled files every child compiles wakebus anew: 0.15 s of CPU each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the bus of the person who runs it."""
    for name in list(os.environ):
        if name.startswith(("WAKEBUS_", "HERMES_")):
            monkeypatch.delenv(name)


def _short_folder() -> Iterator[Path]:
    # pytest's tmp_path is too long for a socket's path (107 bytes).
    folder = Path(tempfile.mkdtemp(prefix="wb"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bus_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty $HERMES_BUS_ROOT with a short path."""
    for folder in _short_folder():
        monkeypatch.setenv("HERMES_BUS_ROOT", str(folder))
        yield folder


@pytest.fixture
def make_broker(bus_root: Path) -> Iterator[MakeBroker]:
    """Return a maker of a broker of the test's own: `make_broker(stale_s=0.5)`."""
    made: list[Broker] = []

    def make(**settings: object) -> Broker:
        made.append(Broker(bus_root, **settings))
        return made[-1].start()

    yield make
    for broker in made:
        if broker.process is not None:
            broker.kill()


@pytest.fixture
def broker(make_broker: MakeBroker) -> Broker:
    """A broker of the test's own, with calm timers."""
    return make_broker()


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """One broker for all tests of a worker that leave it in peace."""
    for folder in _short_folder():
        found = Broker(folder).start()
        assert found.word == "ready", found.word
        yield found
        found.kill()


@pytest.fixture
def peers() -> Iterator[MakePeer]:
    """Return a maker of raw peers of a broker: `peers(broker)`."""
    made: list[Peer] = []

    def make(broker: Broker, instance: str | None = None) -> Peer:
        made.append(Peer(broker.address, instance))
        return made[-1]

    yield make
    for peer in made:
        peer.close()


@pytest.fixture
def peer(shared_broker: Broker, peers: MakePeer) -> Peer:
    """A raw peer of the shared broker."""
    return peers(shared_broker)


@pytest.fixture
def other(shared_broker: Broker, peers: MakePeer) -> Peer:
    """A second raw peer of the shared broker."""
    return peers(shared_broker)


@pytest.fixture
def name() -> str:
    """An endpoint name that no other test uses."""
    return f"e{secrets.token_hex(5)}"


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """A desk whose broker runs, without services."""
    found = Desk()
    found.start()
    yield found
    found.close()


@pytest.fixture
def own_desk() -> Iterator[Desk]:
    """A desk of the test's own; nothing runs yet."""
    found = Desk()
    yield found
    found.close()


@pytest.fixture
def listen(desk: Desk) -> Iterator[Callable[..., Listener]]:
    """Return `desk.listen`, whose listeners end with the test."""
    started: list[Listener] = []

    def start(*words: str, **more: object) -> Listener:
        started.append(desk.listen(*words, **more))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for listener in started:
        if not listener.ended:
            listener.end()


@pytest.fixture(scope="module")
def tmux() -> Iterator[Tmux]:
    """A tmux server with the session `my session`."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    yield from serve()
