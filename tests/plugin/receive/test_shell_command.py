"""Commands of rules, real ones."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.broker import until
from wakebus.broker.protocol.message import Message
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.receive.shell_command import CommandResult, Commands
from wakebus.plugin.rules.model import Rule

ENVIRON = {"PATH": os.environ["PATH"], "SECRET_TOKEN": "s3cret", "WANTED": "w"}
MakeMessage = Callable[..., Message]


@pytest.fixture(autouse=True)
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No bus folder, until a test makes it."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    return tmp_path / "bus"


def run(command: str, message: Message, **rule: object) -> CommandResult:
    full = Rule(match_type=("*",), command=command, **rule)  # type: ignore[arg-type]
    return Commands().run(full, message, environ=ENVIRON)


def test_the_message_is_in_the_environment(make: MakeMessage) -> None:
    """The seed's variables: MESSAGE TYPE FROM CHANNEL TEXT TS."""
    message = make("hello", type="ack", channel="feishu:1")
    done = run('echo "$TYPE $FROM $CHANNEL $TEXT $TS $ID"; echo "$MESSAGE"', message)
    first, second = done.tail.split("\n")
    assert first == "ack alpha feishu:1 hello 1764288000 m1"
    assert json.loads(second) == message.to_wire()
    assert done.ok and done.started <= done.ended


def test_the_message_is_on_the_input(make: MakeMessage) -> None:
    """As one JSON object; a command that does not read it is fine."""
    assert json.loads(run("cat", make()).tail) == make().to_wire()
    assert run("exit 0", make("x" * 1_000_000)).ok


def test_text_is_never_a_command(make: MakeMessage, tmp_path: Path) -> None:
    """RULES-6.1: `$(…)`, backticks, quotes and newlines stay text."""
    path = tmp_path / "no"
    text = f"$(touch {path}) `touch {path}` '; touch {path} #\n\"; touch {path}"
    assert run('printf %s "$TEXT"', make(text)).tail == text
    assert not path.exists()


def test_a_large_message_is_cut_in_variables_and_whole_in_the_file(make: MakeMessage) -> None:
    """RULES-6.2: 96 KiB each; the file is private and gone afterwards."""
    message = make("é" * 300_000)
    script = (
        'LC_ALL=C; echo "${#TEXT} ${#MESSAGE}"; wc -c < "$MESSAGE_FILE" | tr -d " ";'
        'ls -l "$MESSAGE_FILE" | cut -c1-10; echo "$MESSAGE_FILE"'
    )
    done = run(f"bash -c '{script}'", message)
    sizes, whole, mode, path = done.tail.split("\n")
    text, cut = map(int, sizes.split())
    assert text == 96 << 10 and cut in (96 << 10, (96 << 10) - 1)
    assert int(whole) == len(
        json.dumps(message.to_wire(), ensure_ascii=False, separators=(",", ":")).encode()
    )
    assert mode == "-rw-------" and not Path(path).exists()


def test_the_file_lies_in_the_bus_folder(make: MakeMessage, bus: Path) -> None:
    """RULES-6.2: where no other user looks, and where the next listener finds what a kill left."""
    bus.mkdir()
    folder, mode = run(
        'dirname "$MESSAGE_FILE"; ls -ld "$(dirname "$MESSAGE_FILE")"', make()
    ).tail.split("\n")
    assert folder == str(bus / "tmp") and mode.startswith("drwx------")
    assert list((bus / "tmp").iterdir()) == []


def test_no_credentials_unless_named(make: MakeMessage) -> None:
    """RULES-7.2: `env: [NAME]` passes one on."""
    script = 'echo "[$SECRET_TOKEN] [$WANTED]"'
    assert run(script, make()).tail == "[] []"
    assert run(script, make(), env=("WANTED", "UNSET")).tail == "[] [w]"


def test_failure_is_an_outcome(make: MakeMessage) -> None:
    """RULES-6.4: status, signal and the end of the output."""
    done = run("echo out; echo err >&2; exit 7", make())
    assert (done.status, done.tail, done.ok) == (7, "out\nerr", False)
    assert done.to_outcome().keys() == {"status", "tail", "started", "ended"}
    assert run("kill -9 $$", make()).signal == "SIGKILL"
    assert run("no-such-program-at-all", make()).status == 127
    assert json.dumps(done.to_outcome())


