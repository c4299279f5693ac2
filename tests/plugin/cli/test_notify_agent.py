"""`notify-agent` as people run it, with a real tmux and a program that records what it gets."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from fakes.broker import until
from fakes.desk import NONE, Desk, Done, Env
from fakes.pane import END, START, Recorder, Server, serve_panes
from wakebus.plugin.tmux.panes import MAX_TEXT

Notify = Callable[..., Done]

ROLES: Final = """\
default_sender: somebody
role_map:
  worker-alpha: {name: "Alpha 工人", color: bold_yellow}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for the file."""
    yield from serve_panes()


@pytest.fixture
def pane(server: Server, name: str) -> Recorder:
    """A recording pane in a session of its own, `name`."""
    return server.session(name)


@pytest.fixture
def program(server: Server, name: str) -> Iterator[Callable[..., str]]:
    """Return what starts any program in a session `name`; its end."""
    started: list[str] = []

    def start(*words: str) -> str:
        started.append(server.program(name, *words))
        return started[-1]

    yield start
    for id in started:
        server.tmux("kill-pane", "-t", id)


@pytest.fixture
def notify(own_desk: Desk, server: Server) -> Notify:
    """Return `notify-agent` of a desk whose bus does not run."""
    folder = {"TMUX_TMPDIR": str(server.folder)}

    def run(*words: str | bytes, stdin: bytes = b"", env: Env = NONE) -> Done:
        return own_desk.run("notify-agent", *words, stdin=stdin, env={**folder, **env})

    return run


def test_it_types_and_says_where(notify: Notify, pane: Recorder, name: str) -> None:
    """The seed's two calls: with a name in front, and plain; never a word that it was read."""
    done = notify(name, "Task queue is empty")
    assert done == (0, f"typed into {name}:0.0 ({pane.id}): 19 characters and Enter\n", "")
    assert pane.line() == b"Task queue is empty"


def test_the_sender_stands_in_front(notify: Notify, pane: Recorder, name: str) -> None:
    """`⚕ [name]: text`; flags anywhere, words that were not quoted are one text."""
    done = notify("--from", "worker-alpha", name, "Build", "complete", "--json")
    line = "⚕ [worker-alpha]: Build complete"
    assert done.status == 0 and pane.line() == line.encode()
    assert done.json == {
        "state": "typed",
        "pane": pane.id,
        "place": f"{name}:0.0",
        "session": name,
        "from": "worker-alpha",
        "characters": len(line),
        "pasted": False,
        "left_mode": False,
    }


def test_a_role_has_its_name(notify: Notify, own_desk: Desk, pane: Recorder, name: str) -> None:
    """role_map, also of --config; without its colour, which is for terminals."""
    path = own_desk.rules(ROLES, "roles.yaml")
    notify("--from", "worker-alpha", "--config", path, "--to", name, "hi")
    assert pane.line() == "⚕ [Alpha 工人]: hi".encode()


@pytest.mark.parametrize(
    ("env", "words", "front"),
    [
        ({}, (), "⚕ [somebody]: "),
        ({}, ("--from", ""), ""),
        ({"HERMES_BUS_ENDPOINT": "worker-alpha"}, (), "⚕ [Alpha 工人]: "),
        ({"HERMES_BUS_ENDPOINT": "host"}, (), "⚕ [host]: "),
        ({"WAKEBUS_TOKEN": "t", "WAKEBUS_ENDPOINT": "turn"}, (), "⚕ [turn]: "),
        ({}, ("--from", "a\n\x1b[31mb" + "x" * 99), "⚕ [a b" + "x" * 60 + "…]: "),
    ],
)
def test_who_sends(
    *,
    notify: Notify,
    own_desk: Desk,
    pane: Recorder,
    name: str,
    env: Env,
    words: tuple[str, ...],
    front: str,
) -> None:
    """--from, the turn, HERMES_BUS_ENDPOINT, default_sender; "" is nobody; always one line."""
    own_desk.rules(ROLES)
    assert notify(*words, name, "hi", env=env).status == 0
    assert pane.line() == f"{front}hi".encode()


