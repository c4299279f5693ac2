"""`wakebus reply`: a person answers from the command line what a listener has shown."""

import json
import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakes.broker import until
from fakes.desk import BIN, Desk, Listener
from fakes.terminal import Terminal

Listen = Callable[..., Listener]


@pytest.fixture
def asks(desk: Desk) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Return what starts a command that waits for an answer."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        command = [str(BIN / words[0]), *words[1:]]
        started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=desk.env))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def shown(desk: Desk, name: str) -> str:
    """Wait until a question of endpoint `name` waits for a person; return its id."""
    return str(until(lambda: ids(desk, name), 30)[-1])


def ids(desk: Desk, name: str) -> list[str]:
    """Return the ids of what nobody has answered."""
    with desk.client() as bus:
        return [row["id"] for row in bus.inbox(name) if row.get("awaits")]


@pytest.mark.parametrize(
    "command", [("wakebus", "ask", "{}", "Deploy?"), ("notify-hermes", "--to", "{}", "Deploy?")]
)
def test_the_asker_waits(
    desk: Desk, name: str, listen: Listen, asks: Any, command: tuple[str, ...]
) -> None:
    """RULES-3.11: `ask` and `--wait-reply` wait for a person, whose line can be pasted."""
    listener = listen(name)
    words = [word.format(name) for word in command]
    words += ["--type", "directive", "--wait-reply", "60"] if words[0] != "wakebus" else []
    asker = asks(*words, "--from", "ci")
    id = shown(desk, name)
    listener.shows(f"· ci waits for an answer: wakebus reply {id}\n")
    done = desk.wakebus("reply", id, "yes, go")
    assert done.status == 0 and f"answered {id}: ci waits for it and gets it" in done.out
    out, _ = asker.communicate(timeout=30)
    assert (asker.returncode, out) == (0, "yes, go\n")
    assert "awaits    reply" in desk.wakebus("trace", id).out


def test_the_asker_has_gone(desk: Desk, name: str, listen: Listen, asks: Any) -> None:
    """RULES-3.11: its answer is kept, and who asks again with that id gets it."""
    listen(name)
    done = desk.wakebus("ask", name, "Deploy?", "--from", "ci", "--wait", "0.5")
    id = shown(desk, name)
    assert done.status == 4
    assert f"{id} is handled, not yet answered; it was shown at {name}, where no person" in done.err
    done = desk.wakebus("reply", id, "yes")
    assert f"ci does not wait for it now; it is kept for who asks again with --id {id}" in done.out
    again = desk.wakebus("ask", name, "Deploy?", "--from", "ci", "--id", id)
    assert (again.status, again.out) == (0, "yes\n")
    asker = asks("wakebus", "ask", name, "Killed?", "--from", "ci")
    id = shown(desk, name)
    asker.kill()
    asker.communicate()
    assert "ci does not wait for it now" in desk.wakebus("reply", id, "yes").out


def test_an_asker_with_an_endpoint(desk: Desk, name: str, listen: Listen) -> None:
    """RULES-3.11: away it gets the answer when it comes; there, at once."""
    listen(name)
    desk.declare(f"{name}-a")
    for text in ("One?", "Two?"):
        desk.wakebus("ask", name, text, "--from", f"{name}-a", "--wait", "0.1")
    first, second = until(lambda: len(found := ids(desk, name)) == 2 and found, 30)
    assert f"{name}-a is away and gets it when it comes" in desk.wakebus("reply", first, "1").out
    asker = listen(f"{name}-a")
    asker.shows("1\n")
    assert f"queued for {name}-a, which listens" in desk.wakebus("reply", second, "2").out
    asker.shows("2\n")


