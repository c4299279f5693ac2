"""
A journal on disk: one JSON object a line, appended, rewritten when it has grown too long.

Rule 1: what `append` and `rewrite` return from is on disk (fsync). Rule 2: no two processes write
one file: each writes `NAME.<16 hex>.jsonl` (0600), and its first write takes over what others
left and removes their files. So the loser of a takeover, frozen or late, harms nothing: it finds
its file gone. Rule 3: a half line, of a power cut or a full disk, costs only itself.
"""

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from wakebus.broker.system.durable_file import make_folders, replace_file, sync_file

JournalLine = dict[str, Any]


class Journal:
    """
    The journal `file` of this process; `ours`: it has taken over what others left.

    `length`: how many lines it has.
    """

    def __init__(self, file: Path) -> None:
        self._folder, self._name = file.parent, file.stem
        self._file = file.with_suffix(f".{secrets.token_hex(8)}.jsonl")
        self._torn = False
        self.ours = False
        self.length = 0

    def read(self) -> Iterator[JournalLine]:
        """Yield the lines that others left, oldest file first. Raises OSError."""
        for file in sorted(self._others(), key=lambda file: file.stat().st_mtime_ns):
            for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
                if (found := _parsed(line)) is not None:
                    yield found

    def _others(self) -> list[Path]:
        return [file for file in self._folder.glob(f"{self._name}.*.jsonl") if file != self._file]

    def append(self, line: JournalLine, whole: Callable[[], Iterable[JournalLine]]) -> None:
        """
        Add `line`. `whole`: the lines before it, for where somebody has deleted the file.

        Raises OSError: the disk does not take it, or another process has taken over.
        """
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        except FileNotFoundError:
            self.rewrite([*whole(), line])
            return
        start = "\n" if self._torn else ""
        self._torn = True
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{start}{_text(line)}")
            file.flush()
            sync_file(file.fileno())
        self._torn = False
        self.length += 1

    def rewrite(self, lines: Iterable[JournalLine]) -> None:
        """Make `lines` the whole journal, in one step. Raises OSError."""
        if self.ours and not self._file.exists() and self._others():
            raise OSError(errno.ESTALE, "another process has taken over", str(self._file))
        texts = [_text(line) for line in lines]
        make_folders(self._folder, 0o700)
        replace_file(self._file, "".join(texts).encode("ascii"))
        if not self.ours:
            self._remove_others()
        self.ours, self._torn, self.length = True, False, len(texts)

    def _remove_others(self) -> None:
        drafts = self._folder.glob(f".{self._name}.*.jsonl.*")
        for file in (*self._others(), *drafts):
            file.unlink(missing_ok=True)


def _text(line: JournalLine) -> str:
    return json.dumps(line) + "\n"  # in ASCII: no character of it can be taken for a line's end


def _parsed(line: str) -> JournalLine | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
