"""Rules files on disk."""

import os
import pwd
from pathlib import Path

import pytest

from wakebus.plugin.rules.errors import RulesError
from wakebus.plugin.rules.load import (
    MAX_FILE,
    RulesFile,
    default_path,
    default_rules,
    default_text,
    load,
    write_default,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a rules file may be written."""
    return tmp_path / "bus-rules.yaml"


def _write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o600)
    return path


def _error(path: Path) -> str:
    with pytest.raises(RulesError) as error:
        load(path)
    return str(error.value)


def test_the_default_path(tmp_path: Path) -> None:
    """$HERMES_HOME, else the real user's ~/.hermes, whatever $HOME says."""
    assert default_path({"HERMES_HOME": str(tmp_path)}) == tmp_path / "bus-rules.yaml"
    real = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert default_path({"HOME": "/else"}) == real / ".hermes" / "bus-rules.yaml"


def test_the_default_rules_are_good() -> None:
    """RULES-1.2: nine types, `answer` and `notice`, without a warning."""
    rules = default_rules()
    types = [rule.match_type for rule in rules.callbacks]
    names = "directive ack task_start progress task_complete task_done plan_ready task_error"
    assert types == [(name,) for name in [*names.split(), "need_decision", "answer", "notice"]]
    assert rules.warnings == ()


def test_a_file_that_is_not_utf8_names_the_line(path: Path) -> None:
    """RULES-1.7."""
    _write(path, b"callbacks:\n  - match_type: \xff\n")
    assert _error(path) == f"{path}:2: byte 0xff is not UTF-8; save the file as UTF-8"


def test_a_byte_order_mark_is_fine(path: Path) -> None:
    """Editors of other systems write one."""
    assert len(load(_write(path, "\ufeff- match_type: a")).callbacks) == 1


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_file_that_others_may_write_is_not_loaded(path: Path, mode: int) -> None:
    """RULES-7.1: it would run their commands as this user."""
    _write(path, "").chmod(mode)
    assert "not loaded: others may write it" in _error(path)
    assert f"chmod go-w {path}" in _error(path)


def test_what_is_no_file(path: Path) -> None:
    """Missing, a folder, a pipe that nobody writes, too large."""
    assert "no such file; `wakebus rules init`" in _error(path)
    assert "not a file" in _error(path.parent)
    os.mkfifo(path, 0o600)
    assert "not a file" in _error(path)
    path.unlink()
    assert "over 1 MiB" in _error(_write(path, b"#" * (MAX_FILE + 1)))


def test_a_script_that_will_not_run_is_a_warning(path: Path) -> None:
    """RULES-5.2: said at load, because at the message it only costs the layout."""
    rules = load(_write(path, "- match_type: a\n  print: true\n  print_format: /no/such.sh"))
    (warning,) = rules.warnings
    assert str(warning).startswith(f"{path}:1: print_format: script /no/such.sh: no such file")


def test_a_change_is_seen_at_once(path: Path) -> None:
    """RULES-1.5: the next message meets the new rules; the object stays while nothing changes."""
    file = RulesFile(_write(path, "- match_type: a"))
    first = file.current()
    assert file.current() is first
    _write(path, "- match_type: bb")
    assert file.current().callbacks[0].match_type == ("bb",)


def test_a_file_replaced_by_rename_is_seen(path: Path) -> None:
    """As editors do it, even with the same size and time."""
    file = RulesFile(_write(path, "- match_type: a"))
    new = _write(path.with_name("new"), "- match_type: b")
    os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    new.rename(path)
    assert file.current().callbacks[0].match_type == ("b",)


def test_a_file_that_turns_bad_changes_nothing_and_is_told_once(path: Path) -> None:
    """RULES-1.5: the last good rules stay; good again, the error is gone."""
    told: list[str] = []
    file = RulesFile(_write(path, "- match_type: a"), on_error=lambda e: told.append(str(e)))
    _write(path, "- match_tpye: b")
    for _ in range(3):
        assert file.current().callbacks[0].match_type == ("a",)
    assert len(told) == 1 and "did you mean match_type" in told[0]
    assert str(file.error) == told[0]
    _write(path, "- match_type: c")
    assert file.current().callbacks[0].match_type == ("c",)
    assert file.error is None and len(told) == 1


def test_chmod_counts_as_a_change(path: Path) -> None:
    """RULES-7.1: trust can end while a receiver runs."""
    file = RulesFile(_write(path, "- match_type: a"))
    path.chmod(0o666)
    assert file.current().callbacks[0].match_type == ("a",)
    assert "others may write it" in str(file.error)


def test_without_a_file_the_default_rules_are_in_force(path: Path) -> None:
    """RULES-1.2: until one appears, and when it goes."""
    file = RulesFile(path)
    assert file.current() is default_rules()
    _write(path, "- match_type: a")
    assert len(file.current().callbacks) == 1
    path.unlink()
    assert file.current() is default_rules()


def test_a_required_file_must_be_there(path: Path) -> None:
    """`--rules FILE`: an error at the start; if it goes later, its rules stay."""
    with pytest.raises(RulesError, match="no such file"):
        RulesFile(path, required=True)
    file = RulesFile(_write(path, "- match_type: a"), required=True)
    path.unlink()
    assert len(file.current().callbacks) == 1 and "no such file" in str(file.error)


def test_a_bad_file_at_the_start_is_an_error(path: Path) -> None:
    """There are no last good rules yet."""
    with pytest.raises(RulesError):
        RulesFile(_write(path, "- x"))


@pytest.mark.parametrize("text", ["", " \n\n", "\ufeff"])
def test_an_empty_file_is_told(path: Path, text: str) -> None:
    """RULES-1.3, RULES-1.10: it is valid; what is in force and the next step are said."""
    rules = load(_write(path, text))
    (warning,) = rules.warnings
    assert rules.callbacks == () and str(warning).startswith(
        f"{path}: empty: no rules are in force"
    )
    assert f"`wakebus rules init --force {path}`" in warning.text


@pytest.mark.parametrize("text", ["# none wanted", "[]", "callbacks: []"])
def test_a_file_that_says_no_rules(path: Path, text: str) -> None:
    """RULES-1.10: somebody wrote that; it is no accident."""
    assert load(_write(path, text)).warnings == ()


def test_writing_the_default_rules_never_replaces_a_file(tmp_path: Path) -> None:
    """Unless forced; what is written is private and loads."""
    path = tmp_path / "new" / "bus-rules.yaml"
    write_default(path)
    assert path.read_text() == default_text() and path.stat().st_mode & 0o777 == 0o600
    _write(path, "mine")
    with pytest.raises(FileExistsError):
        write_default(path)
    assert path.read_text() == "mine"
    write_default(path, force=True)
    assert len(load(path).callbacks) == 11
    assert [p.name for p in path.parent.iterdir()] == ["bus-rules.yaml"]
