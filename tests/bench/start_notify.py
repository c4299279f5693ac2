"""
A whole `notify-hermes --to E --from x hi` against `python -c "import zmq"`: `make bench`.

The two take turns in one run, so that a busy machine slows both. Prints medians in milliseconds
and their ratio; exit status 1 above 1.5 (hermes-notify takes over a second).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

RUNS: Final = 25
LIMIT: Final = 1.5
BIN: Final = Path(sys.executable).parent
SEND: Final = [str(BIN / "notify-hermes"), "--to", "E", "--from", "x", "hi"]
# Not by its command: hermes-bus has one of the same name.
BUSD: Final = [sys.executable, "-P", "-m", "wakebus.broker"]
IMPORT: Final = [sys.executable, "-c", "import zmq"]


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="wb") as folder:
        env = environment(Path(folder))
        run(env, *BUSD, "start")
        try:
            run(env, str(BIN / "wakebus"), "endpoints", "add", "E")
            return report(measure(env))
        finally:
            run(env, *BUSD, "stop")


def environment(folder: Path) -> dict[str, str]:
    """Return the user's environment with a bus of its own and compiled files, as installed."""
    other = ("WAKEBUS_", "HERMES_", "PYTHONDONTWRITEBYTECODE")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(other)},
        "HERMES_BUS_ROOT": str(folder),
        "HERMES_HOME": str(folder),
        "WAKEBUS_SERVICES": "false",
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }


def measure(env: dict[str, str]) -> tuple[list[float], list[float]]:
    """Return the times of both, in milliseconds, after a run of each that compiles."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(RUNS + 1):
        for command, found in zip((SEND, IMPORT), times, strict=True):
            found.append(run(env, *command))
    return times[0][1:], times[1][1:]


def run(env: dict[str, str], *command: str) -> float:
    """Run a command; return its milliseconds."""
    began = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def report(times: tuple[list[float], list[float]]) -> int:
    """Print the medians and their ratio; return the exit status."""
    send, bare = (statistics.median(found) for found in times)
    print(f"notify-hermes --to E --from x hi   {send:6.1f} ms  (median of {RUNS})")
    print(f'python -c "import zmq"             {bare:6.1f} ms')
    print(f"ratio                              {send / bare:6.2f}     (limit {LIMIT})")
    return 0 if send / bare <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
