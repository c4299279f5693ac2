"""Typing into real panes: what the program there gets, byte by byte."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import until
from fakes.pane import END, START, Recorder, Server, serve_panes
from wakebus.plugin.tmux import keystrokes
from wakebus.plugin.tmux.keystrokes import Typed, find_pane, type_text
from wakebus.plugin.tmux.panes import NoPane, Occupied, TmuxError

HARD = "'q' \"q\" $(touch x) `y` \\; #{pid} C-c Enter %0 ~ 中文 é 👩‍💻 ⚕ 🇩🇪"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """One server for the file."""
    yield from serve_panes()


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server that `tmux` finds here."""
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("TMUX_PANE", raising=False)
    monkeypatch.setenv("TMUX_TMPDIR", str(running.folder))
    return running


@pytest.fixture
def pane(server: Server, name: str) -> Recorder:
    """A recording pane in a session of its own, `name`."""
    return server.session(name)


def typed(target: str, text: str) -> Typed:
    """Type without the long wait, which is for TUIs that guess; the recorder does not."""
    return type_text(find_pane(target), text, sleep=lambda _: None)


def grown(pane: Recorder, to: bytes) -> None:
    """Wait until the program has got exactly this."""
    until(lambda: pane.got == to, 60)


@pytest.mark.parametrize(
    "text",
    [HARD, "-l", "--", "-t x", ";", "a;", "a\\;", "a ; b", "Enter", "C-c", " blanks ", "#(date)"],
)
def test_one_line_arrives_as_it_is(pane: Recorder, name: str, text: str) -> None:
    """Typed as keys, then one Enter: nothing in it is an option, a key's name or a command."""
    done = typed(name, text)
    assert pane.line() == text.encode()
    assert pane.got == text.encode() + b"\r"
    assert (done.characters, done.pasted, done.left_mode) == (len(text), False, False)


@pytest.mark.parametrize("text", [f"{HARD}\n  two\n\n-three;", "a\tb", "x" * 501, "-\n;"])
def test_several_lines_are_one_paste(server: Server, pane: Recorder, name: str, text: str) -> None:
    """Between tmux's brackets, as a terminal pastes; one Enter behind; no buffer is left."""
    assert typed(name, text).pasted
    assert pane.line() == START + text.replace("\n", "\r").encode() + END
    assert pane.got.endswith(END + b"\r")
    assert server.tmux("list-buffers") == ""


def test_64_kib(pane: Recorder, name: str) -> None:
    """Whole, in order."""
    text = "\n".join(f"{n:07d} 中文 {'x' * 40}" for n in range(1200))
    assert len(text.encode()) > 1 << 16
    typed(name, text)
    assert pane.line() == START + text.replace("\n", "\r").encode() + END


def test_no_text_is_a_key(pane: Recorder, name: str) -> None:
    """C-c, C-d, Escape and an end of the paste from a peer are taken out, the rest arrives."""
    typed(name, "a\x03b\x04c\x1b\x9b31md\0\x7fe\x1b[A")
    assert pane.line() == b"abcde"
    typed(name, "\x03one\x1b[201~\rtwo\x1b[200~\n")
    grown(pane, b"abcde\r" + START + b"one\rtwo" + END + b"\r")


def test_a_backslash_at_the_end(pane: Recorder, name: str) -> None:
    """Before Enter it would mean that the text goes on: a blank stands between."""
    typed(name, "C:\\")
    assert pane.line() == b"C:\\ "


