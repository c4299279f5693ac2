"""What a live CLI lets us do, whatever it is made of."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fakes.broker import until
from fakes.hermes_cli import Cli
from wakebus.plugin.hermes.terminal.console import CliScreen, Console


@pytest.fixture
def cli() -> Iterator[Cli]:
    found = Cli(lambda name, **fields: [])
    yield found
    found.close()


def test_half_built() -> None:
    """HERMES-4.1: what has no queue yet is not idle and takes nothing."""
    found = Console(SimpleNamespace())
    assert not found.idle and not found.running and not found.put("x")
    assert not found.holds("x") and not found.withdraw("x") and found.session_ids() == set()
    found.interrupt(lambda: False)


def test_taking_a_prompt_back(cli: Cli) -> None:
    """HERMES-4.1: ours alone; what a person typed stays, in its order."""
    cli.person("HOLD")
    assert cli.agent.holding.wait(30)
    found = Console(cli)
    for text in ("one", "ours", "two"):
        found.put(text)
    assert found.holds("ours") and found.withdraw("ours") and not found.withdraw("ours")
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
    Console(cli).interrupt(lambda: False)
    assert not cli.agent._interrupt_requested


def test_nothing_runs_nothing_is_interrupted(cli: Cli) -> None:
    """HERMES-4.2: a resting agent is left in peace."""
    Console(cli).interrupt(lambda: False)
    assert not cli.agent._interrupt_requested


def test_printing(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-4.7: by Hermes's own printer; colours survive, nothing else."""
    printed: list[str] = []
    monkeypatch.setitem(sys.modules, "cli", SimpleNamespace(_cprint=printed.append))
    assert CliScreen().show("\x1b[31mred\x1b[0m \x1b[2Jx\x1b]0;title\x07") == ""
    assert printed[0].startswith("\x1b[31mred\x1b[0m ")
    assert printed[0].count("\x1b") == 2 and "\x07" not in printed[0]


def test_printing_without_a_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """HERMES-4.7: standard output, also where Hermes's printer fails; that is told."""
    monkeypatch.delitem(sys.modules, "cli", raising=False)
    assert CliScreen().show("plain") == ""

    def broken(text: str) -> None:
        raise RuntimeError("no terminal")

    assert "no terminal" in CliScreen(lambda: broken).show("also")
    assert capsys.readouterr().out == "plain\nalso\n"