def test_the_tail_is_short_and_clean(make: MakeMessage) -> None:
    """RULES-6.4: 4 KiB, no escapes, no broken characters."""
    done = run("yes é | head -n 100000; printf '\\033[2Jend\\377'", make())
    assert done.tail.endswith("é\nend\ufffd") and len(done.tail.encode()) <= 4096 + 8
    assert done.tail_cut


def test_the_time_limit(make: MakeMessage, tmp_path: Path) -> None:
    """RULES-6.3: the rule's own, or 60 s; the whole group ends."""
    done = run("echo begun; sleep 60 & sleep 60", make(), timeout_s=0.3)
    assert done.timed_out and not done.ok and done.tail == "begun"
    assert done.to_outcome()["timed_out"] is True
    assert done.error == "ended after its time limit of 0.3 s"
    assert done.ended - done.started < 5


def test_a_command_that_forks_and_stays(make: MakeMessage, tmp_path: Path) -> None:
    """RULES-6.5: over when the shell exits; what stays runs on and holds nobody."""
    done = run("sleep 60 & echo $!", make())
    assert done.ok and done.ended - done.started < 3
    pid = int(done.tail)
    os.kill(pid, 0)
    os.kill(pid, signal.SIGKILL)


def test_eight_at_once(make: MakeMessage, tmp_path: Path) -> None:
    """RULES-6.3: the others wait their turn; all of them run."""
    commands = Commands(at_once=2)
    script = f"d={tmp_path}; mkdir $d/$ID.on; ls $d | grep -c on;sleep 0.1; rmdir $d/$ID.on"
    rule = Rule(match_type=("*",), command=script)
    found: list[CommandResult] = []

    def one(number: int) -> None:
        found.append(commands.run(rule, make(id=f"m{number}"), environ=ENVIRON))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 6 and all(done.ok for done in found)
    assert max(int(done.tail) for done in found) <= 2
    assert Commands()._left == 8


def test_stop_all_ends_what_runs_and_what_waits(make: MakeMessage, tmp_path: Path) -> None:
    """Ctrl-C: soon, and nothing starts afterwards."""
    commands = Commands(at_once=1)
    rule = Rule(match_type=("*",), command=f"touch {tmp_path}/on; exec sleep 60")
    found: list[CommandResult] = []
    threads = [
        threading.Thread(target=lambda: found.append(commands.run(rule, make(), environ=ENVIRON)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while not (tmp_path / "on").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    commands.stop_all()
    for thread in threads:
        thread.join(10)
    assert len(found) == 3 and all(done.cancelled and not done.ok for done in found)
    assert sorted(done.error for done in found) == ["", *["stopped before it started"] * 2]


def test_one_is_ended_and_the_others_are_not(make: MakeMessage, tmp_path: Path) -> None:
    """A message that is cancelled, while its command runs or before."""
    commands, cancels = Commands(at_once=1), [Cancel() for _ in range(3)]
    rule = Rule(match_type=("*",), command=f"touch {tmp_path}/on; sleep 60 & wait; echo no")
    quick = Rule(match_type=("*",), command="echo yes")
    found: dict[int, CommandResult] = {}

    def run(n: int, rule: Rule) -> None:
        found[n] = commands.run(rule, make(), environ=ENVIRON, cancel=cancels[n])

    threads = [threading.Thread(target=run, args=(n, rule)) for n in (0, 1)]
    threads.append(threading.Thread(target=run, args=(2, quick)))
    for thread in threads:
        thread.start()
        until(lambda: (tmp_path / "on").exists())
    commands.end_command(cancels[1])
    threads[1].join(10)
    assert found[1].error == "stopped before it started" and 0 not in found
    commands.end_command(cancels[0])
    for thread in threads:
        thread.join(10)
    assert found[0].cancelled and found[2].ok and found[2].tail == "yes"


def test_an_environment_that_the_kernel_refuses(make: MakeMessage) -> None:
    """An error in the outcome, nothing raised."""
    rule = Rule(match_type=("*",), command="true", env=("HUGE",))
    done = Commands().run(rule, make(), environ={**ENVIRON, "HUGE": "x" * 200_000})
    assert "cannot start /bin/sh" in done.error and done.status is None and not done.ok


def test_a_rule_without_a_command(make: MakeMessage) -> None:
    """Said, not raised."""
    done = Commands().run(Rule(match_type=("*",)), make(), environ=ENVIRON)
    assert done.error == "the rule has no command"


def test_a_temporary_folder_that_cannot_be_written(
    make: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the outcome, nothing raised."""
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    assert "/no/such/folder" in run("true", make()).error