def test_from_inside_tmux(server: Server, notify: Notify, own_desk: Desk, name: str) -> None:
    """The sender's own session, by role_map; its server is asked, wherever its socket is."""
    target = server.session(name)
    inside = server.session("worker-alpha")
    env = {"TMUX": f"{server.ask(inside, 'socket_path')},1,0", "TMUX_PANE": inside.id}
    env["TMUX_TMPDIR"] = "/nowhere"
    assert notify(name, "hi", env=env).status == 0
    assert target.line() == b"\xe2\x9a\x95 [worker-alpha]: hi"
    own_desk.rules(ROLES)
    assert notify(name, "hi", env=env).status == 0
    until(lambda: target.got.endswith("\r⚕ [Alpha 工人]: hi\r".encode()), 60)
    assert inside.got == b""


def test_rules_that_are_wrong(notify: Notify, own_desk: Desk, pane: Recorder, name: str) -> None:
    """The default file costs a note, never the text; one that was named is an error."""
    path = own_desk.rules("bus: [\n")
    done = notify("--from", "ci", name, "hi")
    assert done.status == 0 and "note: role_map and default_sender are not used" in done.err
    assert f"{path}:2" in done.err and pane.line() == "⚕ [ci]: hi".encode()
    done = notify("--from", "ci", "--config", path, name, "hi")
    assert done.status == 2 and f"{path}:2" in done.err


@pytest.mark.parametrize("env", [{}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}])
def test_a_hard_text(notify: Notify, pane: Recorder, name: str, env: Env) -> None:
    """Quotes, `$(…)`, a `-` in front, a `;` at the end, other scripts, whatever the locale."""
    text = "-n 'q' \"q\" $(touch x) `y` 中文 👩‍💻;"
    done = notify("--from", "工人", "--to", name, "--", text, env=env)
    assert done.status == 0, done
    assert pane.line() == f"⚕ [工人]: {text}".encode()


def test_standard_input(notify: Notify, pane: Recorder, name: str) -> None:
    """`-` reads it: several lines are one paste, with one Enter; keys are taken out."""
    done = notify(name, "-", stdin="one\ntwo\x03\x1b[201~ 中文\n\n".encode())
    assert done.status == 0 and done.out.startswith("pasted into ")
    assert pane.line() == START + "one\rtwo 中文".encode() + END
    assert pane.got.endswith(END + b"\r")


def test_the_longest_text(notify: Notify, pane: Recorder, name: str) -> None:
    """256 KiB arrive; one byte more is refused, and nothing is typed."""
    done = notify(name, "-", stdin=b"x" * MAX_TEXT + b"\n\n")
    assert done.status == 2 and "over 256 KiB" in done.err and pane.got == b""
    done = notify("--from", "ci", name, "-", stdin=b"x" * MAX_TEXT)
    assert done.status == 2 and "send the file's name" in done.err and pane.got == b""
    assert notify(name, "-", stdin=b"x" * MAX_TEXT + b"\n").status == 0
    assert pane.line() == START + b"x" * MAX_TEXT + END


def refused(done: Done, says: str, seen: str) -> None:
    """Exit 1, what was seen, and the next step."""
    error = done.json["error"]
    assert done.status == 1 and error["code"] == "pane_occupied" and error["retry"] is True
    assert says in error["text"] and seen in error["seen"] and error["step"] in done.err, error
    assert "Nothing was typed" in error["text"] and "tmux attach" in error["step"]


def test_copy_mode_is_refused(server: Server, notify: Notify, pane: Recorder, name: str) -> None:
    """RULES-7.6: who reads there keeps the place."""
    server.tmux("copy-mode", "-t", pane.id)
    refused(notify("--json", name, "hi"), "is in a mode of tmux", "copy-mode")
    assert pane.got == b"" and server.ask(pane, "pane_in_mode") == "1"


