"""The lead's "agent": a small script where a person would put `claude -p` or `codex exec -`."""

import os
import re
import subprocess
import sys

prompt = sys.stdin.read()
channel = os.environ["WAKEBUS_CHANNEL"]


def notify(to: str, type_: str, text: str) -> None:
    """Say something on the bus from inside this turn; the channel is echoed unchanged."""
    command = ["notify-hermes", "--to", to, "--type", type_, "--channel", channel, text]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if os.environ["WAKEBUS_TYPE"] == "task_done":
    done = re.search(r"\[task_done\] (.*)", prompt)
    notes = len(re.findall(r"progress: |answers: ", prompt))
    print(f"Done. {done[1] if done else 'The task is finished.'} (I had read {notes} note(s).)")
else:
    notify(
        "worker-alpha",
        "directive",
        "Refactor auth middleware: extract token validation into a shared module",
    )
    notify("worker-alpha", "need_decision", "Status check: still alive?")
    print("worker-alpha is on it; I will report here.")
