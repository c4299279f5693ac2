"""What is told of a channel before a message that names it is sent."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from wakebus.adapters import registry
from wakebus.adapters.courier.channel_check import PLUGIN, STATUS, check_channel
from wakebus.adapters.errors import BadChannel, UnknownAdapter


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bus's folder without a courier, beside an empty home."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    (tmp_path / "bus").mkdir()
    return tmp_path / "bus"


def written(bus: Path, pid: int | None = None, **rows: Mapping[str, object]) -> str:
    """Write what a courier says of itself; return the folder."""
    told = {"pid": os.getpid() if pid is None else pid, "settings": "/h/.env", "set_up": rows}
    (bus / STATUS).write_text(json.dumps(told))
    return str(bus)


UNSET = {"state": "unset", "problem": "set A_TOKEN in $HERMES_HOME/.env", "home": ""}
READY = {"state": "ready", "problem": "", "home": ""}


@pytest.mark.parametrize(
    "token", ["a b", ":x", "telegram:", "telegram:?thread=1", " ", "a\tb:1", "telegram:\u202e1"]
)
def test_a_token_that_is_none(bus: Path, token: str) -> None:
    """ADP-7.8: refused, whatever is set up."""
    with pytest.raises(BadChannel):
        check_channel(token, str(bus))


@pytest.mark.parametrize(
    ("token", "near"),
    [("telegramm:1", "telegram"), ("Console:x", "console"), ("whatsap:1", "whatsapp"),
     ("mattermsot", "mattermost")],
)  # fmt: skip
def test_a_near_name(bus: Path, token: str, near: str) -> None:
    """ADP-7.8: a platform that nobody has is refused, with the near names of all there are."""
    with pytest.raises(UnknownAdapter, match=rf"no platform .*did you mean {near}\b") as caught:
        check_channel(token, str(bus))
    assert near in caught.value.data["near"] and caught.value.data["step"] == PLUGIN


def test_no_near_name(bus: Path) -> None:
    """ADP-7.8: then all are named."""
    with pytest.raises(UnknownAdapter, match=r"known are .*console.*Hermes also .*whatsapp"):
        check_channel("nope:1", str(bus))


@pytest.mark.parametrize("token", ["whatsapp:1", "WhatsApp:1", "signal", "email:a@b.c", "a2a:x"])
def test_a_platform_that_only_hermes_has(bus: Path, token: str) -> None:
    """ADP-7.8: passes, and is said."""
    told = check_channel(token, written(bus, console=READY))
    platform = token.partition(":")[0]
    assert told == f"only a gateway of Hermes that has {platform} could answer there"


def test_another_case(bus: Path) -> None:
    """ADP-7.8: to Hermes it is the same platform, to a courier none: it passes, and is said."""
    assert "telegram" in check_channel("Telegram:1", str(bus))


def test_a_platform_of_another_package(bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-7.8: an installed adapter is known, and what the courier says of it counts."""
    monkeypatch.setattr(registry, "known", lambda: ["pigeon"])
    assert check_channel("pigeon:1", str(bus)) == ""
    assert "pigeon is not set up here" in check_channel("pigeon:1", written(bus, pigeon=UNSET))


@pytest.mark.parametrize("top", ["platforms:\n  pigeon: {}", "gateway: {platforms: {pigeon: {}}}"])
def test_a_platform_of_a_plugin_of_hermes(bus: Path, top: str) -> None:
    """ADP-7.8: known once Hermes's config.yaml names it; a broken file names nothing."""
    config = bus.parent / "config.yaml"
    for text in ("", "platforms: [pigeon]", "platforms: {"):
        config.write_text(text)
        with pytest.raises(UnknownAdapter):
            check_channel("pigeon:1", str(bus))
    config.write_text(top)
    assert check_channel("pigeon:1", str(bus)) == ""


def test_not_set_up_here(bus: Path) -> None:
    """ADP-7.8: it passes with a note that names what is missing, and where."""
    note = check_channel("telegram:1", written(bus, telegram=UNSET))
    assert note == (
        "telegram is not set up here: set A_TOKEN in /h/.env; only a gateway of Hermes that has it"
        " could answer there (see: wakebus channels telegram)"
    )
    assert "nobody could answer" in check_channel("apprise:x", written(bus, apprise=UNSET))
    assert check_channel("telegram:1", written(bus, telegram=READY)) == ""
    assert check_channel("telegram:1", "") == ""


def test_no_home_here(bus: Path) -> None:
    """ADP-7.8: a bare platform needs one."""
    assert "has no home channel here" in check_channel("telegram", written(bus, telegram=READY))
    home = {**READY, "home": "telegram:7"}
    assert check_channel("telegram", written(bus, telegram=home)) == ""


def test_a_courier_that_is_gone(bus: Path) -> None:
    """ADP-7.8: what it left says nothing of the next one."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    assert gone.wait(60) == 0
    assert check_channel("telegram:1", written(bus, gone.pid, telegram=UNSET)) == ""


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1e999}', "[" * 100_000, "{}", '{"pid": -1}']
)
def test_no_such_file(bus: Path, text: str) -> None:
    """ADP-6.19: what is no such file is no word of a courier."""
    (bus / STATUS).write_text(text)
    assert check_channel("telegram:1", str(bus)) == ""


@pytest.mark.parametrize("rows", ["x", [], {"telegram": "x"}, {"telegram": []}, {}])
def test_rows_that_are_none(bus: Path, rows: object) -> None:
    """ADP-6.19: nothing in the file is trusted."""
    (bus / STATUS).write_text(json.dumps({"pid": os.getpid(), "set_up": rows}))
    assert check_channel("telegram:1", str(bus)) == ""
