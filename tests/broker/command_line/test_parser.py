"""What the command line holds is text; slips; closed descriptors."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from fakes.desk import BIN, Desk
from wakebus.broker.command_line.parser import Parser, near_word, path_text

C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="session")
def latin1(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a German terminal of old, if its locale can be made here."""
    folder = tmp_path_factory.mktemp("locales")
    made = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(folder / "de_DE.ISO-8859-1")]
    try:
        done = subprocess.run(made, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no localedef")
    if done.returncode > 1:  # 1: warnings
        pytest.skip("no sources of locales")
    return {"LOCPATH": str(folder), "LC_ALL": "de_DE.ISO-8859-1", "PYTHONUTF8": "0"}


def arrived(desk: Desk, name: str, env: dict[str, str], *words: bytes) -> str:
    """Send; return the text that the broker stored."""
    desk.declare(name)
    id = desk.sent("--to", name, *words, env=env)["id"]
    with desk.client() as bus:
        return bus.read(id).text


def test_a_text_is_decoded_by_the_locale(desk: Desk, name: str, latin1: dict[str, str]) -> None:
    """In an 8-bit locale its bytes are that locale's, whichever they are."""
    assert arrived(desk, name, latin1, "Grüße".encode("latin-1")) == "Grüße"
    assert arrived(desk, name, latin1, b"--channel", b"console:\xfc", b"x") == "x"


def test_so_is_standard_input(desk: Desk, name: str, latin1: dict[str, str]) -> None:
    """UTF-8 first, as a file may be; else the bytes are the locale's."""
    desk.declare(name)
    for number, data in enumerate(("Grüße".encode(), "Grüße".encode("latin-1"))):
        desk.sent("--to", name, "--id", f"{name}-{number}", "-", stdin=data, env=latin1)
        with desk.client() as bus:
            assert bus.read(f"{name}-{number}").text == "Grüße"


@pytest.mark.parametrize("env", [C, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}])
def test_a_text_is_utf_8_where_the_locale_has_no_more(
    desk: Desk, name: str, env: dict[str, str]
) -> None:
    """`LC_ALL=C`, as in cron and containers, with Python's own repair of it or without."""
    assert arrived(desk, name, env, "Grüße 你好".encode()) == "Grüße 你好"


@pytest.mark.parametrize("env", [C, {"LC_ALL": "C.UTF-8"}])
@pytest.mark.parametrize(
    ("command", "words", "named"),
    [
        ("notify-hermes", (b"--to", b"x", b"gr\xfc\xdfe"), "TEXT"),
        ("notify-hermes", (b"--to", b"x", b"--session", b"\xfc", b"hi"), "--session"),
        ("notify-hermes", (b"--to", b"\xfc", b"hi"), "--to"),
        ("notify-agent", (b"work", b"\xfc"), "SESSION TEXT"),
        ("notify-agent", (b"work", b"--", b"-\xfc"), "SESSION TEXT"),
        ("wakebus", (b"ask", b"x", b"\xfc"), "TEXT"),
        ("wakebus", (b"send", b"console:x", b"\xfc"), "TEXT"),
        ("wakebus", (b"trace", b"\xfc"), "ID"),
    ],
)
def test_what_is_no_text_is_named(
    desk: Desk, command: str, words: tuple[bytes, ...], named: str, env: dict[str, str]
) -> None:
    """Exit 2, the argument, its bytes; no traceback, and nothing is sent."""
    done = desk.run(command, *words, env=env)
    assert done.status == 2 and f"argument {named} is not UTF-8" in done.err
    assert "\\xfc" in done.err and "Traceback" not in done.both


def test_a_path_keeps_its_bytes(own_desk: Desk) -> None:
    """Files may be named in any bytes."""
    name = os.fsencode(own_desk.root) + b"/caf\xe9.txt"
    Path(os.fsdecode(name)).write_text("hello")
    done = own_desk.wakebus("send", "--dry-run", "ntfy:x", "--file", name)
    assert done.status == 0, done


