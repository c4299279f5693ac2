"""The limit of turns, as a setting."""

from pathlib import Path

import pytest

from wakebus.broker.settings import BadSettings
from wakebus.plugin.turns.flood_limit import FloodLimit


def test_from_file_and_variables(tmp_path: Path) -> None:
    """RULES-3.7: five a minute; `flood_turns`, `flood_window_s` say otherwise."""
    assert FloodLimit.load(tmp_path, {}) == FloodLimit() == (5, 60.0)
    (tmp_path / "wakebus.toml").write_text("flood_turns = 20\nflood_window_s = 30")
    assert FloodLimit.load(tmp_path, {}) == (20, 30.0)
    assert FloodLimit.load(tmp_path, {"WAKEBUS_FLOOD_TURNS": "1"}) == (1, 30.0)


@pytest.mark.parametrize("value", ["0", "-1", "two", "2.5"])
def test_a_wrong_one_is_named(tmp_path: Path, value: str) -> None:
    """RULES-3.7: variable, what is wanted, and what stands there."""
    with pytest.raises(BadSettings, match=r"WAKEBUS_FLOOD_TURNS: a (whole )?number"):
        FloodLimit.load(tmp_path, {"WAKEBUS_FLOOD_TURNS": value})
