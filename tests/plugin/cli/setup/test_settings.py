"""`wakebus settings`, called as its parser calls it."""

import json
import os
import re
from pathlib import Path

import pytest

from wakebus.broker.settings import BadSettings, fields
from wakebus.plugin.cli.main import main
from wakebus.plugin.cli.output import Parser
from wakebus.plugin.cli.setup import settings

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HERMES_HOME and a bus of its own, without settings."""
    for name in [name for name in os.environ if name.startswith("WAKEBUS_") or "_RATE_" in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    return tmp_path


def call(*argv: str) -> int:
    parser = Parser(prog="wakebus settings")
    settings.COMMAND.set_up(parser)
    args = parser.parse_args(argv)
    status: int = args.run(args)
    return status


def test_list(home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with value, default, source and meaning; no credential."""
    monkeypatch.setenv("WAKEBUS_STALE_S", "7.5")
    (home / ".env").write_text("SLACK_TOKEN=hush-hush\nSLACK_RATE_CHAT=2/1\n")
    assert call("list") == 0
    out = capsys.readouterr().out
    assert "hush" not in out and str(home / "bus" / "wakebus.toml") in out
    lines = [re.split(r" {2,}", line) for line in out.splitlines()]
    cells = {line[0]: line[1:4] for line in lines}
    assert cells["stale_s"] == ["7.5 s", "10 s", "WAKEBUS_STALE_S"]
    assert cells["mailbox_bytes"] == ["64 MiB", "64 MiB", "default"]
    assert cells["services"] == ["true", "true", "default"]
    assert cells["SLACK_RATE_CHAT"] == ["2/1", "1/1", ".env"]
    what = {line[0]: line[4] for line in lines if len(line) == 5}
    assert what["attempts"] == fields()["attempts"].description


def test_list_fits_a_terminal(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 80 columns, whatever holds, but for a path; nothing is cut."""
    for field in fields().values():
        monkeypatch.setenv(field.variable, "false" if field.kind is bool else "123456789")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    assert call("list") == 0
    out = capsys.readouterr().out
    assert not [line for line in out.splitlines() if len(line) > 80 and str(home) not in line]
    for field in fields().values():
        assert field.name in out and field.description in out and field.variable in out


def test_list_for_scripts(capsys: Captured) -> None:
    """One JSON object."""
    assert call("list", "--json") == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["settings"]}
    assert found["attempts"] == {
        "group": "broker",
        "name": "attempts",
        "value": 5,
        "unit": "deliveries",
        "default": 5,
        "source": "default",
        "description": fields()["attempts"].description,
    }


def test_list_of_wrong_settings(home: Path, capsys: Captured) -> None:
    """Exit 1: it cannot be said what holds; what is wrong is."""
    (home / "bus").mkdir()
    (home / "bus" / "wakebus.toml").write_text("attempts = 0\nlog_files = 0\n")
    with pytest.raises(BadSettings):
        call("list")
    assert main(["settings", "list", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "bad_settings"
    assert "attempts" in err and "log_files" in err


def test_check(home: Path, capsys: Captured) -> None:
    """0 and both files; 1 and all faults on standard error."""
    assert call("check") == 0
    assert capsys.readouterr().out.count(str(home)) == 2
    (home / "bus").mkdir()
    (home / "bus" / "wakebus.toml").write_text("attempts = 0\nlog_files = 0\n")
    assert call("check") == 1
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 2


def test_schema(capsys: Captured) -> None:
    """JSON Schema on standard output."""
    assert call("schema") == 0
    assert "BrokerSettings" in json.loads(capsys.readouterr().out)["$defs"]


def test_usage() -> None:
    """One of the three."""
    with pytest.raises(SystemExit) as caught:
        call()
    assert caught.value.code == 2
