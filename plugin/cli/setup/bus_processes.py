"""
Listeners and couriers in terminals, found among this user's processes; no verb.

Rule: a process counts when its command line is that of wakebus and its environment names this bus;
what cannot be told counts as somebody else's.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from os.path import normpath
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from wakebus.broker.paths import bus_root, real_home
from wakebus.broker.system.processes import Process, process_of

VERBS: Final = ("listen", "courier")
MODULE: Final = "wakebus.plugin.cli"  # as services call it: python -m
NO_WORDS: Final = -1
LONGEST: Final = 6  # words before the verb and it: python -P -m module listen


class BusProcess(NamedTuple):
    """A process that holds an endpoint of this bus, and its command line, without the program."""

    process: Process
    words: str


def find_processes() -> Iterator[BusProcess]:
    """Yield this user's listeners and couriers of this bus, but none that this process is in."""
    own = {os.getpid(), *(one.pid for one in psutil.Process().parents())}
    for found in psutil.process_iter():
        try:
            if found.pid in own or found.uids().real != os.getuid():
                continue
            words = found.cmdline()
            if (start := first_word(words)) == NO_WORDS or not _is_here(found):
                continue
            yield BusProcess(process_of(found.pid), " ".join(words[start:]))
        except (psutil.Error, OSError):
            continue  # it has ended, or may not be looked at


def first_word(words: Sequence[str]) -> int:
    """Return where the verb of a `wakebus listen` or `wakebus courier` stands, else NO_WORDS."""
    for place, (before, word) in enumerate(pairwise(words[:LONGEST]), start=1):
        if word in VERBS and (Path(before).name == "wakebus" or before == MODULE):
            return place
    return NO_WORDS


def _is_here(found: psutil.Process) -> bool:
    given = Path(found.environ().get("HERMES_BUS_ROOT", "").strip() or default_root())
    return normpath(found.cwd() / given.expanduser()) == str(bus_root())


def default_root() -> str:
    """Return the root of the bus where no variable names one. Raises NotRunning."""
    return f"{real_home('HERMES_BUS_ROOT')}/.hermes"
