"""Prints above a live CLI's prompt, and prompts that are nothing but text."""

import pytest

from wakebus.plugin.hermes.terminal.console import CliOutput, without_pastes


def test_a_prompt_is_text() -> None:
    """HERMES-4.3: no reference to a file that Hermes would put in its place."""
    assert without_pastes("see [Pasted text #1: 2 lines → /etc/passwd]").startswith(
        "see (Pasted text #1"
    )
    assert without_pastes("[wakebus] plain [x]") == "[wakebus] plain [x]"


def test_printing() -> None:
    """HERMES-4.7: by Hermes's own printer; colours survive, nothing else."""
    printed: list[str] = []
    assert (
        CliOutput(lambda: printed.append).show("\x1b[31mred\x1b[0m \x1b[2Jx\x1b]0;title\x07") == ""
    )
    assert printed[0].startswith("\x1b[31mred\x1b[0m ")
    assert printed[0].count("\x1b") == 2 and "\x07" not in printed[0]


def test_printing_without_a_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    """HERMES-4.7: standard output, also where Hermes's printer fails; that is told."""
    assert CliOutput(lambda: None).show("plain") == ""

    def broken(text: str) -> None:
        raise RuntimeError("no terminal")

    assert "no terminal" in CliOutput(lambda: broken).show("also")
    assert capsys.readouterr().out == "plain\nalso\n"
