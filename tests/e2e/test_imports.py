"""What `notify-hermes` imports: people call it in every hook and prompt."""

import json
import sysconfig
from pathlib import Path
from typing import Final

from fakes.desk import Desk

# What a bare `import zmq` loads, in any of its releases, is not counted.
OURS: Final = {
    "wakebus",
    "wakebus.broker",
    "wakebus.broker.client",
    "wakebus.broker.client.client",
    "wakebus.broker.command_line",
    "wakebus.broker.command_line.parser",
    "wakebus.broker.protocol",
    "wakebus.broker.system",
    "wakebus.broker.errors",
    "wakebus.broker.system.fork_safety",
    "wakebus.broker.system.standard_files",
    "wakebus.broker.system.zmq_options",
    "wakebus.broker.protocol.dead_letter",
    "wakebus.broker.protocol.message",
    "wakebus.broker.protocol.outcome",
    "wakebus.broker.address",
    "wakebus.broker.folder_trust",
    "wakebus.broker.other_version",
    "wakebus.broker.paths",
    "wakebus.broker.client.pending_request",
    "wakebus.broker.client.core",
    "wakebus.broker.protocol.receipt",
    "wakebus.broker.client.calls",
    "wakebus.broker.client.connection",
    "wakebus.broker.protocol.wire",
    "wakebus.plugin",
    "wakebus.plugin.cli",
    "wakebus.plugin.cli.message_body",
    "wakebus.plugin.cli.notify",
    "wakebus.plugin.cli.output",
    "wakebus.plugin.cli.receipt_text",
    "wakebus.plugin.cli.targets",
    "wakebus.plugin.sender_identity",
}
# What it takes to look at a channel.
CHANNEL: Final = {
    "wakebus.adapters",
    "wakebus.adapters.channel",
    "wakebus.adapters.courier",
    "wakebus.adapters.courier.channel_check",
    "wakebus.adapters.errors",
    "wakebus.adapters.platform_names",
    "unicodedata",
}
# argparse loads gettext, and that locale; pwd is built in.
STANDARD: Final = {"argparse", "gettext", "locale", "_locale", "json", "pwd"}

# What `site` loads is not counted (-S): the checkout and the packages beside it are named.
PATHS: Final = [str(Path(__file__).parents[2]), sysconfig.get_paths()["platlib"]]

SEND: Final = """\
import sys
sys.path += {paths!r}
import zmq
import json
before = set(sys.modules)
from wakebus.plugin.cli.notify import main
sys.argv = ["notify-hermes", *{words!r}]
status = main()
after = set(sys.modules) - before
print(json.dumps([status, sorted(after)]), file=sys.stderr)
"""


def modules(desk: Desk, *words: str, **env: str) -> set[str]:
    """Return what a send loads beyond `import zmq`."""
    code = SEND.format(words=list(words), paths=PATHS)
    done = desk.run("python", "-S", "-c", code, env=env)
    status, found = json.loads(done.err.splitlines()[-1])
    assert status == 0, done
    return set(found)


def test_a_send_loads_what_it_needs(desk: Desk, name: str) -> None:
    """An allow-list: a new module here costs every hook of every user."""
    desk.declare(name)
    words = ("--to", name, "--type", "ack", "hi")
    assert modules(desk, *words, "--from", "ci") <= OURS | STANDARD
    for channel in ("console:demo", "whatsapp:1", "telegram"):
        found = modules(desk, *words, "--from", "ci", "--channel", channel)
        assert found <= OURS | STANDARD | CHANNEL
    assert modules(desk, *words, HERMES_BUS_ENDPOINT="ci") <= OURS | STANDARD
    token = {"WAKEBUS_TOKEN": "over", "WAKEBUS_ENDPOINT": "ci"}
    assert modules(desk, *words, **token) <= OURS | STANDARD


def test_nothing_heavy_anywhere(desk: Desk, name: str) -> None:
    """Without a name given, tmux and the rules are asked; still no msgspec, rich or asyncio."""
    desk.declare(name)
    found = modules(desk, "--to", name, "--json", "hi")
    heavy = {"msgspec", "rich", "psutil", "asyncio", "logging", "email", "http", "sqlite3"}
    assert not found & {
        *heavy,
        "yaml",
        "inspect",
        "importlib.metadata",
        "wakebus.broker.client.registrations",
    }