def screen_of(server: Server, name: str) -> str:
    return server.tmux("capture-pane", "-p", "-t", f"={name}:")


@pytest.mark.parametrize("command", [("bash", "--norc"), ("sh",), ("sh", "-c", "bash --norc; :")])
def test_a_shell_is_refused(
    *,
    server: Server,
    notify: Notify,
    program: Callable[..., str],
    name: str,
    command: tuple[str, ...],
) -> None:
    """RULES-7.6: it would run the text, also one in a shell; with --shell it does."""
    program(*command)
    until(lambda: screen_of(server, name).endswith(("$", "#")), 60)
    refused(notify("--json", name, "echo a$((6 * 7))"), "runs a shell", "sh")
    assert "echo" not in screen_of(server, name)
    done = notify("--from", "", "--shell", name, "echo a$((6 * 7))")
    assert done.status == 0, done
    until(lambda: "a42" in screen_of(server, name), 60)


def test_an_agent_that_a_script_starts_is_no_shell(
    *, server: Server, notify: Notify, program: Callable[..., str], name: str, tmp_path: Path
) -> None:
    """RULES-7.6: tmux calls it `bash`, but the program in it reads the keys."""
    script = tmp_path / "agent.sh"
    script.write_text("#!/bin/bash\necho ready\ncat\necho over\n")
    script.chmod(0o700)
    id = program(str(script))
    until(lambda: "ready" in screen_of(server, name), 60)
    shown = server.tmux("display-message", "-p", "-t", id, "#{pane_current_command}")
    assert shown in ("bash", "agent.sh")
    until(lambda: notify(name, "hello").status == 0, 60)  # `cat` may not run yet
    until(lambda: screen_of(server, name).count("hello") == 2, 60)


@pytest.mark.parametrize(
    ("command", "what"),
    [("less", "a pager"), ("more", "a pager"), ("vi", "an editor"), ("nano", "an editor")],
)
def test_a_pager_or_editor_is_refused(
    *,
    server: Server,
    notify: Notify,
    program: Callable[..., str],
    name: str,
    tmp_path: Path,
    command: str,
    what: str,
) -> None:
    """RULES-7.6: real ones; the file stays as it is."""
    if not shutil.which(command):
        pytest.skip(f"no {command} here")
    file = tmp_path / "file"
    file.write_text("".join(f"line {n}\n" for n in range(99)))
    program(command, str(file))
    until(lambda: "line 1" in screen_of(server, name), 60)
    refused(notify("--json", name, "i hello"), f"runs {what} ({command})", command)
    assert "hello" not in screen_of(server, name)


def test_a_dialog_is_refused(server: Server, notify: Notify, pane: Recorder, name: str) -> None:
    """RULES-7.6: Enter would approve it; with --shell too; once it is answered, all is well."""
    server.draw(pane, " Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel")
    refused(notify("--json", name, "hi"), "shows a dialog", "❯ 1. Yes")
    refused(notify("--json", "--shell", name, "hi"), "shows a dialog", "❯ 1. Yes")
    done = notify(name, "hi")
    assert done.status == 1 and "(seen: ❯ 1. Yes). Nothing was typed\nAnswer it there" in done.err
    server.draw(pane, "● Done.\n────\n❯\n────")
    assert pane.got == b"" and notify(name, "hi").status == 0 and pane.line() == b"hi"


def test_what_is_not_there(server: Server, notify: Notify, pane: Recorder, name: str) -> None:
    """Exit 1, with the sessions that are there; a session is never taken for its beginning."""
    for target, what in ((name[:-1], "session"), (f"{name}:7", "pane"), ("%999", "pane")):
        done = notify(target, "hi")
        assert done.status == 1 and f"there is no tmux {what} '{target}'" in done.err, done
        assert name in done.err.splitlines()[1] and done.out == ""
    error = notify(name[:-1], "--json", "hi").json["error"]
    assert error["code"] == "no_pane" and error["retry"] is False and name in error["step"]
    assert pane.got == b""


