"""Who may replace what lies at a path: every folder and link on the way to it counts."""

import errno
import grp
import os
import pwd
import shutil
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import zmq

from fakes.broker import Broker, until
from wakebus.broker import Client, folder_trust
from wakebus.broker.address import read_address
from wakebus.broker.errors import NotRunning
from wakebus.broker.folder_trust import is_own_group, refusal_of_step, refusal_of_way, steps_to

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="only root makes folders of others")
# One that other users may run, too.
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
ME, THEM, NOGROUP = 1000, 1001, 54321
FOLDER, LINK, SOCKET = stat.S_IFDIR, stat.S_IFLNK, stat.S_IFSOCK


def found(kind: int, mode: int, uid: int, gid: int = NOGROUP) -> os.stat_result:
    """Return what lstat says of such a file."""
    return os.stat_result((kind | mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("kind", "mode", "uid", "said"),
    [
        (FOLDER, 0o755, 0, ""),
        (FOLDER, 0o755, ME, ""),
        (FOLDER, 0o700, ME, ""),
        (FOLDER, 0o1777, 0, ""),
        (FOLDER, 0o1777, ME, ""),
        (FOLDER, 0o3775, 0, ""),
        (FOLDER, 0o1777, THEM, "belongs to uid 1001 (mode 1777); chown"),
        (FOLDER, 0o700, THEM, "belongs to uid 1001 (mode 0700); chown"),
        (FOLDER, 0o777, 0, "world-writable; chmod go-w /x (mode 0777, uid 0, gid 54321)"),
        (FOLDER, 0o757, 0, "world-writable; chmod o-w /x (mode 0757"),
        (FOLDER, 0o2775, ME, "group-writable; chmod g-w /x (mode 2775, uid 1000"),
        (FOLDER, 0o702, ME, "world-writable; chmod o-w /x"),
        (LINK, 0o777, ME, ""),
        (LINK, 0o777, 0, ""),
        (LINK, 0o777, THEM, "belongs to uid 1001"),
        (SOCKET, 0o777, ME, ""),
        (SOCKET, 0o700, THEM, "belongs to uid 1001"),
    ],
)
def test_a_step(kind: int, mode: int, uid: int, said: str) -> None:
    """PROTOCOL-1.18: owner, mode and sticky bit, each with the next step."""
    reason = refusal_of_step("/x", found(kind, mode, uid), ME)
    assert said in reason and bool(reason) == bool(said)


def test_root_trusts_only_root() -> None:
    """PROTOCOL-1.18: what a user may replace is nothing for root."""
    assert "uid 1000" in refusal_of_step("/x", found(FOLDER, 0o700, ME), 0)
    assert refusal_of_step("/x", found(FOLDER, 0o700, 0), 0) == ""


@pytest.mark.parametrize(
    ("group", "members", "gid", "good"),
    [
        ("me", [], 5, True),
        ("me", ["me"], 5, True),
        ("me", ["me", "them"], 5, False),
        ("users", [], 100, False),
        ("staff", ["me"], 50, False),
        ("root", [], 0, True),
        ("wheel", ["root"], 0, True),
        ("wheel", ["root", "them"], 0, False),
        ("", [], 12345, False),
        ("", [], 2000, True),
        ("me", [], 7, False),
        ("bob", [], 6, False),
    ],
)
def test_an_own_group(
    monkeypatch: pytest.MonkeyPatch, group: str, members: list[str], gid: int, good: bool
) -> None:
    """PROTOCOL-1.18: the user's own (umask 002), root's, and one that a container gives."""

    def group_of(gid: int) -> SimpleNamespace:
        if not group:
            raise KeyError(gid)
        return SimpleNamespace(gr_name=group, gr_mem=members)

    monkeypatch.setattr(grp, "getgrgid", group_of)
    me = SimpleNamespace(pw_name="me", pw_uid=ME, pw_gid=5)
    bob = SimpleNamespace(pw_name="bob", pw_uid=THEM, pw_gid=6)
    users = [SimpleNamespace(pw_name="root", pw_uid=0, pw_gid=0), me, bob]
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: me)
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(os, "getgroups", lambda: [2000, 2001])
    monkeypatch.setattr(sys, "platform", "linux")
    access_list = errno.ENODATA

    def getxattr(place: str, name: str) -> bytes:
        assert (place, name) == ("/x", "system.posix_acl_access")
        if access_list:
            raise OSError(access_list, "?")
        return b"\2\0\0\0"

    def is_accepted() -> bool:
        return refusal_of_step("/x", found(FOLDER, 0o775, ME, gid), ME) == ""

    monkeypatch.setattr(os, "getxattr", getxattr, raising=False)
    assert is_own_group(gid, ME) == is_accepted() == good
    access_list = 0  # there is one
    assert not is_accepted()
    access_list = errno.EACCES  # it cannot be told
    assert not is_accepted()
    access_list = errno.EOPNOTSUPP
    assert is_accepted() == good
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not is_accepted()
    monkeypatch.setattr(sys, "platform", "linux")
    bob.pw_gid = gid  # a first group names no members
    assert not is_own_group(gid, ME) and not is_accepted()


