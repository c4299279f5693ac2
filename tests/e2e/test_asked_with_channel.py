"""Issue 12, A5: who waits for an answer and says a channel; real commands, broker and courier."""

from collections.abc import Callable, Iterator

import pytest

from fakes.broker import until
from fakes.desk import Desk, Listener

AGENT = ("--agent", "cat >/dev/null; echo all green")


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """A desk with a courier."""
    found = Desk(services=True)
    found.start()
    yield found
    found.close()


@pytest.fixture
def listen(desk: Desk) -> Iterator[Callable[..., Listener]]:
    """Return `desk.listen`, whose listeners end with the test."""
    started: list[Listener] = []

    def start(*words: str) -> Listener:
        started.append(desk.listen(*words))
        return started[-1]

    yield start
    for listener in started:
        listener.end()


def chat(desk: Desk, name: str) -> str:
    """Return what is in a chat of the platform `console`."""
    path = desk.root / "bus" / f"console-{name}.log"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("command", ["ask", "--wait-reply"])
def test_to_who_waits_and_to_the_chat(
    desk: Desk, name: str, listen: Callable[..., Listener], command: str
) -> None:
    """RULES-3.6: both have it; nothing else is said."""
    listen(name, *AGENT)
    if command == "ask":
        done = desk.wakebus("ask", name, "--channel", f"console:{name}", "hi")
    else:
        words = ("--type", "directive", "--wait-reply", "60", "--channel", f"console:{name}", "hi")
        done = desk.notify("--to", name, *words)
    assert (done.status, done.out) == (0, "all green\n")
    assert "note:" not in done.err
    until(lambda: "all green" in chat(desk, name))


def test_a_rule_that_answers_the_sender_alone(
    desk: Desk, name: str, listen: Callable[..., Listener]
) -> None:
    """RULES-3.14: said with the answer: the chat gets nothing of it."""
    rules = "callbacks:\n  - {match_type: directive, context: true, reply: sender}\n"
    listen(name, *AGENT, "--rules", desk.rules(rules, f"{name}.yaml"))
    done = desk.wakebus("ask", name, "--channel", f"console:{name}", "hi")
    assert (done.status, done.out) == (0, "all green\n")
    assert done.err.endswith(
        f"note: console:{name} gets nothing of this answer: "
        "its receiver answers who asked, and nobody else\n"
    )
    assert chat(desk, name) == ""


def test_a_sender_that_does_not_wait(
    desk: Desk, name: str, listen: Callable[..., Listener]
) -> None:
    """RULES-3.14: `cli` is no name that somebody wrote wrongly; nor is that of a script."""
    rules = "callbacks:\n  - {match_type: directive, context: true, reply: sender}\n"
    listen(name, *AGENT, "--rules", desk.rules(rules, f"{name}.yaml"))
    for sender in ("cli", "nightly-job"):
        words = ("--from", sender, "--type", "directive", "--wait", "60", "hi")
        done = desk.notify("--to", name, *words)
        assert done.status == 0
        assert f"{sender}, who sent it, is no endpoint and does not wait" in done.out
        assert "nobody ever registered" not in done.both


def test_the_answer_in_the_trace(desk: Desk, name: str, listen: Callable[..., Listener]) -> None:
    """It was kept for who waits, not queued for a receiver that is away."""
    listen(name, *AGENT)
    done = desk.wakebus("ask", name, "--id", name, "hi")
    assert done.status == 0
    trace = desk.wakebus("trace", name).out
    assert "kept      broker, for who waits for it" in trace
    assert "is away" not in trace


def test_a_reply_to_a_command_line(desk: Desk) -> None:
    """The step that is named is how an agent, or a person, answers."""
    done = desk.notify("--to", "cli", "All done")
    assert done.status == 3
    assert "'cli' is what senders without an endpoint are called" in done.err
    assert "--queue" not in done.err
