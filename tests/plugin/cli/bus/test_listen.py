"""`wakebus listen` without an agent: its name, its rules, its bus, its end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import harnesses
from fakes.broker import until
from fakes.desk import BIN, NONE, Desk, Listener, running
from fakes.terminal import Terminal
from fakes.tmux import Tmux

Listen = Callable[..., Listener]
PRINT = "callbacks:\n  - match_type: note\n    print: true\n    print_format: '{0}: {{text}}'\n"


def test_the_name(desk: Desk, name: str, listen: Listen, tmux: Tmux) -> None:
    """Argument, HERMES_BUS_ENDPOINT, bus.endpoint of the rules, tmux session, profile."""
    rules = desk.rules(f"bus: {{endpoint: {name}-r}}\n", f"{name}.yaml")
    given = listen(f"{name}-a", "--rules", rules, env={"HERMES_BUS_ENDPOINT": f"{name}-v"})
    assert f"listening as {name}-a (printing; rules: {rules}); Ctrl-C ends" in given.err
    variable = listen("--rules", rules, env={"HERMES_BUS_ENDPOINT": f"{name}-v"})
    assert f"listening as {name}-v " in variable.err
    ruled = listen("--rules", rules, env=tmux.env)
    assert f"listening as {name}-r " in ruled.err
    session = listen(env={**tmux.env, "HERMES_HOME": f"{desk.root}/profiles/{name}-p"})
    assert "listening as my-session " in session.err
    profile = listen(env={"HERMES_HOME": f"{desk.root}/profiles/{name}-p"})
    assert f"listening as {name}-p " in profile.err
    assert "listening as hermes-bus (printing; rules: default rules)" in listen().err


def test_a_name_that_is_none(desk: Desk) -> None:
    """Exit 2; nothing was started."""
    done = desk.wakebus("listen", "a.b")
    assert done.status == 2 and "an endpoint name has 1 to 64" in done.err


def test_the_name_of_the_courier(desk: Desk) -> None:
    """Exit 2: who took it would print the texts for chats, and nobody would send them."""
    done = desk.wakebus("listen", "courier", "--takeover")
    assert done.status == 2 and "choose another name" in done.err


@pytest.mark.parametrize(
    ("agent", "warned"),
    [("no-such-agent -p", True), ("./no-such", True), ("cat", False), ("cd / && cat", False)],
)
def test_an_agent_that_is_not_there(name: str, listen: Listen, agent: str, warned: bool) -> None:
    """The likeliest first mistake is told at the start; what the shell knows is none."""
    said = listen(name, "--agent", agent).err
    assert ("warning: no program" in said) is warned


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        ("", "--agent is empty"),
        ("  ", "--agent is empty"),
        ("echo 'two", '--agent: the shell cannot read "echo \'two": '),
        ("(cat", "--agent: the shell cannot read '(cat': "),
    ],
)
def test_an_agent_that_is_none(desk: Desk, name: str, agent: str, says: str) -> None:
    """Usage, before anything is received: an unset variable, a quote that is never closed."""
    done = desk.wakebus("listen", name, "--agent", agent)
    assert done.status == 2 and says in done.err and "listening" not in done.err


def test_a_name_that_is_taken(desk: Desk, name: str, listen: Listen) -> None:
    """Exit 1: who holds it and what to do; --takeover takes it, and the loser ends and says why."""
    first = listen(name)
    done = desk.wakebus("listen", name)
    assert done.status == 1 and f"held by process {first.process.pid}" in done.err
    assert "--takeover" in done.err and not first.ended
    second = listen(name, "--takeover")
    assert first.process.wait(30) == 1
    assert f"{name}: another client took the name over" in first.err
    desk.sent("--to", name, "--from", "ci", "for the second")
    second.shows("ci: for the second")
    assert "for the second" not in first.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("callbacks:\n\t- match_type: a\n", ":2"),
        ("callbacks:\n  - match_tpye: a\n", ":2: match_tpye: unknown key; did you mean match_type"),
    ],
)
def test_rules_that_are_wrong_at_the_start(desk: Desk, name: str, text: str, says: str) -> None:
    """Exit 1 with file, line and key; nothing listens."""
    path = desk.rules(text, f"{name}.yaml")
    done = desk.wakebus("listen", name, "--rules", path)
    assert done.status == 1 and f"{path}{says}" in done.err and "Traceback" not in done.err
    assert desk.wakebus("endpoints").out.find(f"{name} ") < 0


def test_rules_that_others_may_write_or_that_are_not_there(desk: Desk, name: str) -> None:
    """Exit 1 and why."""
    path = desk.rules("callbacks: []\n", f"{name}.yaml")
    Path(path).chmod(0o666)
    done = desk.wakebus("listen", name, "--rules", path)
    assert done.status == 1 and f"{path}: not loaded" in done.err
    done = desk.wakebus("listen", name, "--rules", f"{path}.none")
    assert done.status == 1 and f"{path}.none: no such file" in done.err


def test_rules_are_read_again(desk: Desk, name: str, listen: Listen) -> None:
    """Within a second; a file that turns bad is told once and the last good rules stay."""
    path = desk.rules(PRINT.format("one"), f"{name}.yaml")
    listener = listen(name, "--rules", path)
    note = ("--to", name, "--from", "ci", "--type", "note")
    desk.sent(*note, "a")
    listener.shows("one: a\n")
    desk.rules(PRINT.format("two"), f"{name}.yaml")
    listener.says("the rules were read again")
    desk.sent(*note, "b")
    listener.shows("two: b\n")
    desk.rules("callbacks:\n  - match_type: note\n    prnt: true\n", f"{name}.yaml")
    listener.says(f"{path}:3: prnt: unknown key; did you mean print")
    desk.sent(*note, "c")
    listener.shows("two: c\n")
    desk.sent(*note, "d")
    listener.shows("two: d\n")
    assert listener.err.count("prnt") == 1 and "The last good rules stay" in listener.err
    desk.rules(PRINT.format("three"), f"{name}.yaml")
    until(lambda: listener.err.count("the rules were read again") == 2)
    desk.sent(*note, "e")
    listener.shows("three: e\n")


def test_what_is_printed_steers_nothing(desk: Desk, name: str, listen: Listen) -> None:
    """Placeholders, shell, escapes and bidi controls in a text arrive as text or not at all."""
    listener = listen(name)
    evil = "{type} $(id) `id` \x1b[2J\x1b]0;t\x07\x9b31m\u202e\r ends"
    desk.sent("--to", name, "--from", "ci", "-", stdin=evil.encode())
    listener.shows("ends")
    assert "ci: {type} $(id) `id` " in listener.out
    assert not set("\x1b\x07\x9b\u202e\r") & set(listener.out)


def test_scripts_that_fail_cost_their_output_only(desk: Desk, name: str, listen: Listen) -> None:
    """Silent, failing, not executable: the plain text is shown, the outcome tells why."""
    scripts = {
        "silent": desk.script(f"{name}-silent", "true"),
        "failing": desk.script(f"{name}-failing", "echo why >&2; exit 3"),
        "plain": desk.script(f"{name}-plain", "true"),
        "escaping": desk.script(
            f"{name}-escaping", r"""printf 'x\033[2J\033]0;t\007y %s' "$TEXT" """
        ),
    }
    Path(scripts["plain"]).chmod(0o600)
    rules = "callbacks:\n" + "".join(
        f"  - match_type: {kind}\n    print: true\n    print_format: {path}\n"
        for kind, path in scripts.items()
    )
    listener = listen(name, "--rules", desk.rules(rules, f"{name}.yaml"))
    assert "not executable" in listener.err  # a warning at the start
    words = ("--to", name, "--from", "ci", "--wait", "30", "--json", "--type")
    told = {kind: desk.notify(*words, kind, f"is {kind}").json["outcome"] for kind in scripts}
    errors = {kind: outcome["actions"][0].get("script_error") for kind, outcome in told.items()}
    assert "printed nothing" in errors["silent"] and "exit status 3 (why)" in errors["failing"]
    assert "not executable; chmod +x" in errors["plain"] and errors["escaping"] is None
    for kind in ("silent", "failing", "plain"):
        listener.shows(f"is {kind}\n")
    listener.shows("xy is escaping\n")


def test_a_script_that_hangs_ends_with_the_listener(desk: Desk, name: str) -> None:
    """Ctrl-C does not leave it behind."""
    began = desk.root / f"{name}.began"
    script = desk.script(f"{name}.sh", f"trap '' TERM; echo $$ > {began}; sleep 300; sleep 300")
    rules = f"callbacks:\n  - match_type: x\n    print: true\n    print_format: {script}\n"
    listener = desk.listen(name, "--rules", desk.rules(rules, f"{name}.yaml"))
    desk.sent("--to", name, "--from", "ci", "--type", "x", "x")
    pid = int(until(lambda: began.exists() and began.read_text(), 30))
    assert listener.end(signal.SIGINT) == 0
    assert until(lambda: not running(pid), 10)


def test_colour_is_for_a_terminal_that_wants_it(desk: Desk, name: str) -> None:
    """SGR in a pty, none with NO_COLOR, none in a pipe."""
    text = PRINT.replace("{0}", "{{color:green}}{0}{{reset}}").format("note")
    path = desk.rules(text, f"{name}.yaml")
    command = ("wakebus", "listen", name, "--rules", path)
    for env, colored in ((NONE, True), ({"NO_COLOR": "1"}, False)):
        terminal = Terminal(desk, *command, env=env)
        terminal.shows("listening as")
        desk.sent("--to", name, "--from", "ci", "--type", "note", "hello")
        terminal.shows(": hello")
        assert terminal.end() == 0
        assert ("\x1b[32m" in terminal.shown) == colored, terminal.shown
    piped = desk.listen(name, "--rules", path)
    desk.sent("--to", name, "--from", "ci", "--type", "note", "hello")
    piped.shows("note: hello\n")
    piped.end()
    assert "\x1b" not in piped.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_it_ends_when_asked(desk: Desk, name: str, number: signal.Signals) -> None:
    """Exit 0, without a word of Python; the name is free at once."""
    listener = desk.listen(name)
    assert listener.end(number) == 0
    assert "Traceback" not in listener.err
    state = {one["name"]: one["state"] for one in desk.wakebus("endpoints", "--json").json}
    assert state[name] == "away"


def test_a_storm_of_ctrl_c(desk: Desk, name: str) -> None:
    """It ends as one does, wherever each of them falls, also into its very end."""
    listener = desk.listen(name, "--agent", "cat")
    for _ in range(300):
        listener.process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    while not listener.ended:
        listener.process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    assert listener.process.wait(30) == 0 and "Traceback" not in listener.err


def test_what_a_killed_listener_leaves(desk: Desk, name: str, listen: Listen) -> None:
    """RULES-6.6: nothing runs on; the file of its message goes with the next listener."""
    notes = desk.root / f"{name}.notes"
    # The message is on its input once the watcher knows of it.
    line = f"cat >/dev/null; sleep 61 & echo $$ $! $MESSAGE_FILE > {notes}; sleep 60"
    rules = f"callbacks:\n  - match_type: x\n    command: '{line}'\n    on_redelivery: skip\n"
    path = desk.rules(rules, f"{name}.yaml")
    listener = desk.listen(name, "--rules", path)
    desk.sent("--to", name, "--from", "ci", "--type", "x", "x")
    until(lambda: notes.exists() and notes.read_text().endswith("\n"), 30)
    shell, child, file = notes.read_text().split()
    listener.process.kill()
    listener.process.wait(30)
    until(lambda: not running(int(shell)) and not running(int(child)), 30)
    assert Path(file).exists() and Path(file).parent == desk.root / "bus" / "tmp"
    listen(name, "--rules", path)
    assert not Path(file).exists()


def test_a_command_in_the_middle_ends_with_it(desk: Desk, name: str, listen: Listen) -> None:
    """Also one that heeds no SIGTERM; its message is not lost but comes again, labelled."""
    began = desk.root / f"{name}.began"
    script = desk.script(
        f"{name}.sh", f"trap '' TERM INT HUP; echo $$ >> {began}; while :; do sleep 0.2; done"
    )
    rules = desk.rules(f"callbacks:\n  - match_type: job\n    command: {script}\n", f"{name}.yaml")
    listener = desk.listen(name, "--rules", rules)
    id = desk.sent("--to", name, "--from", "ci", "--type", "job", "x")["id"]
    until(began.exists, 30)
    pid = int(until(began.read_text))
    assert listener.end(signal.SIGINT) == 0
    assert not running(pid)
    assert desk.traced(id)["state"] not in ("handled", "dead")
    skip = "callbacks:\n  - match_type: job\n    command: 'true'\n    on_redelivery: skip\n"
    listen(name, "--rules", desk.rules(skip, f"{name}.yaml"))
    assert "started before" in desk.handled(id)["outcome"]["skipped"]


def test_standard_output_that_is_closed(desk: Desk, name: str) -> None:
    """Closed at the start, or a reader that went away: it goes on, the outcome tells."""
    for how in (">&-", "| head -n 1"):
        line = (
            f"exec wakebus listen {name} {how}" if how == ">&-" else f"wakebus listen {name} {how}"
        )
        shell = subprocess.Popen(
            ["/bin/sh", "-c", line],
            env=desk.env,
            cwd=desk.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        words = ("--to", name, "--from", "ci", "--queue", "--wait", "30", "--json", "x")
        outcomes = [desk.notify(*words).json["outcome"] for _ in range(3)]
        assert "error" in outcomes[-1]["actions"][0], outcomes
        os.killpg(shell.pid, signal.SIGTERM)
        _, err = shell.communicate(timeout=30)
        assert b"Traceback" not in err and b"Exception" not in err, err


def test_it_starts_the_bus_and_starts_it_again(own_desk: Desk, name: str) -> None:
    """A missing broker is started; after SIGKILL there is a new one, and messages go on."""
    listener = own_desk.listen(name)
    own_desk.sent("--to", name, "--from", "ci", "before")
    listener.shows("ci: before")
    pid = own_desk.kill_broker()
    until(lambda: own_desk.broker_pid != pid, 30)
    until(lambda: own_desk.notify("--to", name, "--from", "ci", "after").status == 0, 30)
    listener.shows("ci: after")
    listener.says("the broker is back")
    until(lambda: "the broker is back" in listener.err, 30)  # it looks four times a second
    assert listener.end() == 0 and "Traceback" not in listener.err
    away = "the broker is away; waiting\nthe broker is back\n"
    assert listener.err.endswith(away), "it says when the broker goes and when it is back"


def test_a_bus_that_was_stopped_stays_stopped(own_desk: Desk, name: str) -> None:
    """PROTOCOL-1.10: listeners wait for the next start, and are there again after it."""
    own_desk.start()
    listener = own_desk.listen(name)
    assert own_desk.run("hermes-busd", "stop").status == 0
    listener.says("the broker was stopped; to go on: hermes-busd start")
    until(lambda: not listener.ended and (own_desk.root / "bus" / "stopped").exists())
    time.sleep(0.4)  # twice the time between its looks
    assert own_desk.run("hermes-busd", "status").status == 3
    assert own_desk.run("hermes-busd", "start").status == 0
    until(lambda: own_desk.notify("--to", name, "--from", "ci", "after").status == 0, 30)
    listener.shows("ci: after")
    assert listener.end() == 0


def test_a_bus_that_cannot_start(own_desk: Desk, name: str) -> None:
    """Exit 1 with the broker's own words."""
    folder = own_desk.root / "bus"
    folder.mkdir()
    (folder / "broker.sock").write_text("a user's file")
    done = own_desk.wakebus("listen", name)
    assert done.status == 1 and "broker.sock exists and is not a socket" in done.err
    assert (folder / "broker.sock").read_text() == "a user's file"


