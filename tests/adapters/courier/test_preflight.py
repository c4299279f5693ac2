"""Whether a text can go to a channel."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wakebus.adapters import registry
from wakebus.adapters.base import Adapter
from wakebus.adapters.courier.preflight import Preflight
from wakebus.adapters.courier.status_file import FILE, StatusFile
from wakebus.adapters.errors import BrokenAdapter
from wakebus.adapters.inspect.set_up import PlatformsSetUp
from wakebus.adapters.settings.environment import Environment

TOKEN = "123456:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi"
Obstacle = Callable[..., str]


class Home:
    """A courier's home: `.env`, its process's environment, and its word in the bus's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / ".env"
        self.process: dict[str, str] = {}
        self.preflight = Preflight(folder)

    def courier(self, **process: str) -> "Home":
        """Have a courier say how it is, with these variables in its process."""
        env, alone = Environment(process, self.file), Environment({}, self.file)
        status = StatusFile(
            self.folder, lambda _: {}, time.time(), self.file, PlatformsSetUp(env, alone)
        )
        status.claim()
        status.write(1.0)
        return self

    def settings(self, **values: str) -> "Home":
        """Write `.env`."""
        self.file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return self

    def obstacle(self, token: str, **body: Any) -> str:
        """Ask."""
        return self.preflight.obstacle(token, body)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("token", ["a b", ":x", "telegram:", "console:a\n", ""])
def test_a_token_that_is_none(home: Home, token: str) -> None:
    """ADP-6.36: with a courier and without one."""
    assert home.obstacle(token)
    assert home.courier().obstacle(token)


def test_no_adapter(home: Home) -> None:
    """ADP-6.36: neither here nor at the courier; what only Hermes has is no courier's."""
    for courier in (home, home.courier()):
        assert "did you mean telegram?" in courier.obstacle("telegramm:1")
        assert "no adapter for the platform 'nope'" in courier.obstacle("nope:1")
        assert "only a gateway of Hermes has it" in courier.obstacle("whatsapp:1")
        assert courier.obstacle("nope:1").endswith("(see: wakebus channels)")


def test_an_adapter_that_only_the_courier_has(home: Home) -> None:
    """ADP-6.36: its word counts, for it sends."""
    home.courier()
    held = json.loads((home.folder / FILE).read_text())
    for problem in ("", "set PIGEON_TOKEN in $HERMES_HOME/.env"):
        held["set_up"]["pigeon"] = {"state": "x", "problem": problem, "inherited": False}
        (home.folder / FILE).write_text(json.dumps(held))
        found = home.obstacle("pigeon:1")
        assert found.startswith(problem.replace("$HERMES_HOME", str(home.folder)))
        assert bool(found) is bool(problem)


def test_not_set_up(home: Home) -> None:
    """ADP-6.36: the variable, the file in which the courier looks, and where to see it all."""
    found = home.courier().obstacle("telegram:1")
    assert found.startswith(f"TELEGRAM_BOT_TOKEN: not set in {home.file}")
    assert found.endswith("(see: wakebus channels telegram)")
    assert home.settings(TELEGRAM_BOT_TOKEN=TOKEN).courier().obstacle("telegram:1") == ""


def test_without_a_courier_nobody_knows(home: Home) -> None:
    """ADP-6.36: the next one may be set up for it: it passes. So it does after one has died."""
    assert home.obstacle("telegram:1") == "" and home.obstacle("telegram") == ""
    home.courier()
    held = json.loads((home.folder / FILE).read_text())
    (home.folder / FILE).write_text(json.dumps({**held, "started": 1.0}))
    assert home.obstacle("telegram:1") == ""


def test_a_chat_that_the_adapter_cannot_read(home: Home) -> None:
    """ADP-6.36: refused in its words, also where the credential is only in its process."""
    home.settings(TELEGRAM_BOT_TOKEN=TOKEN).courier()
    assert "write the numeric id" in home.obstacle("telegram:not a chat")
    assert "a console has no threads" in home.obstacle("console:a?thread=1")
    assert "a name has 1 to 64" in home.obstacle("console:../../etc/passwd")


