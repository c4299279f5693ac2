"""Whether the courier would speak as another profile's bot (HERMES-3.16)."""

from pathlib import Path
from typing import Any

import pytest

from wakebus.plugin.hermes.gateway.foreign_bots import ForeignBots


class Answers:
    """What is asked of receive/answers.py."""

    def __init__(self, settings: str) -> None:
        self.settings = settings

    def courier_settings(self) -> str:
        return self.settings


@pytest.mark.parametrize(
    ("settings", "launched", "platform", "allowed"),
    [
        ("{own}/.env", True, "mattermost", True),
        ("{own}/.env", False, "Mattermost", True),
        ("{other}/.env", True, "mattermost", False),
        ("{other}/.env", False, "MATTERMOST", False),
        ("{other}/.env", False, "wecom", True),  # no bot of Hermes here
        ("", True, "mattermost", True),
        ("", False, "mattermost", False),
    ],
)
def test_whose_bot_the_courier_has(
    tmp_path: Path, settings: str, launched: bool, platform: str, allowed: bool
) -> None:
    """HERMES-3.16: of the home whose `.env` it reads."""
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    answers: Any = Answers(settings.format(own=own, other=other))
    bots = ForeignBots(answers, own.resolve(), launched=launched)
    assert (bots.reason(platform, ("mattermost",)) == "") is allowed
