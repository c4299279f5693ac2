"""Where the sockets lie, and what is left alone there."""

import socket
import stat
from pathlib import Path

import pytest
import zmq

from wakebus.broker.server import socket_paths
from wakebus.broker.system.private_files import CannotStart


def _left(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def test_in_the_folder(bus_root: Path) -> None:
    """PROTOCOL-1.3: three sockets; those of a killed broker go."""
    found = socket_paths.choose_paths(bus_root)
    assert [path.name for path in found] == ["broker.sock", "pub.sock", "sub.sock"]
    for path in found:
        _left(path)
    assert socket_paths.choose_paths(bus_root) == found
    assert list(bus_root.iterdir()) == []


@pytest.mark.parametrize("name", ["broker.sock", "pub.sock", "sub.sock"])
def test_what_is_not_ours(bus_root: Path, name: str) -> None:
    """PROTOCOL-1.3: it is named, and nothing at all is removed."""
    for path in socket_paths.choose_paths(bus_root):
        if path.name == name:
            path.write_text("mine")
        else:
            _left(path)
    with pytest.raises(CannotStart, match=str(bus_root / name)):
        socket_paths.choose_paths(bus_root)
    assert (bus_root / name).read_text() == "mine" and len(list(bus_root.iterdir())) == 3


def test_a_long_path(bus_root: Path) -> None:
    """PROTOCOL-1.4: all three in one private folder, which goes with them."""
    folder = bus_root / ("long" * 25)
    folder.mkdir()
    found = socket_paths.choose_paths(folder)
    home = found.router.parent
    assert {path.parent for path in found} == {home} and home != folder
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert all(len(str(path)) <= zmq.IPC_PATH_MAX_LEN for path in found)
    for path in found:
        _left(path)
    socket_paths.remove_sockets(folder, found)
    assert not home.exists()
