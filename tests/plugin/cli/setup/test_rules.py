"""`wakebus rules`, called as its parser calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.desk import Desk
from wakebus.plugin.cli.output import Parser, Usage
from wakebus.plugin.cli.setup import rules

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HERMES_HOME of its own."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path / "bus-rules.yaml"


def call(*argv: str) -> int:
    parser = Parser(prog="wakebus rules")
    rules.COMMAND.set_up(parser)
    args = parser.parse_args(argv)
    status: int = args.run(args)
    return status


def test_init_then_check(home: Path, capsys: Captured) -> None:
    """The default rules are written once and are good."""
    assert call("init") == 0 and home.exists()
    assert call("init") == 1
    assert "--force" in capsys.readouterr().err
    assert call("init", "--force") == 0
    assert call("check") == 0
    assert "11 rules, 0 warnings" in capsys.readouterr().out


def test_check_takes_the_file_as_test_does(tmp_path: Path, capsys: Captured) -> None:
    """`--rules FILE`, as `rules test` and `listen` have it, is FILE."""
    file = tmp_path / "mine.yaml"
    file.write_text("callbacks:\n- match_type: ack\n  print: yess\n")
    for words in (("--rules", str(file)), (str(file),)):
        assert call("check", *words) == 1
        assert f"{file}:3: print" in capsys.readouterr().err


def test_check_tells_an_empty_file(home: Path, capsys: Captured) -> None:
    """RULES-1.10: as after a cut of power; valid, so exit 0, and the command it names mends it."""
    home.touch(0o600)
    assert call("check") == 0
    out = capsys.readouterr().out
    assert "no rules are in force" in out and "0 rules, 1 warnings" in out
    _, _, command = out.partition("`wakebus rules ")
    assert call(*command.partition("`")[0].split()) == 0
    assert call("check") == 0 and "11 rules, 0 warnings" in capsys.readouterr().out


def test_init_where_nothing_can_be_written(home: Path, capsys: Captured) -> None:
    """The reason, not a traceback."""
    home.write_text("a file")
    assert call("init", str(home / "sub.yaml")) == 1
    assert "cannot write" in capsys.readouterr().err


def test_check_tells_every_error(home: Path, capsys: Captured) -> None:
    """FILE:LINE: KEY: TEXT on stderr, exit 1."""
    home.write_text("- match_tpye: a\n- match_type: b\n  wake: now\n")
    home.chmod(0o600)
    assert call("check", str(home)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"{home}:1: match_tpye: unknown key; did you mean match_type?"
    assert f"{home}:3: wake: " in lines[-1]


def test_check_tells_warnings_and_missing_files(home: Path, capsys: Captured) -> None:
    """Warnings do not fail; a named file must exist, the default one need not."""
    assert call("check") == 0
    assert "default rules are in force" in capsys.readouterr().out
    assert call("check", str(home)) == 1
    home.write_text('- match_type: a\n  print: true\n  print_format: "{form}"\n')
    home.chmod(0o600)
    assert call("check") == 0
    assert f"{home}:3: print_format: unknown placeholder {{form}}" in capsys.readouterr().out


def test_test_shows_what_would_happen(capsys: Captured) -> None:
    """Rule, print, context, reply, without a broker."""
    assert call("test", "--type", "task_done", "--channel", "feishu:oc_1", "all {type}") == 0
    out = capsys.readouterr().out
    assert "rule     6: task_done" in out and "✔ cli → all {type}" in out
    assert "context  immediate: starts a turn, in feishu:oc_1" in out
    assert "[task_done] cli: all {type}" in out and "reply    channel" in out


def test_test_says_where_retries_do_nothing(home: Path, capsys: Captured) -> None:
    """RULES-1.9, RULES-8.9: a text that only waits cannot fail."""
    home.write_text("- {match_type: a, context: true, wake: silent, retries: 2}\n")
    home.chmod(0o600)
    assert call("test", "--type", "a", "x") == 0
    assert "retries  do nothing here: no turn begins" in capsys.readouterr().out


def test_test_shows_retries(home: Path, capsys: Captured) -> None:
    """RULES-8.9: only where there are any."""
    home.write_text("- {match_type: a, command: x, retries: 2, retry_after: 5}\n")
    home.chmod(0o600)
    assert call("test", "--type", "a", "x") == 0
    assert "retries  2: 5 s after the first failure, then twice" in capsys.readouterr().out
    assert call("test", "--type", "a", "--json", "x") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["retries"], report["retry_after"]) == (2, 5.0)


def test_test_says_what_senders_refuse(capsys: Captured) -> None:
    """ADP-7.8: a note; what would happen is shown all the same."""
    assert call("test", "--type", "task_done", "--channel", "telegramm:1", "x") == 0
    told = capsys.readouterr()
    assert "senders refuse it" in told.err and "did you mean telegram?" in told.err
    assert "context  immediate: starts a turn, in telegramm:1" in told.out
    assert call("test", "--channel", "whatsapp:1", "x") == 0
    assert "only a gateway of Hermes that has whatsapp" in capsys.readouterr().err


def test_test_shows_who_is_told_of_a_failure(home: Path, capsys: Captured) -> None:
    """RULES-8.5, RULES-8.6: the chat that is named, and the sender, as the rule says."""

    def shown(*words: str) -> list[str]:
        assert call("test", "--from", "lead", *words, "x") == 0
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if line.startswith("failure")]

    both = "failure  one line in console:team and a notice to its sender"
    assert shown("--type", "task_done", "--channel", "console:team") == [both]
    assert shown("--type", "task_done") == ["failure  a notice to its sender"]
    assert shown("--type", "progress", "--channel", "console:team") == []
    nobody = ["failure  is told to nobody"]
    assert shown("--type", "task_done", "--from", "cli") == nobody, "cli is no endpoint"
    home.write_text(
        "- match_type: a\n  command: x\n  on_failure: {chat: false}\n"
        "- match_type: b\n  command: x\n  on_failure: {chat: false, sender: false}\n"
    )
    home.chmod(0o600)
    assert shown("--type", "a", "--channel", "console:team") == ["failure  a notice to its sender"]
    assert shown("--type", "b") == ["failure  is told to nobody"]
    assert call("test", "--type", "b", "--json", "x") == 0
    assert json.loads(capsys.readouterr().out)["on_failure"] == []


def test_test_as_json(capsys: Captured) -> None:
    """The sender's wake lowers, the session counts."""
    argv = [
        "--type",
        "directive",
        "--session",
        "s1",
        "--wake",
        "silent",
        "--from",
        "lead",
        "--json",
    ]
    assert call("test", *argv, "x") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rule"], found["wake"], found["session"]) == ("1: directive", "silent", "s1")
    assert (found["print"], found["context_text"]) == ("no", "[directive] lead: x")