# --- the way --------------------------------------------------------------------------------


def names(path: Path | str) -> list[str]:
    """Return the steps to a path."""
    return [place for place, _ in steps_to(str(path))]


def test_every_folder_and_link_is_a_step(tmp_path: Path) -> None:
    """PROTOCOL-1.18: as the kernel goes: links in the middle, relative, absolute, and `..`."""
    real = tmp_path / "a" / "b"
    real.mkdir(parents=True)
    above = ["/", *(str(folder) for folder in reversed(tmp_path.parents) if str(folder) != "/")]
    above.append(str(tmp_path))
    assert names(real) == [*above, str(real.parent), str(real)]
    (tmp_path / "rel").symlink_to("a")
    rel = [*above, str(tmp_path / "rel"), str(tmp_path / "a"), str(real)]
    assert names(tmp_path / "rel" / "b") == rel
    (tmp_path / "abs").symlink_to(real)
    assert names(tmp_path / "abs")[-2:] == [str(tmp_path / "a"), str(real)]
    (tmp_path / "up").symlink_to("a/../rel//./b")
    assert {str(tmp_path / "up"), str(tmp_path / "rel"), str(real)} <= {*names(tmp_path / "up")}
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="too many links"):
        names(tmp_path / "loop")
    with pytest.raises(FileNotFoundError):
        names(tmp_path / "none" / "x")


@pytest.mark.parametrize("depth", range(4))
def test_a_folder_far_above_counts(tmp_path: Path, depth: int) -> None:
    """PROTOCOL-1.18: not the nearest alone; the sticky bit mends it."""
    way = [tmp_path / "/".join("abcd"[:n]) for n in range(1, 5)]
    way[-1].mkdir(parents=True)
    assert refusal_of_way(str(way[-1]), os.getuid()) == ""
    way[depth].chmod(0o777)
    assert f"-w {way[depth]} (mode 0777" in refusal_of_way(str(way[-1]), os.getuid())
    way[depth].chmod(0o1777)
    assert refusal_of_way(str(way[-1]), os.getuid()) == ""


@ROOT_ONLY
def test_a_link_that_another_user_made(tmp_path: Path) -> None:
    """PROTOCOL-1.18: in a sticky folder it is theirs to change, wherever it leads today."""
    (mine := tmp_path / "mine").mkdir()
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o1777)
    (link := shared / "link").symlink_to(mine)
    assert refusal_of_way(str(link), 0) == ""
    os.lchown(link, 12345, 12345)
    assert f"{link} belongs to uid 12345" in refusal_of_way(str(link), 0)


def test_the_folders_of_an_ordinary_system() -> None:
    """PROTOCOL-1.18: a home, /tmp and /var/tmp are as they should be."""
    for place in ("/tmp", "/var/tmp", pwd.getpwuid(os.getuid()).pw_dir):
        if os.path.isdir(place):  # noqa: PTH112
            assert refusal_of_way(place, os.getuid()) == ""


