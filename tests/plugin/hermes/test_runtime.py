"""A listening process of Hermes on the bus, from joining to leaving (HERMES-2)."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.broker import Broker, MakeBroker, until
from fakes.hermes_process import Station
from wakebus.broker import Client
from wakebus.broker.system.lock_file import lock_holder
from wakebus.plugin.hermes import membership
from wakebus.plugin.hermes.status import status
from wakebus.plugin.hermes.tools import bus_tools
from wakebus.plugin.receive import maintenance

MakeStation = Callable[[], Station]


def state_of(client: Client, name: str) -> str:
    """Return an endpoint's state, "" for one that is not known."""
    return next((str(one["state"]) for one in client.list() if one["name"] == name), "")


def write_rules(home: Path, text: str) -> Path:
    """Write the rules of `home`."""
    path = home / "bus-rules.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_nothing_alive_nothing_opened(bus: Client, station: MakeStation, name: str) -> None:
    """HERMES-2.3, peer failure 9: a one-shot has no mode, no endpoint and no client."""
    one = station().start()
    until(lambda: one.runtime._thread and one.runtime._thread.is_alive())
    found = one.runtime
    assert (found.mode, found.endpoint, found.client, found.listens) == ("", "", None, False)
    assert state_of(bus, name) == ""
    assert status(found)["note"]


