"""`wakebus install service`, with a stand-in for systemd that runs what the units say."""

import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import systemctl
from fakes.broker import until
from fakes.desk import Desk, running

assert systemctl.__file__
FAKE = systemctl.__file__


@pytest.fixture
def managed() -> Iterator[Desk]:
    """A desk with a service manager."""
    desk = Desk()
    for name in ("bin", "systemd", "config"):
        (desk.root / name).mkdir()
    script = desk.root / "bin" / "systemctl"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {FAKE} "$@"\n')
    script.chmod(0o700)
    desk.env |= {
        "PATH": f"{script.parent}:{desk.env['PATH']}",
        "XDG_CONFIG_HOME": str(desk.root / "config"),
        "FAKE_SYSTEMD": str(desk.root / "systemd"),
    }
    yield desk
    desk.close()


def unit(desk: Desk, name: str = "broker") -> Path:
    """The file of a unit."""
    return desk.root / "config" / "systemd" / "user" / f"wakebus-{name}.service"


def service_pid(desk: Desk, name: str = "broker") -> int:
    """The process that the service manager has started."""
    return int((desk.root / "systemd" / f"wakebus-{name}.service").read_text())


def asked(desk: Desk) -> list[str]:
    """What the service manager was asked for since the last look."""
    path = desk.root / "systemd" / "asked"
    lines = path.read_text().splitlines() if path.exists() else []
    path.write_text("")
    return [one for one in lines if not one.startswith(("is-active", "show-environment"))]


def test_the_broker_as_a_service(managed: Desk) -> None:
    """PROTOCOL-1.23: it runs, enabled; again: nothing; `restart`, `start` go by its unit; gone."""
    done = managed.wakebus("install", "service")
    assert (done.status, done.err) == (0, "")
    assert f"installed {unit(managed)} (it runs)" in done.out
    assert "loginctl enable-linger" in done.out
    assert managed.broker_pid == service_pid(managed)
    assert stat.S_IMODE(unit(managed).stat().st_mode) == 0o600
    assert (managed.root / "systemd" / "wakebus-broker.service.enabled").exists()
    before = service_pid(managed)
    again = managed.wakebus("install", "service")
    assert f"unchanged: {unit(managed)} (it runs)" in again.out
    assert service_pid(managed) == before == managed.broker_pid
    assert managed.run("hermes-busd", "restart").status == 0
    assert managed.broker_pid == service_pid(managed) != before
    assert managed.run("hermes-busd", "stop").status == 0
    assert managed.run("hermes-busd", "start").status == 0
    assert managed.broker_pid == service_pid(managed)
    done = managed.wakebus("install", "service", "--uninstall")
    assert done.status == 0 and f"stopped and removed {unit(managed)}" in done.out
    assert not unit(managed).exists() and not running(service_pid(managed))
    assert managed.wakebus("install", "service", "--uninstall").out == "nothing to do\n"


def test_a_listener_as_a_service(managed: Desk) -> None:
    """PROTOCOL-1.23: its agent runs with the command as given; its broker is the service's."""
    agent = managed.script("agent.sh", 'cat >/dev/null; printf %s "$1|$HERMES_BUS_ROOT|$KEY"')
    command = f"{agent} 'a  \"b\" 50%'"
    words = ("install", "service", "--env", "KEY", "listen", "worker", "--agent", command)
    done = managed.wakebus(*words, env={"KEY": "k", "OTHER_API_KEY": "o"})
    assert done.status == 0, done
    assert unit(managed, "listen-worker").exists() and "OTHER_API_KEY" in done.out
    assert "OTHER_API_KEY" not in unit(managed, "listen-worker").read_text()
    with managed.client() as bus:
        until(lambda: [one for one in bus.list() if one["name"] == "worker"])
    answer = managed.wakebus("ask", "worker", "go", "--wait", "30")
    assert answer.out == f'a  "b" 50%|{managed.root}|k\n'
    killed = managed.kill_broker()
    until(lambda: service_pid(managed) != killed and managed.broker_pid == service_pid(managed))
    done = managed.wakebus("install", "service", "listen", "worker", "--uninstall")
    assert not unit(managed, "listen-worker").exists() and unit(managed).exists()
    assert running(service_pid(managed))
    assert managed.wakebus("install", "service", "--uninstall").status == 0


def test_a_broker_that_runs_already(managed: Desk) -> None:
    """PROTOCOL-1.23: it goes on; what hands it over is told, and does so."""
    before = managed.start()
    done = managed.wakebus("install", "service")
    assert done.status == 0 and "hand it over: hermes-busd restart" in done.out
    assert "(it does not run yet)" in done.out and managed.broker_pid == before
    managed.run("hermes-busd", "restart")
    assert managed.broker_pid == service_pid(managed) != before


