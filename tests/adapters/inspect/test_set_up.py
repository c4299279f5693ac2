"""Which platforms a courier can use as it is."""

from collections.abc import Mapping

from wakebus.adapters import registry
from wakebus.adapters.errors import Unavailable
from wakebus.adapters.inspect.set_up import AGAIN_S, PlatformsSetUp, set_up_row

TOKEN = "123456:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi"
BOT = {"TELEGRAM_BOT_TOKEN": TOKEN}


def row(env: Mapping[str, str], file: Mapping[str, str], platform: str = "telegram") -> object:
    """Return the row of a platform."""
    return set_up_row(platform, env, file, registry.load)


def test_a_row() -> None:
    """ADP-6.35: its state, what is missing or wrong, its home; names of variables, no value."""
    missing = "set TELEGRAM_BOT_TOKEN in $HERMES_HOME/.env"
    facts = {"home": "", "inherited": False}
    assert row({}, {}) == {"state": "unset", "problem": missing, **facts}
    assert row(BOT, BOT) == {"state": "ready", "problem": "", **facts}
    env = {**BOT, "TELEGRAM_HOME_CHANNEL": "7"}
    assert row(env, env) == {"state": "ready", "problem": "", **facts, "home": "telegram:7"}
    wrong = {"TELEGRAM_BOT_TOKEN": "hush"}
    told = row(wrong, wrong)
    assert isinstance(told, dict) and told["state"] == "wrong" and "hush" not in str(told)


def test_what_only_the_process_has() -> None:
    """ADP-6.35: `inherited`: who reads the same file cannot see it; also of a home."""
    for env in (BOT, {**BOT, "TELEGRAM_HOME_CHANNEL": "7"}):
        told = row(env, {})
        assert isinstance(told, dict) and told["inherited"] is True
    home = row({**BOT, "TELEGRAM_HOME_CHANNEL": "7"}, BOT)
    assert isinstance(home, dict) and home["inherited"] is True
    other = row({**BOT, "SLACK_BOT_TOKEN": "xoxb-1"}, BOT)
    assert isinstance(other, dict) and other["inherited"] is False


def test_an_adapter_that_cannot_be_loaded() -> None:
    """ADP-6.35: it is a fault, and harms no other."""
    told = row({}, {}, "nosuch")
    assert isinstance(told, dict) and told["state"] == "wrong" and told["home"] == ""


def test_made_anew_when_a_value_changes() -> None:
    """ADP-6.35: at once then, and every AGAIN_S for what is installed or in Hermes's config."""
    now, env = [0.0], dict(BOT)
    loaded: list[str] = []

    def load(platform: str) -> type:
        loaded.append(platform)
        return registry.load(platform)

    rows = PlatformsSetUp(lambda: dict(env), lambda: dict(env), load, ticks=lambda: now[0])
    assert rows()["telegram"]["state"] == "ready" and set(rows()) == set(registry.known())
    many = len(loaded)
    assert rows() and len(loaded) == many
    env.clear()
    assert rows()["telegram"]["state"] == "unset" and len(loaded) == 2 * many
    now[0] += AGAIN_S
    assert rows() and len(loaded) == 3 * many


def test_settings_that_cannot_be_read() -> None:
    """ADP-6.35: then nothing is said of any platform, until they can."""
    broken = [True]

    def env() -> dict[str, str]:
        if broken[0]:
            raise Unavailable("not now")
        return dict(BOT)

    rows = PlatformsSetUp(env, env)
    assert rows() == {}
    broken[0] = False
    assert rows()["telegram"]["state"] == "ready"
