"""One broker per folder."""

import os
from pathlib import Path

import pytest

from wakebus.broker.system.lock_file import (
    LOCK,
    AlreadyRunning,
    lock_again,
    lock_folder,
    lock_holder,
    take_lock,
)
from wakebus.broker.system.private_files import is_same_file


def test_one_holder(tmp_path: Path) -> None:
    """PROTOCOL-1.2: the second is told; the file says who has it; it ends with its descriptor."""
    assert lock_holder(tmp_path) is None
    lock = take_lock(tmp_path)
    assert lock_holder(tmp_path) == os.getpid()
    with pytest.raises(AlreadyRunning, match=str(tmp_path)):
        take_lock(tmp_path)
    os.close(lock)
    assert lock_holder(tmp_path) is None


def test_the_folder_is_locked_too(tmp_path: Path) -> None:
    """PROTOCOL-1.13: whatever happens to the file."""
    guard = lock_folder(tmp_path)
    with pytest.raises(AlreadyRunning):
        lock_folder(tmp_path)
    os.close(guard)


def test_a_lock_file_that_was_replaced(tmp_path: Path) -> None:
    """PROTOCOL-1.13: the same descriptor holds the new one; not while somebody looks."""
    lock = take_lock(tmp_path)
    (tmp_path / LOCK).unlink()
    other = take_lock(tmp_path)
    assert not lock_again(tmp_path, lock)
    os.close(other)
    assert lock_again(tmp_path, lock)
    assert is_same_file(tmp_path / LOCK, lock) and lock_holder(tmp_path) == os.getpid()
    os.close(lock)
    assert lock_holder(tmp_path) is None
