"""A broker under strace, and the operations that its trace tells."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from fakes.broker import Broker, until
from fakes.desk import running

# A name that this kind of machine does not have is passed over, by the `?`.
CALLS: Final = (
    "?open,openat,?creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,"
    "fsync,fdatasync,sync_file_range,?rename,renameat,renameat2,?link,linkat,?unlink,unlinkat,"
    "?symlink,symlinkat,sendto,sendmsg,sendfile,copy_file_range,splice"
)
STRACE: Final = (
    *("strace", "-D", "-f", "--seccomp-bpf", "-q", "-y", "-xx", "-s", "4194304"),
    *("-e", "signal=none", "-e", f"trace={CALLS}", "-o"),
)
# Nothing that is promised lies in them; `-shm` is made anew from the log.
PASSED_OVER: Final = (".log", "-shm", ".lock", ".sock", "output")


class Operation(NamedTuple):
    """
    One step, in the order of all.

    `what`: "write" (`data` at `at`; -1: at the end), "size" (`at` bytes), "make", "rename" or
    "link" (to `other`), "remove", "sync" (from operation `at` on), "out" (`data`, to socket
    `path`).
    """

    what: str
    path: str = ""
    at: int = 0
    data: bytes = b""
    other: str = ""


@cache
def cannot_trace() -> str:
    """Return why nothing can be traced here, or ""; some containers forbid it."""
    if not shutil.which("strace"):
        return "strace is not installed; on Debian or Ubuntu: apt-get install strace"
    tried = subprocess.run([*STRACE, os.devnull, "true"], capture_output=True, text=True)
    return tried.stderr.strip() and f"strace cannot trace here: {tried.stderr.strip()}"


class TracedBroker(Broker):
    """Its operations are in `operations()` once it has ended, over all its starts."""

    def __init__(self, root: Path, **settings: object) -> None:
        if why := cannot_trace():
            pytest.skip(why)
        super().__init__(root, **settings)
        self._traces: list[Path] = []
        self._tracer = 0

    @property
    def env(self) -> dict[str, str]:
        """The environment of its commands; chats are set up in its own folder."""
        return {**super().env, "HERMES_HOME": str(self.root)}

    def start(self) -> "TracedBroker":
        """Start it and wait until it serves. (strace would hold a pipe that tells it.)"""
        self._traces.append(self.root / f"trace{len(self._traces)}")
        address = self.folder / "address.json"
        address.unlink(missing_ok=True)  # of one that was killed
        command = [sys.executable, "-P", *self.program, "run"]
        with (self.root / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [*STRACE, self._traces[-1], *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.env,
            )
        until(lambda: address.exists() or not self.alive)
        assert self.alive, (self.root / "output").read_text()
        status = Path(f"/proc/{self.pid}/status").read_text()
        self._tracer = int(status.split("TracerPid:")[1].split()[0])
        return self

    def operations(self) -> list[Operation]:
        """Return what was done below its folder; when all its processes have ended."""
        until(lambda: not running(self._tracer))
        found: list[Operation] = []
        for trace in self._traces:
            found += Reader(str(self.folder), len(found)).read(trace)
        return found


@contextmanager
def traced(root: Path | None = None, **settings: object) -> Iterator[TracedBroker]:
    """Inside, there is a broker in a folder, by default one of its own, which then goes."""
    broker = TracedBroker(root or Path(tempfile.mkdtemp(prefix="wb")), **settings)
    try:
        yield broker
    finally:
        if broker.alive:
            broker.kill()
        shutil.rmtree(broker.root)


_LINE: Final = re.compile(rb"(\d+) +(?:(\w+)\((.*)|<\.\.\. (\w+) resumed>(.*))$", re.S)
_HEX: Final = re.compile(rb"(?:\\x[0-9a-f]{2})+")
_TEXT: Final = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"')
_FILE: Final = re.compile(rb"(?:AT_FDCWD|\d+)<([^>]*)>")
_NAMES: Final = {"open", "creat", "rename", "link", "unlink", "symlink"}
_WITH_FOLDER: Final = {"openat", "renameat", "renameat2", "linkat", "unlinkat", "symlinkat"}


def _plain(text: bytes) -> bytes:
    return _HEX.sub(lambda found: bytes.fromhex(found[0].replace(b"\\x", b"").decode()), text)


class Reader:
    """Reads a trace; `first` is the number of its first operation."""

    def __init__(self, folder: str, first: int) -> None:
        self._folder, self._first = folder, first
        self._done: list[Operation] = []
        self._ends: dict[str, int] = {}  # of files that are written without a place; -1: appended
        self._begun: dict[bytes, tuple[int, list[Operation]]] = {}  # of calls that have no end yet

    def read(self, trace: Path) -> list[Operation]:
        """Return its operations; a call that fails is none."""
        with trace.open("rb") as lines:
            for line in lines:
                if not (found := _LINE.match(line.rstrip(b"\n"))):
                    continue
                thread, call, arguments, resumed, rest = found.groups()
                if resumed:
                    self._end(*self._begun.pop(thread), rest)
                    continue
                begun = len(self._done)
                made = [*self._made(call.decode(), arguments)]
                if arguments.endswith(b"<unfinished ...>"):
                    self._begun[thread] = begun, made
                    self._done += [one for one in made if one.what != "sync"]
                else:
                    self._done += made
                    self._end(begun, made, arguments)
        return self._done

    def _end(self, begun: int, made: list[Operation], rest: bytes) -> None:
        result = rest.rpartition(b" = ")[2]
        for one in made:
            if result.startswith(b"-1"):
                if one in self._done:
                    # Its place stays: others are counted by it.
                    self._done[self._done.index(one, begun)] = Operation("nothing")
            elif one.what == "sync" and one not in self._done[begun:]:
                self._done.append(one)

    def _made(self, call: str, arguments: bytes) -> Iterator[Operation]:
        texts = [_plain(text) for text in _TEXT.findall(arguments)]
        opened = _FILE.match(arguments)
        path = os.fsdecode(_plain(opened[1])) if opened else ""
        if call in ("sendto", "sendmsg"):
            yield Operation("out", path, data=b"".join(texts))
            return
        if call in _NAMES or call in _WITH_FOLDER:
            names = self._names(call, arguments, texts)
            if any(self._ours(name) for name in names):
                yield from self._naming(call, names, arguments)
            return
        if not self._ours(path):
            return
        if call in ("fsync", "fdatasync"):
            yield Operation("sync", path, self._first + len(self._done))
        elif call == "write":
            end = self._ends.get(path, 0)
            yield Operation("write", path, end, texts[0])
            self._ends[path] = end + len(texts[0]) if end >= 0 else -1
        elif call == "pwrite64":
            place = _TEXT.sub(b"", arguments).split(b",")[3].split(b")")[0].split(b"<")[0]
            yield Operation("write", path, int(place), texts[0])
        elif call == "ftruncate":
            size = arguments.split(b",")[1].split(b")")[0].split(b"<")[0]
            yield Operation("size", path, int(size))
        else:
            raise AssertionError(f"{call} of {path}: this model does not know it yet")

    def _names(self, call: str, arguments: bytes, texts: list[bytes]) -> list[str]:
        names = [os.fsdecode(text) for text in texts]
        if call in _WITH_FOLDER:
            folders = [os.fsdecode(_plain(found)) for found in _FILE.findall(arguments)]
            pairs = zip(folders, names, strict=False)
            names = [os.path.normpath(os.path.join(*pair)) for pair in pairs]  # noqa: PTH118
        return names

    def _naming(self, call: str, names: list[str], arguments: bytes) -> Iterator[Operation]:
        if call in ("open", "openat", "creat"):
            self._ends[names[0]] = -1 if b"O_APPEND" in arguments else 0
            if b"O_CREAT" in arguments:
                yield Operation("make", names[0])
            if b"O_TRUNC" in arguments:
                yield Operation("size", names[0])
        elif call.startswith("unlink"):
            yield Operation("remove", names[0])
        else:
            what = "rename" if call.startswith("rename") else "link"
            yield Operation(what, names[0], other=names[1])

    def _ours(self, path: str) -> bool:
        return path.startswith(self._folder) and not path.endswith(PASSED_OVER)
