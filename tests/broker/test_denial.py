"""What keeps a process from the bus: named, and what lets it through (PROTOCOL-1.22)."""

import errno
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fakes.sandboxed
from fakes.desk import BIN, Desk, Done
from wakebus.broker import denial, paths
from wakebus.broker.errors import NotRunning
from wakebus.broker.system.lock_file import lock_holder

SANDBOXED = str(Path(fakes.sandboxed.__file__))
OTHER = 12345  # no user of this machine
MARKS = {
    "CODEX_SANDBOX_NETWORK_DISABLED": ("1", "Codex's sandbox", "network_access = true"),
    "CODEX_SANDBOX": ("seatbelt", "Codex's sandbox", "~/.codex/config.toml"),
    "SANDBOX_RUNTIME": ("1", "Claude's sandbox", "UnixSockets"),
    "container": ("firejail", "firejail", "--protocol=unix"),
}
as_root = pytest.mark.skipif(os.getuid() != 0, reason="gives files to another user")


@pytest.fixture(autouse=True)
def _no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MARKS:
        monkeypatch.delenv(name, raising=False)


def inside(desk: Desk, call: str, *words: str, env: dict[str, str] | None = None) -> Done:
    """Run a command in a sandbox that denies a system call."""
    if sys.platform != "linux" or platform.machine() not in fakes.sandboxed.NUMBERS:
        pytest.skip("a filter of seccomp for this machine is not written down")
    # -P: the folder of the fakes has modules that are named as those of the standard library.
    start = (sys.executable, "-P", SANDBOXED, call, str(BIN / words[0]))
    return desk.run(*start, *words[1:], env=env or {})


@pytest.mark.parametrize("call", ["connect", "socket"])
def test_a_sandbox_is_named_and_no_healthy_broker_is_to_be_killed(desk: Desk, call: str) -> None:
    """PROTOCOL-1.22: real seccomp; senders, queries, the broker's own verbs and a listener."""
    mark = {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}
    for words in (
        ("notify-hermes", "--to", "x", "hi"),
        ("wakebus", "endpoints"),
        ("wakebus", "publish", "a.b"),
        ("hermes-busd", "status"),
        ("hermes-busd", "start"),
    ):
        done = inside(desk, call, *words, env=mark)
        assert done.status == 1 and done.out == ""
        text, step = done.err.splitlines()
        assert "cannot be connected to (Operation not permitted): Codex's sandbox forbids" in text
        assert "~/.codex/config.toml: [sandbox_workspace_write] network_access = true" in step
        assert "kill" not in done.err and "hermes-busd re" not in done.err
    assert desk.wakebus("endpoints").status == 0


def test_a_sandbox_without_a_mark_is_told_in_general(desk: Desk) -> None:
    """PROTOCOL-1.22: what kinds there are, and what each wants."""
    done = inside(desk, "connect", "wakebus", "listen", "x")
    assert done.status == 1 and "a sandbox or a security policy forbids it" in done.err
    assert not [name for name in ("bubblewrap", "firejail", "systemd") if name not in done.err]


@pytest.mark.parametrize("name", MARKS)
def test_each_sandbox_is_known_by_its_mark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.22: its name, and the setting that lets it through."""
    assert denial.current_sandbox() is None
    value, called, setting = MARKS[name]
    monkeypatch.setenv(name, value)
    found = denial.denial_of_path("/tmp/x.sock", OSError(errno.EPERM, "no"), "be connected to")
    assert called in found.text and setting in found.step


def test_the_doctor_in_a_sandbox(desk: Desk) -> None:
    """PROTOCOL-1.22: the courier, whose process it cannot see, is not said to be gone."""
    done = inside(desk, "connect", "wakebus", "doctor", env={"SANDBOX_RUNTIME": "1"})
    assert "broker: " in done.out and "Claude's sandbox forbids it" in done.out
    assert "courier: not seen from inside Claude's sandbox" in done.out
    assert "Traceback" not in done.both


@pytest.fixture
def others_folder(tmp_path: Path) -> Iterator[Path]:
    """A bus's folder of another user, which this one may not enter."""
    folder = tmp_path / "bus"
    folder.mkdir(mode=0o700)
    os.chown(folder, OTHER, OTHER)
    yield folder


@as_root
def test_another_users_bus(others_folder: Path, desk: Desk) -> None:
    """PROTOCOL-1.22: root may look, and does not trust it; the next step is a bus of one's own."""
    (others_folder / "address.json").write_text('{"router": "ipc:///tmp/x"}')
    os.chown(others_folder / "address.json", OTHER, OTHER)
    done = desk.notify("--to", "x", "hi", env={"HERMES_BUS_ROOT": str(others_folder.parent)})
    assert done.status == 1 and "is not a file of this user; it is not trusted" in done.err
    assert "unset HERMES_BUS_ROOT" in done.err and "kill" not in done.err


