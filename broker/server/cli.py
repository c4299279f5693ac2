"""
`hermes-busd start|stop|restart|status|run`.

Rule 1: `start` returns when clients can connect, and says why when they cannot. Rule 2: it is
harmless twice. Exit status: 0 done, 1 failed, 2 usage, 3 stopped (`status`).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from wakebus.broker import __version__, paths
from wakebus.broker.address import read_address
from wakebus.broker.command_line.parser import Parser
from wakebus.broker.errors import NotRunning, Refused, TimedOut, WakebusError
from wakebus.broker.other_version import version_note
from wakebus.broker.system.standard_files import drop_unwritten, open_missing_files, print_line

START_S: Final = 15.0  # a cold machine with a large store to look through
STOP_S: Final = 20.0
ASK_S: Final = 5.0  # for a broker to answer, or to be ready to


def main(argv: list[str] | None = None) -> int:
    """Entry point of `hermes-busd`."""
    open_missing_files()
    try:
        args = _parser().parse_words(sys.argv[1:] if argv is None else argv)
        if args.broker_verb not in ("stop", "restart"):  # the step that is named
            _tell_other_version()
        return int(args.run(args))
    except WakebusError as exc:
        step = [exc.data["step"]] if exc.data.get("step") else []
        print_line("\n".join([f"hermes-busd: {exc}", *step]), error=True)
        return 1
    except OSError as exc:
        from wakebus.broker.denial import system_error

        error = system_error(exc)
        print_line(f"hermes-busd: {error}\n{error.data['step']}", error=True)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        drop_unwritten()  # argparse's help, which nobody reads


def _parser() -> Parser:
    parser = Parser(
        prog="hermes-busd",
        description="The wakebus broker: keeps messages for named endpoints and delivers them.",
        epilog="Files lie in $HERMES_BUS_ROOT/bus (default ~/.hermes/bus of the real user). "
        "Logs: wakebus logs",
    )
    parser.add_argument("--version", action="version", version=f"wakebus {__version__}")
    parser.synonyms = {name: f"wakebus {name}" for name in ("logs", "doctor", "version")}
    add_verbs(parser)
    return parser


def add_verbs(parser: argparse.ArgumentParser) -> None:
    """Add start, stop, restart, status and run; `args.run(args)` returns the exit status."""
    verbs = parser.add_subparsers(dest="broker_verb", required=True, metavar="VERB")
    for name, function, text in (
        ("start", start, "start in the background; returns when it is ready"),
        ("stop", stop, "finish what is accepted and stop"),
        ("restart", restart, "stop, then start"),
        ("status", status, "show endpoints, queues and dead letters (exit 3 when stopped)"),
        ("run", run, "run in the foreground, until Ctrl-C"),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(run=function, parser=verb)
        if name == "status":
            verb.add_argument("--json", action="store_true", help="for scripts")
        if name == "run":
            verb.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)


def start(args: argparse.Namespace) -> int:
    """Start the broker in the background, unless one runs."""
    from wakebus.broker.denial import current_sandbox, step_for_start
    from wakebus.broker.server.process import prepare
    from wakebus.broker.system.lock_file import lock_holder
    from wakebus.broker.system.private_files import check_way

    folder = paths.bus_dir()
    check_way(folder)  # of a broker that runs, too: no client would use it
    deadline, spawned = time.monotonic() + START_S, False
    while not (pid := _ready_pid(folder)):
        if time.monotonic() > deadline:
            raise _mute(folder, f"a broker holds {folder} and is not ready after {START_S:g} s")
        if lock_holder(folder) is None:  # also: one that was going down has gone
            prepare(folder)
            problem = "" if _start_unit() else _spawn(folder)
            if problem and problem != "already_running":
                raise WakebusError(problem, step=step_for_start() if current_sandbox() else "")
            spawned = not problem
        else:
            time.sleep(0.02)
    if not spawned and not _answers():
        raise _mute(folder, f"the broker in {folder} does not answer within {ASK_S:g} s")
    print_line(f"broker running (pid {pid}) in {folder}")
    return 0


def _tell_other_version() -> None:
    """Say it where a broker of another version runs, as `wakebus` does (plugin/cli/output.py)."""
    from wakebus.broker.system.lock_file import lock_holder

    try:
        note = version_note(read_address(paths.bus_dir()))
    except WakebusError:  # none runs, or none may be believed
        return
    if note and lock_holder(paths.bus_dir()) is not None:
        print_line(note, error=True)


def _answers() -> bool:
    from wakebus.broker.client.client import Client

    try:
        with Client() as client:
            return client.connected(ASK_S)
    except WakebusError:
        return False


def _mute(folder: Path, problem: str) -> WakebusError:
    from wakebus.broker.denial import denial_of_connection
    from wakebus.broker.system.lock_file import step_for_mute

    try:
        denial = denial_of_connection(str(read_address(folder)["router"]))
    except NotRunning:
        denial = None
    if denial:
        return WakebusError(denial.text, step=denial.step)
    return WakebusError(problem, step=step_for_mute(folder))


def _spawn(folder: Path) -> str:
    """Start a detached broker; return "" when it is ready, else why not."""
    from wakebus.broker.system.private_files import append_to

    ready, child_end = os.pipe()
    with os.fdopen(append_to(folder / "broker.log"), "ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "wakebus.broker", "run", "--ready-fd", str(child_end)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=paths.child_environ(),
            pass_fds=[child_end],
            start_new_session=True,
        )
    os.close(child_end)
    with os.fdopen(ready, encoding="utf-8") as pipe:
        word = pipe.read()  # ends when the child is ready or gone
    if word == "ready":
        child.returncode = 0  # it lives on; nobody waits for it here
        return ""
    child.wait()
    return word or f"the broker ended at its start; {folder / 'broker.log'} tells why"


def _start_unit() -> bool:
    """
    Have the service manager start the broker, where it has a unit for it; return whether it has.

    Started by hand it would end with the session, or with the listener that has started it.
    """
    from wakebus.broker.user_unit import start_command

    if not (command := start_command()):
        return False
    try:
        done = subprocess.run(command, capture_output=True, timeout=START_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    time.sleep(0.05)  # it has been started, and not yet taken its lock
    return done.returncode == 0


def _ready_pid(folder: Path) -> int | None:
    """Return the pid of the broker that takes connections, None while there is none."""
    from wakebus.broker.system.lock_file import lock_holder

    try:
        pid = read_address(folder).get("pid")
    except WakebusError:
        return None
    return pid if isinstance(pid, int) and pid == lock_holder(folder) else None


def stop(args: argparse.Namespace) -> int:
    """Stop the broker."""
    print_line(end_broker())
    return 0


def end_broker() -> str:
    """Stop the broker, return when its process and its lock are gone: what was done, in words."""
    from wakebus.broker.system.lock_file import lock_holder, proven_holder
    from wakebus.broker.system.processes import has_ended

    folder = paths.bus_dir()
    if lock_holder(folder) is None:
        return "broker is not running"
    process = proven_holder(folder)
    pid = _ask_to_stop(folder)
    deadline = time.monotonic() + STOP_S
    # 0: nothing tells who, so that it may still be this one.
    while lock_holder(folder) in (pid, 0) or (process and not has_ended(process)):
        if time.monotonic() > deadline:
            step = f", or end it: kill -9 {pid} (what has a receipt is kept)" if process else ""
            raise WakebusError(
                f"the broker (pid {pid}) has not ended within {STOP_S:g} s; its last words: "
                f"{folder / 'broker.log'}. Look again: hermes-busd status{step}"
            )
        time.sleep(0.02)
    return f"broker stopped (pid {pid})" if pid else "broker stopped"


def _ask_to_stop(folder: Path) -> int:
    """Return the pid of the broker once it has said that it ends, or was signalled; 0: it ended."""
    from wakebus.broker.client.client import Client
    from wakebus.broker.system.lock_file import lock_holder

    deadline = time.monotonic() + ASK_S
    while lock_holder(folder) is not None:
        try:
            boot = str(read_address(folder).get("boot"))
            with Client(timeout=ASK_S) as client:
                return client.stop_broker(boot)
        except WakebusError as exc:  # one that starts has no address yet, one that ends none more
            if isinstance(exc, Refused) or time.monotonic() > deadline:
                return _signal(folder, exc)
            time.sleep(0.05)
    return 0


def _signal(folder: Path, problem: WakebusError) -> int:
    """Ask by a signal whom the socket does not reach, if that is certainly the broker: its pid."""
    from wakebus.broker.system.lock_file import lock_holder, proven_holder
    from wakebus.broker.system.processes import send_signal

    process = proven_holder(folder)
    if process and send_signal(process, signal.SIGTERM):
        send_signal(process, signal.SIGCONT)  # a frozen one would not hear it
    else:
        if (pid := lock_holder(folder)) is None:
            return 0  # it has just ended
        lock = folder / "broker.lock"
        which = f"That process {pid}, which {lock} names, is this broker"
        if not pid:
            which = f"Which process is this broker, which {lock} does not tell,"
        raise WakebusError(
            f"the broker could not be asked to stop: {problem}. {which} is not certain (it may run "
            "in another container), so nothing was signalled: stop it where it was started",
            **problem.data,
        )
    try:
        paths.stop_mark(folder).touch(mode=0o600)  # else every listener would start it again
    except OSError as exc:
        print_line(f"hermes-busd: listeners may start it again: {exc}", error=True)
    return process.pid


def restart(args: argparse.Namespace) -> int:
    """Stop, then start; what would keep it from starting is told before anything is stopped."""
    from wakebus.broker.server.settings_model import check_broker_settings

    folder = paths.bus_dir()
    check_broker_settings(folder / "wakebus.toml", os.environ)
    if folder.exists() and not os.access(folder, os.W_OK):
        raise WakebusError(
            f"{folder} cannot be written from here (a read-only file system?), so no broker could "
            "start again: nothing was stopped"
        )
    stop(args)
    return start(args)


def run(args: argparse.Namespace) -> int:
    """Run in the foreground."""
    from wakebus.broker.server.process import run as serve
    from wakebus.broker.system.lock_file import AlreadyRunning

    fd: int | None = args.ready_fd
    folder = paths.bus_dir()

    def ready() -> None:
        if fd is None:
            print_line(f"broker running (pid {os.getpid()}) in {folder}; Ctrl-C stops it")
        else:
            _report(fd, "ready")

    try:
        serve(folder, ready=ready, console=fd is None)
    except (WakebusError, OSError) as exc:
        if fd is None:
            if isinstance(exc, AlreadyRunning) and not _answers():
                raise _mute(folder, exc.text) from exc
            raise
        _report(fd, exc.code if isinstance(exc, AlreadyRunning) else str(exc))
        return 1
    return 0


def _report(fd: int, word: str) -> None:
    try:
        os.write(fd, word.encode())
        os.close(fd)
    except BrokenPipeError:
        pass  # whoever started us has gone


def status(args: argparse.Namespace) -> int:
    """Show what the broker says of itself."""
    from wakebus.broker.client.client import Client
    from wakebus.broker.server.status_page import status_page
    from wakebus.broker.system.lock_file import lock_holder

    folder = paths.bus_dir()
    if lock_holder(folder) is None:
        if args.json:
            print_line(json.dumps({"running": False, "folder": str(folder)}))
        else:
            print_line(f"broker is not running in {folder}; start it with: hermes-busd start")
        return 3
    try:
        with Client() as client:
            data = client.status()
    except (NotRunning, TimedOut) as exc:
        raise exc if exc.data.get("step") else _mute(folder, exc.text) from exc
    data = {"running": True, "folder": str(folder), **read_address(folder), **data}
    print_line(json.dumps(data, indent=2) if args.json else status_page(data))
    return 0
