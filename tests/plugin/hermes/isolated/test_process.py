"""Whose child a plugin host is (HERMES-9.1), by a real socket, and what its gateway has written."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from wakebus.plugin.hermes.host_api.protocol import LiveHost
from wakebus.plugin.hermes.isolated import process
from wakebus.plugin.hermes.isolated.isolation import is_isolated
from wakebus.plugin.hermes.isolated.process import (
    IsolatedProcess,
    find_gateway,
    identify,
    socket_of,
)

PID = 77


class ControlSocket:
    """gateway/control_socket.py of 0.22.2: one line in, one out. `says`: what it answers."""

    def __init__(self, path: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        self.says = json.dumps({"ok": True, "result": {"pid": PID, "kind": "hermes-gateway"}})
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as lines:
                self.asked.append(json.loads(lines.readline()))
                lines.write(self.says.encode() + b"\n")

    def close(self) -> None:
        """Answer no more."""
        with suppress(OSError):  # it was closed before
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlSocket]:
    """The socket of a gateway with process id PID, launched in tmp_path."""
    found = ControlSocket(tmp_path / "gateway.sock")
    yield found
    found.close()


def test_a_gateway_says_so_itself(tmp_path: Path, control: ControlSocket) -> None:
    """HERMES-9.1: its socket answers with our parent's pid; it is asked once."""
    found = IsolatedProcess(tmp_path, PID)
    assert found.of_gateway() and found.of_gateway()
    assert [one["verb"] for one in control.asked] == ["identify"]


def test_a_gateway_elsewhere_is_not_ours(tmp_path: Path, control: ControlSocket) -> None:
    """HERMES-9.1: `hermes chat -q` beside a gateway; asked again when there is another socket."""
    found = IsolatedProcess(tmp_path, PID + 1)
    assert not found.of_gateway() and not found.of_gateway()
    assert len(control.asked) == 1
    control.close()
    (tmp_path / "gateway.sock").rename(tmp_path / "old.sock")  # its inode is kept
    assert not found.of_gateway()
    second = ControlSocket(tmp_path / "gateway.sock")
    second.says = json.dumps({"ok": True, "result": {"pid": PID + 1}})
    try:
        assert found.of_gateway()
    finally:
        second.close()


def test_a_gateway_of_several_profiles(tmp_path: Path, control: ControlSocket) -> None:
    """HERMES-9.1: its socket is in the home in which it was launched."""
    home = tmp_path / "profiles" / "work"
    found = IsolatedProcess(home, PID)
    assert found.of_gateway() and not found.launched_here
    assert IsolatedProcess(tmp_path, PID).launched_here
    assert not IsolatedProcess(tmp_path / "elsewhere" / "work", PID).of_gateway()


def test_a_person_was_let_in(tmp_path: Path) -> None:
    """HERMES-9.1: only a gateway does that; it may have no socket, or a launcher between us."""
    found = IsolatedProcess(tmp_path, PID)
    assert not found.of_gateway()
    found.told.has_admitted = True
    assert found.of_gateway()


def test_a_socket_elsewhere(tmp_path: Path) -> None:
    """HERMES-9.1: the home's path may be too long for one; then a file says where it is."""
    assert socket_of(tmp_path) == tmp_path / "gateway.sock"
    (tmp_path / "gateway.sock.path").write_text("/run/short.sock\n")
    assert socket_of(tmp_path) == Path("/run/short.sock")


@pytest.mark.parametrize("says", ["", "[]", "no JSON", '{"result": 5}', '{"result": {"pid": "x"}}'])
def test_another_answer_is_none(tmp_path: Path, control: ControlSocket, says: str) -> None:
    """HERMES-9.1: nor is a socket behind which nobody listens."""
    control.says = says
    assert not IsolatedProcess(tmp_path, PID).of_gateway()
    control.close()
    assert identify(tmp_path / "gateway.sock") == {}


def test_what_the_gateway_wrote(tmp_path: Path, control: ControlSocket) -> None:
    """HERMES-9.1: a gateway that was killed leaves a file that says `running`: it is not ours."""
    found = IsolatedProcess(tmp_path, PID)
    assert found.of_gateway() and found.state() == {} and found.platforms() == {}
    for wrong in ("", "[", '{"pid": 5, "gateway_state": "running"}'):
        (tmp_path / "gateway_state.json").write_text(wrong)
        assert found.state() == {}
    (tmp_path / "gateway_state.json").write_text(f'{{"pid": {PID}, "gateway_state": "running"}}')
    assert found.state()["gateway_state"] == "running"


PLATFORMS = {
    "mattermost": {"state": "connected"},
    "work:slack": {"state": "retrying"},
    "work:odd": 5,
    "home:ntfy": {"state": "connected"},
}


@pytest.mark.parametrize(
    ("profile", "served", "found"),
    [
        ("default", ["default", "work"], {"mattermost": "connected"}),
        ("work", ["default", "work"], {"slack": "retrying"}),
        ("work", [], {"mattermost": "connected", "slack": "retrying"}),
    ],
)
def test_the_platforms_of_a_profile(
    tmp_path: Path, profile: str, served: list[str], found: dict[str, str]
) -> None:
    """HERMES-9.2: never another profile's."""
    home = tmp_path if profile == "default" else tmp_path / "profiles" / profile
    state = {"pid": PID, "platforms": PLATFORMS, "served_profiles": served}
    (tmp_path / "gateway_state.json").write_text(json.dumps(state))
    own = IsolatedProcess(home, PID)
    own.told.has_admitted = True
    assert own.platforms() == found
    assert own.all_platforms() == ("mattermost", "slack", "odd", "ntfy")


def test_the_owner_has_paused_it(tmp_path: Path) -> None:
    """HERMES-9.3: `hermes pause` leaves a file, of a profile or of all."""
    home = tmp_path / "profiles" / "work"
    home.mkdir(parents=True)
    found = IsolatedProcess(home, PID)
    assert not found.is_paused
    (tmp_path / "ESTOP").touch()
    assert found.is_paused


def test_how_it_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HERMES-9.1: by Hermes's own variable; then nothing that is private is looked at."""
    assert not is_isolated({}) and is_isolated({"HERMES_PLUGIN_HOST_PROCESS": "1"})
    found = IsolatedProcess(tmp_path, os.getppid())
    monkeypatch.setattr(process, "this_process", lambda: found)
    assert find_gateway() is None
    found.told.has_admitted = True
    assert find_gateway() == LiveHost("gateway", found)
