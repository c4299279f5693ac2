"""
A stand-in for `systemctl --user`: it starts and stops what the units of $XDG_CONFIG_HOME say.

Run as a program. State lies in $FAKE_SYSTEMD; what was asked is in its file `asked`.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil


def main(words: list[str]) -> int:
    """Do what `systemctl --user WORDS` does; return its exit status."""
    state = Path(os.environ["FAKE_SYSTEMD"])
    with (state / "asked").open("a") as asked:
        asked.write(shlex.join(words) + "\n")
    verb, unit = words[0], words[-1]
    if (state / "broken").exists() and verb != "is-active":
        print("Failed to connect to bus: No medium found", file=sys.stderr)
        return 1
    if verb in ("show-environment", "daemon-reload"):
        return 0
    if verb == "is-active":
        return 0 if running(state / unit) else 3
    if verb in ("disable", "restart"):
        stop(state / unit)
    if verb == "disable":
        (state / f"{unit}.enabled").unlink(missing_ok=True)
    if verb == "enable":
        (state / f"{unit}.enabled").touch()
    if verb in ("start", "restart") and not running(state / unit):
        start(state / unit, folder() / unit)
    return 0


def folder() -> Path:
    """Where the units of a user lie."""
    return Path(os.environ["XDG_CONFIG_HOME"], "systemd", "user")


def start(pid_file: Path, unit: Path) -> None:
    """Run the command of a unit with its environment alone."""
    text = unit.read_text()
    command = unescaped(re.findall(r"^ExecStart=(.*)$", text, re.M)[0])
    given = [unescaped(one)[0] for one in re.findall(r"^Environment=(.*)$", text, re.M)]
    # What systemd gives by itself, and what finds this stand-in again.
    own = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME", "FAKE_SYSTEMD")}
    child = subprocess.Popen(
        command,
        env={**own, **dict(one.split("=", 1) for one in given)},
        cwd=re.findall(r"^WorkingDirectory=(.*)$", text, re.M)[0],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pid_file.write_text(str(child.pid))


def unescaped(text: str) -> list[str]:
    """Return the words of a line as systemd reads them."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    codes = {"n": "\n", "t": "\t"}
    return [
        re.sub(r"\\(.)", lambda found: codes.get(found[1], found[1]), word).replace("%%", "%")
        for word in words
    ]


def running(pid_file: Path) -> bool:
    """Whether the process of a unit runs."""
    try:
        return psutil.Process(int(pid_file.read_text())).status() != psutil.STATUS_ZOMBIE
    except (FileNotFoundError, psutil.NoSuchProcess):
        return False


def stop(pid_file: Path) -> None:
    """End the process of a unit and wait for it."""
    if running(pid_file):
        os.kill(int(pid_file.read_text()), signal.SIGTERM)
    while running(pid_file):
        time.sleep(0.01)


if __name__ == "__main__":
    raise SystemExit(main([word for word in sys.argv[1:] if word != "--user"]))
