"""The sessions of a gateway, as Hermes shows them to plugins."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fakes.hermes_isolated import SessionDB
from wakebus.plugin.hermes.isolated import stored_sessions
from wakebus.plugin.hermes.isolated.stored_sessions import StoredSessions

ORIGIN = '{"platform": "mattermost", "chat_id": "dm1", "chat_type": "dm", "user_id": "u1"}'
ROW = {"id": "h1", "session_key": "k1", "source": "mattermost", "origin_json": ORIGIN}


def sessions(folder: Path, *rows: dict[str, Any]) -> StoredSessions:
    """Return those of a home with these rows."""
    (folder / "state.db").touch()
    return StoredSessions(folder, lambda _: SessionDB(list(rows)))


def test_a_row_is_a_session(tmp_path: Path) -> None:
    """HERMES-9.2: its key, its history's id, who began it."""
    found = sessions(tmp_path, ROW)
    (one,) = found.newest_first()
    told = (one.id, one.key, one.source.platform, one.source.user_id)
    assert told == ("h1", "k1", "mattermost", "u1")
    assert found.by_id("h1") == one and found.by_id("h2") is None


@pytest.mark.parametrize("origin", [None, "", "{", "[]", "{}", '{"chat_id": ""}'])
def test_a_session_without_a_chat_is_none(tmp_path: Path, origin: Any) -> None:
    """HERMES-9.2: of a terminal, of cron, of another Hermes."""
    found = sessions(tmp_path, ROW | {"origin_json": origin})
    assert found.newest_first() == [] and found.by_id("h1") is None


def test_the_list_holds_a_second(tmp_path: Path) -> None:
    """HERMES-9.2: one session is looked up as it is now."""
    rows: list[dict[str, Any]] = []
    (tmp_path / "state.db").touch()
    found = StoredSessions(tmp_path, lambda _: SessionDB(rows))
    assert found.newest_first() == []
    rows.append(ROW)
    assert found.newest_first() == [] and found.by_id("h1") is not None


def test_what_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-9.2: what was read last holds; why is told once."""
    broken = False

    def open_database(file: Path) -> SessionDB:
        if broken:
            raise OSError("disk")
        return SessionDB([ROW])

    monkeypatch.setattr(stored_sessions, "FRESH_S", 0.0)
    (tmp_path / "state.db").touch()
    found = StoredSessions(tmp_path, open_database)
    before = found.newest_first()
    broken = True
    assert found.newest_first() == before and found.by_id("h1") is None
    assert [record.message for record in caplog.records] == [
        "Hermes's sessions cannot be read: OSError: disk"
    ]
    broken = False
    assert found.by_id("h1") == before[0]


def test_no_sessions_yet(tmp_path: Path) -> None:
    """HERMES-9.2: a home that is new; nothing is made there."""
    found = StoredSessions(tmp_path)
    assert found.newest_first() == [] and found.by_id("h1") is None
    assert not list(tmp_path.iterdir())


def test_hermes_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-9.2: by its public module, read-only; the database is closed whatever comes."""
    opened: list[tuple[Path, bool]] = []
    closed: list[bool] = []

    class Theirs(SessionDB):
        def __init__(self, file: Path, read_only: bool = False) -> None:
            super().__init__([ROW])
            opened.append((file, read_only))

        def close(self) -> None:
            closed.append(True)

    module = ModuleType("hermes_state")
    module.SessionDB = Theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hermes_state", module)
    (tmp_path / "state.db").touch()
    found = StoredSessions(tmp_path)
    assert len(found.newest_first()) == 1 and found.by_id("h1")
    assert opened == [(tmp_path / "state.db", True)] * 2 and closed == [True] * 2
