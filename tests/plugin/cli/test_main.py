"""`wakebus` itself: verbs, help, version."""

from collections.abc import Iterator

import pytest

from fakes.desk import Desk
from wakebus.broker import __version__
from wakebus.plugin.cli.main import VERBS, main

HELP = {
    "listen": ("ENDPOINT", "--agent", "claude -p", "--rules", "--takeover", "exit status"),
    "ask": ("TEXT", "--wait", "--session", "default 300", "exit status"),
    "reply": ("ID", "TEXT", "--from", "--json", "exit status"),
    "send": ("CHANNEL", "console:demo", "--wait", "--file", "platforms: ", "exit status"),
    "channels": ("PLATFORM", "check", "--json", "examples", "exit status"),
    "trace": ("ID", "--json", "receipt"),
    "dead": ("list", "show", "retry", "purge", "7 days"),
    "dead list": ("--to", "--from", "--limit", "default 50"),
    "dead show": ("ID",),
    "dead retry": ("ID", "--to", "--all", "--force"),
    "dead purge": ("ID", "--to", "--all", "--older-than", "--yes"),
    "inbox": ("E", "--all", "--json", "Nothing is taken"),
    "cancel": ("ID", "--json", "Take back", "exit status"),
    "publish": ("TOPIC", "JSON", "--json", "exit status"),
    "tail": ("PATTERN", "--json", "--count", "Ctrl-C"),
    "resume": ("NAME", "--all", "--json", "loop"),
    "endpoints": ("add", "remove", "--json"),
    "endpoints add": ("NAME",),
    "status": ("--json", "next command", "exit status"),
    "install": ("HARNESS", "hermes"),
    "install hermes": ("--home", "--allow-gateway-turns", "--check", "--remove", "exit status"),
    "install service": ("listen NAME", "--dry-run", "--uninstall", "--env", "exit status"),
    "rules": ("init", "check", "test"),
    "rules test": ("--type", "--channel", "--rules"),
    "doctor": ("--json", "next step", "exit status"),
    "settings": ("list", "check", "schema", "_RATE_CHAT", "exit status"),
    "settings list": ("--json",),
    "backup": ("FILE", "0600", "wakebus restore FILE", "--json", "exit status"),
    "restore": ("FILE", "hermes-busd stop", "redelivered", "--json", "exit status"),
    "broker": ("start", "stop", "restart", "status", "run"),
    "courier": ("Ctrl-C",),
}


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """A desk where nothing runs; nothing here asks the bus."""
    found = Desk()
    yield found
    found.close()


@pytest.mark.parametrize("verb", HELP)
def test_help(desk: Desk, verb: str) -> None:
    """Every verb says what it does, what it takes and what an exit status means."""
    done = desk.wakebus(*verb.split(), "--help")
    assert done.status == 0 and done.err == ""
    assert not [word for word in HELP[verb] if word not in done.out]


def test_every_verb_has_help() -> None:
    """A new verb gets a line in this test."""
    assert {*VERBS} <= {*HELP}


def test_without_a_verb(desk: Desk) -> None:
    """The whole help, and exit 2: nothing was done."""
    done = desk.wakebus()
    assert done.status == 2 and done.out == ""
    assert done.err.startswith("usage: wakebus") and "start here:" in done.err
    assert not [verb for verb in VERBS if f"\n    {verb}  " not in done.err]
    done = desk.wakebus("--help")
    assert done.status == 0 and "start here:" in done.out


def test_an_unknown_verb(desk: Desk) -> None:
    """Exit 2, and which there are; a text that looks like a verb is none."""
    done = desk.wakebus("lisen")
    assert done.status == 2 and "'lisen'" in done.err and "'listen'" in done.err
    assert "wakebus --help" in done.err


def test_version(desk: Desk) -> None:
    """The same of all three commands."""
    for command in ("wakebus", "notify-hermes", "hermes-busd"):
        done = desk.run(command, "--version")
        assert (done.status, done.out) == (0, f"wakebus {__version__}\n")


def test_a_word_after_the_verb_may_be_a_verb(desk: Desk) -> None:
    """`wakebus ask send "x"` asks the endpoint `send`."""
    done = desk.wakebus("ask", "send", "--from", "listen", "trace")
    assert done.status == 1 and "no broker runs here" in done.err


LOADED = """
import sys
from wakebus.plugin.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("trace", "--help")])
def test_only_the_called_verb_is_loaded(desk: Desk, words: tuple[str, ...]) -> None:
    """Neither another one nor what verbs need; nor what any of them would need to start."""
    done = desk.run("python", "-c", LOADED, *words)
    loaded = set(done.err.split())
    verbs = {f"wakebus.plugin.cli.{module}" for module, _ in VERBS.values()}
    called = {"wakebus.plugin.cli.bus.trace"} if words[0] == "trace" else set()
    assert loaded & verbs == called
    if not called:
        assert not loaded & {"zmq", "rich", "yaml", "psutil", "asyncio", "inspect"}
        assert {name for name in loaded if name.startswith("wakebus.")} == {
            "wakebus.broker",
            "wakebus.broker.errors",
            "wakebus.broker.system",
            "wakebus.broker.system.standard_files",
            "wakebus.plugin",
            "wakebus.plugin.cli",
            "wakebus.plugin.cli.main",
            "wakebus.plugin.cli.output",
        }


@pytest.mark.parametrize("words", ["", "send console:x hi", "channels", "dead list", "trace x"])
def test_an_unknown_option_is_told_by_its_own_verb(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usage is that of the verb which was typed, and so is the help that is named."""
    with pytest.raises(SystemExit) as left:
        main([*words.split(), "--bogus"])
    named = f"wakebus {words.partition(' console')[0].partition(' x')[0]}".strip()
    told = capsys.readouterr().err
    assert left.value.code == 2
    assert told.startswith(f"usage: {named} [-h]")
    assert f"{named}: unrecognized arguments: --bogus\nMore: {named} --help" in told
