"""
The commands that a user is told to run next, whole: pasted as printed, they meet the same Hermes.

Rule 1: each names the home, unless a bare one takes it too. Rule 2: each is quoted for a shell.
Rule 3: nothing here is run.
"""

import json
import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from wakebus.broker.paths import hermes_home, real_home

CHECKOUT: Final = "PATH_OF_THE_CHECKOUT"
# What `hermes -p` takes (hermes_cli/main.py:566 of hermes-agent 0.19.0).
_PROFILE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def install(home: Path, *options: str) -> str:
    """Return `wakebus install hermes` for the Hermes of `home`."""
    bare = home == default_home() == hermes_home()
    named = [] if bare else ["--home", str(home)]
    return shlex.join(["wakebus", "install", "hermes", *named, *options])


def restart(home: Path) -> str:
    """Return the command that restarts the gateway of `home`."""
    words = ["hermes", "gateway", "restart"]
    if home == default_home():
        return shlex.join(words)
    if home.parent == default_home() / "profiles" and _PROFILE.fullmatch(home.name):
        return shlex.join(["hermes", "-p", home.name, *words[1:]])
    return f"HERMES_HOME={shlex.quote(str(home))} {shlex.join(words)}"


def default_home() -> Path:
    """Return `~/.hermes` of the real user, whatever the environment says."""
    return Path(real_home()) / ".hermes"


def pip(python: str, *options: str, has_pip: bool = True) -> str:
    """
    Return how `python` gets this wakebus. Not by its name: nobody vouches for that on PyPI.

    has_pip: False in an environment that uv made, as Hermes's installer does for a git checkout:
    then by uv, else by the pip of whoever runs this, which also installs elsewhere.
    """
    return _pip(python, has_pip, "install", *options, origin() or CHECKOUT)


def pip_uninstall(python: str, *packages: str, has_pip: bool = True) -> str:
    """Return how `packages` are taken out of the environment of `python`; `has_pip` as above."""
    return _pip(python, has_pip, "uninstall", *packages)


def _pip(python: str, has_pip: bool, verb: str, *words: str) -> str:
    yes = ["-y"] if verb == "uninstall" else []
    if has_pip:
        return shlex.join([python, "-m", "pip", verb, *yes, *words])
    if shutil.which("uv"):  # it never asks
        return shlex.join(["uv", "pip", verb, "--python", python, *words])
    if find_spec("pip") is not None:
        return shlex.join([sys.executable, "-m", "pip", "--python", python, verb, *yes, *words])
    return f"{shlex.join([python, '-m', 'ensurepip'])} && {_pip(python, True, verb, *words)}"


def origin() -> str:
    """Return the path that the running wakebus was installed from, "" if it is not known."""
    from importlib.metadata import PackageNotFoundError, distribution  # not in every Hermes

    try:
        said = json.loads(distribution("wakebus").read_text("direct_url.json") or "{}")
        url = urlsplit(str(said.get("url", "")))
    except (PackageNotFoundError, ValueError, AttributeError):
        return ""
    path = unquote(url.path) if url.scheme == "file" else ""
    return path if path and Path(path).exists() else ""