def test_a_program_without_brackets(server: Server, name: str) -> None:
    """It sees each line break as Enter."""
    plain = server.session(name, brackets=False)
    typed(name, "a\nb")
    grown(plain, b"a\rb\r")


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_whatever_the_locale_says(
    pane: Recorder, name: str, locale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UTF-8 in and out."""
    monkeypatch.setenv("LC_ALL", locale)
    typed(name, HARD)
    assert pane.line() == HARD.encode()


def test_exactly_the_session_that_was_named(server: Server, name: str) -> None:
    """`work` is not `worker`, which tmux itself would take."""
    longer = server.session(f"{name}er")
    assert server.tmux("display-message", "-p", "-t", name, "#S") == f"{name}er"
    with pytest.raises(NoPane, match=f"no tmux session '{name}'"):
        find_pane(name)
    server.session(name)
    typed(name, "x")
    typed(f"{name}er", "y")
    assert longer.line() == b"y"


def test_one_pane_of_many(server: Server, name: str, pane: Recorder) -> None:
    """The session's current pane, a window by name, a pane by number or id."""
    right = server.split(pane)
    other = server.window(name, "v1.2 日志")
    for target, where in {
        name: right,
        f"{name}:0.0": pane,
        f"{name}:v1.2 日志": other,
        f"{name}:1.0": other,
        pane.id: pane,
    }.items():
        before = where.got
        typed(target, target)
        grown(where, before + target.encode() + b"\r")


@pytest.mark.parametrize("mode", ["copy-mode", "clock-mode", "choose-tree"])
def test_a_pane_that_somebody_scrolls(server: Server, pane: Recorder, name: str, mode: str) -> None:
    """RULES-7.6: keys would go to the mode, and who reads there would lose the place: refused."""
    server.tmux(mode, "-t", pane.id)
    assert server.ask(pane, "pane_in_mode") == "1"
    with pytest.raises(Occupied, match="is in a mode of tmux"):
        typed(name, "hi")
    assert pane.got == b"" and server.ask(pane, "pane_in_mode") == "1"


DIALOG = " Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel"


def test_a_dialog_that_opens_meanwhile(server: Server, pane: Recorder, name: str) -> None:
    """RULES-7.6: between text and Enter: the Enter would approve it."""

    def ask(_: float) -> None:
        grown(pane, b"hi")
        server.draw(pane, DIALOG)

    with pytest.raises(Occupied, match="is typed, Enter was not sent"):
        type_text(find_pane(name), "hi", sleep=ask)
    assert pane.got == b"hi"


@pytest.mark.parametrize("text", [DIALOG, "1. First\n2. Second", "Proceed? [y/n]", "all: $"])
def test_a_text_that_looks_like_a_dialog(
    server: Server, pane: Recorder, name: str, text: str
) -> None:
    """RULES-7.6: what stands in the input because it was typed keeps no Enter back."""

    def show(_: float) -> None:
        server.draw(pane, f"❯ {text.strip()}")

    type_text(find_pane(name), text, sleep=show)
    until(lambda: pane.got.endswith((b"\r", END + b"\r")), 60)


def test_a_mode_that_is_entered_meanwhile(server: Server, pane: Recorder, name: str) -> None:
    """Between text and Enter: left, else the text would stay without its Enter."""

    def scroll(_: float) -> None:
        grown(pane, b"hi")
        server.tmux("copy-mode", "-t", pane.id)

    assert type_text(find_pane(name), "hi", sleep=scroll).left_mode
    assert pane.line() == b"hi"


@pytest.mark.parametrize(
    ("text", "got", "wait"),
    [
        ("hi", b"hi", keystrokes.KEYS_SETTLE_S),
        ("a\nb", START + b"a\rb" + END, keystrokes.PASTE_SETTLE_S),
    ],
)
def test_enter_comes_on_its_own(
    pane: Recorder, name: str, text: str, got: bytes, wait: float
) -> None:
    """The program has the text alone for a while, longer than TUIs that guess pastes need."""
    waits: list[float] = []

    def settle(seconds: float) -> None:
        grown(pane, got)
        waits.append(seconds)

    type_text(find_pane(name), text, sleep=settle)
    assert pane.line() == got and waits == [wait]
    assert 0.12 < keystrokes.KEYS_SETTLE_S < keystrokes.PASTE_SETTLE_S


def test_a_dead_pane(server: Server, name: str) -> None:
    """Its program has ended; tmux would take the keys without a word."""
    pane = server.session(name)
    server.tmux("set-option", "-t", pane.id, "remain-on-exit", "on")
    os.kill(int(server.ask(pane, "pane_pid")), signal.SIGKILL)
    until(lambda: server.ask(pane, "pane_dead") == "1", 30)
    with pytest.raises(NoPane, match="is dead"):
        typed(name, "x")


def test_a_pane_that_takes_no_input_or_shares_it(server: Server, name: str) -> None:
    """Switched off, or synchronized: refused, nobody gets anything."""
    pane = server.session(name)
    server.tmux("select-pane", "-d", "-t", pane.id)
    with pytest.raises(NoPane, match="switched off"):
        typed(name, "x")
    server.tmux("select-pane", "-e", "-t", pane.id)
    beside = server.split(pane)
    server.tmux("set-option", "-w", "-t", pane.id, "synchronize-panes", "on")
    with pytest.raises(NoPane, match="synchronized"):
        typed(name, "x")
    assert pane.got == beside.got == b""


def test_a_pane_that_goes_meanwhile(server: Server, name: str) -> None:
    """Found, then gone: an error, and the text stays in no buffer."""
    server.session(name)
    found = find_pane(name)
    server.tmux("kill-session", "-t", f"={name}")
    with pytest.raises(TmuxError):
        type_text(found, "a\nb", sleep=lambda _: None)
    with pytest.raises(TmuxError):
        keystrokes._put_in(found, "a\nb", pasted=True)
    assert server.tmux("list-buffers") == ""


@pytest.mark.parametrize("text", ["one line 7f3a", "two\nlines 7f3a", "7f3a" * 200])
def test_no_text_stands_in_a_command_line(
    pane: Recorder, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RULES-7.5: other users could read it there, in `ps`; no buffer keeps it either."""
    words: list[bytes] = []
    real = subprocess.run

    def run(command: list[bytes], **more: Any) -> Any:
        words.extend(command)
        return real(command, **more)

    monkeypatch.setattr(subprocess, "run", run)
    typed(name, text)
    until(lambda: text[-4:].encode() in pane.got, 60)
    assert b"load-buffer" in words and not [word for word in words if b"7f3a" in word]
    assert b"7f3a" not in subprocess.check_output(["tmux", "list-buffers"])


def test_two_who_type_at_once(pane: Recorder, name: str) -> None:
    """Each text with its own Enter, whole."""
    texts = [f"{n}" * 40 for n in range(6)]
    found = find_pane(name)

    def work(text: str) -> None:
        type_text(found, text, sleep=lambda _: time.sleep(0.05))

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    until(lambda: pane.got.count(b"\r") == 6, 30)
    assert sorted(pane.got.decode().split("\r")[:-1]) == texts


def test_others_type_without_end(
    pane: Recorder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error after a while; nothing was typed."""
    monkeypatch.setattr(keystrokes, "TURN_S", 0.1)
    found = find_pane(name)
    with keystrokes._turn(found), pytest.raises(NoPane, match="others have been typing"):
        typed(name, "x")
    assert pane.got == b""
    with keystrokes._turn(found._replace(tty="/dev/none")):  # of another user: no lock, no error
        pass


def test_no_tmux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server, or no program: each an error with its next step."""
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    with pytest.raises(NoPane, match="no tmux server answers") as caught:
        find_pane("work")
    assert "tmux new-session" in caught.value.data["step"]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TmuxError, match="cannot be run: No such file"):
        find_pane("work")


def test_a_tmux_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped server costs seconds, not for ever."""
    for server in serve_panes():
        monkeypatch.delenv("TMUX", raising=False)
        monkeypatch.setenv("TMUX_TMPDIR", str(server.folder))
        server.session("work")
        pid = server.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            monkeypatch.setattr(keystrokes, "ANSWER_S", 0.3)
            with pytest.raises(TmuxError, match="did not answer"):
                find_pane("work")
        finally:
            os.kill(pid, signal.SIGCONT)
