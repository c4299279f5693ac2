"""A worker's "agent": it reports to whoever gave the task, from inside its turn."""

import os
import subprocess
import sys
import time

sys.stdin.read()
lead, channel = os.environ["WAKEBUS_FROM"], os.environ["WAKEBUS_CHANNEL"]


def notify(type_: str, text: str) -> None:
    """Report to the lead; the channel is echoed unchanged."""
    command = ["notify-hermes", "--to", lead, "--type", type_, text]
    command += ["--channel", channel] if channel else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if os.environ["WAKEBUS_TYPE"] == "need_decision":
    print("Alive; the refactoring came first.")
elif not channel:
    print(f"{os.environ['WAKEBUS_ENDPOINT']} is idle and ready.")
else:
    notify("ack", "Received, starting auth middleware refactor")
    notify("progress", "Token validation extracted, 3 of 5 endpoints migrated")
    time.sleep(4)  # the work; meanwhile the demo kills the broker
    notify("task_done", "Auth middleware refactor complete. 5/5 endpoints migrated, tests pass")
    print("The refactoring is finished.")
