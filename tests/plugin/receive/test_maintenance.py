"""A receiver keeps the bus up; `wakebus listen` as a process is plugin/cli/bus/test_listen.py."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fakes.broker import Broker, until
from fakes.host import write_rules
from wakebus.broker import Client
from wakebus.broker.errors import NotRunning
from wakebus.plugin.receive import maintenance
from wakebus.plugin.receive.event_rules import RuleSubscriptions
from wakebus.plugin.receive.maintenance import FIRST_PAUSE_S, Maintenance, start_broker
from wakebus.plugin.rules.load import RulesFile


def make_upkeep(broker: Broker, folder: Path, said: list[str]) -> tuple[Client, Maintenance]:
    folder.chmod(0o700)
    rules = RulesFile(write_rules(folder, {"match_type": "*", "print": True}), required=True)
    client = Client(broker.address)
    return client, Maintenance(
        client, rules, RuleSubscriptions(client, "lead", rules, said.append), said.append
    )


def test_a_killed_broker_is_started_again(broker: Broker, tmp_path: Path) -> None:
    """With the client of the same process connected to it afterwards."""
    said: list[str] = []
    client, upkeep = make_upkeep(broker, tmp_path, said)
    with client:
        assert client.connected(30)
        broker.kill()
        until(lambda: not client.connected(0))

        def back() -> bool:
            upkeep.check()
            return client.connected(0)

        until(back)
    assert not said
    assert broker.command("stop").returncode == 0


def test_one_that_was_stopped_stays_stopped(broker: Broker, tmp_path: Path) -> None:
    """`hermes-busd stop` is somebody's wish."""
    client, upkeep = make_upkeep(broker, tmp_path, [])
    with client:
        assert client.connected(30)
        assert broker.command("stop").returncode == 0
        until(lambda: not client.connected(0))
        for _ in range(20):
            upkeep.check()
        assert not client.connected(FIRST_PAUSE_S / 10)
        assert "not running" in broker.command("status").stdout + broker.command("status").stderr


def test_changed_rules_are_told(broker: Broker, tmp_path: Path) -> None:
    """With their warnings."""
    said: list[str] = []
    client, upkeep = make_upkeep(broker, tmp_path, said)
    with client:
        write_rules(tmp_path, {"match_type": "*", "print_format": "never {text}"})

        def told() -> bool:
            upkeep.check()
            return len(said) > 1

        until(told)
    assert "read again" in said[0] and said[1].startswith("warning: ")


def test_one_that_cannot_start(bus_root: Path) -> None:
    """Its own words, and what to do."""
    (bus_root / "bus").mkdir(mode=0o700)
    (bus_root / "bus" / "wakebus.toml").write_text("nonsense = 1\n")
    with pytest.raises(NotRunning, match="nonsense"):
        start_broker()


def test_a_broker_is_started_once_for_all_that_miss_it(
    bus_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-2.16: several endpoints of one process find that there is none."""
    started: list[int] = []
    monkeypatch.setattr(maintenance, "_ready", lambda: bool(started))
    monkeypatch.setattr(maintenance, "_start_one", lambda: started.append(1))
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(start_broker) for _ in range(8)]:
            done.result(30)
    assert started == [1]
