"""The courier as a service: the real thing with a broker."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fakes.broker import Broker
from fakes.courier import FakeTransport, MakeDesk
from wakebus.adapters.base import Request, Response
from wakebus.adapters.courier import lane_backoff
from wakebus.adapters.courier.service import persist, register, run
from wakebus.adapters.errors import Throttled, Uncertain
from wakebus.broker import Client, Later
from wakebus.broker.errors import NotRunning


def test_persist() -> None:
    """ADP-6.9: an error is logged once per reason and tried again; stop ends it."""
    stop = threading.Event()
    tries: list[int] = []

    def step() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise NotRunning("no broker")
        return "held"

    assert persist(step, stop) == "held"
    stop.set()
    assert persist(step, stop) is None


# ---- with a broker ---------------------------------------------------------------------------


def until(true: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def spawn(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", "-c", code], stdin=subprocess.DEVNULL)


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A broker of its own, without services; the folder of its files."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("WAKEBUS_SERVICES", "false")
    monkeypatch.delenv("CONSOLE_HOME_CHANNEL", raising=False)
    broker = spawn("from wakebus.broker.server.cli import main; main(['run'])")
    until((tmp_path / "bus" / "address.json").exists)
    yield tmp_path / "bus"
    broker.terminate()
    assert broker.wait(10) == 0


@pytest.fixture
def served(bus: Path) -> Iterator[Path]:
    """That broker with a courier in a thread of this process."""
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,))
    thread.start()
    with Client() as client:
        until(lambda: any(e["name"] == "courier" for e in client.list()))
    yield bus
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_end_to_end(served: Path) -> None:
    """ADP-6.4: a message to `courier` ends in the chat's file, and its sender learns the result."""
    with Client() as client:
        sent = client.send("courier", "build done", channel="console:alice", wait=10)
        refused = client.send("courier", "build done", channel="consol:alice", wait=10)
    assert sent.outcome and sent.outcome["channel"]["id"] == sent.id
    assert refused.state == "dead" and "did you mean console" in refused.reason
    assert refused.outcome and refused.outcome["channel"]["result"] == "rejected"
    text = (served / "console-alice.log").read_text()
    assert text.splitlines()[1:] == ["build done"] and sent.id in text


def test_a_new_home_channel_needs_no_restart(served: Path) -> None:
    """ADP-7.3: `.env` is read when it changed."""
    with Client() as client:
        assert client.send("courier", "hi", channel="console", wait=10).state == "dead"
        (served.parent / ".env").write_text("CONSOLE_HOME_CHANNEL=bob\n")
        done = client.send("courier", "hi", channel="console", wait=10)
    assert done.outcome and done.outcome["channel"]["chat"] == "console:bob"


DIES = """
import os, signal
from wakebus.adapters.transports import console_log
from wakebus.adapters.courier import service
append = console_log._append
def die(*args):
    append(*args)
    os.kill(os.getpid(), signal.SIGKILL)
console_log._append = die
service.serve(__import__("threading").Event())
"""


def test_killed_between_effect_and_ack(bus: Path) -> None:
    """ADP-8.2: a courier killed after the append, before the ack: its successor doubles nothing."""
    first = spawn(DIES)
    with Client() as client:
        sent = client.send("courier", "once", channel="console:alice", queue=True)
        assert first.wait(20) == -signal.SIGKILL
        stop = threading.Event()
        second = threading.Thread(target=run, args=(stop,))
        second.start()
        done = client.wait(sent.id, 15)
        stop.set()
        second.join(10)
    assert done.outcome and done.outcome["channel"]["result"] == "sent"
    assert (bus / "console-alice.log").read_text().count("once") == 1