@pytest.mark.parametrize(
    ("values", "token", "named"),
    [
        ({"SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/T/B/X"}, "slack:C12345678", "BOT"),
        ({"SLACK_BOT_TOKEN": "xoxb-1-2-abc"}, "slack:webhook", "SLACK_WEBHOOK_URL"),
        ({"WEBHOOK_A_URL": "https://a.test/"}, "webhook:b", "WEBHOOK_B_URL"),
        ({"TELEGRAM_BOT_TOKEN": "hush-hush"}, "telegram:1", "TELEGRAM_BOT_TOKEN: no bot token"),
        ({"TELEGRAM_BOT_TOKEN": TOKEN}, "telegram", "TELEGRAM_HOME_CHANNEL is not set"),
        ({"FEISHU_APP_ID": "cli_a"}, "feishu:oc_1", "FEISHU_APP_SECRET is not set"),
    ],
)
def test_the_way_to_this_chat(home: Home, values: dict[str, str], token: str, named: str) -> None:
    """ADP-6.36: another way of the platform, half a pair, a wrong value, a missing home."""
    found = home.settings(**values).courier().obstacle(token)
    assert named in found and "hush" not in found


def test_ways_that_are_set_up(home: Home) -> None:
    """ADP-6.36: one way is enough."""
    home.settings(
        SLACK_WEBHOOK_URL="https://hooks.slack.com/services/T/B/X",
        WEBHOOK_A_URL="https://a.test/",
        TELEGRAM_BOT_TOKEN=TOKEN,
        TELEGRAM_HOME_CHANNEL="7",
    ).courier()
    for token in ("slack:webhook", "webhook:a", "telegram", "ntfy:builds", "console:team"):
        assert home.obstacle(token) == "", token


def test_a_setting_that_has_just_changed(home: Home) -> None:
    """ADP-6.36: the file counts at once, before the courier has said so."""
    home.courier()
    assert home.obstacle("telegram:1")
    home.settings(TELEGRAM_BOT_TOKEN=TOKEN)
    assert home.obstacle("telegram:1") == ""


def test_what_only_the_couriers_process_has(home: Home) -> None:
    """ADP-6.36: it is not seen from here, so what may work passes; what it says itself counts."""
    home.courier(TELEGRAM_BOT_TOKEN=TOKEN, FEISHU_APP_ID="cli_a")
    assert home.obstacle("telegram:1") == ""
    assert "FEISHU_APP_SECRET is not set" in home.obstacle("feishu:oc_1")
    home.courier(SLACK_WEBHOOK_URL="https://hooks.slack.com/services/T/B/X")
    assert home.obstacle("slack:webhook") == "" and home.obstacle("slack:C12345678") == ""
    home.settings(WEBHOOK_A_URL="${ELSEWHERE}").courier(ELSEWHERE="https://a.test/")
    assert home.obstacle("webhook:a") == ""


def test_our_own_process_is_not_the_couriers(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.36: what this process has in its environment sets up nothing there."""
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    assert "TELEGRAM_BOT_TOKEN" in home.courier().obstacle("telegram:1")


def test_a_session_webhook(home: Home) -> None:
    """ADP-6.36: a way that the message brings is one, on a platform that nobody has set up."""
    held = {"url": "https://oapi.dingtalk.com/robot/sendBySession?session=x"}
    good, old = {**held, "expires_at": time.time() + 60}, {**held, "expires_at": 1}
    for process in ({}, {"DINGTALK_ROBOT_CODE": "x"}):
        home.courier(**process)
        assert home.obstacle("dingtalk:cidA", session_webhook=good) == ""
        assert "DINGTALK_CLIENT_ID" in home.obstacle("dingtalk:cidA", session_webhook=old)


def test_settings_that_cannot_be_read(home: Home) -> None:
    """ADP-6.36: nothing is known then, and nothing refused."""
    home.settings(TELEGRAM_BOT_TOKEN="").courier()
    home.file.write_bytes("x".encode("utf-32"))
    os.utime(home.file, (1, 1))
    assert home.obstacle("telegram:1") == ""


def test_an_adapter_that_is_broken_here(home: Home) -> None:
    """ADP-6.36: the courier's own may be another one."""

    def load(platform: str) -> type[Adapter]:
        raise BrokenAdapter("cannot be loaded")

    home.settings(TELEGRAM_BOT_TOKEN=TOKEN)
    home.preflight = Preflight(home.folder, load)
    assert home.obstacle("telegram:1") == ""
    assert home.courier().obstacle("telegram:1") == ""
    assert "set SLACK_BOT_TOKEN" in home.obstacle("slack:C12345678")


def test_every_platform(home: Home) -> None:
    """ADP-6.36: nothing is raised, whatever the chat."""
    home.courier()
    for platform in registry.known():
        for chat in ("x", "1", "oc_1", "a b", "-", "x" * 400):
            assert isinstance(home.obstacle(f"{platform}:{chat}"), str)
