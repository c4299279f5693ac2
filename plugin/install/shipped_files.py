"""
Files of ours that lie in other people's folders: which of them may be replaced.

Rule 1: pure. Rule 2: a file's last line is a stamp with the hash of all before it. A stamp that
fits says that nobody has touched the file since some version of wakebus wrote it, so a newer
version may replace it; without one it is the user's, and stays.
"""

import hashlib
import re
from typing import Final, Literal

FileState = Literal["missing", "current", "outdated", "changed"]

_WORDS: Final = "shipped with wakebus, replaced by its next version unless you change this file:"
_STAMP: Final = re.compile(rf"^(?:# |<!-- ){re.escape(_WORDS)} ([0-9a-f]{{64}})(?: -->)?\n\Z", re.M)


def stamped(text: str, *, markdown: bool) -> str:
    """Return `text` with its stamp as the last line, a comment of its language."""
    text = text if text.endswith("\n") else f"{text}\n"
    line = f"{_WORDS} {_hash(text)}"
    return text + (f"<!-- {line} -->\n" if markdown else f"# {line}\n")


def file_state(found: str | None, shipped: str) -> FileState:
    """Return what `found` is to the stamped text `shipped`; None is no file."""
    if found is None:
        return "missing"
    if found == shipped:
        return "current"
    return "outdated" if untouched(found) else "changed"


def untouched(found: str) -> bool:
    """Return whether a file is as a version of wakebus wrote it."""
    stamp = _STAMP.search(found)
    return stamp is not None and _hash(found[: stamp.start()]) == stamp[1]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
