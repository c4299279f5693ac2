"""Formats that are scripts, with real ones."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wakebus.broker.protocol.message import Message
from wakebus.plugin.rules.errors import ScriptError
from wakebus.plugin.rules.script import Rendered, find_script, is_script, render_or_script

ENVIRON = {"PATH": os.environ["PATH"], "SECRET_TOKEN": "s3cret", "LC_ALL": "C"}
MakeMessage = Callable[..., Message]
Script = Callable[..., str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return a writer of executable scripts that gives their path."""

    def write(body: str, head: str = "#!/bin/bash\n") -> str:
        path = tmp_path / "format.sh"
        path.write_text(head + body)
        path.chmod(0o755)
        return str(path)

    return write


def _run(source: str, message: Message, timeout: float = 5.0, color: bool = True) -> Rendered:
    return render_or_script(
        source, message, "terminal", environ=ENVIRON, color=color, timeout=timeout
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("~/f.sh", True),
        ("/opt/My Scripts/f.sh", True),
        ("/me says {text}", False),
        ("./f.sh", False),
        ("{text}", False),
        ("/a\n/b", False),
    ],
)
def test_a_path_as_a_whole_is_a_script(source: str, expected: bool) -> None:
    """With a placeholder in it, it is a format."""
    assert is_script(source) == expected


def test_the_seeds_script(script: Script, make: MakeMessage) -> None:
    """FROM, TYPE, TEXT in the environment, colours on the terminal and only there."""
    path = script('echo -e "\\033[1;32m✔ ${FROM}\\033[0m — ${TYPE} ${TEXT} $CHANNEL $TS $ID"')
    message = make("done", type="task_done", channel="feishu:1")
    words = "alpha\x1b[0m — task_done done feishu:1 1764288000 m1"
    assert _run(path, message) == Rendered(f"\x1b[1;32m✔ {words}")
    plain = render_or_script(path, message, "plain", environ=ENVIRON)
    assert plain.text == "✔ " + words.replace("\x1b[0m", "")
    assert _run(path, message, color=False) == plain


def test_home_is_expanded(
    script: Script, make: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`~/scripts/…` as the shell reads it."""
    path = Path(script("echo home"))
    monkeypatch.setenv("HOME", str(path.parent))
    assert _run(f"~/{path.name}", make()).text == "home"


def test_it_gets_no_credentials(script: Script, make: MakeMessage) -> None:
    """RULES-7.2: the environment is short and known."""
    assert _run(script('echo "[$SECRET_TOKEN] $LC_ALL $FORMAT_MODE"'), make()).text == "[] C print"


def test_text_in_a_script_stays_text(script: Script, make: MakeMessage) -> None:
    """`$(…)`, `{type}`, quotes: data in a variable."""
    text = "$(touch /tmp/no) `id` {type} \"'; exit 9"
    assert _run(script('printf %s "$TEXT"'), make(text)).text == text


def test_escapes_that_echo_makes_are_removed(script: Script, make: MakeMessage) -> None:
    """RULES-5.3: a backslash in a message becomes an escape only in `echo -e`; cleaned after it."""
    path = script('echo -e "\\033[31m$TEXT\\033[0m"')
    message = make("a\\033]0;title\\007b\\033[2J\\e[8mc")
    assert _run(path, message).text == "\x1b[31mab\x1b[8mc\x1b[0m"
    assert render_or_script(path, message, "plain", environ=ENVIRON).text == "abc"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("exit 3", "exit status 3"),
        ("echo shown; echo broken >&2; exit 1", "exit status 1 (broken)"),
        ("true", "printed nothing"),
        ("printf '\\033[31m\\033[0m \\n'", "printed nothing"),
        ("kill -9 $$", "ended by SIGKILL"),
        ("head -c 70000 /dev/zero | tr '\\0' x", "printed over 64 KiB"),
    ],
)
def test_a_script_that_fails_costs_only_its_layout(
    script: Script, make: MakeMessage, body: str, says: str
) -> None:
    """RULES-5.2: the plain text, and the reason."""
    found = _run(script(body), make("kept"))
    assert found.text == "kept" and says in found.error


def test_a_script_that_hangs(script: Script, make: MakeMessage, tmp_path: Path) -> None:
    """RULES-5.1: it is ended with all it started."""
    pid = tmp_path / "pid"
    begun = time.monotonic()
    found = _run(script(f"sleep 60 & echo $! > {pid}; sleep 60"), make("kept"), timeout=0.5)
    assert found.text == "kept" and "did not end within 0.5 s" in found.error
    assert time.monotonic() - begun < 4
    _gone(int(pid.read_text()))


def test_a_script_that_leaves_a_child_holding_its_output(
    script: Script, make: MakeMessage, tmp_path: Path
) -> None:
    """RULES-5.1: nobody waits for the pipe's end, and the child is ended."""
    pid = tmp_path / "pid"
    begun = time.monotonic()
    found = _run(script(f"sleep 60 & echo $! > {pid}; echo ready"), make())
    assert found == Rendered("ready") and time.monotonic() - begun < 3
    _gone(int(pid.read_text()))


def _gone(pid: int) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if "(sleep) Z" in Path(f"/proc/{pid}/stat").read_text():
                return
        except OSError:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def test_output_that_is_not_utf8(script: Script, make: MakeMessage) -> None:
    """Replaced, not raised."""
    assert _run(script("printf 'a\\377b'"), make()).text == "a\ufffdb"


def test_a_long_text_fits_the_environment(script: Script, make: MakeMessage) -> None:
    """96 KiB of it, whole characters: 128 KiB would fail with E2BIG."""
    found = _run(script("echo ${#TEXT}", "#!/bin/bash\nexport LC_ALL=C\n"), make("é" * 200_000))
    assert found == Rendered(str(96 << 10))


def test_what_cannot_run(script: Script, make: MakeMessage, tmp_path: Path) -> None:
    """RULES-5.2, RULES-7.1: missing, a folder, not executable, no `#!`, writable by others."""
    path = Path(script("echo x", head=""))
    for mode, says in [
        (0o755, "its first line must name a program"),
        (0o644, f"not executable; chmod +x {path}"),
        (0o777, f"others may write it (mode 0777); chmod go-w {path}"),
    ]:
        path.chmod(mode)
        found = _run(str(path), make("kept"))
        assert found.text == "kept" and says in found.error
    assert "no such file" in _run("/no/such/script", make()).error
    assert "not a file" in _run(str(tmp_path), make()).error
    assert "no such file" in _run("~nobody-here/x", make()).error


def test_a_missing_interpreter(script: Script, make: MakeMessage) -> None:
    """The error says which script."""
    assert "cannot start" in _run(script("x", head="#!/no/such/shell\n"), make()).error


def test_a_path_that_no_file_can_have() -> None:
    """A NUL, a name too long."""
    for source in ("/a\0b", "/" + "x" * 5000):
        with pytest.raises(ScriptError):
            find_script(source)
