"""
What the plugin costs a Hermes: `make bench-hermes-0.22 ARGS="before=OLD.whl now=NEW.whl"`.

Rule 1: run in Hermes's own environment, by the stand-ins of `tests/e2e_hermes`. Rule 2: without the
plugin and with each wheel in turn, in another order each time; what counts is the ratio. Rule 3:
time at work (CPU) beside time that passed, for another process slows only the latter.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from e2e_hermes.world import AT_EXIT, GATEWAY, World

from bench.figures import Row, Table, figure
from bench.report import markdown
from fakes.desk import BIN

WITHOUT: Final = "without wakebus"
MODES: Final = ("gateway", "terminal", "chat -q")
MB: Final = 1024 * 1024


class Cost(NamedTuple):
    """Until it is ready; of `chat -q`: until it ends. `peak`: memory until then, in MB."""

    wall: float
    cpu: float
    peak: float


class Round(NamedTuple):
    """`starts`: by mode. `memory` (MB), `threads`: of the gateway after a turn."""

    starts: dict[str, Cost]
    memory: float
    threads: float


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-hermes-VERSION")
    parser.add_argument("wheels", nargs="+", metavar="NAME=WHEEL", help="a wheel of wakebus")
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wb") as folder:
        wheels = dict(one.split("=", 1) for one in asked.wheels)
        paths = {WITHOUT: "", **{n: unpack(w, Path(folder) / n) for n, w in wheels.items()}}
        rounds: dict[str, list[Round]] = {name: [] for name in paths}
        for run in range(asked.runs):
            for name in rotated(list(paths), run):
                rounds[name].append(measure(paths[name]))
                print(f"{run + 1}/{asked.runs} {name}: {rounds[name][-1]}", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {asked.runs} runs\n")
    print(markdown(tables(rounds)))
    return 0


def unpack(wheel: str, folder: Path) -> str:
    """Install a wheel into a folder of its own, which stands before the environment's packages."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--target", str(folder), wheel], check=True)
    return str(folder)


def rotated(names: list[str], by: int) -> list[str]:
    """Return the names in another order in each run."""
    at = by % len(names)
    return names[at:] + names[:at]


def measure(path: str) -> Round:
    """Start each kind of process once. `path`: of the package, "" for a Hermes without it."""
    world = World()
    try:
        if path:
            world.env["PYTHONPATH"] = path
        else:
            world.configure(plugins={"enabled": []})
        world.start()  # the broker, so that nobody's start contains it
        return _measured(world, on_bus=bool(path))
    finally:
        world.close()


def _measured(world: World, *, on_bus: bool) -> Round:
    starts = {"gateway": _started(lambda: world.gateway.start().pid)}
    if on_bus:
        world.wait_registered(GATEWAY)
    world.ask("dm1", "u1", "hello")
    gateway = psutil.Process(world.gateway.pid)
    memory, threads = gateway.memory_info().rss / MB, gateway.num_threads()
    world.gateway.stop()
    starts["terminal"] = _started(lambda: world.cli().pid)
    world.panes[0].close()
    starts["chat -q"] = _one_shot(world)
    return Round(starts, memory, threads)


def _started(start: Callable[[], int]) -> Cost:
    began = time.perf_counter()
    process = psutil.Process(start())
    took = time.perf_counter() - began
    cpu = process.cpu_times()
    return Cost(took, cpu.user + cpu.system, _peak(process.pid))


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def _one_shot(world: World) -> Cost:
    command = [str(BIN / "hermes"), "chat", "-Q", "-q", "what is new"]
    said = world.root / "said"
    began = time.perf_counter()
    with said.open("wb") as out:
        process = subprocess.Popen(
            command, env=world.env, cwd=world.root, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    text = said.read_text()
    # As e2e_hermes.world.AT_EXIT says, of the end alone.
    assert process.returncode in (0, AT_EXIT) and "answer to what is new" in text, text
    return Cost(took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def tables(rounds: dict[str, list[Round]]) -> list[Table]:
    """Return what was measured, as tables with ratios against the Hermes without the plugin."""

    def table(title: str, unit: str, value: Callable[[Cost], float]) -> Table:
        rows = [
            Row(name, tuple(figure([value(r.starts[mode]) for r in found]) for mode in MODES))
            for name, found in rounds.items()
        ]
        return Table(title, MODES, unit, tuple(rows), base=WITHOUT)

    after = tuple(
        Row(name, (figure([r.memory for r in found]), figure([r.threads for r in found])))
        for name, found in rounds.items()
    )
    return [
        table("CPU until it is ready", "s", lambda one: one.cpu),
        table("Time until it is ready", "s", lambda one: one.wall),
        table("Peak of memory until then", "MB", lambda one: one.peak),
        Table("The gateway after a turn", ("MB", "threads"), "", after, base=WITHOUT),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
