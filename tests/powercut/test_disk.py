"""The model of a disk: what is sure, what may be there, what never is."""

import random

import pytest

from powercut.disk import CONTENT, NAMES, Content, Disk, Names
from powercut.traced import Operation

OLD, NEW = b"old" * 1000, b"new" * 1000
DRAFT, FILE = "/d/draft", "/d/file"
WRITTEN = (Operation("make", DRAFT), Operation("write", DRAFT, 0, NEW))
RENAMED = Operation("rename", DRAFT, other=FILE)


def seen(*operations: Operation, names: tuple[Names, ...] = NAMES) -> set[bytes]:
    """Return all that a cut may leave of the file, which was old."""
    found = set[bytes]()
    for seed in range(20):
        for content in CONTENT:
            for name in names:
                disk = Disk({FILE: OLD})
                for number, operation in enumerate(operations):
                    disk.apply(number, operation)
                found.add(disk.after_cut(content, name, random.Random(seed)).get(FILE, b"gone"))
    return found


def test_a_file_that_is_replaced_well() -> None:
    """Whole at every moment; sure once the folder is synced."""
    done = (*WRITTEN, Operation("sync", DRAFT, 2), RENAMED, Operation("sync", "/d", 4))
    for length in range(len(done)):
        assert seen(*done[:length]) <= {OLD, NEW}
    assert seen(*done[:4]) == {OLD, NEW} and seen(*done) == {NEW}


def test_a_file_that_is_replaced_badly() -> None:
    """Without an fsync before its name: empty, torn, or zeros."""
    found = seen(*WRITTEN, RENAMED)
    assert {OLD, NEW, b"", bytes(len(NEW))} < found and len(found) > 10


def test_a_name_in_another_folder() -> None:
    """An fsync of one folder says nothing of another."""
    done = (*WRITTEN, Operation("sync", DRAFT, 2), RENAMED, Operation("sync", "/e", 4))
    assert seen(*done, names=("none",)) == {OLD}


@pytest.mark.parametrize("content", CONTENT)
def test_what_an_fsync_did_not_see(content: Content) -> None:
    """What is written while it runs is not sure; what was before it is."""
    disk = Disk({FILE: b""})
    for number, data in enumerate((b"a", b"b")):
        disk.apply(number, Operation("write", FILE, number, data))
    disk.apply(2, Operation("sync", FILE, 1))
    found = {disk.after_cut(content, "all", random.Random(seed))[FILE] for seed in range(20)}
    assert found <= {b"a", b"ab", b"a\0"}
    assert found == {b"a"} or content != "none"


def test_a_file_that_is_cut_off() -> None:
    """A shorter length, too, may be there or not."""
    assert seen(Operation("size", FILE, 3)) == {OLD, OLD[:3]}
