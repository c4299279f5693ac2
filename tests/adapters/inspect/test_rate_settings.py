"""How fast each platform may be written to, as settings."""

import pytest

from wakebus.adapters import registry
from wakebus.adapters.base import Adapter
from wakebus.adapters.errors import BrokenAdapter
from wakebus.adapters.inspect.rate_settings import check_rate, near_rate, rate_settings
from wakebus.adapters.pacing.rate_limiter import effective_limits


def test_every_platform_has_two() -> None:
    """ADP-6.16: by the names that the rate limiter looks for, with the card's limits."""
    rates = {rate.name: rate for rate in rate_settings()}
    assert len(rates) == 2 * len(registry.known())
    assert rates["TELEGRAM_RATE_CHAT"].default == "1/1, 20/60"
    assert rates["WEBHOOK_RATE_APP"].default == "off"
    for platform in registry.known():
        wrong = {name: "hush" for name in rates if name.startswith(f"{platform.upper()}_")}
        assert effective_limits(platform, (), wrong)[1].keys() == wrong.keys() != set()


def test_an_adapter_that_cannot_be_loaded() -> None:
    """It has none here and harms no other."""

    def load(platform: str) -> type[Adapter]:
        if platform == "slack":
            raise BrokenAdapter("no")
        return registry.load(platform)

    names = [rate.name for rate in rate_settings(load)]
    assert "NTFY_RATE_APP" in names and "SLACK_RATE_APP" not in names


@pytest.mark.parametrize("text", ["hush", "0/1", "1/0", "1", "", "-1/2", "1/99999999"])
def test_what_is_no_rate(text: str) -> None:
    """ADP-6.16: it says how one is written."""
    with pytest.raises(ValueError, match="COUNT/SECONDS"):
        check_rate(text)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("TELGRAM_RATE_CHAT", "TELEGRAM_RATE_CHAT"),
        ("SLAK_RATE_APP", "SLACK_RATE_APP"),
        ("TELEGRAM_RATE_CHATT", "TELEGRAM_RATE_CHAT"),
        ("NTFY_RATES_APP", "NTFY_RATE_APP"),
        ("SLACK_RATE_APP", ""),
        ("BACKUP_RATE_APP", ""),
        ("TELGRAM_TOKEN", ""),
    ],
)
def test_a_name_that_is_nearly_one(name: str, near: str) -> None:
    """Other programs may have such variables, too: only a near one is taken for ours."""
    assert near_rate(name, [rate.name for rate in rate_settings()]) == near
