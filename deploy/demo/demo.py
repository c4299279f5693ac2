"""
The whole of wakebus in half a minute: `make demo`.

Three agents, each a process of its own, a broker that is killed on the way, a chat on the console.
After each part it says what that proves. Everything lies in one folder, which is the only argument;
nothing is left running. Lines fit in 80 columns.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
CHANNEL = "console:demo"
AGENTS = {"lead-agent": "lead.py", "worker-alpha": "worker.py", "worker-beta": "worker.py"}
MARK = ".wakebus-demo"
PATIENCE_S = 40.0
COLUMNS = 79


def main() -> int:
    """Play the walk-through; 0 when every part of it happened."""
    root = fresh(sys.argv[1:])
    os.environ |= {
        "HERMES_BUS_ROOT": str(root),
        "HERMES_HOME": str(root),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
    }
    for name in [name for name in os.environ if name.startswith(("WAKEBUS_", "HERMES_BUS_E"))]:
        del os.environ[name]
    listeners: list[subprocess.Popen[str]] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return play(root, listeners)
    except KeyboardInterrupt:
        return 130
    finally:
        for listener in listeners:
            listener.terminate()
        for listener in listeners:
            listener.wait(10)
        subprocess.run(["hermes-busd", "stop"], stdout=subprocess.DEVNULL, check=False)


def fresh(words: list[str]) -> Path:
    """Return the demo's folder, empty; what an earlier demo left in it is removed."""
    if len(words) != 1:
        raise SystemExit("usage: demo.py FOLDER")
    root = Path(words[0]).resolve()
    if root.exists() and any(root.iterdir()) and not (root / MARK).exists():
        raise SystemExit(f"demo: {root} holds other things than an earlier demo; name a new folder")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (root / MARK).touch()
    return root


def play(root: Path, listeners: list[subprocess.Popen[str]]) -> int:
    """The parts of the walk-through, in order."""
    title("Setup: a broker and three agents")
    say(output("hermes-busd", "start"))
    for name, script in AGENTS.items():
        listeners.append(listen(name, script))
    until("the three endpoints", lambda: live() >= set(AGENTS))
    say(output("wakebus", "endpoints"))
    proves("an agent is any command line; listening gives it a name on the bus.")

    title(f"1. A person asks in {CHANNEL}; the lead hands the work on")
    asked = json.loads(
        output(
            *("notify-hermes", "--to", "lead-agent", "--from", "person", "--channel", CHANNEL),
            *("--json", "Please clean up the auth middleware"),
        )
    )
    say(f"receipt: {asked['state']} {asked['id']}")
    proves("queued means on disk: from here on, no crash loses it.")

    title("2. worker-alpha works; what comes meanwhile waits")
    until("a message that waits for the busy worker", lambda: depth("worker-alpha") > 0)
    until("the progress report", lambda: "progress" in types(asked["id"]))
    say(f"worker-alpha is busy, {depth('worker-alpha')} message(s) in its mailbox")
    proves("no turn is interrupted: what comes meanwhile waits, in order.")

    title("3. The broker is killed (SIGKILL) in the middle of the work")
    pid = status()["pid"]
    os.kill(pid, signal.SIGKILL)
    say(f"killed pid {pid}; the listeners start it again")
    until("a new broker", lambda: status().get("pid", pid) != pid)
    say(f"back with pid {status()['pid']}")
    proves("a killed broker loses nothing, and the work goes on without it.")

    title("4. worker-alpha completes; the lead's summary goes to the chat")
    chat = root / "bus" / "console-demo.log"
    until("the summary in the chat", lambda: chat.exists() and "Done." in chat.read_text())
    until("the status check's answer", lambda: "need_decision" in handled(asked["id"]))
    title(f"What the person sees in {CHANNEL}")
    say(chat.read_text())
    proves("answers reach the chat that the first message named, once each.")

    title("5. worker-beta was never disturbed; it is asked directly")
    say("$ wakebus ask worker-beta 'Anything to do?'")
    say(output("wakebus", "ask", "worker-beta", "Anything to do?", "--from", "person"))
    proves("who is not addressed is not woken; ask waits for the answer.")

    title("6. The whole story")
    until("the last acknowledgement", lambda: settled(asked["id"]))
    say(f"$ wakebus trace {asked['id']}")
    (root / "trace.txt").write_text(output("wakebus", "trace", asked["id"]))
    say(story(trace(asked["id"])))
    say(f"with every step, rule and time: {root / 'trace.txt'}")
    proves("what became of each message, and what caused it, is on record.")
    channels = {message["channel"] for message in trace(asked["id"])}
    title(f"Done: {len(trace(asked['id']))} messages, one channel from end to end: {channels}")
    return 0 if channels == {CHANNEL} else 1


