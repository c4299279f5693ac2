"""How a command speaks and ends."""

import argparse
import json
import re

import pytest

from fakes.desk import Desk
from fakes.terminal import in_terminal
from wakebus.broker import errors
from wakebus.plugin.cli import output
from wakebus.plugin.cli.output import Parser, Usage, guarded, hint, safe, show_env_path, status_of

Captured = pytest.CaptureFixture[str]

STATUS = {
    Usage("x"): 2,
    errors.BadMessage("x"): 2,
    errors.BadName("x"): 2,
    errors.TooBig("x"): 2,
    errors.BadFrame("x"): 2,
    errors.UnknownTarget("x"): 3,
    errors.TimedOut("x", id="1"): 4,
    errors.TimedOut("x"): 1,
    errors.Undecided("x", id="1"): 5,
    errors.NotRunning("x"): 1,
    errors.Conflict("x"): 1,
    errors.MailboxFull("x"): 1,
    errors.Busy("x"): 1,
    errors.BadVersion("x"): 1,
    errors.WakebusError("x"): 1,
}


@pytest.mark.parametrize("error", STATUS, ids=lambda error: error.code)
def test_status(error: errors.WakebusError) -> None:
    """Each kind of error has the status that tells a script what to do."""
    assert status_of(error) == STATUS[error]


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (errors.NotRunning("x"), "hermes-busd start"),
        (errors.NotRunning("x", step="look there"), "look there"),
        (errors.UnknownTarget("x"), "wakebus endpoints"),
        (errors.UnknownTarget("x", to="e"), "--queue"),
        (errors.Undecided("x", id="m1"), "--id m1"),
        (errors.TimedOut("x", id="m1"), "wakebus trace m1"),
        (errors.NameTaken("x"), "--takeover"),
        (errors.Conflict("x"), "--id"),
        (errors.UnknownId("x"), "receipt"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.code,
)
def test_every_error_says_the_next_step(error: errors.WakebusError, step: str) -> None:
    """On a line of its own, behind what went wrong."""
    text, _, rest = hint(error).partition("\n")
    assert text == "x" and step in rest


def test_the_real_path_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `$HERMES_HOME/.env` is, few know who have not set it."""
    monkeypatch.setenv("HERMES_HOME", "/srv/hermes")
    error = errors.WakebusError("A_TOKEN is not set in $HERMES_HOME/.env")
    assert hint(error) == "A_TOKEN is not set in /srv/hermes/.env"
    assert show_env_path("A_TOKEN") == "A_TOKEN"


def sending() -> Parser:
    """Return a command with an optional word, below another, as verbs are."""
    outer = Parser(prog="x")
    inner = outer.add_subparsers(dest="verb").add_parser("send")
    inner.add_argument("channel")
    inner.add_argument("text", nargs="?")
    inner.add_argument("--file")
    inner.floating = ("text",)
    return outer


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("c", None),
        ("c t", "t"),
        ("c --file f", None),
        ("c --file f t", "t"),
        ("--file f c t", "t"),
        ("c t --file f", "t"),
        ("c --file f -", "-"),
        ("c --file f -- -t", "-t"),
        ("c -- -t", "-t"),
    ],
)
def test_an_optional_word_behind_an_option(words: str, text: str | None) -> None:
    """It is found wherever it stands; argparse itself knows only its first place."""
    assert sending().parse_args(["send", *words.split()]).text == text


@pytest.mark.parametrize("words", ["c t u", "c --file f t u", "c --bad t", "", "c --file f --bad"])
def test_words_too_many(words: str, capsys: Captured) -> None:
    """What is left over is still an error."""
    with pytest.raises(SystemExit) as caught:
        sending().parse_args(["send", *words.split()])
    assert caught.value.code == 2 and "x" in capsys.readouterr().err


def test_no_step_where_there_is_none() -> None:
    """Nothing that looks like a message id where there is no message."""
    assert hint(errors.TimedOut("x")) == "x" == hint(errors.WakebusError("x"))


def test_guarded(capsys: Captured) -> None:
    """The status of the command, or of its error; Ctrl-C is 130."""

    def fails(error: BaseException) -> int:
        def run(args: argparse.Namespace) -> int:
            raise error

        return guarded("me", run, argparse.Namespace(json=True))

    assert guarded("me", lambda args: 7, argparse.Namespace()) == 7
    assert fails(KeyboardInterrupt()) == 130
    assert fails(BrokenPipeError()) == 1
    capsys.readouterr()
    assert fails(errors.UnknownTarget("nobody \x1b[2J", near=["a"])) == 3
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["near"] == ["a"] and error["text"] == "nobody \x1b[2J"
    assert err.startswith("me: nobody \n") and "\x1b" not in out


def test_safe() -> None:
    """Plain text is itself; what steers a terminal is gone."""
    for text in ("", "a\nb", "中文", "a\tb", "✔ done"):
        assert safe(text) == text
    assert safe("a\x1b[2Jb\x9b1mc\x07\x00d\u202ee") == "abcde"


def test_usage_error_of_a_parser(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2, the usage, where help is; with --json one object; nothing is abbreviated."""
    parser = Parser(prog="me")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--channel")
    for argv in (["--chan", "x"], ["--json", "--nope"]):
        monkeypatch.setattr("sys.argv", ["me", *argv])
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(argv)
        assert ended.value.code == 2
        out, err = capsys.readouterr()
        assert "unrecognized arguments" in err and "me --help" in err
        assert ("--json" in argv) == bool(out)
    assert json.loads(out)["error"]["code"] == "usage"


def test_help_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS, else the terminal's own width, never over 100; written lines stay as written."""
    epilog = "examples:\n  " + "x" * 70
    for columns, longest in (("60", 72), ("500", 100), ("no number", 80)):
        monkeypatch.setenv("COLUMNS", columns)
        parser = Parser(prog="me", description="word " * 60, epilog=epilog)
        lines = parser.format_help().splitlines()
        assert max(map(len, lines)) <= longest and "  " + "x" * 70 in lines


def test_colored(monkeypatch: pytest.MonkeyPatch) -> None:
    """No colour where there is no terminal."""
    assert not output.colored()
    monkeypatch.setattr("sys.stdout", None)
    assert not output.colored()


@pytest.mark.parametrize("verb", ["endpoints", "dead list", "inbox", "broker status"])
def test_tables_in_a_terminal(desk: Desk, name: str, verb: str) -> None:
    """80 columns, a bold header, a peer's text as text; NO_COLOR is heard; in a pipe, all of it."""
    long, text = f"{name}-{'x' * 45}", "[red]a[/] \x1b[41mb \u202e" + " word" * 40
    desk.declare(long)
    with desk.client() as bus:
        for id in (f"{name}-1", f"{name}-2"):
            bus.send(long, {"text": text, "type": "t" * 30}, sender=long, id=id)
        bus.cancel(f"{name}-1", by=long)
    words = ("wakebus", *verb.split(), *([long] if verb == "inbox" else []))
    shown = in_terminal(desk, *words, env={"COLUMNS": "80"})
    lines = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b[1m" in shown
    assert "\x1b[41m" not in shown and "\u202e" not in shown
    if verb == "inbox":
        assert f"{name}-2" in shown and "[red]a[/] b" in shown
    assert "\x1b" not in in_terminal(desk, *words, env={"COLUMNS": "80", "NO_COLOR": "1"})
    piped = desk.run(*words)
    assert "\x1b" not in piped.out and long in piped.out and "…" not in piped.out