def test_no_tmux(notify: Notify, tmp_path: Path) -> None:
    """Exit 1: no server with how to start one, no program."""
    done = notify("work", "hi", env={"TMUX_TMPDIR": str(tmp_path)})
    assert done.status == 1 and "no tmux server answers" in done.err and "new-session" in done.err
    done = notify("work", "hi", env={"PATH": str(tmp_path)})
    assert done.status == 1 and "tmux cannot be run" in done.err and "PATH" in done.err


BAD: Final[dict[str, tuple[tuple[bytes, ...], bytes, str]]] = {
    "nothing": ((), b"", "give a tmux session"),
    "an empty session": ((b"", b"x"), b"", "give a tmux session"),
    "an empty --to": ((b"--to", b"", b"x"), b"", "give a tmux session"),
    "a session of two lines": ((b"a\nb", b"x"), b"", "'a\\nb' is none"),
    "no text": ((b"work",), b"", "give a text"),
    "no text after --to": ((b"--to", b"work"), b"", "give a text"),
    "an empty text": ((b"work", b""), b"", "the text is empty"),
    "a text of blanks": ((b"work", b" \n "), b"", "the text is empty"),
    "a text of keys": ((b"work", b"\x03\x1b[A"), b"", "the text is empty"),
    "an empty text of somebody": ((b"--from", b"ci", b"work", b""), b"", "the text is empty"),
    "empty standard input": ((b"work", b"-"), b"", "the text is empty"),
    "no UTF-8": ((b"work", b"a\xff"), b"", "argument SESSION TEXT is not UTF-8"),
    "a session that is no UTF-8": ((b"a\xff", b"x"), b"", "argument SESSION TEXT is not UTF-8"),
    "a sender that is no UTF-8": ((b"--from", b"\xff", b"work", b"x"), b"", "--from is not UTF-8"),
    "standard input that is none": ((b"work", b"-"), b"ab\xff", "not UTF-8 (byte 2)"),
    "endless standard input": ((b"work", b"-"), b"x" * 999_999, "over 256 KiB"),
    "an unknown flag": ((b"--too", b"work", b"x"), b"", "unrecognized"),
    "an abbreviated flag": ((b"--fro", b"a", b"work", b"x"), b"", "unrecognized"),
}


@pytest.mark.parametrize("case", BAD)
def test_usage(notify: Notify, case: str) -> None:
    """Exit 2 and a line that names what is wrong; with --json one object; nothing is typed."""
    words, stdin, says = BAD[case]
    done = notify(b"--json", *words, stdin=stdin)
    assert done.status == 2, done
    assert says in done.err and "Traceback" not in done.err
    assert says in done.json["error"]["text"] and done.json["error"]["code"] == "usage"


def test_closed_standard_input(notify: Notify, own_desk: Desk) -> None:
    """There is nothing to read."""
    done = own_desk.run("/bin/sh", "-c", "notify-agent work - <&-")
    assert done.status == 2 and "standard input is closed" in done.err


def test_what_it_imports(own_desk: Desk) -> None:
    """No zmq, and yaml only with a rules file: agents call it in every prompt."""
    code = (
        "import json, sys; before = set(sys.modules)\n"
        "from wakebus.plugin.cli.notify_agent import main\n"
        "sys.argv = ['notify-agent', '--from', 'ci', 'gone', 'hi']; status = main()\n"
        "print(json.dumps([status, sorted(set(sys.modules) - before)]))"
    )
    done = own_desk.run(sys.executable, "-c", code)
    status, found = json.loads(done.out)
    assert status == 1 and "wakebus.plugin.tmux.keystrokes" in found
    heavy = {"zmq", "yaml", "msgspec", "rich", "psutil", "asyncio", "logging", "email", "http"}
    assert not set(found) & {*heavy, "inspect", "importlib.metadata", "sqlite3", "socket"}
    ours = {name for name in found if name.startswith("wakebus.")}
    assert not ours & {"wakebus.broker.client.client", "wakebus.plugin.rules.load"}
