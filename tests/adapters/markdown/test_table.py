"""Tables of text."""

import pytest

from wakebus.adapters.markdown.table import aligned, width


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("中文", 4), ("é", 1), ("e\u0301", 1), ("🎉", 2), ("ｗ", 2)]
)
def test_width(text: str, columns: int) -> None:
    """ADP-11.6: Chinese and emoji take two columns, accents none."""
    assert width(text) == columns


def test_columns_stand_below_each_other() -> None:
    """ADP-11.6: also with Chinese, numbers to the right, and rows of any length."""
    rows = [["名", "n"], ["a", "10"], ["abc", "5", "more"], ["x", ""], []]
    shown = "名  |  n\n----+----+-----\na   | 10\nabc |  5 | more\nx\n"
    assert aligned(rows, ["", "right"]) == shown


def test_a_wide_cell_widens_nothing_without_end() -> None:
    """ADP-11.6: a thousand short rows beside a long one stay short."""
    rows = [["a", "b"], ["x" * 5000, "y"], *[["a", "b"]] * 1000]
    assert len(aligned(rows, [])) < 5000 + 1003 * 60


def test_no_rows() -> None:
    """Nothing makes nothing."""
    assert aligned([], []).strip() == ""
