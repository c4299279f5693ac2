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
    "uninstall": ("--yes", "--purge", "--dry-run", "--home", "--json", "exit status"),
    "backup": ("FILE", "0600", "wakebus restore FILE", "--json", "exit status"),
    "restore": ("FILE", "hermes-busd stop", "redelivered", "--json", "exit status"),
    "broker": ("start", "stop", "restart", "status", "run"),
    "version": ("--json", "running"),
    "logs": ("--follow", "-n N", "broker|courier", "exit status"),
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
    assert done.status == 2 and "'lisen'; did you mean listen?" in done.err
    assert "wakebus --help" in done.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("wakebus stauts", "status"),
        ("wakebus start", "hermes-busd start"),
        ("wakebus ls", "endpoints"),
        ("wakebus dead lst", "list"),
        ("wakebus dead list --lmit 3", "--limit"),
        ("wakebus inbox x --unceratin", "--uncertain"),
        ("wakebus logs brokr", "broker"),
        ("wakebus rules tets", "test"),
        ("wakebus install hermse", "hermes"),
        ("wakebus help lisen", "listen"),
        ("notify-hermes --too x hi", "--to"),
        ("notify-hermes --to x --chanel=c hi", "--channel"),
        ("notify-agent --fron me x hi", "--from"),
        ("hermes-busd strat", "start"),
        ("hermes-busd status --jsn", "--json"),
        ("hermes-busd logs", "wakebus logs"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(desk: Desk, words: str, meant: str) -> None:
    """Verbs, actions, options and what other programs call so, in every command; exit 2."""
    command, *rest = words.split()
    done = desk.run(command, *rest)
    assert done.status == 2 and f"; did you mean {meant}?" in done.err and done.out == ""
    assert done.err.startswith(f"usage: {command}") and f"\nMore: {command}" in done.err


def test_what_is_near_to_nothing_gets_the_list(desk: Desk) -> None:
    """And a text that is no option is none."""
    assert "there are: listen, ask, " in desk.wakebus("foo").err
    assert "did you mean" not in desk.wakebus("trace", "x", "--", "--jsn").err


@pytest.mark.parametrize("words", ["dead", "dead list", "logs"])
def test_help_of_a_verb(desk: Desk, words: str) -> None:
    """`wakebus help VERB` is `wakebus VERB --help`; alone it is `wakebus --help`."""
    assert desk.wakebus("help", *words.split()) == desk.wakebus(*words.split(), "--help")
    assert desk.wakebus("help") == desk.wakebus("--help")
    assert desk.run("hermes-busd", "help", "stop") == desk.run("hermes-busd", "stop", "--help")


def test_the_version_of_the_running_broker(own_desk: Desk) -> None:
    """`wakebus version`: the command's, where it is, the broker's; also where none runs."""
    done = own_desk.wakebus("version")
    assert done.status == 0 and done.out.startswith(f"wakebus {__version__}, /")
    assert "none runs in" in done.out and "hermes-busd start" in done.out
    own_desk.start()
    assert f"broker  {__version__}, pid {own_desk.broker_pid}" in own_desk.wakebus("version").out
    told = own_desk.wakebus("version", "--json").json
    assert told["broker"] == {"version": __version__, "protocol": 1, "pid": own_desk.broker_pid}


def test_status_is_the_brokers(own_desk: Desk) -> None:
    """`wakebus status`: as `hermes-busd status`, also its exit status 3."""
    assert own_desk.wakebus("status").status == 3
    own_desk.start()
    assert own_desk.wakebus("status").out.startswith("broker running: pid ")
    assert own_desk.wakebus("status", "--json").json["running"] is True


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
            "wakebus.broker.command_line",
            "wakebus.broker.command_line.parser",
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
