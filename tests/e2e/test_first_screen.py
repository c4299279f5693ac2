"""The README's first screen: its commands print what it says, on a machine that has nothing yet."""

import re
import subprocess
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.desk import Desk

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FIRST_SCREEN = README.partition("\n## ")[0]
# Ids and times differ each time.
VARIES = re.compile(r"\b1a[0-9a-f]{19}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def steps() -> list[tuple[str, str]]:
    """Return each command of the first screen and what it prints."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"^```console\n(.*?)^```", FIRST_SCREEN, re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = step.partition("\n")
            found.append((command, printed))
    return found


def masked(text: str) -> str:
    """Return a text without what differs each time."""
    return VARIES.sub("…", text)


@pytest.fixture
def home(own_desk: Desk, tmp_path: Path) -> Path:
    """A home whose ~/.hermes is the desk's folder: the commands are run as they are written."""
    (tmp_path / ".hermes").symlink_to(own_desk.root)
    return tmp_path


def test_it_prints_what_it_says(own_desk: Desk, home: Path) -> None:
    """Four commands, from nothing to an answer in a chat; the first one is `make wheel`'s."""
    (install, _), (listen, hello), *others = steps()
    assert install.startswith("pip install .") and len(others) == 2
    env = {**own_desk.env, "HOME": str(home), "WAKEBUS_SERVICES": "true", "PYTHONUNBUFFERED": "1"}
    log = home / "listen.log"
    with log.open("w") as out:
        listener = subprocess.Popen(
            ["sh", "-c", f"exec {listen}"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: log.read_text() == hello, 30)
        for command, printed in others:

            def shown(command: str = command, printed: str = printed) -> bool:
                done = subprocess.run(
                    ["sh", "-c", command], env=env, capture_output=True, text=True, check=False
                )
                return masked(done.stdout + done.stderr) == masked(printed)

            # The answer may need a moment; what is sent is sent once.
            assert until(shown, 30) if command.startswith("cat ") else shown(), command
    finally:
        listener.terminate()
        listener.wait(10)