@pytest.mark.parametrize(("mode", "suffix"), [("cli", ""), ("gateway", "-gateway")])
def test_what_comes_alive_is_on_the_bus(
    bus: Client,
    station: MakeStation,
    name: str,
    mode: str,
    suffix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """HERMES-2.3, HERMES-2.4: registered under its name, receives, says so in one line."""
    with caplog.at_level(logging.INFO, "wakebus"):
        one = station().join(mode)
        assert (one.runtime.mode, one.runtime.endpoint) == (mode, name + suffix)
        receipt = bus.send(name + suffix, "the secret text", sender="ci", wait=15)
    assert receipt.state == "handled"
    assert "ci: the secret text" in one.printed.getvalue()
    line = f"on the bus as {name}{suffix} ({mode}; rules: default rules)"
    assert line in [record.getMessage() for record in caplog.records]
    # HERMES-2.14
    assert "secret" not in caplog.text


def test_a_second_terminal_takes_the_next_name(
    bus: Client, station: MakeStation, name: str
) -> None:
    """HERMES-2.6: and each gets its own messages."""
    first, second = station().join("cli"), station().join("cli")
    assert (first.runtime.endpoint, second.runtime.endpoint) == (name, f"{name}-2")
    assert bus.send(f"{name}-2", "for two", sender="ci", wait=15).state == "handled"
    assert "for two" in second.printed.getvalue() and "for two" not in first.printed.getvalue()
    assert second.runtime.host is not None and second.runtime.host._endpoint == f"{name}-2"


def test_a_gateway_waits_for_its_name(
    bus: Client, station: MakeStation, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """HERMES-2.7: who has it is said once; it is taken as soon as it is free."""
    holder = Client()
    holder.register(f"{name}-gateway", lambda _: None)
    one = station()
    one.process.gateway()
    with caplog.at_level(logging.INFO, "wakebus"):
        one.start()
        until(lambda: one.runtime.error)
        assert f"process {os.getpid()} has the name" in one.runtime.error
        assert not one.runtime.receiving and one.runtime.mode == "gateway"
        one.runtime.retry_now()
        holder.close()
        until(lambda: one.runtime.receiving, 30)
    assert one.runtime.error == ""
    said = [r.getMessage() for r in caplog.records if "has the name" in r.getMessage()]
    assert len(said) == 1


def test_a_name_that_is_taken_over_is_not_fought_for(
    bus: Client, station: MakeStation, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """HERMES-2.10: nothing is received any more, the log says so, sending goes on."""
    one = station().join("cli")
    with caplog.at_level(logging.WARNING, "wakebus"), Client() as taker:
        taker.register(name, lambda _: None, takeover=True)
        until(lambda: not one.runtime.receiving)
        until(lambda: "nothing is received here any more" in caplog.text)
        assert one.runtime.endpoint == name and status(one.runtime)["lost"]
        call = bus_tools.handler(one.runtime, bus_tools.bus_send)
        told = json.loads(call({"target": name, "type": "ack", "text": "heard", "wait_s": 15}))
        assert told["state"] == "handled"
    assert "heard" not in one.printed.getvalue()


@pytest.mark.parametrize("mode", ["cli", "gateway"])
def test_it_leaves_when_its_agent_ends(
    bus: Client, station: MakeStation, name: str, mode: str
) -> None:
    """HERMES-2.11: the name is given back, and the thread waits for another."""
    one = station().join(mode)
    endpoint = one.runtime.endpoint
    one.process.modules.clear()
    until(lambda: one.runtime.mode == "")
    until(lambda: state_of(bus, endpoint) == "away")
    one.join(mode)
    assert one.runtime.endpoint == endpoint


def test_what_was_not_finished_is_given_back(
    bus: Client, station: MakeStation, home: Path, name: str
) -> None:
    """HERMES-2.11: a message in hand waits again, for the next holder."""
    write_rules(
        home, f"callbacks:\n  - {{match_type: '*', command: 'touch {home}/on; sleep 60'}}\n"
    )
    one = station().join("cli")
    id = bus.send(name, "work", type="x", sender="ci").id
    until((home / "on").exists)
    one.runtime.stop()
    row = until(lambda: next((r for r in bus.inbox(name) if r["state"] == "queued"), None))
    assert row["id"] == id
    until(lambda: not one.runtime._thread or not one.runtime._thread.is_alive())


def test_rules_that_are_wrong_keep_it_off_the_bus_until_they_are_right(
    bus: Client, station: MakeStation, home: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """HERMES-2.9: file, line and key are in the log; nothing is done by wrong rules."""
    write_rules(home, "callbacks:\n  - {match_typ: x}\n")
    one = station()
    one.process.cli()
    with caplog.at_level(logging.WARNING, "wakebus"):
        one.start()
        until(lambda: one.runtime.error)
    assert "bus-rules.yaml" in one.runtime.error and "match_typ" in one.runtime.error
    assert state_of(bus, name) == ""
    write_rules(home, "callbacks: []\nbus: {endpoint: unused}\n")
    one.runtime.retry_now()
    until(lambda: one.runtime.receiving)
    assert one.runtime.endpoint == name and one.runtime.error == ""


def test_a_name_of_the_rules(
    bus: Client,
    station: MakeStation,
    home: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HERMES-2.4: bus.endpoint, where the environment says nothing."""
    monkeypatch.delenv("HERMES_BUS_ENDPOINT")
    write_rules(home, f"bus: {{endpoint: {name}}}\n")
    assert station().join("gateway").runtime.endpoint == f"{name}-gateway"


def test_a_missing_broker_is_started(
    bus_root: Path, home: Path, station: MakeStation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-2.8: by the first process that listens."""
    monkeypatch.setenv("WAKEBUS_SERVICES", "false")
    try:
        one = station().join("gateway")
        assert status(one.runtime)["broker"]["running"]
    finally:
        if pid := lock_holder(bus_root / "bus"):
            os.kill(pid, signal.SIGTERM)
            until(lambda: lock_holder(bus_root / "bus") is None)


def test_a_broker_that_does_not_start_costs_one_line(
    bus_root: Path, home: Path, station: MakeStation, caplog: pytest.LogCaptureFixture
) -> None:
    """HERMES-2.8: said once, tried again, and Hermes goes on."""
    (bus_root / "bus").write_text("in the way")
    one = station()
    one.process.cli()
    with caplog.at_level(logging.WARNING, "wakebus"):
        one.start()
        until(lambda: one.runtime.error)
        one.runtime.retry_now()
        until(lambda: one.runtime._retry.is_set() is False)
    assert "not on the bus yet" in one.runtime.error
    assert one.runtime._thread is not None and one.runtime._thread.is_alive()
    assert len(caplog.records) == 1


def test_a_broker_stopped_by_hand_is_left_alone(
    broker: Broker, home: Path, station: MakeStation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-2.8: `hermes-busd stop` while Hermes runs; back at the next start by hand."""
    monkeypatch.setattr(maintenance, "FIRST_PAUSE_S", 0.05)
    started: list[bool] = []
    monkeypatch.setattr(maintenance, "start_broker", lambda: started.append(True))
    one = station().join("cli")
    assert broker.command("stop").returncode == 0
    until(lambda: not broker.alive)
    client = one.runtime.client
    assert client is not None
    until(lambda: not client.connected(0))
    assert status(one.runtime)["broker"]["running"] is False
    broker.start()
    until(lambda: client.connected(0) and state_of(client, one.runtime.endpoint) == "live", 30)
    assert not started


def test_a_killed_broker_changes_nothing_for_long(
    make_broker: MakeBroker, home: Path, station: MakeStation
) -> None:
    """HERMES-2.12, peer failure 11: it comes back by itself, under the same name."""
    broker = make_broker()
    first, second = station().join("cli"), station().join("cli")
    names = first.runtime.endpoint, second.runtime.endpoint
    broker.restart()
    with Client() as client:
        until(lambda: [state_of(client, name) for name in names] == ["live", "live"], 30)
        for name in names:
            assert client.send(name, "hello again", sender="ci", wait=30).state == "handled"
    assert (first.runtime.endpoint, second.runtime.endpoint) == names


def test_a_slip_of_ours_is_told_and_tried_again(
    bus: Client, station: MakeStation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-2.1: a host that cannot be made gives the name back."""
    good, calls = Station._make_host, []

    def bad(*args: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise AttributeError("half built")
        return good(*args)  # type: ignore[arg-type]

    one = station()
    one.runtime._make_host = lambda *args: bad(one, *args)  # type: ignore[assignment]
    one.process.cli()
    one.start()
    until(lambda: one.runtime.receiving, 30)
    assert len(calls) == 2


def test_objects_of_another_hermes_are_told_once(
    station: MakeStation, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """HERMES-2.1: what raises when it is looked at is nothing alive, and the thread goes on."""
    one, looked = station(), list[int]()

    def find() -> None:
        looked.append(1)
        raise RuntimeError("first line\nsecond line")

    one.runtime._find_live = find
    with caplog.at_level(logging.WARNING, "wakebus"):
        one.start()
        until(lambda: len(looked) > 2)
    assert one.runtime.listens is False and one.runtime.mode == ""
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith("RuntimeError: first line; second line")


def test_the_log_names_no_text_and_no_file_is_ours(
    bus: Client, station: MakeStation, home: Path, name: str, tmp_path: Path
) -> None:
    """HERMES-2.14, peer failure 13: Hermes's own log is used; nothing is written elsewhere."""
    one = station().join("cli")
    bus.send(name, "secret", sender="ci", wait=15)
    one.runtime.stop()
    assert not list(home.rglob("*.log"))
    assert membership.log.name == "wakebus"


FORK = """
import json, os, sys
from fakes.broker import until
from fakes.hermes_process import Station
one = Station().join("cli")
read, write = os.pipe()
if os.fork() == 0:
    found = one.runtime
    found.start()
    facts = [found.mode, found.endpoint, found.client is None, found.listens, found._thread]
    os.write(write, json.dumps(facts).encode())
    sys.exit(0)
os.close(write)
os.wait()
print(json.dumps([json.loads(os.read(read, 1000)), one.runtime.endpoint, one.runtime.receiving]))
"""


def run(script: str) -> "subprocess.CompletedProcess[str]":
    """Run a process of Hermes, as it is here; return how it ended."""
    path = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_forked_child_has_no_part_in_it(bus: Client, name: str) -> None:
    """HERMES-2.13: no mode, no endpoint; its end takes nothing from the parent."""
    done = run(FORK)
    assert done.returncode == 0, done.stderr
    child = '["", "", true, false, null]'
    assert done.stdout.strip() == f'[{child}, "{name}", true]'


AT_EXIT = """
from fakes.hermes_process import Station
one = Station().join("cli")
print(one.runtime.endpoint)
"""


def test_at_exit_the_name_is_given_back(bus: Client, name: str) -> None:
    """HERMES-2.11: the process ends by itself, and its name is free at once."""
    done = run(AT_EXIT)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, name, "")
    assert state_of(bus, name) == "away"
