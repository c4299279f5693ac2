"""The credentials of some platforms, all asked at once."""

from collections.abc import Iterator

import pytest

from fakes.platform import Platform
from wakebus.adapters.inspect import check_all


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    """All platforms on loopback."""
    found = Platform()
    yield found
    found.close()


def test_one_that_never_answers(monkeypatch: pytest.MonkeyPatch, platform: Platform) -> None:
    """ADP-22.3: has failed when its time is over; the others have said what they had to say."""
    platform.plan("check", "hang_lost")
    monkeypatch.setattr(check_all, "ANSWER_S", 1.0)
    env = platform.settings("telegram")
    found = dict(check_all.check_all(["console", "telegram"], env))
    assert found["console"].result == "none"
    assert found["telegram"].result == "failed" and "no answer" in found["telegram"].text


def test_one_that_cannot_be_made() -> None:
    """ADP-22.3: what is set wrong is a result as well, without a secret."""
    env = {"FEISHU_APP_ID": "cli_a", "FEISHU_HOME_CHANNEL": "oc_1"}
    (found,) = check_all.check_all(["feishu"], env)
    assert found[0] == "feishu" and found[1].result == "failed"
    assert "FEISHU_APP_SECRET is not set" in found[1].text