def test_test_runs_nothing(home: Path, capsys: Captured) -> None:
    """Neither the script nor the command."""
    script = home.with_name("s.sh")
    script.write_text(f"#!/bin/sh\ntouch {home.parent}/ran\n")
    script.chmod(0o700)
    home.write_text(
        f"- match_type: a\n  print: true\n  print_format: {script}\n"
        f'  command: "touch {home.parent}/ran"\n'
    )
    home.chmod(0o600)
    assert call("test", "--type", "a", "x") == 0
    out = capsys.readouterr().out
    assert f"(what {script} prints; not run)" in out and "command  (not run)" in out
    assert not (home.parent / "ran").exists()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--from", "a.b", "x"], "from 'a.b'"),
        (["--type", " ", "x"], "body.type"),
        (["--rules", "/no/such.yaml", "x"], "no such file"),
    ],
)
def test_bad_input_is_told(argv: list[str], says: str, capsys: Captured) -> None:
    """Exit 1 with the field or file; usage errors are 2."""
    assert call("test", *argv) == 1
    assert says in capsys.readouterr().err
    with pytest.raises(SystemExit) as error:
        call("test", "--wake", "now")
    assert error.value.code == 2


def test_no_rule_and_a_rule_that_does_nothing(home: Path, capsys: Captured) -> None:
    """Both are said."""
    home.write_text("- match_type: quiet\n")
    home.chmod(0o600)
    assert call("test", "--host", "terminal", "x") == 0
    assert "rule     none" in capsys.readouterr().out
    assert call("test", "--type", "quiet", "x") == 0
    assert "nothing: no print, context or command" in capsys.readouterr().out


EVIL = "\\e]0;title\\a\\e[2J\\e[8m\\u202e\\u009b31m"  # as YAML writes it
FILE = f"""- match_type: "a{EVIL}"
  print: always
  print_format: "{{color:red}}{EVIL}red"
  context: true
  context_format: "{EVIL}c"
  command: "{EVIL}d"
"""


