"""The Python that runs Hermes, told by scripts as they lie on real machines."""

import sys
import venv
from pathlib import Path

import pytest

from wakebus.plugin.install import hermes_python
from wakebus.plugin.install.hermes_python import PythonAnswer, ask_python

# As pip writes it, as pip writes it where the path is long or has blanks, and as Hermes's installer
# puts it into ~/.local/bin.
PIP = "#!/venv/bin/python3.11\nimport re\n"
PIP_LONG = "#!/bin/sh\n'''exec' \"/a long/venv/bin/python3\" \"$0\" \"$@\"\n' '''\n"
WRAPPER = '#!/usr/bin/env bash\nunset PYTHONPATH\nexec "/h/venv/bin/hermes" "$@"\n'


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (PIP, ("/venv/bin/python3.11", "")),
        (PIP_LONG, ("/a long/venv/bin/python3", "")),
        (PIP_LONG.replace(" long", ""), ("/a/venv/bin/python3", "")),
        (WRAPPER, ("", "/h/venv/bin/hermes")),
        ('#!/bin/sh\nexec /v/bin/python -m hermes_cli.main "$@"\n', ("/v/bin/python", "")),
        ("#!/bin/sh\necho hello\n", ("", "")),
        ("\x7fELF", ("", "")),
        ("#!", ("", "")),
        ("", ("", "")),
    ],
)
def test_next_script(script: str, told: tuple[str, str]) -> None:
    """The Python, the next script, or neither."""
    assert hermes_python.next_script(script) == told


def test_find_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a wrapper and a link, and without being resolved: the link is the environment."""
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python3").symlink_to(sys.executable)
    (venv / "hermes").write_text(f"#!{venv}/python3\n")
    found = tmp_path / "bin" / "hermes"
    found.parent.mkdir()
    found.write_text(f'#!/bin/sh\nexec "{venv}/hermes" "$@"\n')
    found.chmod(0o755)
    monkeypatch.setenv("PATH", str(found.parent))
    assert hermes_python.find_python() == f"{venv}/python3"
    (venv / "python3").unlink()
    assert hermes_python.find_python() == ""
    found.write_text(f'#!/bin/sh\nexec "{found}" "$@"\n')  # for ever
    assert hermes_python.find_python() == ""
    found.unlink()
    assert hermes_python.find_python() == ""


def test_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No hermes, and one that does not tell."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hermes_python.why_unknown() == "hermes is not on PATH"
    (tmp_path / "hermes").write_text("#!/bin/sh\n")
    (tmp_path / "hermes").chmod(0o755)
    assert hermes_python.why_unknown() == f"{tmp_path / 'hermes'} does not tell its Python"


def test_asked(tmp_path: Path) -> None:
    """The last line of what Python said."""
    assert ask_python(sys.executable) == PythonAnswer(True, "")
    other = tmp_path / "python"
    said = "echo one >&2; echo \"No module named 'wakebus'\" >&2; exit 1"
    other.write_text(f"#!/bin/sh\necho {hermes_python.ANSWER.decode()}; {said}\n")
    other.chmod(0o755)
    assert ask_python(str(other)) == PythonAnswer(True, "No module named 'wakebus'")


def test_asked_for_pip(tmp_path: Path) -> None:
    """An environment without pip, as uv makes them: another way is told (HERMES.md section 1)."""
    venv.create(tmp_path / "bare", with_pip=False)
    told = ask_python(str(tmp_path / "bare" / "bin" / "python"))
    assert told.is_python and not told.has_pip and "wakebus" in told.problem, told


def test_no_python(tmp_path: Path) -> None:
    """Not there, not to be run, or another program, also one that says again what it is told."""
    assert ask_python("/bin/false") == PythonAnswer(False, "exit status 1")
    assert ask_python("/bin/echo") == PythonAnswer(False, "exit status 0")
    assert ask_python(str(tmp_path / "none")) == PythonAnswer(False, "No such file or directory")
    (tmp_path / "text").write_text("x")
    assert ask_python(str(tmp_path / "text")) == PythonAnswer(False, "Permission denied")
