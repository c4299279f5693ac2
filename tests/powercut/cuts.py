"""Which moments are looked at, on which disks; drawn from a seed: a run can be done again."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from powercut.disk import CONTENT, NAMES, Content, Disk, Names, write_out
from powercut.traced import Operation

SEED: Final = 20261128
NAMING: Final = ("make", "rename", "link", "remove", "size")


class Cut(NamedTuple):
    """After which operation, and what the disk does with what is not sure."""

    number: int
    content: Content
    names: Names


def states(
    operations: list[Operation], disk: Disk, chosen: list[Cut], below: Path, target: Path
) -> Iterator[Cut]:
    """Write what each cut leaves to `target`, one after the other."""
    rnd = random.Random(SEED)
    left = iter(sorted(chosen))
    cut = next(left, None)
    for number, operation in enumerate(operations):
        disk.apply(number, operation)
        while cut and cut.number == number:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            write_out(disk.after_cut(cut.content, cut.names, rnd), below, target)
            yield cut
            cut = next(left, None)


def drawn_cut(number: int, rnd: random.Random) -> Cut:
    """Return a cut after an operation, on some disk; on one in four nothing is there by luck."""
    if rnd.random() < 0.25:
        return Cut(number, "none", "none")
    return Cut(number, rnd.choice(CONTENT), rnd.choice(NAMES))
