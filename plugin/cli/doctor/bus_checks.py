"""Checks of the bus: its folder, the broker, the courier. Nothing is started and nothing sent."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wakebus.adapters.courier.status_file import is_hidden, read_status
from wakebus.broker.denial import current_sandbox
from wakebus.broker.other_version import version_note
from wakebus.broker.paths import bus_dir, stop_mark
from wakebus.broker.system.lock_file import lock_holder
from wakebus.broker.system.private_files import check_way
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.chats.channels_text import courier_words, state_words
from wakebus.plugin.cli.doctor.finding import Finding

LEAST_FREE: Final = 100 << 20  # bytes: the store's log alone grows to some MiB between two looks


def check_folder() -> Iterator[Finding]:
    """The folder is there, the user's own, safe from others, writable, and has room."""
    folder = bus_dir()
    check_way(folder)
    if not folder.exists():
        yield Finding("note", f"{folder} does not exist yet", "hermes-busd start")
        return
    sandbox = current_sandbox()
    if sandbox and not os.access(folder, os.W_OK):
        yield Finding("note", f"{folder} cannot be written from inside {sandbox.name}")
        return
    if problem := _folder_problem(folder):
        yield Finding("wrong", problem, "Mend that, or set HERMES_BUS_ROOT to a folder of your own")
        return
    free = shutil.disk_usage(folder).free
    text = f"{folder}: yours, {free >> 20:,} MiB free"
    if free < LEAST_FREE:
        yield Finding(
            "wrong", text, "Make room on that disk: the broker refuses messages when it is full"
        )
    else:
        yield Finding("ok", text)


def _folder_problem(folder: Path) -> str:
    owner = folder.stat().st_uid
    if not folder.is_dir():
        return f"{folder} is no folder"
    if owner != os.getuid():
        return f"{folder} belongs to another user (uid {owner})"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return f"{folder} cannot be written from here (its mode, or a read-only disk)"
    return ""


def check_broker() -> Iterator[Finding]:
    """The broker runs and answers."""
    folder = bus_dir()
    if lock_holder(folder) is None:
        on_purpose = ": it was stopped by hand" if stop_mark(folder).exists() else ""
        yield Finding("wrong", f"it does not run{on_purpose}", "hermes-busd start")
        return
    with notify.connect(None) as client:
        data = client.status()
    yield Finding("ok", f"it answers: pid {data['pid']}, {len(data['endpoints'])} endpoints")
    if note := version_note(data):
        yield Finding("note", note.removeprefix("note: "))
    if data["dead_letters"]:
        yield Finding("note", f"{data['dead_letters']} dead letters", "wakebus dead list")
    for name in data["set_aside"]:
        yield Finding("note", f"a damaged store was set aside: {name}", "wakebus logs")


def check_courier() -> Iterator[Finding]:
    """The courier runs, and no platform is held up."""
    if sandbox := current_sandbox():
        yield Finding("note", f"not seen from inside {sandbox.name}")
        return
    status, now = read_status(bus_dir()), time.time()
    words = courier_words(status, now, hidden=is_hidden(bus_dir()))
    yield Finding("ok", words) if status and status.alive else Finding("note", words)
    for name, state in status.platforms.items() if status and status.alive else ():
        if state.get("circuit", "closed") != "closed":
            yield Finding(
                "wrong", f"{name}: {state_words(state, now)}", f"wakebus channels check {name}"
            )