def story(messages: list[dict[str, Any]]) -> str:
    """Return a line for each message, below the one that caused it."""
    known = {message["id"] for message in messages}

    def below(cause: str | None, depth: int) -> list[str]:
        lines = []
        for one in messages:
            if (one.get("cause") if one.get("cause") in known else None) == cause:
                line = f"{'  ' * depth}{one['from']} → {one['to']}"
                lines += [f"{line:42} {one['type'] or 'untyped':14} {one['state']}"]
                lines += below(one["id"], depth + 1)
        return lines

    return "\n".join(below(None, 0))


def listen(name: str, script: str) -> subprocess.Popen[str]:
    """Start an agent; what it prints is shown with its name in front."""
    process = subprocess.Popen(
        ["wakebus", "listen", name, "--rules", "rules.yaml", "--agent", f"python {script}"],
        cwd=HERE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def show() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            print(wrapped(line, f"  {name:12} | "), flush=True)

    threading.Thread(target=show, daemon=True).start()
    return process


def title(text: str) -> None:
    """Print a headline."""
    bold, reset = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}== {text}{reset}", flush=True)


def say(text: str) -> None:
    """Print lines of the demo itself."""
    print("\n".join(wrapped(line, "  ") for line in text.rstrip().splitlines()), flush=True)


def proves(text: str) -> None:
    """Print what has been shown."""
    print(wrapped(text, "  proves: ", " " * 10), flush=True)


def wrapped(line: str, before: str, below: str = "") -> str:
    """Return a line, in as many as fit the screen; `below` stands before the further ones."""
    return textwrap.fill(
        line.rstrip(),
        COLUMNS,
        initial_indent=before,
        subsequent_indent=below or before,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def output(*command: str) -> str:
    """Return what a command prints; its failure ends the demo."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"demo: {' '.join(command)}: {done.stderr}")
    return done.stdout


def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait for `holds`, or end the demo saying what did not happen."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"demo: {what} did not come within {PATIENCE_S:g} s")
        time.sleep(0.1)


def status() -> dict[str, Any]:
    """Return the broker's state, {} while it is away."""
    done = subprocess.run(
        ["hermes-busd", "status", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


def live() -> set[str]:
    """Return the endpoints that are held."""
    return {one["name"] for one in status().get("endpoints", []) if one["state"] == "live"}


def depth(name: str) -> int:
    """Return how many messages wait for `name` or are in its hands without a turn."""
    found = [one for one in status().get("endpoints", []) if one["name"] == name]
    return int(sum(one["queued"] + max(0, one["in_hand"] - 1) for one in found))


def trace(id: str) -> list[dict[str, Any]]:
    """Return the messages that hang together with `id`."""
    done = subprocess.run(
        ["wakebus", "trace", id, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return list(json.loads(done.stdout)["messages"]) if done.returncode == 0 else []


def types(id: str) -> set[str]:
    """Return the types of the messages that came of `id`."""
    return {message["type"] for message in trace(id)}


def handled(id: str) -> set[str]:
    """Return the types that are handled already."""
    return {message["type"] for message in trace(id) if message["state"] == "handled"}


def settled(id: str) -> bool:
    """Whether everything that came of `id` has ended."""
    states = {message["state"] for message in trace(id)}
    return bool(states) and states <= {"handled", "dead"}


if __name__ == "__main__":
    raise SystemExit(main())
