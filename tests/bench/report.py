"""
Tables in Markdown, and the aims.

Rule 1: pure. Rule 2: a miss is printed as a miss.
"""

from collections.abc import Callable

from bench.figures import Figure, Row, Table, by_name, ratio

Holds = Callable[[float], bool]


def markdown(tables: list[Table]) -> str:
    """Return all tables, one after the other."""
    return "\n\n".join(_table(table) for table in tables) + "\n"


def _table(table: Table) -> str:
    head = ["", *table.columns]
    lines = [f"### {table.title}{f' ({table.unit})' if table.unit else ''}", ""]
    lines += [_line(head), _line(["---"] * len(head))]
    lines += [_line([row.name, *_cells(table, row)]) for row in table.rows]
    lines += [f"\n{row.name}: {row.note}." for row in table.rows if row.note]
    return "\n".join(lines)


def _cells(table: Table, row: Row) -> list[str]:
    base = by_name(table, table.base) if table.base else None
    found = []
    for number, cell in enumerate(row.cells):
        times = ratio(cell, base.cells[number]) if base and base is not row else None
        found.append(_cell(cell) + (f" = {times:.2f} ×" if times is not None else ""))
    return found


def _cell(cell: Figure | None) -> str:
    if cell is None:
        return "–"
    value = f"{cell.value:,.0f}" if cell.value >= 100 else f"{cell.value:.2f}"
    spread = f" ±{cell.spread:.0%}" if cell.high > cell.low else ""
    return value + spread + (f" ({cell.lost} lost)" if cell.lost else "")


def _line(words: list[str]) -> str:
    return f"| {' | '.join(words)} |"


def aims(tables: list[Table]) -> list[str]:
    """Return a line for each aim: met, missed, or not measured."""
    lines = []
    for table in tables:
        if table.title.startswith("Events of"):
            size = table.title.split(",")[0]
            lines += _against(table, size, "wakebus", "bare pyzmq, zmq.proxy", 0.9, (0, 1, 2))
            lines += _against(table, size, "wakebus", "nats-py, NATS", 2.5, (0, 1, 2))
        if table.title.startswith("Acknowledged"):
            redis = "redis-py, XADD (pipeline)"
            lines += _against(table, "acknowledged", "wakebus, threads", redis, 1.0, (0, 1))
            lines += _against(table, "acknowledged", "wakebus, asyncio", redis, 1.0, (0, 1))
            for name in ("wakebus, asyncio", "wakebus, raw frames"):
                lines += _value(table, name, 2, lambda v: v >= 30_000, "at least 30,000/s")
        if table.title.startswith("A message handled"):
            lines += _value(table, "wakebus", 0, lambda v: v <= 2.0, "at most 2 ms")
    return lines


def _against(
    table: Table, what: str, ours: str, other: str, aim: float, columns: tuple[int, ...]
) -> list[str]:
    mine, theirs = by_name(table, ours), by_name(table, other)
    if mine is None or theirs is None:
        return [f"{what}: {ours} against {other}: not measured"]
    lines = []
    for n in columns:
        times = ratio(mine.cells[n], theirs.cells[n])
        said = (
            "not measured" if times is None else f"{times:.2f} × (aim {aim}) {_word(times >= aim)}"
        )
        lines.append(f"{what}, {table.columns[n]}: {ours} / {other}: {said}")
    return lines


def _value(table: Table, name: str, n: int, holds: Holds, aim: str) -> list[str]:
    row = by_name(table, name)
    cell = row.cells[n] if row else None
    if cell is None:
        return [f"{table.columns[n]}: {name}: not measured"]
    said = f"{cell.value:,.2f} {table.unit} (aim {aim}) {_word(holds(cell.value))}"
    return [f"{table.columns[n]}: {name}: {said}"]


def _word(met: bool) -> str:
    return "met" if met else "MISSED"
