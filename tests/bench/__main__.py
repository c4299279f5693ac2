"""
`python -m bench [--quick] [--out FOLDER] [--only PART…]`: measure, print, draw.

Rule 1: whatever happens, Ctrl-C included, no process and no folder of a bench is left behind.
"""

import argparse
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import acked, events, handled, plot, report, standing, start_notify
from bench.figures import Table
from bench.plan import QUICK, Plan
from bench.servers import running

PARTS: Final = ("events", "acked", "handled", "standing", "notify")
SYSTEMS: Final = ("wakebus", "bare", "nats", "redis", "hermes")


def main() -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--quick", action="store_true", help="a look of less than a minute")
    parser.add_argument("--out", type=Path, default=Path(".bench"), help="where results go")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="wb") as folder:
            tables = _measure(Path(folder), QUICK if asked.quick else Plan(), asked.only)
    except KeyboardInterrupt:
        print("stopped; nothing is left running", file=sys.stderr)
        return 130
    _write(asked.out, tables, time.monotonic() - began)
    return start_notify.main() if "notify" in asked.only else 0


def _measure(folder: Path, chosen: Plan, only: tuple[str, ...]) -> list[Table]:
    tables: list[Table] = []

    def part(name: str, measure: Callable[[], list[Table]]) -> None:
        if name in only:
            found = measure()
            print(report.markdown(found), flush=True)
            tables.extend(found)

    part("events", lambda: _events(folder, chosen))
    part("acked", lambda: acked.acked(folder, chosen))
    part("handled", lambda: [handled.handled(folder, chosen)])
    part("standing", lambda: _standing(folder, chosen))
    return tables


def _events(folder: Path, chosen: Plan) -> list[Table]:
    with running(folder / "events", *SYSTEMS) as (servers, missing):
        tables = events.rates(folder, servers, missing, chosen)
        return [*tables, events.latency(folder, servers, chosen), events.bursts(folder, servers)]


def _standing(folder: Path, chosen: Plan) -> list[Table]:
    with running(folder / "idle", *SYSTEMS) as (servers, _):
        tables = [standing.idle(servers, chosen)]
    tables.append(standing.starts(folder, list(SYSTEMS), chosen))
    return [*tables, standing.many(folder, chosen)]


def _write(out: Path, tables: list[Table], took: float) -> None:
    out.mkdir(parents=True, exist_ok=True)
    where = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load "
    where += f"{os.getloadavg()[0]:.1f}, Python {platform.python_version()}, {took:.0f} s"
    stamp = f"{time.strftime('%Y-%m-%d %H:%M')}, {where}"
    aims = "\n".join(f"- {line}" for line in report.aims(tables))
    print(f"{stamp}\n\n{aims}\n")
    (out / "results.md").write_text(f"{stamp}\n\n{report.markdown(tables)}\n{aims}\n")
    if any(table.base for table in tables):
        plot.draw(tables, out / "results.svg")
    print(f"written: {out}/results.md" + (f", {out}/results.svg" if tables else ""))


if __name__ == "__main__":
    raise SystemExit(main())
