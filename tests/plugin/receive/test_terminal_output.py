"""The terminal, also one that is none."""

import io
import os
import sys
import threading

import pytest

from wakebus.plugin.receive.terminal_output import TerminalOutput


def test_whole_lines_from_many_threads() -> None:
    """Nobody's line is in another's."""
    stream = io.StringIO()
    terminal = TerminalOutput(stream)
    lines = [f"{n} " + "x" * 200 for n in range(8)]

    def work(line: str) -> None:
        for _ in range(50):
            assert terminal.show(line) == ""

    threads = [threading.Thread(target=work, args=(line,)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(stream.getvalue().splitlines()) == sorted(lines * 50)


@pytest.mark.parametrize("coding", ["ascii", "latin-1", "cp1252", "utf-8", "big5"])
def test_a_terminal_that_is_not_utf8(coding: str) -> None:
    """What it cannot show is `?`; the rest of the line is there."""
    raw = io.BytesIO()
    terminal = TerminalOutput(io.TextIOWrapper(raw, encoding=coding))
    assert terminal.show("✔ done, é 😀") == ""
    assert b"done" in raw.getvalue() and raw.getvalue().endswith(b"\n")


def test_a_surrogate_is_no_crash() -> None:
    """Names of files may hold some."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    assert TerminalOutput(stream).show("a\udcffb") == ""
    assert raw.getvalue() == b"a?b\n"


def test_closed_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """`>&-` at the start (there is none), or closed later: an error to tell, nothing raised."""
    monkeypatch.setattr(sys, "stdout", None)
    terminal = TerminalOutput()
    assert terminal.show("x") == "there is no standard output" and not terminal.color
    stream = io.StringIO()
    stream.close()
    assert "does not take it" in TerminalOutput(stream).show("x")


def test_a_reader_that_has_gone() -> None:
    """A broken pipe, or a full disk behind `>`."""
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    terminal = TerminalOutput(stream)
    assert "Broken pipe" in terminal.show("x") and "does not take it" in terminal.show("y")
    with pytest.raises(BrokenPipeError):
        stream.close()
    with open("/dev/full", "w") as full:  # noqa: PTH123
        assert "No space" in TerminalOutput(full).show("x")
        full_fd = os.open(os.devnull, os.O_WRONLY)
        os.dup2(full_fd, full.fileno())
        os.close(full_fd)


def test_an_encoding_that_nobody_knows() -> None:
    """Told, not raised."""

    class Odd(io.StringIO):
        encoding = "klingon"

    assert "unknown encoding" in TerminalOutput(Odd()).show("x")


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for pipes, not with NO_COLOR."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert TerminalOutput(Terminal()).color and not TerminalOutput(io.StringIO()).color
    monkeypatch.setenv("NO_COLOR", "1")
    assert not TerminalOutput(Terminal()).color
