"""
Sessions under one name, while the broker and they themselves are SIGKILLed (PROTOCOL.md section 5).
"""

from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.program import Program, Run, lines
from wakebus.broker import Client
from wakebus.broker.errors import UnknownTarget

KILLS = 5


def _start(run: Run, record: Path) -> tuple[Program, str]:
    """Start a session of `hermes`; return it with the name that it got."""
    program = run("session.py", "hermes", record)
    until(lambda: any("got" in line for line in _of(record, program)), 30)
    return program, next(line["got"] for line in _of(record, program) if "got" in line)


def _of(record: Path, program: Program) -> list[dict[str, Any]]:
    return [line for line in lines(record) if line["pid"] == program.pid]


def _calls(record: Path, program: Program) -> list[str]:
    return [line["id"] for line in _of(record, program) if "id" in line]


def _held(client: Client) -> dict[str, int]:
    return {one["name"]: one["pid"] for one in client.list() if one["state"] == "live"}


def test_each_keeps_its_name_over_kills_of_the_broker(
    broker: Broker, run: Run, record: Path
) -> None:
    """PROTOCOL-5.14: and gets what is for its session, once; nobody changes places."""
    started = [_start(run, record) for _ in range(3)]
    names = {name: program.pid for program, name in started}
    assert [*names] == ["hermes", "hermes-2", "hermes-3"]
    sent: dict[str, list[str]] = {name: [] for name in names}
    with Client(timeout=30) as client:
        for kill in range(KILLS):
            for name in names:
                id = client.send(name, "hi", session=f"of {name}", sender="ci").id
                sent[name].append(id)
            broker.restart()
            for name in names:
                assert client.wait(sent[name][-1], 30).state == "handled", (kill, name)
            until(lambda: _held(client) == names)
        for program, name in started:
            assert _calls(record, program) == sent[name]


def test_a_session_dies_with_the_broker(broker: Broker, run: Run, record: Path) -> None:
    """PROTOCOL-5.16: the successor gets what was for nobody's session; its own fate has each."""
    (first, _), (second, name) = _start(run, record), _start(run, record)
    assert name == "hermes-2"
    with Client(timeout=30) as client:
        stays = [client.send(name, "stay", session=str(n), sender="ci").id for n in range(2)]
        behind = [client.send(name, "hi", session=str(n), sender="ci").id for n in range(2)]
        until(lambda: {*_calls(record, second)} == {*stays})
        broker.kill()
        second.process.kill()
        second.process.wait()
        assert broker.start().word == "ready"
        free = client.send(name, "hi", sender="ci").id
        until(lambda: "hermes" in _held(client))
        heir, found = _start(run, record)
        assert found == name
        assert client.wait(free, 30).state == "handled"
        for id in stays + behind:
            receipt = client.wait(id, 30)
            assert receipt.state == "dead" and receipt.reason.startswith("its session ended")
        assert _calls(record, heir) == [free]
        assert _calls(record, first) == []


def test_without_a_successor_the_name_ends(broker: Broker, run: Run, record: Path) -> None:
    """PROTOCOL-5.15: killed in the middle of its work; its sender is told, whom it may try now."""
    broker.stop()
    (broker.folder / "wakebus.toml").write_text("ephemeral_s = 1\n")
    broker.start()
    with Client(timeout=30) as client:
        client.register("lead", lambda delivery: None)
        _start(run, record)
        second, name = _start(run, record)
        assert client.send(name, "hi", wait=30).state == "handled"
        id = client.send(name, "stay", session="s").id
        until(lambda: id in _calls(record, second))
        second.process.kill()
        assert client.wait(id, 60).state == "dead"
        until(lambda: all(one["name"] != name for one in client.list()))
        with pytest.raises(UnknownTarget) as caught:
            client.send(name, "still there?")
        assert caught.value.data["near"] == ["hermes"]