def test_without_a_service_manager(managed: Desk) -> None:
    """PROTOCOL-1.23: says so, prints the unit, changes nothing, exit 1."""
    (managed.root / "systemd" / "broken").touch()
    done = managed.wakebus("install", "service")
    assert done.status == 1 and "nothing was installed" in done.err
    assert "No medium found" in done.err and "[Service]\nType=exec" in done.out
    assert not unit(managed).exists()
    told = managed.wakebus("install", "service", "--json")
    assert (
        told.status == 1
        and told.json["done"] is False
        and "[Unit]" in told.json["services"][0]["text"]
    )
    (managed.root / "bin" / "systemctl").unlink()
    done = managed.wakebus("install", "service", env={"PATH": str(managed.root / "bin")})
    assert done.status == 1 and "there is no systemctl here" in done.err


def test_a_dry_run_changes_nothing(managed: Desk) -> None:
    """PROTOCOL-1.23: units and commands, wherever the option stands."""
    for words in (("--dry-run", "listen", "w"), ("listen", "w", "--dry-run")):
        done = managed.wakebus("install", "service", *words)
        assert done.status == 0 and f"{unit(managed, 'listen-w')}:" in done.out
        assert "$ systemctl --user enable wakebus-listen-w.service" in done.out
    assert not unit(managed).exists() and asked(managed) == []
    managed.wakebus("install", "service")
    done = managed.wakebus("install", "service", "--uninstall", "--dry-run")
    assert f"would remove {unit(managed)}" in done.out and unit(managed).exists()


def test_a_unit_of_somebody_else(managed: Desk) -> None:
    """PROTOCOL-1.23: is named and left alone, at install and uninstall."""
    unit(managed).parent.mkdir(parents=True)
    unit(managed).write_text("[Unit]\nDescription=mine\n")
    done = managed.wakebus("install", "service")
    assert done.status == 1 and "was not made by wakebus" in done.err
    assert managed.wakebus("install", "service", "--uninstall").out == "nothing to do\n"
    assert unit(managed).read_text() == "[Unit]\nDescription=mine\n"


def test_the_unit_of_another_bus_starts_no_broker_here(managed: Desk) -> None:
    """PROTOCOL-1.23: `hermes-busd start` elsewhere starts a broker of its own there."""
    managed.wakebus("install", "service")
    asked(managed)
    other = managed.root / "other"
    other.mkdir()
    env = {"HERMES_BUS_ROOT": str(other)}
    done = managed.run("hermes-busd", "start", env=env)
    assert done.status == 0 and str(other) in done.out and asked(managed) == []
    managed.run("hermes-busd", "stop", env=env)


@pytest.mark.parametrize(
    "words",
    [
        ("listen",),
        ("listen", "bad name"),
        ("listen", "w", "--agnt", "x"),
        ("broker",),
        ("--env", "NO_SUCH_VARIABLE"),
    ],
)
def test_usage(managed: Desk, words: tuple[str, ...]) -> None:
    """What cannot be a service is told before anything is written."""
    done = managed.wakebus("install", "service", *words)
    assert done.status == 2 and "Traceback" not in done.err
    assert not unit(managed).exists()


@pytest.mark.parametrize("name", ["n\nExecStartPre=/bin/true", "end ", "end\\", "b\udcff"])
def test_a_folder_that_no_unit_can_name(managed: Desk, name: str) -> None:
    """PROTOCOL-1.23: it is refused before anything is written, as the folder and as the bus."""
    folder = managed.root / name
    folder.mkdir(parents=True)
    words = ("wakebus", "install", "service", "listen", "w")
    there = 'cd "$0" && exec "$@"'
    done = managed.run("/bin/sh", "-c", there, str(folder), *words)
    assert done.status == 1 and "no unit can name the folder" in done.err
    done = managed.run(*words, env={"HERMES_BUS_ROOT": f"{folder}/bus\nx"})
    assert done.status == 1 and "Traceback" not in done.err
    assert not unit(managed).exists()


def test_a_variable_that_was_asked_for_is_not_left_out(managed: Desk) -> None:
    """PROTOCOL-1.23: what no unit can hold is told, not dropped."""
    done = managed.wakebus("install", "service", "--env", "KEY", env={"KEY": "a\x1bb"})
    assert done.status == 2 and "--env KEY: its value holds a control character" in done.err
    assert not unit(managed).exists()