def test_ids_by_their_beginning(desk: Desk, name: str, listen: Listen) -> None:
    """The one unanswered question that begins so; several are named, none is said."""
    listen(name)
    for letter in ("a", "b"):
        id = f"{name}{letter}1"
        desk.wakebus("ask", name, "Deploy?", "--from", "ci", "--wait", "0.1", "--id", id)
    until(lambda: len(ids(desk, name)) == 2, 30)
    done = desk.wakebus("reply", name, "yes")
    assert done.status == 2 and f"{name}a1, {name}b1" in done.err
    assert desk.wakebus("reply", f"{name}a", "yes").status == 0
    done = desk.wakebus("reply", name, "-", stdin=b"yes\nand more\n")
    assert done.status == 0 and f"answered {name}b1" in done.out
    done = desk.wakebus("reply", f"{name}c", "yes")
    assert done.status == 1 and "no question begins so" in done.err
    assert "Questions that wait for an answer: wakebus reply" in done.err


def test_the_answer_is_read(desk: Desk, name: str, listen: Listen) -> None:
    """From standard input whole; on a terminal one line, below the question."""
    listen(name)
    asked = ("wakebus", "ask", name, "Deploy?", "--from", "ci", "--wait", "0.1", "--json")
    id = desk.run(*asked).json["error"]["id"]
    assert desk.wakebus("reply", id).status == 2, "a pipe that nobody said is to be read"
    assert "the text is empty" in desk.wakebus("reply", id, " ").err
    main, inner = pty.openpty()
    command = [str(BIN / "wakebus"), "reply", id]
    with subprocess.Popen(command, stdin=inner, stdout=-1, stderr=-1, env=desk.env) as asker:
        os.write(main, b"at noon\n")
        out, err = asker.communicate(timeout=30)
    os.close(main)
    os.close(inner)
    assert asker.returncode == 0 and b"answered" in out and b"ci: Deploy?" in err
    again = desk.wakebus("ask", name, "Deploy?", "--from", "ci", "--id", id)
    assert again.out == "at noon\n"


def test_ctrl_c_at_the_prompt_answers_nothing(desk: Desk, name: str, listen: Listen) -> None:
    """The question waits on."""
    listen(name)
    desk.wakebus("ask", name, "Deploy?", "--from", "ci", "--wait", "0.1")
    terminal = Terminal(desk, "wakebus", "reply", id := shown(desk, name))
    terminal.shows("answer (one line")
    assert terminal.end() == 130 and "Traceback" not in terminal.shown
    assert ids(desk, name) == [id]


def test_the_list(desk: Desk, name: str, listen: Listen) -> None:
    """`wakebus reply`, `inbox`, and a listener that comes later tell what nobody answered."""
    listener = desk.listen(name)
    desk.wakebus("ask", name, "Deploy\nnow?", "--from", "ci", "--wait", "0.1")
    id = shown(desk, name)
    listener.end()
    done = desk.wakebus("reply")
    assert id in done.out and "Deploy" in done.out and "answer one: wakebus reply " in done.err
    assert id in [one["id"] for one in desk.wakebus("reply", "--json").json["questions"]]
    assert "unanswered" in desk.wakebus("inbox", name).out
    again = listen(name)
    again.shows(f"· not answered yet: ci: Deploy · wakebus reply {id}\n")
    assert desk.wakebus("reply", id, "yes").status == 0, "shown by a listener that has ended"
    assert id not in desk.wakebus("reply").out
    assert desk.wakebus("inbox", name).out == f"nothing is there for {name}\n"


