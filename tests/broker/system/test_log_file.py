"""The broker's log."""

import logging
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wakebus.broker.settings import Settings
from wakebus.broker.system import log_file
from wakebus.broker.system.log_file import reopen_log, start_log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[logging.Logger]:
    """The log of a broker, in `broker.log`."""
    found = logging.getLogger("wakebus")
    level, before = found.level, list(found.handlers)
    start_log(tmp_path / "broker.log", Settings(), console=False)
    yield found
    for handler in found.handlers:
        handler.close()
    found.handlers, found.level = before, level


def test_a_log_that_was_removed_goes_on_in_a_new_file(log: logging.Logger, tmp_path: Path) -> None:
    """PROTOCOL-1.13: private like the first."""
    file = tmp_path / "broker.log"
    log.info("one")
    reopen_log(log)
    log.info("two")
    assert "one" in file.read_text() and "two" in file.read_text()
    file.unlink()
    reopen_log(log)
    log.info("three")
    assert "three" in file.read_text() and "one" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_comes_again_and_again_is_told_once(
    log: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-1.8: and again after a minute of quiet; a fault always, with its traceback."""
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    file = tmp_path / "broker.log"
    for _ in range(400):  # for over three minutes, twice a second, two by turns
        log.error("%s is gone", "one")
        log.getChild("other").error("two is gone")
        now += 0.5
    assert file.read_text().count("one is gone") == file.read_text().count("two is gone") == 1
    now += log_file.QUIET_S
    log.error("one is gone")
    assert file.read_text().count("one is gone") == 2
    for _ in range(2):
        try:
            raise OSError("a fault")
        except OSError:
            log.exception("it failed")
    assert file.read_text().count("OSError: a fault") == 2


def test_a_log_that_cannot_be_written(
    log: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """PROTOCOL-8.3: it is done without: no error, no words on standard error."""
    (handler,) = log.handlers
    assert isinstance(handler, logging.FileHandler)
    assert handler.stream is not None
    handler.stream.close()
    log.info("lost")
    assert capsys.readouterr() == ("", "")
    handler.stream = None  # opened again at the next line
    log.info("found")
    assert "found" in (tmp_path / "broker.log").read_text()
