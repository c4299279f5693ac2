"""How wide a text is shown."""

import pytest

from wakebus.broker.system.text_width import display_width


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("中文", 4), ("é", 1), ("e\u0301", 1), ("🎉", 2), ("ｗ", 2)]
)
def test_width(text: str, columns: int) -> None:
    """ADP-11.6: Chinese and emoji take two columns, accents none."""
    assert display_width(text) == columns