def test_what_is_no_question_to_a_person(desk: Desk, name: str, listen: Listen) -> None:
    """Exit 1 and why: twice, not asked, dead, an agent's, nobody has seen it."""
    listen(name)
    desk.wakebus("ask", name, "Deploy?", "--from", "ci", "--wait", "0.1")
    id = shown(desk, name)
    told = desk.wakebus("reply", id, "yes", "--json").json
    assert told["reply_to"] == id and told["to"] == "ci" and told["waiting"] == 0
    plain = desk.sent("--to", name, "--from", "ci", "just so")["id"]
    desk.handled(plain)
    gone = desk.sent("--to", f"{name}-x", "--from", "ci", "--queue", "x")["id"]
    desk.wakebus("cancel", gone)
    desk.wakebus("ask", f"{name}-x", "x", "--queue", "--wait", "0.1", "--id", f"{name}-q")
    for asked, says in {
        id: "is answered already; what was said: wakebus trace ",
        plain: "is no question: ci did not wait for an answer",
        gone: "is no question",
        f"{name}-q": "was shown to nobody yet: wakebus listen",
        "nothing": "no message nothing is stored",
    }.items():
        done = desk.wakebus("reply", asked, "yes")
        assert (done.status, done.out) == (1, "") and says in done.err, done
    desk.wakebus("cancel", f"{name}-q")
    assert "is dead, and nobody waits" in desk.wakebus("reply", f"{name}-q", "yes").err


def test_a_question_is_taken_back(desk: Desk, name: str, listen: Listen, asks: Any) -> None:
    """`wakebus cancel`: who asks is told at once, and so is who answers too late."""
    listen(name)
    asker = asks("wakebus", "ask", name, "Deploy?", "--from", "ci")
    id = shown(desk, name)
    done = desk.wakebus("cancel", id, "--from", "boss")
    assert done.status == 0
    assert done.out == (
        f"{id} was shown to a person, who need not answer it any more: cancelled by boss\n"
    )
    _, err = asker.communicate(timeout=30)
    assert asker.returncode == 4 and "there is no answer: cancelled by boss" in err
    assert "was taken back" in desk.wakebus("reply", id, "yes").err


def test_who_was_not_asked_answers_nothing(desk: Desk, name: str, listen: Listen) -> None:
    """Another `--from`, another endpoint's shell, a turn: exit 1, and whose question it is."""
    listen(name)
    desk.wakebus("ask", name, "Deploy?", "--from", "ci", "--wait", "0.1")
    id = shown(desk, name)
    done = desk.wakebus("reply", id, "yes", "--from", "someone")
    assert done.status == 1 and f"for {name}, and not for someone" in done.err
    done = desk.wakebus("reply", id, "yes", env={"HERMES_BUS_ENDPOINT": "lead"})
    assert done.status == 1 and f"wakebus reply --from {name} {id}" in done.err
    turn = {"WAKEBUS_TOKEN": "t" * 32, "WAKEBUS_ENDPOINT": "worker"}
    done = desk.wakebus("reply", id, "yes", env=turn)
    assert (
        done.status == 1 and "is a question to a person, and this is a turn of worker" in done.err
    )
    lead = {"HERMES_BUS_ENDPOINT": "lead"}
    assert desk.wakebus("reply", id, "yes", "--from", name, env=lead).status == 0


@pytest.mark.parametrize("does", ["command: 'true'", "print: false"])
def test_what_no_person_was_shown(desk: Desk, name: str, listen: Listen, does: str) -> None:
    """RULES-3.11: who waits is told at once that nobody will answer, and why."""
    text = f"callbacks:\n  - match_type: directive\n    {does}\n"
    listen(name, "--rules", desk.rules(text, f"{name}.yaml"))
    done = desk.wakebus("ask", name, "Deploy?", "--from", "ci", "--wait", "60")
    assert done.status == 4
    assert "no person here was shown it: its rule (1: directive) prints nothing" in done.err
    assert ids(desk, name) == []


def test_a_terminal_that_is_closed_shows_nothing(desk: Desk, name: str) -> None:
    """RULES-3.11: shown is what the terminal took."""
    command = ["/bin/sh", "-c", f"exec wakebus listen {name} >&-"]
    with subprocess.Popen(command, env=desk.env, stderr=subprocess.DEVNULL) as listener:
        done = desk.wakebus("ask", name, "x", "--from", "ci", "--wait", "60", "--queue", "--json")
        listener.terminate()
    assert done.status == 4
    assert json.loads(done.out)["outcome"]["note"].startswith("no person here was shown it: ")