@pytest.mark.parametrize("more", ["", f'  "k{EVIL}": 1\n', f'  wake: "{EVIL}"\n'])
def test_no_file_steers_the_terminal(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """Neither its keys nor its values, nor a message's; a format's own colours stay."""
    monkeypatch.setattr("wakebus.plugin.cli.setup.rules.colored", lambda: True)
    home.write_text(FILE + more)
    home.chmod(0o600)
    type_ = "a\x1b]0;title\x07\x1b[2J\x1b[8m\u202e\x9b31m"
    call("check")
    call("check", f"/no\x1b[2J/{home.name}")
    call("test", "--type", type_, "--session", "\x1b[2Js", "x\x1b[2J\x1b[8m")
    call("test", "--type", "b", "--session", "\x9b2Js", "x\x1b[2J\x1b[8m")
    out, err = capsys.readouterr()
    assert "rule" in out or more
    shown = (out + err).replace("\x1b[31m", "").replace("\x1b[8m", "").replace("\x1b[0m", "")
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    for line in (out + err).splitlines():
        assert "\x1b" not in line or "red" in line


@pytest.mark.parametrize("words", ["rules check", "rules test x", "rules test --json x"])
@pytest.mark.parametrize("to", [">&-", ">/dev/full", "2>&- >&-", "2>/dev/full >/dev/full"])
def test_nobody_reads_it(home: Path, words: str, to: str) -> None:
    """PROTOCOL-1.17: a full disk or a closed output is no traceback; the full disk is told."""
    if "full" in to and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    main = "from wakebus.plugin.cli.main import main; raise SystemExit(main())"
    line = f'exec "$0" -c "$1" {words} {to}'
    command = ["/bin/sh", "-c", line, sys.executable, main]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
    told = "not all that was printed is written: No space left on device\n"
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr == (told if to == ">/dev/full" else "")


EVENTS = """\
bus: {endpoint: lead}
callbacks:
  - match_topic: "ci.*.failed"
    match_from: ci
    match_text: red
    context: true
    context_format: "{from}|{type}|{text}|{channel}|{to}"
  - match_topic: "ci.**"
    print: true
  - match_topic: "bus.**"
    print: true
  - match_type: "*"
    print: true
"""


def test_a9_test_shows_what_the_real_event_would_do(home: Path, capsys: Captured) -> None:
    """RULES-2.10: sender, text, channel and session are the event's own."""
    home.write_text(EVENTS)
    home.chmod(0o600)
    fields = {"text": "3 are red", "channel": "console:t", "session": "s1"}
    assert call("test", "--topic", "ci.build.failed", json.dumps(fields)) == 0
    out = capsys.readouterr().out
    assert "rule     1: ci.*.failed" in out and "in s1" in out
    assert "ci|ci.build.failed|3 are red|console:t|lead" in out
    assert call("test", "--topic", "ci.build.done", '{"branch": "main"}') == 0
    assert '{"branch": "main"}' in capsys.readouterr().out  # without a text, the fields
    assert call("test", "--topic", "ci.a.failed", "--channel", "console:x", "red") == 0
    assert "ci|ci.a.failed|red|console:x|lead" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("topic", "text", "words"),
    [
        ("x.y", "hi", "no rule with match_topic takes it"),
        ("bus.message.dead", '{"from": "lead", "to": "b"}', "own messages starts nothing"),
        ("bus.message.dead", '{"from": "b", "to": "b"}', "own messages starts nothing"),
    ],
)
def test_a9_an_event_that_does_nothing(
    home: Path, capsys: Captured, topic: str, text: str, words: str
) -> None:
    """RULES-2.10, RULES-2.8: no message comes of it, so that nothing is printed either."""
    home.write_text(EVENTS)
    home.chmod(0o600)
    assert call("test", "--topic", topic, text) == 0
    out = capsys.readouterr().out
    assert "rule     none" in out and "nothing: " in out and words in out
    assert call("test", "--topic", topic, "--json", text) == 0
    assert words in json.loads(capsys.readouterr().out)["nothing"]


def test_a9_what_no_event_has(home: Path) -> None:
    """RULES-2.6: its sender is its source, and it asks for no wake; half JSON is none."""
    for words in (("--from", "me", "x"), ("--wake", "silent", "x"), ("{half",)):
        with pytest.raises(Usage):
            call("test", "--topic", "ci.x", *words)


def test_a9_the_rehearsal_is_what_listen_does(home: Path, capsys: Captured) -> None:
    """RULES-2.10: an event on a real bus prints what the rehearsal printed."""
    home.write_text(EVENTS)
    home.chmod(0o600)
    fields = '{"text": "all green", "type": "say", "extra": 1}'
    assert call("test", "--host", "terminal", "--topic", "ci.build.done", fields, "--json") == 0
    rehearsed = json.loads(capsys.readouterr().out)
    desk = Desk()
    try:
        (desk.root / "bus-rules.yaml").write_text(EVENTS)
        (desk.root / "bus-rules.yaml").chmod(0o600)
        desk.start()
        listener = desk.listen("lead")
        assert desk.wakebus("publish", "ci.build.done", fields).status == 0
        listener.shows(rehearsed["print_text"])
        listener.end()
    finally:
        desk.close()
