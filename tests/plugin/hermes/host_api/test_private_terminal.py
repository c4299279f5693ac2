"""What a live CLI lets us do, whatever it is made of."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fakes.broker import until
from fakes.hermes_cli import Cli
from fakes.hermes_newer import Without
from fakes.private_names import private_names
from wakebus.plugin.hermes.host_api import private_terminal
from wakebus.plugin.hermes.host_api.private_terminal import PrivateTerminal

NAMES = sorted(set(private_names(ast.parse(Path(private_terminal.__file__).read_text()))))


@pytest.fixture
def cli() -> Iterator[Cli]:
    found = Cli(lambda name, **fields: [])
    yield found
    found.close()


def test_half_built() -> None:
    """HERMES-4.1: what has no queue yet is not idle and takes nothing."""
    found = PrivateTerminal(SimpleNamespace())
    assert not found.idle and not found.running and not found.enqueue("x")
    assert not found.is_queued("x") and not found.withdraw("x") and found.session_ids() == set()
    found.interrupt(lambda: False)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_gone(cli: Cli, name: str) -> None:
    """HERMES-3.20, HERMES-4.1: a prompt is still one of Hermes's queue, after the person's."""
    found = PrivateTerminal(Without(cli, name))
    cli.person("HOLD")
    assert cli.agent.holding.wait(30)
    taken = found.enqueue("do it")
    assert taken is (name != "_pending_input")
    found.interrupt(lambda: True)
    cli.agent.go.set()
    until(lambda: cli.agent.ended == ["HOLD", *["do it"] * taken], 30)
    until(lambda: found.idle is taken)


@pytest.mark.parametrize("modal", ["_clarify_state", "_sudo_state", "_connection_state"])
def test_a_question_in_place_of_the_prompt(cli: Cli, modal: str) -> None:
    """HERMES-4.1: what is typed now would be its answer, also that of Hermes 0.22's newest."""
    assert PrivateTerminal(cli).idle
    setattr(cli, modal, {"phase": "waiting"})
    assert not PrivateTerminal(cli).idle


def test_taking_a_prompt_back(cli: Cli) -> None:
    """HERMES-4.1: ours alone; what a person typed stays, in its order."""
    cli.person("HOLD")
    assert cli.agent.holding.wait(30)
    found = PrivateTerminal(cli)
    for text in ("one", "ours", "two"):
        found.enqueue(text)
    assert found.is_queued("ours") and found.withdraw("ours") and not found.withdraw("ours")
    cli.agent.go.set()
    until(lambda: cli.agent.ended == ["HOLD", "one", "two"], 30)


def test_an_interrupt_that_nobody_heard(cli: Cli) -> None:
    """HERMES-4.2: it is taken back, or the person's next turn would end at its beginning."""
    cli.person("HOLD")
    assert cli.agent.holding.wait(30)

    def deaf(message: str | None = None) -> None:
        cli.agent.go.set()
        until(lambda: not cli._agent_running, 30)
        cli.agent._interrupt_requested = True

    cli.agent.interrupt = deaf  # type: ignore[method-assign]
    PrivateTerminal(cli).interrupt(lambda: False)
    assert not cli.agent._interrupt_requested


def test_nothing_runs_nothing_is_interrupted(cli: Cli) -> None:
    """HERMES-4.2: a resting agent is left in peace."""
    PrivateTerminal(cli).interrupt(lambda: False)
    assert not cli.agent._interrupt_requested


def test_hermes_own_printer(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-4.7: cli.py's, where it is loaded."""
    terminal = PrivateTerminal(SimpleNamespace())
    monkeypatch.delitem(sys.modules, "cli", raising=False)
    assert terminal.printer() is None and not terminal.leaving
    own = SimpleNamespace(_cprint=print, _signal_watchdog_armed=True)
    monkeypatch.setitem(sys.modules, "cli", own)
    assert terminal.printer() is print and terminal.leaving