def test_a_frozen_bus(own_desk: Desk, name: str) -> None:
    """Exit 1 within seconds, not a listener that hears nothing; a running one ends when asked."""
    pid = own_desk.start()
    before = own_desk.listen(f"{name}-b")
    os.kill(pid, signal.SIGSTOP)
    try:
        done = own_desk.wakebus("listen", name)
        assert done.status == 1 and f"kill -CONT {pid}" in done.err, done
        began = time.monotonic()
        assert before.end(signal.SIGTERM) == 0
        assert time.monotonic() - began < 20
    finally:
        os.kill(pid, signal.SIGCONT)


def test_two_at_once_make_one_bus(own_desk: Desk) -> None:
    """Listeners that find no broker start one together, and all listen."""
    started = [
        subprocess.Popen(
            [str(BIN / "wakebus"), "listen", f"e{number}"],
            env=own_desk.env,
            cwd=own_desk.root,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    try:
        for process in started:
            assert process.stderr is not None
            assert "listening as" in process.stderr.readline()
        brokers = [line for line in own_desk.left() if "wakebus.broker run" in line]
        assert len(brokers) == 1
    finally:
        for process in started:
            process.terminate()
            process.communicate(timeout=30)


# --- conversations --------------------------------------------------------------------------------


def test_an_agent_that_keeps_conversations(desk: Desk, name: str, listen: Listen) -> None:
    """RULES-9.1, RULES-9.3, RULES-9.4: each session's, over a new start; forgotten, it says so."""
    command = harnesses.claude(desk.root)
    listener = listen(name, "--agent", command)

    def ask(*words: str) -> str:
        return desk.wakebus("ask", name, "well?", "--from", "ci", "--wait", "30", *words).out

    said = [ask(), ask("--session", "b"), ask("--session", "b"), ask()]
    assert said == ["turn 1\n", "turn 1\n", "turn 2\n", "turn 2\n"]
    listener.end()
    listener = listen(name, "--agent", command)
    assert ask() == "turn 3\n"
    harnesses.forget_all(desk.root)
    assert ask() == "turn 1\n"
    until(lambda: "(claude no longer knew conversation" in listener.out)
    assert ask("--id", f"{name}-9") == "turn 2\n"
    assert "conversation " in desk.wakebus("trace", f"{name}-9").out


@pytest.mark.parametrize("slip", ["{session}", "{SESSION_ID}"])
def test_a_word_that_is_nearly_session_id(desk: Desk, name: str, slip: str) -> None:
    """RULES-9.1: usage, with the right one, before anything is received."""
    done = desk.wakebus("listen", name, "--agent", f"claude -p --resume {slip}")
    assert done.status == 2 and f"{slip} is nothing; a conversation's id is" in done.err
