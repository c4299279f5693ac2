"""Real broker, courier and agents: what is told, and to whom, of what could not be done."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.desk import Desk, Listener

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
    assert done.status == 1 and done.err.splitlines()[-1].startswith("dead "), done
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