WRITER = 65534  # any user but root
ACL_TAGS = {"owner": 1, "user": 2, "group": 4, "mask": 0x10, "others": 0x20}


def give_by_acl(folder: Path, uid: int) -> None:
    """Let user `uid` write `folder` by an access list (acl(5), <linux/posix_acl_xattr.h>)."""
    nobody = 0xFFFFFFFF
    rows = [("owner", 7, nobody), ("user", 7, uid), ("group", 5, nobody)]
    rows += [("mask", 7, nobody), ("others", 5, nobody)]
    packed = [struct.pack("<HHI", ACL_TAGS[tag], bits, who) for tag, bits, who in rows]
    try:
        os.setxattr(folder, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(packed))
    except (AttributeError, OSError) as exc:
        pytest.skip(f"no access lists here: {exc}")


@ROOT_ONLY
def test_an_access_list_lets_another_user_in(bus_root: Path) -> None:
    """PROTOCOL-1.18: its mask shows as the bits of a group that looks like one's own."""
    bus_root.chmod(0o755)
    (shared := bus_root / "p").mkdir()
    (root := shared / "root").mkdir()
    give_by_acl(shared, WRITER)
    shared_mode = stat.S_IMODE(shared.stat().st_mode)
    assert (shared_mode, shared.stat().st_gid) == (0o775, 0)
    move = "import os, sys; os.rename(sys.argv[1], sys.argv[1] + '2')"
    subprocess.run([PYTHON, "-c", move, str(root)], user=WRITER, group=WRITER, cwd="/", check=True)
    (shared / "root2").rename(root)
    assert f"chmod g-w {shared}" in refusal_of_way(str(root), 0)
    shared.chmod(0o755)  # what it says to do; it takes the list's mask away, too
    assert refusal_of_way(str(root), 0) == ""
    done = subprocess.run([PYTHON, "-c", move, str(root)], user=WRITER, group=WRITER, cwd="/")
    assert done.returncode


