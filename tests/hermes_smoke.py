"""
wakebus and hermes-agent in one environment: neither changes what the other needs.

Run by `make hermes` with the interpreter of that environment, never from the source tree.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import packages_distributions, requires, version
from importlib.resources import files
from pathlib import Path

BIN = Path(sys.executable).parent
TIMEOUT_S = 60.0
HERMES = packages_distributions()["hermes_cli"][0]  # the distribution; 0.22 has another name


def main() -> None:
    """Fail with an assertion or a command's own words."""
    pins = check_pins()
    modules = import_all()
    with tempfile.TemporaryDirectory(prefix="wb") as folder:
        os.environ.update(HERMES_BUS_ROOT=folder, HERMES_HOME=folder)
        said = run("hermes", "--version")
        assert version(HERMES) in said, said
        with broker():
            one_message()
            one_event()
    print(f"{HERMES} {version(HERMES)}: {pins} pins kept, {modules} modules import")


def check_pins() -> int:
    """Return how many of Hermes's exact pins are installed as they stand."""
    assert "No broken requirements" in run("python", "-m", "pip", "check")
    pins = dict(_pins(requires(HERMES) or []))
    shared = {"httpx", "tenacity"}
    assert shared <= set(pins), f"{HERMES} no longer pins {shared - set(pins)}"
    found = {name: version(name) for name in pins}
    assert found == pins, {name: (pins[name], found[name]) for name in pins}
    return len(pins)


def _pins(requirements: list[str]) -> Iterator[tuple[str, str]]:
    for requirement in requirements:
        pin = re.fullmatch(
            r"([\w.-]+)(?:\[[\w,-]+\])?==([\w.]+)", requirement.split(";")[0].strip()
        )
        if pin and ";" not in requirement:  # with a marker or of an extra: perhaps not installed
            yield pin[1].lower().replace("_", "-"), pin[2]


def import_all() -> int:
    """Return how many modules the installed wakebus has, all of which import."""
    root = Path(str(files("wakebus.broker"))).parent
    assert "site-packages" in root.parts, f"{root} is not the installed wheel"
    modules = [path for path in root.rglob("*.py") if path.name != "__main__.py"]
    for path in modules:
        import_module("wakebus." + ".".join(path.relative_to(root).with_suffix("").parts))
    return len(modules)


def run(*command: str) -> str:
    """Return what a command of this environment printed."""
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}"
    return done.stdout


@contextmanager
def broker() -> Iterator[None]:
    """Run a broker in $HERMES_BUS_ROOT."""
    run("hermes-busd", "start")
    try:
        yield
    finally:
        run("hermes-busd", "stop")


def one_message() -> None:
    """Send one message, handle it."""
    from wakebus.broker import Client

    got: list[str] = []
    with Client(timeout=TIMEOUT_S) as bus, Client(timeout=TIMEOUT_S) as sender:
        bus.register("smoke", lambda delivery: got.append(delivery.message.text))
        receipt = sender.send("smoke", {"text": "hello"}, sender="ci")
        assert sender.wait(receipt.id, TIMEOUT_S).state == "handled"
    assert got == ["hello"], got


def one_event() -> None:
    """Publish one event, receive it."""
    from wakebus.broker import Client

    came = threading.Event()
    with Client(timeout=TIMEOUT_S) as bus:
        bus.subscribe("smoke.**", lambda _: came.set())
        bus.publish("smoke.done", {"n": 1})
        assert came.wait(TIMEOUT_S), "the event did not come"


if __name__ == "__main__":
    main()