@as_root
def test_another_users_bus_that_may_not_be_entered(others_folder: Path) -> None:
    """PROTOCOL-1.22: it belongs to that user, who is named; the lock's file is no traceback."""
    (others_folder / "broker.lock").touch()
    os.chown(others_folder, OTHER + 1, OTHER + 1)
    child = os.fork()
    if not child:  # the process of another user
        os.setgid(OTHER)
        os.setuid(OTHER)
        try:
            lock_holder(others_folder)
        except NotRunning as exc:
            text = f"{others_folder}/broker.lock cannot be read (Permission denied): "
            os._exit(0 if exc.text.startswith(text) and "another user" in exc.text else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_ones_own_folder_with_a_mode_that_forbids(tmp_path: Path) -> None:
    """PROTOCOL-1.22: the mode is named, and how to mend it."""
    place = tmp_path / "x.sock"
    place.touch(mode=0o000)
    found = denial.denial_of_path(str(place), PermissionError(errno.EACCES, "no"), "be read")
    assert f"{place} has mode 0000" in found.text and found.step == f"chmod u+rwX {place}"


def test_an_error_of_the_system_is_one_line_and_a_step() -> None:
    """PROTOCOL-1.22: a disk that is full or read-only, no descriptor left, any other."""
    for number, step in (
        (errno.ENOSPC, "Make room"),
        (errno.EROFS, "read-only"),
        (errno.EMFILE, "ulimit"),
        (errno.EIO, "wakebus doctor"),
    ):
        found = denial.system_error(OSError(number, os.strerror(number), "/a/file"))
        assert found.text == f"/a/file: {os.strerror(number)}" and step in found.data["step"]


def test_a_user_without_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.1: HOME counts for such a one; without it one line says what to set."""
    for name in ("HERMES_BUS_ROOT", "HERMES_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: OTHER)
    monkeypatch.setenv("HOME", "/data")
    assert paths.root_of("HERMES_BUS_ROOT") == "/data/.hermes"
    for home in ("", "relative"):
        monkeypatch.setenv("HOME", home)
        with pytest.raises(NotRunning, match=r"uid 12345 is not in the user database") as caught:
            paths.root_of("HERMES_BUS_ROOT")
        assert caught.value.data["step"] == "Set HERMES_BUS_ROOT to a folder of your own"


@pytest.mark.parametrize(
    ("root", "why"),
    [
        ("~nobody-has-this/x", "names no user's folder"),
        ("/tmp/\udcff", "is not UTF-8"),
    ],
)
def test_a_root_that_is_no_folder(root: str, why: str, desk: Desk) -> None:
    """PROTOCOL-1.1: every command says so in a line and a step."""
    for words in ("notify-hermes --to x hi", "wakebus endpoints", "hermes-busd start"):
        done = desk.run(*words.split(), env={"HERMES_BUS_ROOT": root})
        assert done.status == 1 and why in done.err and "Set HERMES_BUS_ROOT" in done.err
        assert len(done.err.splitlines()) == 2


def test_a_root_that_the_locale_cannot_name(desk: Desk) -> None:
    """PROTOCOL-1.1: of a locale without UTF-8; sockets' addresses have UTF-8."""
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = desk.notify("--to", "x", "hi", env={**locale, "HERMES_BUS_ROOT": "/tmp/ü"})
    assert done.status == 1 and "needs UTF-8, and this locale has ascii" in done.err
    assert "export LC_ALL=C.UTF-8" in done.err


def test_a_current_folder_that_is_gone(desk: Desk) -> None:
    """PROTOCOL-1.1: a relative root has no place then."""
    script = "mkdir gone && cd gone && rmdir ../gone && exec notify-hermes --to x hi"
    done = desk.run("/bin/sh", "-c", script, env={"HERMES_BUS_ROOT": "x"})
    assert done.status == 1 and "'x' is relative, and the current folder is gone" in done.err


def test_a_broker_that_may_not_start_in_a_sandbox(own_desk: Desk) -> None:
    """PROTOCOL-1.22: it is to be started outside; a listener that would start it says so too."""
    mark = {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}
    for words in (("hermes-busd", "start"), ("wakebus", "listen", "x")):
        done = inside(own_desk, "socket", *words, env=mark)
        assert done.status == 1 and "Start it outside of Codex's sandbox" in done.err
        assert "Traceback" not in done.both


def test_no_broker_is_seen_from_a_sandbox(own_desk: Desk) -> None:
    """PROTOCOL-1.22: the sandbox may hide it; none is to be started in there."""
    done = own_desk.notify("--to", "x", "hi", env={"SANDBOX_RUNTIME": "1"})
    assert done.status == 1 and "no broker runs here" in done.err
    assert "Claude's sandbox may hide it" in done.err and "hermes-busd start" not in done.err


@as_root
def test_nothing_is_told_of_a_bus_that_may_not_be_seen(own_desk: Desk) -> None:
    """PROTOCOL-1.22: no "none runs", no "none has run", no "is no backup": who forbids it."""
    own_desk.start()
    assert own_desk.wakebus("backup", "b").status == 0
    own_desk.root.chmod(0o755)
    (own_desk.root / "b").chmod(0o600)
    script = (
        "import os, sys\n"
        "from wakebus.plugin.cli.main import main\n"
        "from wakebus.plugin.cli.doctor import doctor\n"
        "from wakebus.plugin.cli.bus import listen\n"
        "from wakebus.plugin.cli.chats import channels\n"
        "from wakebus.plugin.cli.setup import restore, settings, version\n"
        f"os.setgid({OTHER}); os.setuid({OTHER})\n"
        "sys.exit(main(sys.argv[1:]))"
    )

    def as_other(*words: str) -> Done:
        done = own_desk.run(sys.executable, "-c", script, *words)
        assert "Traceback" not in done.err
        return done

    done = as_other("version")
    assert done.status == 0 and "none runs" not in done.out
    assert "broker  unknown:" in done.out and "belongs to another user (uid 0)" in done.out
    assert "belongs to another user" in as_other("version", "--json").json["unknown"]
    done = as_other("settings", "list")
    assert done.status == 1 and "belongs to another user" in done.err
    done = as_other("listen", "q")
    assert done.status == 1 and "unset HERMES_BUS_ROOT" in done.err
    assert "not seen from here" in as_other("channels").out
    done = as_other("restore", str(own_desk.root / "b"))
    assert done.status == 1 and "b may not be read" in done.err
