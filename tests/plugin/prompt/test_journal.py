"""Journals, on a real disk."""

import json
import os
import stat
from pathlib import Path

import pytest

from wakebus.plugin.prompt.journal import Journal, JournalLine


def lines(file: Path) -> list[JournalLine]:
    """What a new process would read."""
    return list(Journal(file).read())


def opened(file: Path, *before: JournalLine) -> Journal:
    journal = Journal(file)
    journal.rewrite([*journal.read(), *before])
    return journal


def no_lines() -> list[JournalLine]:
    return []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "context" / "lead.jsonl"


def own(file: Path) -> list[Path]:
    return sorted(file.parent.glob("lead.*.jsonl"))


def test_what_was_appended_is_read_by_the_next_process(file: Path) -> None:
    """One file per process, 0600, in a folder 0700; the next takes it over."""
    assert lines(file) == []
    first = opened(file)
    first.append({"n": 1}, no_lines)
    first.append({"n": "two\u2028\n\x85"}, no_lines)
    assert lines(file) == [{"n": 1}, {"n": "two\u2028\n\x85"}]
    assert first.length == 2
    (path,) = own(file)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    second = opened(file)
    assert second.length == 2 and path not in own(file) and len(own(file)) == 1


def test_half_a_line_costs_only_itself(file: Path) -> None:
    """A power cut; then lines of no kind, bytes that are no text."""
    opened(file).append({"n": 1}, no_lines)
    with own(file)[0].open("ab") as written:
        written.write(b'{"n": 2}\n\xff\xfe\n[1]\n"x"\n' + b"[" * 100_000 + b'\n{"n": 3')
    assert lines(file) == [{"n": 1}, {"n": 2}]


def test_a_full_disk_in_the_middle_of_a_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next line begins on its own."""
    journal = opened(file)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            journal.append({"n": 1}, no_lines)
    path = own(file)[0]
    path.write_bytes(path.read_bytes()[:3])
    journal.append({"n": 2}, no_lines)
    assert lines(file) == [{"n": 2}]


def test_the_loser_of_a_takeover_writes_nothing(file: Path) -> None:
    """Its file is gone and another is there: an error, and no file of it comes back."""
    loser = opened(file, {"n": 1})
    winner = opened(file)
    with pytest.raises(OSError, match="another process has taken over"):
        loser.append({"n": 2}, no_lines)
    with pytest.raises(OSError, match="another process has taken over"):
        loser.rewrite([])
    winner.append({"n": 3}, no_lines)
    assert lines(file) == [{"n": 1}, {"n": 3}]


def test_a_file_that_somebody_deleted_is_written_again(file: Path) -> None:
    """The holder of the name goes on, with all that it knows."""
    journal = opened(file, {"n": 1})
    own(file)[0].unlink()
    file.parent.rmdir()
    journal.append({"n": 2}, lambda: [{"n": 1}])
    assert lines(file) == [{"n": 1}, {"n": 2}]


def test_a_crash_in_the_middle_of_taking_over(file: Path) -> None:
    """Both files are there; both are read, the older first, and the next one cleans up."""
    opened(file, {"n": 1})
    newer = file.parent / "lead.0000000000000000.jsonl"
    newer.write_text(json.dumps({"n": 2}) + "\n")
    os.utime(newer, (4e9, 4e9))
    (file.parent / ".lead.1111111111111111.jsonl.draft").write_text("{")
    assert lines(file) == [{"n": 1}, {"n": 2}]
    opened(file)
    assert len(list(file.parent.iterdir())) == 1


def test_endpoints_do_not_read_each_other(file: Path) -> None:
    """`lead` is not `lead-2`."""
    opened(file, {"n": 1})
    opened(file.with_name("lead-2.jsonl"), {"n": 2})
    assert lines(file) == [{"n": 1}]
    assert lines(file.with_name("lead-2.jsonl")) == [{"n": 2}]


def test_links_are_not_followed(file: Path, tmp_path: Path) -> None:
    """A link in the place of our file is an error, and its target untouched."""
    journal = opened(file)
    target = tmp_path / "precious"
    target.write_text("mine")
    (path,) = own(file)
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(OSError):
        journal.append({"n": 1}, no_lines)
    assert target.read_text() == "mine"
