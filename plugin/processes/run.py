"""
One child process from start to end: its input, its output, its time limit, its whole group.

Rule 1: `run_process` returns, whether the child does not read, not end, floods, or leaves a process
behind that holds its pipes. Rule 2: it leads a session and group of its own; at the time limit and
at `Cancel` the whole group is ended: TERM, 2 s, KILL. Rule 3: memory is bounded, but all is read.
Rule 4: no zombie, thread or descriptor is left. Rule 5: no child outlives us (orphan_guard.py).
"""

import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from wakebus.broker.errors import WakebusError
from wakebus.plugin.processes import orphan_guard
from wakebus.plugin.processes.cancel import Cancel, Running, Waker

KILL_AFTER_S: Final = 2.0
REST_S: Final = 0.5  # what the others of a group get when its first process heeded TERM
# What a child wrote lies in the pipe when it exits; `exec > >(tee …)` may come a little later.
LINGER_S: Final = 0.2
_POLL_S: Final = 0.02
START: Final = 4096  # bytes
_CHUNK: Final = 1 << 16


class CannotSpawn(WakebusError):
    """The program cannot be started: not there, not executable, too large an environment."""

    code = "cannot_start"


@dataclass(frozen=True, slots=True)
class Finished:
    """
    How a process ended.

    `status`: exit status, None if a signal ended it (`signal`, like `SIGKILL`). `stdout`: the
    first bytes; `stderr`: the last bytes; `*_cut`: there was more; `stderr_start`: its first bytes,
    which may be the same. `seconds`: how long it took.
    """

    status: int | None
    signal: str
    timed_out: bool
    cancelled: bool
    stdout: bytes
    stdout_cut: bool
    stderr: bytes
    stderr_cut: bool
    seconds: float
    stderr_start: bytes = b""

    @property
    def ok(self) -> bool:
        """True if it exited by itself with status 0."""
        return self.status == 0 and not self.timed_out and not self.cancelled


def run_process(
    argv: Sequence[str],
    *,
    env: Mapping[bytes, bytes],
    timeout: float,
    stdin: bytes = b"",
    stdout_limit: int = 1 << 20,
    stderr_limit: int = 4096,
    merged: bool = False,
    end_group: bool = False,
    cancel: Cancel | None = None,
    cwd: Path | None = None,
    on_start: Callable[[int], object] = lambda pid: None,
) -> Finished:
    """
    Run `argv` and return how it ended, when its first process has exited.

    `merged`: stdout goes where stderr goes, into the tail. `end_group`: what it leaves behind in
    its group is killed; otherwise that lives on. `on_start`: gets its pid. Raises CannotSpawn.
    """
    cancel = cancel or Cancel()
    if cancel.asked or _running.ending:
        return Finished(None, "", False, True, b"", False, b"", False, 0.0)
    out, err = _Kept(stdout_limit, head=True), _Kept(stderr_limit, head=False)
    orphan_guard.prepare()
    begun, process = time.monotonic(), _start(argv, env, cwd, merged)
    watch = _Watch(process, stdin, (err, None) if merged else (out, err), cancel)
    with _running.noted(process.pid), orphan_guard.watched(process.pid), watch:
        on_start(process.pid)
        ended = watch.until_end(begun + timeout)
        watch.drain(time.monotonic() + LINGER_S)
        if end_group:
            _signal_group(process.pid, signal.SIGKILL)
    code = -signal.SIGKILL if process.returncode is None else process.returncode
    return Finished(
        status=code if code >= 0 else None,
        signal=_signal_name(-code) if code < 0 else "",
        timed_out=ended == "timeout",
        cancelled=ended == "cancel",
        stdout=out.data,
        stdout_cut=out.cut,
        stderr=err.data,
        stderr_cut=err.cut,
        seconds=time.monotonic() - begun,
        stderr_start=err.start,
    )


_running: Final = Running()
end_all: Final = _running.end_all


