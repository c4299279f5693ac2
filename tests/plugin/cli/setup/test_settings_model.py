"""Every setting in one model."""

import os
from pathlib import Path

import pytest

from wakebus.adapters.inspect.rate_settings import rate_settings
from wakebus.broker.settings import BadSettings, fields
from wakebus.plugin.cli.setup.settings_model import SettingRow, SettingsInForce, json_schema


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HERMES_HOME and a bus of its own, without settings."""
    for name in [name for name in os.environ if name.startswith("WAKEBUS_") or "_RATE_" in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    (tmp_path / "bus").mkdir()
    return tmp_path


def rows() -> dict[str, SettingRow]:
    """Return the settings by name."""
    return {row.name: row for row in SettingsInForce().rows()}


def test_without_anything_set() -> None:
    """Every setting, with its default."""
    found = rows()
    assert list(found) == [*fields(), *(rate.name for rate in rate_settings())]
    for row in found.values():
        assert row.value == row.default and row.source == "default" and row.description


def test_what_holds_and_where_it_is_from(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable goes over wakebus.toml; `.env` goes over a variable."""
    (home / "bus" / "wakebus.toml").write_text("attempts = 3\nstale_s = 4\n")
    (home / ".env").write_text("SLACK_RATE_CHAT=3/2\nNTFY_RATE_APP=\n")
    monkeypatch.setenv("WAKEBUS_STALE_S", "5")
    monkeypatch.setenv("SLACK_RATE_CHAT", "9/9")
    monkeypatch.setenv("SLACK_RATE_APP", "off")
    monkeypatch.setenv("NTFY_RATE_APP", "1/1")
    found = rows()
    names = ("attempts", "stale_s", "SLACK_RATE_CHAT", "SLACK_RATE_APP", "NTFY_RATE_APP")
    assert [(found[name].value, found[name].source) for name in names] == [
        (3, "wakebus.toml"),
        (5.0, "WAKEBUS_STALE_S"),
        ("3/2", ".env"),
        ("off", "environment"),
        ("60/300", "default"),  # empty is none, and hides the variable (ADP-1.3)
    ]


def test_all_faults(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, line and key, or variable; a value of `.env` is not shown, it may be anything."""
    (toml := home / "bus" / "wakebus.toml").write_text("\natempts = 3\nlog_files = 0\n")
    (env := home / ".env").write_text(
        "A=1\nTELEGRAM_RATE_CHAT=hush\nTELGRAM_RATE_APP=3/1\nOTHER_RATE_APP=hush\n"
    )
    monkeypatch.setenv("WAKEBUS_SERVICES", "x")
    monkeypatch.setenv("SLACK_RATE_APP", "hush")
    told = [
        f"{toml}:2: atempts: no such setting; did you mean attempts?",
        f"{toml}:3: log_files: a number above 0, not 0",
        "WAKEBUS_SERVICES: true or false, not 'x'",
        "SLACK_RATE_APP: write COUNT/SECONDS, as 20/60, or off",
        f"{env}:2: TELEGRAM_RATE_CHAT: write COUNT/SECONDS, as 20/60, or off",
        f"{env}:3: TELGRAM_RATE_APP: no such setting; did you mean TELEGRAM_RATE_APP?",
    ]
    assert SettingsInForce().faults() == told
    with pytest.raises(BadSettings) as caught:
        rows()
    assert caught.value.text.splitlines() == told


def test_files_that_cannot_be_read(home: Path) -> None:
    """Both are named."""
    (home / "bus" / "wakebus.toml").mkdir()
    (home / ".env").mkdir()
    first, second = SettingsInForce().faults()
    assert str(home / "bus" / "wakebus.toml") in first and str(home / ".env") in second


def test_the_schema() -> None:
    """Of all settings, by who reads them, with units and bounds."""
    parts = json_schema()["$defs"]
    broker, courier = (parts[name]["properties"] for name in ("BrokerSettings", "CourierSettings"))
    assert list(broker) == list(fields()) and len(courier) == len([*rate_settings()])
    assert broker["stale_s"]["unit"] == "s" and broker["stale_s"]["exclusiveMinimum"] == 0
    assert courier["SLACK_RATE_CHAT"]["default"] == "1/1"
