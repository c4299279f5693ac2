"""
What a cut of power may leave of files that were being written.

Of a file: what was written before its last fsync began; of later writes what `CONTENT` says. Of
names: what an fsync of their folder made sure; of later ones what `NAMES` says.
"""

import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from powercut.traced import Operation

# `some`: each write or not. `torn`: each sector of a disk (512), or page of memory (4096), or not.
# `zeros`: the file has grown, and nothing of it is written.
Content = Literal["none", "all", "first", "some", "torn512", "torn4096", "zeros"]
# `none`: POSIX's word. `some`: each or not. `journal`: in their order, and an fsync of any file
# makes those before it sure (ext4, XFS, btrfs).
Names = Literal["none", "all", "some", "journal"]
CONTENT: Final[tuple[Content, ...]] = get_args(Content)
NAMES: Final[tuple[Names, ...]] = get_args(Names)


class Change(NamedTuple):
    """Bytes at a place, or (None) a length."""

    number: int
    at: int
    data: bytes | None

    def apply_to(self, content: bytearray) -> None:
        """Make the change."""
        if self.data is None:
            del content[self.at :]
        content.extend(bytes(max(0, self.at - len(content))))
        if self.data is not None:
            content[self.at : self.at + len(self.data)] = self.data

    def without_data(self, size: int) -> "Change":
        """Return what it does to the length of a file of `size`."""
        if self.data is None:
            return self
        return Change(self.number, max(size, self.at + len(self.data)), None)


class File:
    """What is sure of a file, and what was changed since."""

    def __init__(self, sure: bytes = b"") -> None:
        self.sure, self.size = bytearray(sure), len(sure)
        self.changes: list[Change] = []

    def add(self, change: Change) -> None:
        """Remember a change."""
        self.changes.append(change)
        end = change.at if change.data is None else max(self.size, change.at + len(change.data))
        self.size = end

    def sync(self, begun: int) -> None:
        """What was changed before `begun` is sure."""
        for change in self.changes:
            if change.number < begun:
                change.apply_to(self.sure)
        self.changes = [change for change in self.changes if change.number >= begun]

    def after_cut(self, content: Content, rnd: random.Random) -> bytes:
        """Return what may be in it."""
        found, changes = bytearray(self.sure), self.changes
        if content.startswith("torn"):
            changes = [part for change in changes for part in sectors(change, int(content[4:]))]
        elif content == "first":
            changes = changes[: rnd.randint(0, len(changes))]
        elif content == "none":
            changes = []
        for change in changes:
            if content == "zeros":
                change.without_data(len(found)).apply_to(found)
            elif content in ("all", "first") or rnd.random() < 0.5:
                change.apply_to(found)
        return bytes(found)


def sectors(change: Change, size: int) -> list[Change]:
    """Return a change as one of each sector."""
    if change.data is None:
        return [change]
    begins = range(change.at - change.at % size, change.at + len(change.data), size)
    edges = [max(begin, change.at) for begin in begins] + [change.at + len(change.data)]
    return [
        Change(change.number, a, change.data[a - change.at : b - change.at])
        for a, b in pairwise(edges)
    ]


class Naming(NamedTuple):
    """`file` gets the name `new`, the name `old` goes."""

    old: str
    new: str = ""
    file: File | None = None

    def apply_to(self, names: dict[str, File]) -> None:
        """Make it so."""
        names.pop(self.old, None)
        if self.file is not None:
            names[self.new] = self.file


class Disk:
    """All that was done until now; at first there is what `files` say, and it is sure."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._now = {path: File(data) for path, data in (files or {}).items()}
        self._sure = dict(self._now)
        self._namings: list[Naming] = []
        self._journaled = 0

    def apply(self, number: int, operation: Operation) -> None:
        """Do the next operation."""
        what, path, at, data, other = operation
        if what == "make" and path not in self._now:
            self._now[path] = File()
            self._namings.append(Naming("", path, self._now[path]))
        elif what in ("rename", "link") and path in self._now:
            self._namings.append(Naming(path if what == "rename" else "", other, self._now[path]))
            self._namings[-1].apply_to(self._now)
        elif what == "remove" and path in self._now:
            self._namings.append(Naming(path))
            del self._now[path]
        elif what == "sync" and path in self._now:
            self._now[path].sync(at)
            self._journaled = len(self._namings)
        elif what == "sync":  # a folder
            here = [one for one in self._namings if Path(one.new or one.old).parent == Path(path)]
            for naming in here:
                naming.apply_to(self._sure)
            self._namings = [one for one in self._namings if one not in here]
            self._journaled = 0
        elif what in ("write", "size") and path in self._now:  # else it has no name any more
            file = self._now[path]
            place = file.size if at < 0 else at
            file.add(Change(number, place, data if what == "write" else None))

    def after_cut(self, content: Content, names: Names, rnd: random.Random) -> dict[str, bytes]:
        """Return a disk that a cut may leave now, by path."""
        found, more = dict(self._sure), self._namings
        if names == "journal":
            more = more[: rnd.randint(self._journaled, len(more))]
        elif names != "all":
            more = [naming for naming in more if names == "some" and rnd.random() < 0.5]
        for naming in more:
            naming.apply_to(found)
        return {path: file.after_cut(content, rnd) for path, file in found.items()}


def write_out(files: Mapping[str, bytes], below: Path, folder: Path) -> None:
    """Write files that lie below one folder into another."""
    for path, data in files.items():
        target = folder / Path(path).relative_to(below)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