def _start(
    argv: Sequence[str], env: Mapping[bytes, bytes], cwd: Path | None, merged: bool
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            env=env,
            cwd=cwd,
            bufsize=0,
            # A session and not only a group: without a terminal, a child that reads or writes
            # /dev/tty gets an error and is not stopped for ever by SIGTTIN.
            start_new_session=True,
        )
    except OSError as exc:
        hint = " (its first line must name a program, like #!/bin/sh)"
        raise CannotSpawn(
            f"cannot start {argv[0]}: {exc.strerror}{hint if exc.errno == errno.ENOEXEC else ''}"
        ) from exc
    except ValueError as exc:
        raise CannotSpawn(f"cannot start {argv[0]}: {exc}") from exc


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False if nobody is there (macOS: only zombies)."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Kept:
    """The first or the last `limit` bytes of a stream."""

    def __init__(self, limit: int, *, head: bool) -> None:
        self._limit, self._head = limit, head
        self.data, self.start, self.cut = b"", b"", False
        self._parts = bytearray()

    def add(self, chunk: bytes) -> None:
        self.start += chunk[: START - len(self.start)]
        self._parts += chunk
        if len(self._parts) > self._limit:
            self.cut = True
            keep = slice(self._limit, None) if self._head else slice(None, -self._limit or None)
            del self._parts[keep]

    def close(self) -> None:
        self.data = bytes(self._parts)


class _Watch:
    """Feeds and reads one process until it ends. Used by one thread, as a context manager."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        stdin: bytes,
        kept: tuple[_Kept, _Kept | None],
        cancel: Cancel,
    ) -> None:
        self._process, self._cancel, self._kept = process, cancel, kept
        self._input = memoryview(stdin)
        self._selector = selectors.DefaultSelector()
        self._waker = Waker()
        self._exited = threading.Event()
        self._readers = 0
        self._waiter = threading.Thread(target=self._wait, name="wakebus-wait", daemon=True)

    def __enter__(self) -> Self:
        self._cancel.add(self._waker)
        self._selector.register(self._waker.fd, selectors.EVENT_READ, lambda _: self._woken())
        for pipe, kept in zip(
            (self._process.stdout, self._process.stderr), self._kept, strict=True
        ):
            if pipe and kept:
                self._readers += 1
                self._add(pipe, selectors.EVENT_READ, self._reader(kept))
        if self._process.stdin:
            self._add(self._process.stdin, selectors.EVENT_WRITE, self._write)
        self._waiter.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._exited.is_set():  # KeyboardInterrupt in `run_process`: leave nothing behind
            _signal_group(self._process.pid, signal.SIGKILL)
        # Longer only for a process that the kernel itself cannot end (a dead network disk).
        self._waiter.join(KILL_AFTER_S)
        self._cancel.remove(self._waker)
        self._waker.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        self._selector.close()
        for kept in self._kept:
            if kept:
                kept.close()

    def until_end(self, deadline: float) -> str:
        """Return `exit`, `timeout` or `cancel`, when the first process has ended."""
        while not self._exited.is_set():
            left = deadline - time.monotonic()
            if self._cancel.asked or left <= 0:
                ended = "cancel" if self._cancel.asked else "timeout"
                self._end()
                return ended
            self._step(left)
        return "exit"

    def drain(self, deadline: float) -> None:
        """Read what is left, until the pipes close or `deadline`."""
        while self._readers and (left := deadline - time.monotonic()) > 0:
            self._step(left)

    def _end(self) -> None:
        group = self._process.pid
        _signal_group(group, signal.SIGTERM)
        heeded = self._steps_until(self._exited.is_set, KILL_AFTER_S)
        # Not longer: a zombie that no init reaps looks like a member.
        if heeded and self._steps_until(lambda: not _signal_group(group, 0), REST_S):
            return
        _signal_group(group, signal.SIGKILL)
        self._exited.wait(KILL_AFTER_S)

    def _steps_until(self, done: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() >= deadline:
                return False
            self._step(_POLL_S)
        return True

    def _step(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            key.data(key.fileobj)

    def _wait(self) -> None:
        self._process.wait()
        self._exited.set()
        self._waker.wake()

    def _woken(self) -> None:
        os.read(self._waker.fd, 1024)

    def _add(self, pipe: IO[bytes], events: int, act: Callable[[Any], None]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, events, act)

    def _drop(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        pipe.close()

    def _reader(self, kept: _Kept) -> Callable[[IO[bytes]], None]:
        def read(pipe: IO[bytes]) -> None:
            if chunk := os.read(pipe.fileno(), _CHUNK):
                kept.add(chunk)
            else:
                self._readers -= 1
                self._drop(pipe)

        return read

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            sent = os.write(pipe.fileno(), self._input[:_CHUNK]) if self._input else 0
        except BrokenPipeError:  # the child does not read its input; that is its right
            sent = len(self._input)
        self._input = self._input[sent:]
        if not self._input:
            self._drop(pipe)
