"""Real broker, courier and agents: what is told, and to whom, of what could not be done."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.desk import Desk, Done, Listener

Agent = Callable[[str], Listener]


@pytest.fixture(scope="module")
def served() -> Iterator[Desk]:
    """A desk whose broker has its courier."""
    found = Desk(services=True)
    found.start()
    until(lambda: '"set_up"' in text_of(found.root / "bus" / "courier.json"))
    yield found
    found.close()


def text_of(path: Path) -> str:
    """Return what stands in a file, "" without one."""
    return path.read_text() if path.exists() else ""


@pytest.fixture
def agent(served: Desk, name: str) -> Iterator[Agent]:
    """Start `wakebus listen NAME --agent …` with a script of this text."""
    started: list[Listener] = []

    def start(text: str) -> Listener:
        started.append(served.listen(name, "--agent", served.script(f"{name}.sh", text)))
        return started[-1]

    yield start
    for listener in started:
        listener.end()


@pytest.mark.parametrize(
    ("channel", "named"),
    [
        ("telegram:1", "TELEGRAM_BOT_TOKEN: not set in "),
        ("telegram", "TELEGRAM_HOME_CHANNEL is not set"),
        ("webhook:deploys", "WEBHOOK_DEPLOYS_URL: not set in "),
        ("whatsapp:1", "only a gateway of Hermes has it"),
        ("console:a?thread=1", "a console has no threads"),
    ],
)
def test_no_agent_is_run_whose_answer_cannot_go_there(
    served: Desk, name: str, agent: Agent, channel: str, named: str
) -> None:
    """RULES-3.10: dead at once, exit 1; the missing setting and the next step; nothing has run."""
    agent(f"cat >/dev/null; touch {name}.ran; echo fine")
    words = ("--to", name, "--from", "ci", "--type", "task_done", "--wait", "30", "x")
    done = served.notify(*words, "--channel", channel)
    told, next_step = done.err.splitlines()[-2:]
    assert done.status == 1 and told.startswith("dead ") and "wakebus dead retry" in next_step, done
    assert f"no answer could go to '{channel}'" in done.err and named in done.err
    assert "(see: wakebus channels" in done.err
    assert not (served.root / f"{name}.ran").exists()
    done = served.notify(*words, "--channel", "console:team")
    assert done.status == 0 and (served.root / f"{name}.ran").exists()


def test_it_can_be_retried_once_it_is_set_up(served: Desk, name: str, agent: Agent) -> None:
    """RULES-3.10: `dead retry` after the setting is made; the same message is answered then."""
    agent("cat >/dev/null; echo fine")
    words = ("--to", name, "--from", "ci", "--type", "task_done", "--channel", "console")
    id = served.sent(*words, "x")["id"]
    assert served.handled(id)["state"] == "dead"
    (served.root / ".env").write_text(f"CONSOLE_HOME_CHANNEL={name}\n")
    assert served.wakebus("dead", "retry", id).status == 0
    assert served.handled(id)["state"] == "handled"
    log = served.root / "bus" / f"console-{name}.log"
    until(lambda: "fine" in text_of(log))


FAILS = "cat >/dev/null; echo 429 >&2; exit 1"
RULES = """callbacks:
  - match_type: quiet
    context: true
    on_failure: {chat: false, sender: false}
  - match_type: unnoticed
    context: true
    on_failure: {sender: false}
  - match_type: job
    command: "echo 'no disk' >&2; exit 3"
  - match_type: together
    context: true
    coalesce_ms: 1500
  - match_type: notice
    print: true
  - match_type: "*"
    context: true
