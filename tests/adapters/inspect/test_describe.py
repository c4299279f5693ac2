"""What is set up for a platform, as data."""

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from fakes.cards import NAMES
from fakes.cards import card as card_of
from wakebus.adapters import registry
from wakebus.adapters.base import Adapter, Capabilities, Limit
from wakebus.adapters.errors import BadSetting, BrokenAdapter
from wakebus.adapters.inspect.describe import (
    describe,
    duration,
    idempotency_text,
    missing_text,
)
from wakebus.adapters.platforms.console import Console

HUSH = "hush-hush-7f3a"


def feishu(**env: str) -> dict[str, Any]:
    """Describe Feishu."""
    return describe("feishu", env, registry.load)


APP = {"FEISHU_APP_ID": "cli_a", "FEISHU_APP_SECRET": HUSH}


def test_ready() -> None:
    """ADP-22.1: what is set, secrets as ***; what is not; the home and where it comes from."""
    found = feishu(**APP, FEISHU_HOME_CHANNEL="oc_1", FEISHU_HOME_CHANNEL_THREAD_ID="om_2")
    assert (found["state"], found["problem"], found["missing"]) == ("ready", "", [])
    assert found["settings"] == {"FEISHU_APP_ID": "cli_a", "FEISHU_APP_SECRET": "***"}
    assert "FEISHU_DOMAIN" in found["unset"] and "FEISHU_APP_ID" not in found["unset"]
    home = {"channel": "feishu:oc_1?thread=om_2", "from": "FEISHU_HOME_CHANNEL"}
    assert found["home"] == home and HUSH not in str(found)


def test_not_set_up() -> None:
    """ADP-22.1: each group of variables that would be enough, without what is there already."""
    found = feishu()
    assert found["state"] == "unset" and found["settings"] == {} and found["home"] is None
    both = [["FEISHU_APP_ID", "FEISHU_APP_SECRET"], ["FEISHU_WEBHOOK_URL"]]
    assert found["missing"] == both
    assert feishu(FEISHU_WEBHOOK_URL="https://h/hook/x")["state"] == "ready"


def test_missing_in_words() -> None:
    """ADP-22.1: groups, each of which is enough."""
    assert missing_text([["A"], ["B", "C"], ["D", "E", "F"]]) == "A, or B and C, or D, E and F"


def test_wrong() -> None:
    """ADP-22.1: half a pair or a bad value: the adapter's words, which name the variable."""
    found = feishu(FEISHU_APP_SECRET=HUSH)
    assert found["state"] == "wrong" and "FEISHU_APP_ID is not set" in found["problem"]
    assert found["missing"][0] == ["FEISHU_APP_ID"]
    assert feishu(**APP, FEISHU_DOMAIN="mars")["problem"].startswith("FEISHU_DOMAIN")
    found = describe("ntfy", {"NTFY_TOKEN": "tk_é"}, registry.load)
    assert found["state"] == "wrong" and found["problem"].startswith("NTFY_TOKEN: ")


@pytest.mark.parametrize("value", ["a\x00b", "feishu:", "x" * 600])
def test_a_wrong_home(value: str) -> None:
    """ADP-22.1: named, and the rest is still shown."""
    found = feishu(**APP, FEISHU_HOME_CHANNEL=value)
    assert found["state"] == "ready" and "FEISHU_HOME_CHANNEL" in found["home"]["problem"]


def test_limits_in_force() -> None:
    """ADP-22.1: the card's, or those of the settings; a wrong setting is named and not used."""
    plain = {"scope": "chat", "kinds": [], "refills": False}
    assert {"count": 5, "seconds": 1.0, **plain} in feishu()["limits"]
    found = feishu(FEISHU_RATE_CHAT="7/60", FEISHU_RATE_APP="off")
    assert found["limits"] == [{"count": 7, "seconds": 60.0, **plain}]
    found = feishu(FEISHU_RATE_CHAT="often")
    assert "FEISHU_RATE_CHAT" in found["wrong_limits"] and len(found["limits"]) > 1


class Card(Console):
    """An adapter of another package; makes itself of anything but `WRONG`."""

    capabilities: ClassVar = Capabilities(
        10,
        idempotent_s=30,
        limits=(Limit(1, 2.0),),
        max_file=1 << 40,
        settings=("CARD_URL", "CARD_<NAME>_URL", "CARD_TOKEN"),
    )

    def __init__(self, env: Mapping[str, str]) -> None:
        if wrong := env.get("WRONG"):
            raise (BadSetting(f"no: {wrong}") if wrong.startswith("said") else KeyError(wrong))


def card(kind: type[Adapter] = Card, **env: str) -> dict[str, Any]:
    """Describe it."""
    return describe("card", env, lambda name: kind)


