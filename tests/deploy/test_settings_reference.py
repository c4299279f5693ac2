"""The reference of the settings is what the settings are."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "deploy" / "settings_reference.py"


def test_the_page_is_up_to_date() -> None:
    """Whoever changes a setting, or a platform's limits, makes the tables anew."""
    made = runpy.run_path(str(SCRIPT))
    text = made["PAGE"].read_text(encoding="utf-8")
    assert made["page"](text) == text, f"run: {made['COMMAND']}"


def test_what_is_written_by_hand_stays() -> None:
    """Only what stands between the marks is replaced."""
    made = runpy.run_path(str(SCRIPT))
    text = made["PAGE"].read_text(encoding="utf-8")
    old = text.replace("| `attempts` |", "| `tries` |").replace("# Settings", "# Ours")
    assert made["page"](old) == text.replace("# Settings", "# Ours")