@ROOT_ONLY
def test_a_sandbox_that_knows_one_user() -> None:
    """PROTOCOL-1.18: there root's folders show as nobody's (user_namespaces(7)); they are safe."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import importlib.util as u;"
        "s = u.spec_from_file_location('t', sys.argv[1]); m = u.module_from_spec(s);"
        "s.loader.exec_module(m); import os; print(os.stat('/').st_uid);"
        "print(m.refusal_of_way('/tmp', os.getuid()) or 'safe')"
    )
    assert folder_trust.__file__
    shutil.which("unshare") or pytest.skip("unshare is not installed")
    command = ["unshare", "--user", "--map-current-user", PYTHON]
    with open(folder_trust.__file__, "rb") as source:  # noqa: PTH123
        copy = Path("/tmp") / f"wakebus-trust-{os.getpid()}.py"
        copy.write_bytes(source.read())
    copy.chmod(0o644)
    try:
        done = subprocess.run(
            [*command, "-c", code, str(copy)], user=12345, capture_output=True, text=True, cwd="/"
        )
    finally:
        copy.unlink()
    if done.returncode:
        pytest.skip(f"this system allows no such namespace: {done.stderr}")
    assert done.stdout.split() == ["65534", "safe"]


# --- client and daemon ----------------------------------------------------------------------


def expose(folder: Path, how: str) -> str:
    """Let others replace what lies in `folder`; return what is said of it."""
    if how == "owner":
        os.chown(folder, 12345, -1)
        return f"{folder} belongs to uid 12345 (mode 0700)"
    folder.chmod(0o777 if how == "world" else 0o770)
    if how == "group":
        os.chown(folder, -1, 54321)
    return f"-w {folder} (mode {'0777' if how == 'world' else '0770'}"


HOW = ["world", *(["owner", "group"] if os.getuid() == 0 else [])]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("place", ["root", "above"])
def test_the_bus_folder(
    bus_root: Path, monkeypatch: pytest.MonkeyPatch, how: str, place: str
) -> None:
    """PROTOCOL-1.1, PROTOCOL-1.18: neither a broker nor a client uses one that others replace."""
    root = bus_root / "above" / "root"
    root.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HERMES_BUS_ROOT", str(root))
    folder = {"root": root, "above": bus_root / "above"}[place]
    folder.chmod(0o700)
    bus = Broker(root).start()
    assert bus.word == "ready"
    try:
        Client().close()
        said = expose(folder, how)
        with pytest.raises(NotRunning) as caught:
            Client()
        assert said in caught.value.text and "HERMES_BUS_ROOT" in caught.value.data["step"]
        for verb in ("status", "start", "run"):
            done = bus.command(verb)
            assert done.returncode == 1 and said in done.stderr, done
            assert "Traceback" not in done.stderr and "HERMES_BUS_ROOT" in done.stderr
    finally:
        bus.kill()
    assert said in bus.command("start").stderr
    os.chown(folder, os.getuid(), os.getgid())
    folder.chmod(0o700)
    assert bus.start().word == "ready"
    bus.stop()


@pytest.fixture
def elsewhere(bus_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Broker, Path]]:
    """A broker whose root is too long for sockets, and their folder, in TMPDIR."""
    (long := bus_root / ("long" * 25)).mkdir(mode=0o700)
    (temp := bus_root / "t").mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setenv("HERMES_BUS_ROOT", str(long))
    bus = Broker(long).start()
    assert bus.word == "ready"
    yield bus, Path(bus.address.removeprefix("ipc://")).parent
    bus.kill()


@pytest.mark.parametrize("how", HOW)
def test_the_temporary_folder(bus_root: Path, elsewhere: tuple[Broker, Path], how: str) -> None:
    """PROTOCOL-1.4, PROTOCOL-1.18: a TMPDIR that others may write without the sticky bit."""
    bus, folder = elsewhere
    temp = folder.parent
    assert temp == bus_root / "t" and folder.name.startswith("wakebus-")
    said = expose(temp, how)
    with pytest.raises(NotRunning) as caught:  # the broker runs, and the folder changed since
        Client()
    assert said in caught.value.text
    bus.kill()
    done = bus.command("start")
    assert done.returncode == 1 and said in done.stderr and "TMPDIR" in done.stderr
    os.chown(temp, os.getuid(), os.getgid())
    temp.chmod(0o1777)
    assert bus.start().word == "ready"
    Client().close()


@ROOT_ONLY
def test_a_socket_of_another_user(bus_root: Path) -> None:
    """PROTOCOL-1.18: one that was given, in a folder like /tmp, is of who runs, or root's."""
    bus = Broker(bus_root).start()
    (shared := bus_root / "shared").mkdir()
    shared.chmod(0o1777)
    os.link(bus.folder / "broker.sock", shared / "broker.sock")
    with Client(str(shared / "broker.sock")) as client:
        assert client.status()["pid"] == bus.pid
    os.chown(shared / "broker.sock", 12345, -1)
    with pytest.raises(NotRunning, match="belongs to uid 12345"):
        Client(str(shared / "broker.sock"))
    bus.stop()