def test_the_name_is_held_by_another(
    bus: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.9: a second courier waits, saying so once, and serves when the first has gone."""
    monkeypatch.setattr(lane_backoff, "FIRST_WAIT_S", 0.05)
    stop = threading.Event()
    with Client() as client:
        with Client() as other:
            other.register("courier", lambda _: Later(60.0))
            thread = threading.Thread(target=run, args=(stop,))
            thread.start()
            until(lambda: "not yet (name_taken)" in caplog.text)
        done = client.send("courier", "hi", channel="console:alice", wait=10)
        assert done.outcome and done.outcome["channel"]["result"] == "sent"
        stop.set()
        thread.join(10)
    assert caplog.text.count("name_taken") == 1


def test_no_broker_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.9: without a broker a courier waits, starts none, and stops at once when told to."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,))
    thread.start()
    until(lambda: "not yet" in caplog.text, 30)
    stop.set()
    thread.join(30)
    assert not thread.is_alive() and not (tmp_path / "bus").exists()


FOREGROUND = (
    "from wakebus.adapters.courier.service import run_foreground as f; raise SystemExit(f())"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_foreground(bus: Path, number: signal.Signals) -> None:
    """ADP-8.7: in the foreground chats are shown on stdout; Ctrl-C and SIGTERM end it with 0."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", FOREGROUND], stdout=subprocess.PIPE, text=True
    )
    with Client() as client:
        client.send("courier", "build done", channel="console:alice", queue=True, wait=15)
    os.kill(process.pid, number)
    shown, _ = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "console:alice" in shown and "build done" in shown


def test_taken_over(bus: Path, courier: MakeDesk) -> None:
    """ADP-6.9: a courier whose name was taken notices it, so that it can wait for it again."""
    one = courier(FakeTransport()).one
    with Client() as first, Client() as second:
        lost = register(first, one, False)
        assert not lost.is_set()
        register(second, one, True)
        assert lost.wait(5)


def test_notes_of_a_newer_version(bus: Path, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.12, ADP-6.9: said once; the name is not held, so that texts wait in the mailbox."""
    with closing(sqlite3.connect(bus / "courier.db")) as db:
        db.execute("PRAGMA user_version=99")
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,))
    thread.start()
    until(lambda: "written by a newer wakebus" in caplog.text)
    with Client() as client:
        assert client.list() == []
    stop.set()
    thread.join(10)
    assert caplog.text.count("newer wakebus") == 1


def test_many_hanging_chats(
    courier: MakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyless: None
) -> None:
    """ADP-6.14: chats that hang fill the window; the next one goes out when one gives up."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    free, seen = threading.Event(), []

    def hangs(request: Request) -> Response:
        seen.append(request.url)
        if request.url.startswith("console:hangs"):
            assert free.wait(30)
            raise Uncertain("no answer")
        return Response(200, b'{"id": "k"}')

    broker = Broker(tmp_path, window_lanes=8).start()
    try:
        with Client() as bus, Client() as holder:
            register(holder, courier(hangs).one, False)
            hung = [bus.send("courier", "x", channel=f"console:hangs{n}").id for n in range(8)]
            until(lambda: len(seen) == 8)
            last = bus.send("courier", "x", channel="console:last").id
            free.set()
            done = bus.wait(last, 30)
            assert done.outcome and done.outcome["channel"]["result"] == "sent"
            for id in hung:
                told = bus.wait(id, 30).outcome
                assert told and told["channel"]["result"] == "uncertain"
    finally:
        broker.kill()


def test_a_throttled_chat_holds_no_other(
    courier: MakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyless: None
) -> None:
    """ADP-6.5: put off for an hour, it takes no place: more lanes than the window go out."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))

    def throttles(request: Request) -> Response:
        if request.url.startswith("console:slow"):
            raise Throttled("too fast", retry_after=3600)
        return Response(200, b'{"id": "k"}')

    broker = Broker(tmp_path, window_lanes=4).start()
    try:
        with Client() as bus, Client() as holder:
            register(holder, courier(throttles).one, False)
            for number in range(12):
                bus.send("courier", "x", channel=f"console:slow{number}")
            done = bus.send("courier", "x", channel="console:fine", wait=30)
            assert done.outcome and done.outcome["channel"]["result"] == "sent"
    finally:
        broker.kill()
