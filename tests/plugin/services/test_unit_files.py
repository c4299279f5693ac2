"""What units say: read by systemd itself, and by plistlib."""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.systemctl import unescaped
from wakebus.broker.user_unit import root_of_unit
from wakebus.plugin.services.unit_files import (
    Service,
    fits_line,
    fits_unit,
    launchd_plist,
    passed_environment,
    systemd_unit,
)

NASTY = "claude -p \"a b\" 'c' $HOME $$ 50% \\x \n\t; # é"


def service(name: str = "listen-worker") -> Service:
    """Return a service whose words hold all that has a meaning in a unit."""
    command = (
        sys.executable,
        "-P",
        "-m",
        "wakebus.plugin.cli",
        "listen",
        "worker",
        "--agent",
        NASTY,
    )
    environment = {"HERMES_BUS_ROOT": "/r/a b", "PATH": "/a:/b c", "X": 'q"$%\\ \n'}
    return Service(name, "wakebus: 100% of worker", command, environment, Path("/tmp"), Path("/l"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_takes_them(tmp_path: Path) -> None:
    """PROTOCOL-1.23: `systemd-analyze verify` has nothing to say."""
    (tmp_path / "run").mkdir(mode=0o700)
    for name in ("broker", "listen-worker"):
        (tmp_path / f"wakebus-{name}.service").write_text(systemd_unit(service(name)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(tmp_path / "wakebus-listen-worker.service")],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_word_arrives_as_it_was() -> None:
    """PROTOCOL-1.23: quotes, `%`, `$`, line ends: no shell and no specifier changes them."""
    lines = systemd_unit(service()).splitlines()
    (command,) = [one.removeprefix("ExecStart=") for one in lines if one.startswith("ExecStart=")]
    assert command.startswith(":") and unescaped(command) == [*service().command]
    given = [one.removeprefix("Environment=") for one in lines if one.startswith("Environment=")]
    assert {unescaped(one)[0] for one in given} == {
        f"{name}={value}" for name, value in service().environment.items()
    }


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
@pytest.mark.parametrize("folder", ["a b", "p$y", "p${HOME}x", "50% $$", "é"])
def test_the_interpreter_may_lie_anywhere(folder: str, tmp_path: Path) -> None:
    """PROTOCOL-1.23: systemd finds it, whatever the path of the environment holds."""
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / folder).mkdir()
    python = tmp_path / folder / "python3"
    python.symlink_to(sys.executable)
    moved = service("broker")._replace(command=(str(python), "-c", "$HOME"))
    unit = tmp_path / "wakebus-broker.service"
    unit.write_text(systemd_unit(moved._replace(folder=tmp_path / folder)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_no_unit_can_hold() -> None:
    """PROTOCOL-1.23: controls, what is no UTF-8; in a line, its end and what continues it."""
    for text in ("a\rb", "a\x1b[1m", "\x00", "b\udcff", "\x85", "\x7f"):
        assert not fits_unit(text) and not fits_line(f"/{text}/x")
    assert fits_unit("a\nb\tc é $ % \\")
    for path in ("/a\nExecStartPre=/x", "/a ", "/a\t", "/a\\", "/a\u2028b"):
        assert not fits_line(path)
    assert fits_line("/a b/ü\\ %h $x\"'") and passed_environment({"PATH": "/a\r"}, []) == {}


def test_launchd_takes_them() -> None:
    """PROTOCOL-1.23: a property list with the same command, environment and folder."""
    found = plistlib.loads(launchd_plist(service()).encode())
    assert found["Label"] == "wakebus.listen-worker"
    assert tuple(found["ProgramArguments"]) == service().command
    assert found["EnvironmentVariables"] == service().environment
    assert found["KeepAlive"] == {"SuccessfulExit": False} and found["RunAtLoad"] is True
    assert found["WorkingDirectory"] == "/tmp" and found["StandardErrorPath"] == "/l"


@pytest.mark.parametrize("make", [systemd_unit, launchd_plist])
def test_a_unit_tells_its_bus(make: Callable[[Service], str]) -> None:
    """PROTOCOL-1.23: by that a start knows whether it is the unit of its bus."""
    assert root_of_unit(make(service()).encode()) == "/r/a b"
    for other in (b"[Unit]\nDescription=mine\n", b"<?xml broken", b"", b"\xff\xfe"):
        assert root_of_unit(other) == ""


def test_a_listener_needs_the_broker_and_waits_for_its_name() -> None:
    """PROTOCOL-1.23: it comes after the broker, is tried for ever, and ends alone."""
    listener, broker = systemd_unit(service()), systemd_unit(service("broker"))
    assert "After=wakebus-broker.service" in listener and "StartLimitIntervalSec=0" in listener
    assert "KillMode=process" in listener and "KillMode=mixed" in broker
    assert "After=" not in broker and "Restart=on-failure" in broker


def test_what_is_passed() -> None:
    """PROTOCOL-1.23: PATH, roots, settings, proxies, locale; a key only when it is asked for."""
    environ = {
        "PATH": "/a",
        "WAKEBUS_STALE_S": "5",
        "WAKEBUS_TOKEN": "secret",
        "https_proxy": "http://p",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "k",
        "LANG": "no\udcffutf8",
    }
    assert passed_environment(environ, []) == {
        "PATH": "/a",
        "WAKEBUS_STALE_S": "5",
        "https_proxy": "http://p",
        "LC_ALL": "C",
    }
    assert passed_environment(environ, ["ANTHROPIC_API_KEY"])["ANTHROPIC_API_KEY"] == "k"