def test_several_of_one_kind() -> None:
    """ADP-22.1: a setting with a name in it is shown for each name that is set."""
    env = {"CARD_A_URL": "https://a/", "CARD_B2_URL": "https://b/", "CARD__URL": " "}
    found = card(Card, **env)
    assert found["settings"] == {"CARD_A_URL": "https://a/", "CARD_B2_URL": "https://b/"}
    assert found["unset"] == ["CARD_URL", "CARD_TOKEN"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://h.example/path", "https://h.example/path"),
        ("https://me:pw@h.example/", "***"),
        ("https://h.example/?key=1", "***"),
        (f"https://h.example/{HUSH}", "https://h.example/***"),
        ("two\nlines\x1b[2J", None),
    ],
)
def test_a_value_is_shown_without_secrets(value: str, shown: str | None) -> None:
    """ADP-22.1: nor what would steer a terminal."""
    found = card(CARD_URL=value, CARD_TOKEN=HUSH)["settings"]
    assert found["CARD_TOKEN"] == "***" and found["CARD_URL"].isprintable()
    assert shown in (None, found["CARD_URL"])


def test_another_packages_adapter() -> None:
    """ADP-22.1: without `needs` it is ready when it can be made; a file has our bound as well."""
    assert card()["state"] == "ready" and card()["file"] == 20 << 20
    assert card(WRONG="said so")["state"] == "unset"
    found = card(WRONG="said so", CARD_TOKEN=HUSH)
    assert (found["state"], found["problem"]) == ("wrong", "no: said so")
    found = card(WRONG=f"said {HUSH}", CARD_TOKEN=HUSH)
    assert found["problem"] == "no: said ***"
    broken = card(WRONG=HUSH, CARD_URL="x")
    assert "KeyError" in broken["problem"] and HUSH not in broken["problem"]


def test_one_that_cannot_be_loaded() -> None:
    """ADP-1.6: it is listed with its error."""

    def load(name: str) -> type[Adapter]:
        raise BrokenAdapter("the adapter 'x' cannot be loaded: ImportError")

    found = describe("x", {}, load)
    assert found["state"] == "wrong" and "ImportError" in found["problem"]
    assert describe("x", {}, lambda name: int)["state"] == "wrong"  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "card",
    [None, 7, {"max_text": 1}, Capabilities, Capabilities(1, limits=7)],  # type: ignore[arg-type]
)
def test_one_whose_card_is_none(card: Any) -> None:
    """ADP-1.6, 22.1: it is listed as wrong, with what is wrong, and the list goes on."""
    found = describe("x", {}, lambda name: type("Odd", (Console,), {"capabilities": card}))
    assert found["state"] == "wrong" and "the adapter 'x' " in found["problem"]
    assert "has no capabilities" in found["problem"] or "TypeError" in found["problem"]


def test_a_key_in_words() -> None:
    """ADP-22.1: what becomes of a text in doubt."""
    assert idempotency_text(Console) == "a key makes every resend safe"
    assert idempotency_text(Card) == "a key makes a resend safe for 30 s"
    assert idempotency_text(registry.load("feishu")).endswith("for 1 h on some of its ways")
    assert "uncertain" in idempotency_text(registry.load("dingtalk"))
    assert describe("console", {}, registry.load)["key_s"] is None
    assert math.isfinite(card()["key_s"])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.5, "0.5 s"), (1, "1 s"), (60, "1 min"), (90, "1.5 min"), (3600, "1 h"), (172800, "2 d")],
)
def test_durations(seconds: float, words: str) -> None:
    """In the largest unit."""
    assert duration(seconds) == words


@pytest.mark.parametrize("platform", registry.known())
def test_every_platform_can_be_described(platform: str) -> None:
    """ADP-22.1: with nothing set: ready, or what is missing; its settings are named."""
    found = describe(platform, {}, registry.load)
    assert found["state"] in ("ready", "unset"), found
    assert found["state"] == "ready" or found["missing"], f"{platform}: name its `needs`"
    named = {name for group in found["missing"] for name in group}
    assert named <= set(found["unset"]), f"{platform}: `needs` that are no settings"


class Read(dict[str, str]):
    """An environment that remembers what was asked of it."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value."""
        self.names.add(name)
        return super().get(name, default)


# Not a setting: what Hermes's own files say (weixin_accounts.py). WEBHOOK_SECRET: of a name "".
INNER = {"WEIXIN_CONTEXT_TOKENS", "WEBHOOK_SECRET"}


@pytest.mark.parametrize("platform", NAMES)
def test_every_setting_is_on_the_card(platform: str) -> None:
    """ADP-22.1: what an adapter reads, people are told of."""
    env = Read(card_of(platform)["env"])
    kind = registry.load(platform)
    kind(env)
    patterns = [re.sub("<[A-Z]+>", "[A-Z0-9_]+", name) for name in kind.capabilities.settings]
    named = {name for name in env.names if any(re.fullmatch(one, name) for one in patterns)}
    assert env.names - named <= INNER