"""


class Chat:
    """A console chat of this test, and an agent of its own that fails."""

    def __init__(self, desk: Desk, name: str) -> None:
        self.desk, self.name, self.channel = desk, name, f"console:{name}"
        self.log = desk.root / "bus" / f"console-{name}.log"

    def failed(self, id: str, *words: str) -> Done:
        """Send under this id and wait; it must have failed."""
        done = self.desk.notify(
            "--to", self.name, "--from", "ci", "--wait", "30", "--id", id, *words, "x"
        )
        assert done.status == 6, done
        return done

    @property
    def lines(self) -> list[str]:
        """The texts that the chat has, once the courier has nothing more to do."""
        with self.desk.client() as bus:
            until(lambda: not [*bus.inbox("courier")])
        return [line for line in text_of(self.log).splitlines() if not line.startswith("[")]

    def line(self, id: str, why: str = "exit 1: 429", type_: str = "directive") -> str:
        """The line that is due for a message."""
        return f'{self.name} could not do "{type_}" from ci: {why} (wakebus trace {id})'


@pytest.fixture
def chat(served: Desk, name: str) -> Iterator[Chat]:
    """A chat, and an agent that fails, by the rules above."""
    served.rules(RULES)
    listener = served.listen(name, "--agent", served.script(f"{name}.sh", FAILS))
    yield Chat(served, name)
    listener.end()
    (served.root / "bus-rules.yaml").unlink()


def test_the_chat_is_told_once(chat: Chat, served: Desk, name: str) -> None:
    """RULES-8.5: one line; after `dead retry` and the next failure there is still one."""
    words = ("--channel", chat.channel, "--type", "directive")
    chat.failed(name, *words)
    assert chat.lines == [chat.line(name)]
    assert served.wakebus("dead", "retry", name).status == 0
    outcome = served.handled(name)["outcome"]
    assert outcome["failed"] is True and outcome["failure_told"] == {"again": True}
    assert chat.lines == [chat.line(name)]


def test_also_after_the_agent_has_spoken(chat: Chat, served: Desk, name: str) -> None:
    """RULES-8.5: what the agent itself sent to that chat in its turn takes no line's place."""
    send = f'notify-hermes --to courier --channel {chat.channel} "50 %"'
    served.script(f"{name}.sh", f"cat >/dev/null; {send} >/dev/null; echo 429 >&2; exit 1")
    chat.failed(name, "--channel", chat.channel, "--type", "directive")
    assert chat.lines == ["50 %", chat.line(name)]


def test_where_nobody_is_told(chat: Chat, name: str) -> None:
    """RULES-8.5, RULES-8.6: no channel, a home channel, and a rule that does not want it."""
    (chat.desk.root / ".env").write_text(f"CONSOLE_HOME_CHANNEL={name}\n")
    chat.failed(f"{name}-1", "--type", "directive")
    chat.failed(f"{name}-2", "--type", "directive", "--channel", "console")
    chat.failed(f"{name}-3", "--type", "quiet", "--channel", chat.channel)
    assert chat.lines == []
    chat.failed(f"{name}-4", "--type", "unnoticed", "--channel", chat.channel)
    assert chat.lines == [chat.line(f"{name}-4", type_="unnoticed")]


def test_a_command_that_fails(chat: Chat, name: str) -> None:
    """RULES-8.5: as a turn, where it is all that the rule does."""
    chat.failed(name, "--type", "job", "--channel", chat.channel)
    assert chat.lines == [chat.line(name, "exit 3: no disk", "job")]


def test_one_line_for_what_was_done_together(chat: Chat, served: Desk, name: str) -> None:
    """RULES-8.5: of the newest; the others fail with it, and also later there is no second line."""
    ids = [f"{name}-{number}" for number in "123"]
    with served.client() as bus:
        for id in ids:
            bus.send(name, "x", id=id, type="together", channel=chat.channel, sender="ci")
        ends = [bus.wait(id, 60) for id in ids]
    assert all(end.failed for end in ends)
    assert chat.lines == [chat.line(ids[2], type_="together")]
    told = [(end.outcome or {})["failure_told"] for end in ends]
    assert told[:2] == [{"together_with": ids[2]}] * 2 and told[2]["result"] == "queued"
    assert served.wakebus("dead", "retry", ids[0]).status == 0
    assert served.handled(ids[0])["outcome"]["failure_told"] == {"again": True}
    assert len(chat.lines) == 1


def test_the_notice_to_the_sender(chat: Chat, served: Desk, name: str) -> None:
    """RULES-8.6: `sender: false` turns it off; the dead letter stays."""
    boss = served.listen(f"{name}-boss")
    try:
        for type_, id in (("quiet", f"{name}-1"), ("unnoticed", f"{name}-2"), ("t", f"{name}-3")):
            words = ("--to", name, "--from", f"{name}-boss", "--type", type_, "--id", id)
            assert served.notify(*words, "--wait", "30", "x").status == 6
        boss.shows(f"{name}-3")
        assert f"{name}-1" not in boss.out and f"{name}-2" not in boss.out
        found = served.wakebus("dead", "list", "--to", name, "--json").json["letters"]
        assert len(found) == 3
    finally:
        boss.end()


def test_a_line_that_cannot_be_sent(chat: Chat, served: Desk, name: str) -> None:
    """RULES-8.5: told in the outcome; it is no failure of its own, and nothing follows."""
    words = ("--to", name, "--from", "ci", "--type", "job", "--channel", "telegram:1")
    done = served.notify(*words, "--id", name, "--wait", "30", "x")
    assert done.status == 6 and "the command failed: exit 3: no disk" in done.err
    told = served.traced(name)["outcome"]["failure_told"]
    assert told["result"] == "not_sent" and "TELEGRAM_BOT_TOKEN" in told["reason"]
    assert [row["id"] for row in served.related(name)] == [name]
