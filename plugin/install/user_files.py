"""
Reading and replacing a user's file: in one step, through its link, with its mode.

Rule: after any failure the old file is there, whole; what went wrong is CannotInstall.
"""

import os
import shlex
from pathlib import Path
from typing import Final

from wakebus.broker.system.durable_file import make_folders, replace_file
from wakebus.plugin.install.errors import CannotInstall

MAX_BYTES: Final = 4 << 20  # far above any config.yaml; more than that is no such file


def read_file(path: Path) -> str | None:
    """Return a file's text with its own line ends, or None if there is none."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise CannotInstall(f"{path} is no file", _look(path))
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise failed("read", path, exc) from exc
    if len(data) > MAX_BYTES:
        raise CannotInstall(f"{path} is larger than {MAX_BYTES >> 20} MiB", "Is it the right file?")
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise CannotInstall(f"{path}:{line}: not UTF-8", "Save it as UTF-8.") from exc


def check_writable(path: Path) -> None:
    """Raise CannotInstall where `write_file` could not replace the file at `path`, or made none."""
    target = Path(os.path.realpath(path))
    for one in (target.parent, target):
        if one.exists() and not os.access(one, os.W_OK):
            raise CannotInstall(
                f"cannot write {path}: {one} is read-only; nothing was changed",
                f"{_look(path)}; lsattr -d {shlex.quote(str(target))}",
            )


def write_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Put `text` in place. A file that is there keeps its mode and owner, a link its target."""
    target = Path(os.path.realpath(path))
    try:
        make_folders(target.parent)
        owner = None
        if target.exists():
            old = target.stat()
            mode = old.st_mode & 0o7777
            if os.geteuid() == 0:  # under sudo the file stays the user's
                owner = (old.st_uid, old.st_gid)
        replace_file(target, text.encode(), mode=mode, owner=owner)
    except OSError as exc:
        raise failed("write", path, exc) from exc


def remove_file(path: Path) -> None:
    """Remove a file, what Python compiled from it, and its folder if that is empty now."""
    cache = path.parent / "__pycache__"
    try:
        for one in [path, *cache.glob(f"{path.stem}.*.pyc")]:
            one.unlink(missing_ok=True)
    except OSError as exc:
        raise failed("remove", path, exc) from exc
    for folder in (cache, path.parent):
        try:
            folder.rmdir()
        except OSError:
            pass  # it is not there, or something else is in it


def failed(verb: str, path: Path, error: OSError) -> CannotInstall:
    """Return the error of `verb` on the file at `path`, with where to look."""
    reason = error.strerror or type(error).__name__
    return CannotInstall(f"cannot {verb} {path}: {reason}", _look(path))


def _look(path: Path) -> str:
    return f"Look at: {shlex.join(['ls', '-ld', str(path.parent), str(path)])}"
