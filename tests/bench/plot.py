"""The picture: events by shape and size, receipts by flight; one SVG."""

from pathlib import Path
from typing import Any

from bench.figures import Table


def draw(tables: list[Table], file: Path) -> None:
    """Draw the tables that have several columns and a base."""
    import matplotlib  # type: ignore[import-not-found]

    matplotlib.use("svg")
    from matplotlib import pyplot

    chosen = [table for table in tables if table.base]
    figure, axes = pyplot.subplots(1, len(chosen), figsize=(5 * len(chosen), 4.2), squeeze=False)
    for table, axis in zip(chosen, axes[0], strict=True):
        _bars(table, axis)
    figure.tight_layout()
    figure.savefig(file)


def _bars(table: Table, axis: Any) -> None:
    width = 0.8 / len(table.rows)
    for number, row in enumerate(table.rows):
        at = [n + number * width for n in range(len(row.cells))]
        values = [cell.value if cell else 0 for cell in row.cells]
        low = [cell.value - cell.low if cell else 0 for cell in row.cells]
        high = [cell.high - cell.value if cell else 0 for cell in row.cells]
        axis.bar(at, values, width, yerr=(low, high), label=row.name, error_kw={"lw": 0.7})
    axis.set_xticks([n + 0.4 - width / 2 for n in range(len(table.columns))], table.columns)
    axis.set_yscale("log")
    axis.set_title(table.title, fontsize=9)
    axis.legend(fontsize=7)
