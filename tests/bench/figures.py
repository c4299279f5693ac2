"""
Medians, spreads, percentiles: what becomes of the numbers.

Rule 1: pure. Rule 2: a figure is the median of its repetitions and carries their spread.
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """`value`: the median; `low`, `high`: the extremes; `each`: all of them; `lost`: events."""

    value: float
    low: float
    high: float
    lost: int = 0
    each: tuple[float, ...] = ()

    @property
    def spread(self) -> float:
        """Half of the distance between the extremes, as a share of the median."""
        return (self.high - self.low) / 2 / self.value if self.value else 0.0


class Row(NamedTuple):
    """
    One system in one table. `cells`: a figure for each column, None where there is none.

    `note`: why there is none, or what a reader must know.
    """

    name: str
    cells: tuple[Figure | None, ...]
    note: str = ""


class Table(NamedTuple):
    """`unit`: of all its figures. `base`: the row that the ratios are taken against, if any."""

    title: str
    columns: tuple[str, ...]
    unit: str
    rows: tuple[Row, ...]
    base: str = ""
    note: str = ""


def figure(values: Sequence[float], lost: int = 0) -> Figure | None:
    """Return the figure of these repetitions; None of none."""
    if not values:
        return None
    return Figure(statistics.median(values), min(values), max(values), lost, tuple(values))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all do not exceed; 0.0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ratio(one: Figure | None, other: Figure | None) -> float | None:
    """
    Return how many times as much `one` is as `other`: the median of the repetitions' own ratios.

    What ran side by side was slowed alike; the medians of both may come from different minutes.
    """
    if not one or not other or not all(other.each):
        return None
    if len(one.each) != len(other.each):
        return one.value / other.value
    return statistics.median(a / b for a, b in zip(one.each, other.each, strict=True))


def by_name(table: Table, name: str) -> Row | None:
    """Return a row of the table."""
    return next((row for row in table.rows if row.name == name), None)
