"""
`python -m wakebus.broker`, with faults that a test turns on and off while it runs.

The faults are files in `$HERMES_BUS_ROOT/faults`: `stall` (commits wait while it is there), `wall`
(seconds added to the wall clock), `boot` (the name of the machine's boot), `full` (the store takes
no more pages, from the start), `files` (the limit of open files), `queue` (how much may wait for
the disk). `stalled` is there once a commit waits; `looks` grows by a byte at each look for what is
too old.
"""

import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from wakebus.broker.server import cli, housekeeping, process
from wakebus.broker.store import group_commit, recovery, retention
from wakebus.broker.store.store import Operation, Store
from wakebus.broker.system import clock

FAULTS = Path(os.environ["HERMES_BUS_ROOT"]) / "faults"


def said(name: str, default: str = "") -> str:
    """Return what a fault's file says."""
    try:
        return (FAULTS / name).read_text() or default
    except FileNotFoundError:
        return default


class SlowStore(Store):
    """A store whose commits take as long as `stall` is there."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if (FAULTS / "full").exists():
            self.db.execute("PRAGMA max_page_count=1")  # which means: not one more than there are

    def transaction(self, operations: Sequence[Operation]) -> list[object]:
        """Wait where a slow disk would: when all is written, before it is safe; `stalled` tells."""
        results = super().transaction(operations)
        while (FAULTS / "stall").exists():
            (FAULTS / "stalled").touch()
            time.sleep(0.01)
        return results


def tidy(*args: Any) -> Any:
    """Count the looks."""
    with (FAULTS / "looks").open("a") as file:
        file.write(".")
    return real_tidy(*args)


def skewed() -> clock.Clock:
    """Return clocks of which the one on the wall is wrong."""
    return clock.Clock(wall=lambda: time.time() + float(said("wall", "0")))


def replace(module: ModuleType, **names: object) -> None:
    """Put these in the place of what the module's own functions find under those names."""
    for name, value in names.items():
        assert hasattr(module, name)
        setattr(module, name, value)


def main() -> int:
    """Put the faults in the place of what they stand for; then it is the real broker."""
    if limit := int(said("files", "0")):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    real_boot = process.machine_boot
    replace(process, machine_boot=lambda: said("boot") or real_boot(), Clock=skewed)
    replace(housekeeping, tidy=tidy, TIDY_S=0.2, NAMES_S=0.2)
    replace(group_commit, QUEUE=int(said("queue", str(group_commit.QUEUE))))
    replace(recovery, Store=SlowStore)
    return cli.main(sys.argv[1:])


real_tidy = retention.tidy

if __name__ == "__main__":
    raise SystemExit(main())
