"""
Which Python runs Hermes, and whether it finds wakebus.

Rule 1: `hermes` itself says it: the first line of the script on PATH, through pip's `exec` form for
long paths and the small shell wrapper of Hermes's installer. Rule 2: nothing of Hermes is run.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

# Only a Python can work out the answer: a program that prints its arguments does not.
PROBE: Final = (
    "from importlib.util import find_spec; print(6 * 7000001, bool(find_spec('pip')), flush=True);"
    " import wakebus.plugin.hermes"
)
ANSWER: Final = b"42000006"
PROBE_S: Final = 30.0
_LINKS: Final = 4
_EXEC: Final = re.compile(r"""\bexec'?\s+(?:"(/[^"]+)"|'(/[^']+)'|(/\S+))""")


def find_python() -> str:
    """Return the path of the Python that runs the `hermes` on PATH, "" if that cannot be told."""
    found = shutil.which("hermes")
    for _ in range(_LINKS):
        if not found or not Path(found).is_file():
            return ""
        python, found = next_script(_head(found))
        if python:
            return python if Path(python).exists() else ""
    return ""


def next_script(script: str) -> tuple[str, str]:
    """Return (Python, "") or ("", next script) as `script`'s beginning says, else two ""."""
    first, _, rest = script.partition("\n")
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if not words:
        return "", ""
    if _is_python(words[0]):
        return words[0], ""
    if words[0].endswith("/env") and len(words) > 1 and _is_python(words[-1]):
        return shutil.which(words[-1]) or "", ""
    found = _EXEC.search(rest)
    if found is None:
        return "", ""
    path = str(found[found.lastindex or 0])
    return (path, "") if _is_python(path) else ("", path)


def _is_python(path: str) -> bool:
    return re.fullmatch(r"python[0-9.]*", path.rpartition("/")[2]) is not None


def _head(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(4096).decode("utf-8", "replace")
    except OSError:
        return ""


def why_unknown() -> str:
    """Return why `find_python` found nothing."""
    found = shutil.which("hermes")
    return f"{found} does not tell its Python" if found else "hermes is not on PATH"


class PythonAnswer(NamedTuple):
    """Whether a program is a Python, why it cannot import the plugin, in one line, or "", and
    whether it has pip: an environment that uv made has none."""

    is_python: bool
    problem: str
    has_pip: bool = True


def ask_python(python: str) -> PythonAnswer:
    """Return what the program `python` says when it is to import the plugin."""
    command = [python, "-c", PROBE]
    try:
        done = subprocess.run(
            command, cwd="/", capture_output=True, timeout=PROBE_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return PythonAnswer(False, f"it did not answer within {PROBE_S:.0f} s")
    except OSError as exc:
        return PythonAnswer(False, exc.strerror or "it cannot be run")
    is_python, has_pip = done.stdout.startswith(ANSWER), b" False" not in done.stdout
    if is_python and done.returncode == 0:
        return PythonAnswer(True, "", has_pip)
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    problem = said[-1][:200] if said else f"exit status {done.returncode}"
    return PythonAnswer(is_python, problem, has_pip)