@pytest.fixture
def parser() -> Parser:
    """A parser with verbs."""
    made = Parser(prog="x")
    made.synonyms = {"ls": "list"}
    verbs = made.add_subparsers(dest="verb")
    one = verbs.add_parser("list")
    one.add_argument("--limit", type=int)
    one.add_argument("--file", type=path_text)
    one.set_defaults(parser=one)
    return made


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lst", "invalid choice: 'lst'; did you mean list?"),
        ("ls", "did you mean list?"),
        ("zzz", "there are: list"),
        ("list --lmit 3", "x list: unrecognized arguments: --lmit 3; did you mean --limit?"),
        ("list --zzz", "x list: unrecognized arguments: --zzz\n"),
        ("list a\x1b[2Jb", "unrecognized arguments: a?[2Jb"),
    ],
)
def test_slips(parser: Parser, words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is near is named, by the verb that was typed; what is typed steers no terminal."""
    with pytest.raises(SystemExit) as left:
        parser.parse_words(words.split())
    assert left.value.code == 2 and said in capsys.readouterr().err


def test_help_is_a_word(parser: Parser, capsys: pytest.CaptureFixture[str]) -> None:
    """`help list` is `list --help`; a program without verbs has no such word."""
    with pytest.raises(SystemExit) as left:
        parser.parse_words(["help", "list"])
    assert left.value.code == 0 and "--limit" in capsys.readouterr().out
    plain = Parser(prog="y")
    plain.add_argument("text")
    assert plain.parse_words(["help"]).text == "help"


def test_near_word() -> None:
    """The nearest, or none."""
    assert near_word("stauts", ("start", "status", "stop")) == "status"
    assert near_word("zzz", ("start", "status", "stop")) == ""


COMMANDS = ("wakebus", "hermes-busd", "notify-hermes", "notify-agent")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-", ">/dev/full"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_that_nobody_can_read(desk: Desk, command: str, closed: str) -> None:
    """PROTOCOL-1.17: `hermes-busd --help >&-` ends with 0, without a traceback; so does version."""
    for option, status in (("--help", 0), ("--version", 0), ("--no-such-option", 2)):
        line = f"exec {BIN / command} {option} {closed}"
        done = desk.run("/bin/sh", "-c", line)
        assert done.status == status and "Traceback" not in done.both, (line, done)
        assert "Exception ignored" not in done.both


def test_help_fits(desk: Desk) -> None:
    """No line is wider than the terminal but commands that are to be pasted, and single words."""
    from wakebus.plugin.cli.main import VERBS

    helps = [("wakebus", verb, "--help") for verb in VERBS]
    for words in (*((command, "--help") for command in COMMANDS), *helps):
        lines = desk.run(*words, env={"COLUMNS": "80"}).out.splitlines()
        wide = [line for line in lines if len(line) > 80 and " " in line.strip()]
        pasted = re.compile(r" +(wakebus|notify-hermes|notify-agent|hermes-busd|git|make) ")
        assert not [line for line in wide if not pasted.match(line)], (words, wide)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hello", "two", "words"], "two words; a text of several words goes in quotes\n"),
        (["-x"], 'arguments: -x; a text that begins with "-" goes behind "--"\n'),
        (["hello", "--zzz"], "arguments: --zzz\n"),
        (["hello", "--inn", "5m", "two"], "did you mean --in?\n"),
        (["--in", "-5m"], 'one argument; one that begins with "-" is joined to it: --in=-5m\n'),
        (["--in", "--json", "x"], "expected one argument\n"),
        (["x", "--in"], "expected one argument\n"),
    ],
)
def test_how_a_text_and_a_value_are_given(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text without quotes, one that begins with "-", a value that does: how to write it."""
    made = Parser(prog="x")
    made.add_argument("text", nargs="?")
    made.add_argument("--in")
    made.add_argument("--json", action="store_true")
    with pytest.raises(SystemExit) as left:
        made.parse_args(words)
    assert left.value.code == 2 and said in capsys.readouterr().err
