"""`wakebus doctor`: what it sees, the next step, the exit status."""

from pathlib import Path

import pytest

from fakes.desk import BIN, Desk
from wakebus.broker.errors import WakebusError
from wakebus.plugin.cli.doctor import install_checks
from wakebus.plugin.cli.doctor.doctor import findings_of, text_of
from wakebus.plugin.cli.doctor.finding import Finding
from wakebus.plugin.install.owned_files import FileFault, OwnedFiles


def lines(desk: Desk, check: str) -> list[str]:
    """Return what the doctor says of one check."""
    return [
        line
        for line in desk.wakebus("doctor").out.splitlines()
        if line[7:].startswith(f"{check}: ")
    ]


def test_nothing_is_wrong_where_the_broker_runs(own_desk: Desk) -> None:
    """Exit 0, a line a check; `--json` has the same in one object."""
    own_desk.start()
    done = own_desk.wakebus("doctor")
    assert (done.status, done.err) == (0, "") and done.out.endswith("\nnothing is wrong\n")
    assert f"broker: it answers: pid {own_desk.broker_pid}" in done.out
    told = own_desk.wakebus("doctor", "--json").json
    assert told["wrong"] == 0
    assert {one["check"] for one in told["findings"]} >= {"commands", "folder", "broker", "rules"}


def test_what_is_wrong_has_its_next_step(own_desk: Desk) -> None:
    """Exit 1; the broker, settings and rules are all looked at, whichever is wrong."""
    (own_desk.root / "bus").mkdir(mode=0o700)
    (own_desk.root / "bus" / "wakebus.toml").write_text("mailbox_mesages = 5\n")
    own_desk.rules("callbacks:\n  - nmae: x\n")
    done = own_desk.wakebus("doctor")
    assert done.status == 1
    assert "wrong: broker: it does not run\n       next: hermes-busd start\n" in done.out
    assert "mailbox_mesages: no such setting; did you mean mailbox_messages?" in done.out
    assert "wrong: rules: " in done.out and "next: Mend it, then: wakebus rules check" in done.out


def test_a_broker_that_was_stopped_is_told_as_such(own_desk: Desk) -> None:
    """By hand, and not by a crash."""
    own_desk.start()
    own_desk.run("hermes-busd", "stop")
    assert lines(own_desk, "broker") == ["wrong: broker: it does not run: it was stopped by hand"]


def test_commands_that_are_not_on_path(own_desk: Desk) -> None:
    """The folder that has them is named."""
    done = own_desk.run(str(BIN / "wakebus"), "doctor", env={"PATH": "/usr/bin:/bin"})
    assert "wrong: commands: not on PATH: wakebus, hermes-busd" in done.out
    assert f'next: export PATH="{BIN}:$PATH"' in done.out


def test_a_folder_that_is_a_file(own_desk: Desk) -> None:
    """Is told, and the other checks go on."""
    (own_desk.root / "bus").write_text("")
    done = own_desk.wakebus("doctor")
    assert done.status == 1 and "bus is no folder" in done.out and " hermes: " in done.out
    assert "Traceback" not in done.both


def test_a_check_that_fails_is_a_finding() -> None:
    """Its error's text and step; an error of the system names the file."""

    def fail() -> list[Finding]:
        raise WakebusError("it is broken", step="mend it")

    def fail_below() -> list[Finding]:
        raise PermissionError(13, "Permission denied", "/some/file")

    assert [*findings_of(fail)] == [Finding("wrong", "it is broken", "mend it")]
    (found,) = findings_of(fail_below)
    assert found.state == "wrong" and "/some/file" in found.text and found.step


def test_a_finding_is_one_line_and_its_steps() -> None:
    """What a file or a peer wrote begins no line of its own."""
    shown = text_of("rules", Finding("wrong", "a\nok: all \x1b[2Jis well", "one\ntwo"))
    assert shown == "wrong: rules: a ok: all is well\n       next: one\n       next: two"


def test_a_file_that_another_package_took_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-1.2: gone is wrong, owned by others as well is a note; each with what mends it."""
    gone = FileFault(Path("/v/bin/hermes-busd"), "missing", ())
    shared = FileFault(Path("/v/bin/notify-agent"), "shared", ("hermes-notify 0.8.1",))
    monkeypatch.setattr(
        install_checks, "look_at_files", lambda: OwnedFiles([gone, shared], "pip install x")
    )
    found = [*install_checks.check_files()]
    assert [(one.state, one.step) for one in found] == [
        ("wrong", "pip install x"),
        ("note", "pip install x"),
    ]
    assert "is gone" in found[0].text and "hermes-notify 0.8.1" in found[1].text


def test_a_command_on_path_that_is_another_packages(own_desk: Desk) -> None:
    """HERMES-1.2: the hermes-busd of another environment, which a shell would start."""
    folder = own_desk.root / "bin"
    folder.mkdir()
    (folder / "hermes-busd").write_text("#!/bin/sh\nfrom hermes_bus.busd import main\n")
    (folder / "hermes-busd").chmod(0o700)
    path = f"{folder}:{own_desk.env['PATH']}"
    done = own_desk.wakebus("doctor", env={"PATH": path})
    assert done.status == 1
    assert f"wrong: commands: hermes-busd on PATH is {folder}/hermes-busd, which is not" in done.out


def test_what_is_gone_is_no_matter_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-1.2: no folder is named to be put on PATH that is there already."""
    (tmp_path / "wakebus").write_text("#!/bin/sh\n")
    (tmp_path / "wakebus").chmod(0o700)
    monkeypatch.setattr("sys.argv", [str(tmp_path / "wakebus")])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(install_checks, "is_foreign", lambda *_: False)
    assert [one.state for one in install_checks.check_commands()] == ["ok"]