@pytest.mark.parametrize("how", ["root", "above"])
def test_a_link_on_the_way_is_resolved_once(
    bus_root: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """PROTOCOL-1.5, PROTOCOL-1.18: as /tmp is one on macOS: address.json has the real path."""
    (real := bus_root / "real" / "root").mkdir(parents=True, mode=0o700)
    (bus_root / "above").symlink_to(bus_root / "real")
    (bus_root / "root").symlink_to(real)
    root = {"root": bus_root / "root", "above": bus_root / "above" / "root"}[how]
    monkeypatch.setenv("HERMES_BUS_ROOT", str(root))
    bus = Broker(root).start()
    assert bus.word == "ready"
    assert read_address(bus.folder)["router"] == f"ipc://{real.resolve()}/bus/broker.sock"
    with Client() as client:
        assert client.status()["pid"] == bus.pid
        came: list[str] = []
        client.subscribe("a.**", lambda event: came.append(event.topic))
    assert bus.command("status").returncode == 0
    assert bus.stop() == 0
    assert [path.name for path in bus.folder.glob("*.sock")] == []


@ROOT_ONLY
def test_another_user_forges_no_receipt(bus_root: Path, elsewhere: tuple[Broker, Path]) -> None:
    """PROTOCOL-1.18: who replaces the sockets' folder in a wide TMPDIR is not talked to."""
    _, folder = elsewhere
    bus_root.chmod(0o755)
    (temp := folder.parent).chmod(0o777)
    script = (
        "import os, socket, sys\n"
        "folder = sys.argv[1]\n"
        "os.rename(folder, folder + '-moved')\n"
        "os.mkdir(folder)\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "s.bind(folder + '/broker.sock')\n"
        "os.chmod(folder + '/broker.sock', 0o777)\n"
    )
    subprocess.run([PYTHON, "-c", script, str(folder)], user=12345, cwd="/", check=True)
    assert (folder / "broker.sock").stat().st_uid == 12345
    with pytest.raises(NotRunning, match="not safe"):
        Client()
    temp.chmod(0o1777)  # the harm is done: the folder itself is theirs
    with pytest.raises(NotRunning, match=f"{folder} belongs to uid 12345"):
        Client()


@ROOT_ONLY
def test_a_client_that_reconnects(elsewhere: tuple[Broker, Path]) -> None:
    """PROTOCOL-1.18: it looks again; it tells a stranger nothing, and comes back to its broker."""
    bus, folder = elsewhere
    with (
        Client(timeout=30) as client,
        zmq.Context() as context,
        context.socket(zmq.ROUTER) as forger,
    ):
        client.declare("e")
        bus.kill()
        until(lambda: not client.connected(0))
        (folder / "broker.sock").unlink()
        forger.bind(f"ipc://{folder}/broker.sock")
        os.chown(folder / "broker.sock", 12345, -1)
        forger.setsockopt(zmq.LINGER, 0)
        with pytest.raises(NotRunning, match="nothing was sent"):
            client.send("e", "secret", timeout=2)
        assert not forger.poll(0) and not client.connected(0)
        forger.close()
        shutil.rmtree(folder)
        assert bus.start().word == "ready"
        assert client.send("e", "hi").state == "queued"


def greet_as_router(peer: socket.socket) -> None:
    """Make the handshake of ZMTP 3.0 (RFC 23), mechanism NULL."""
    peer.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    fields = (b"Socket-Type", b"ROUTER"), (b"Identity", b"")
    body = b"\x05READY" + b"".join(
        bytes([len(name)]) + name + struct.pack(">I", len(value)) + value for name, value in fields
    )
    peer.sendall(bytes([4, len(body)]) + body)


def test_a_connection_whose_path_has_gone(bus_root: Path) -> None:
    """PROTOCOL-1.18: who made it and took the path away may have been anybody: nothing is told."""
    bus = Broker(bus_root).start()
    path = bus.address.removeprefix("ipc://")
    with Client(timeout=30) as client, socket.socket(socket.AF_UNIX) as forger:
        client.declare("e")
        bus.kill()
        until(lambda: not client.connected(0))
        Path(path).unlink()
        forger.settimeout(30)
        forger.bind(path)
        forger.listen()
        peer, _ = forger.accept()
        with peer:
            peer.settimeout(30)
            Path(path).unlink()
            greet_as_router(peer)
            heard = b"".join(iter(lambda: peer.recv(4096), b""))  # until it is left
        assert b"READY" in heard and b'"' not in heard  # the handshake, and no frame
        assert not client.connected(0)
        forger.close()
        assert bus.start().word == "ready"
        assert client.send("e", "hi").state == "queued"
    bus.stop()
