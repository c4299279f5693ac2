"""The sessions of a gateway, as Hermes shows them to plugins."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from wakebus.plugin.hermes.isolated import stored_sessions
from wakebus.plugin.hermes.isolated.stored_sessions import StoredSessions

ORIGIN = '{"platform": "mattermost", "chat_id": "dm1", "chat_type": "dm", "user_id": "u1"}'
ROW = {"id": "h1", "session_key": "k1", "source": "mattermost", "origin_json": ORIGIN}


def sessions(folder: Path, *rows: Mapping[str, Any]) -> StoredSessions:
    """Return those of a home with these rows."""
    (folder / "state.db").touch()
    return StoredSessions(folder, lambda _: list(rows))


def test_a_row_is_a_session(tmp_path: Path) -> None:
    """HERMES-9.2: its key, its history's id, who began it."""
    found = sessions(tmp_path, ROW)
    (one,) = found.newest_first()
    assert (one.id, one.key, one.source.platform, one.source.user_id) == (
        *("h1", "k1", "mattermost", "u1"),
    )
    assert found.by_id("h1") == found.by_key("k1") == one
    assert found.by_id("h2") is None and found.by_key("") is None


@pytest.mark.parametrize("origin", [None, "", "{", "[]", "{}", '{"chat_id": ""}'])
def test_a_session_without_a_chat_is_none(tmp_path: Path, origin: Any) -> None:
    """HERMES-9.2: of a terminal, of cron, of another Hermes."""
    assert sessions(tmp_path, ROW | {"origin_json": origin}).newest_first() == []


def test_a_session_of_a_moment_ago(tmp_path: Path) -> None:
    """HERMES-9.2: what was read holds a second, but not for who misses one."""
    rows: list[dict[str, Any]] = []
    (tmp_path / "state.db").touch()
    found = StoredSessions(tmp_path, lambda _: list(rows))
    assert found.newest_first() == []
    rows.append(ROW)
    assert found.newest_first() == [] and found.by_key("k1") is not None
    assert len(found.newest_first()) == 1


def test_what_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """HERMES-9.2: what was read last holds; why is told once."""
    broken = False

    def read(file: Path) -> list[Any]:
        if broken:
            raise OSError("disk")
        return [ROW]

    (tmp_path / "state.db").touch()
    found = StoredSessions(tmp_path, read)
    assert found.newest_first()
    broken = True
    assert found.by_id("none") is None and found.by_id("none") is None
    assert found.by_key("k1") is not None
    assert [record.message for record in caplog.records] == [
        "Hermes's sessions cannot be read: OSError: disk"
    ]


def test_no_sessions_yet(tmp_path: Path) -> None:
    """HERMES-9.2: a home that is new; nothing is made there."""
    assert StoredSessions(tmp_path).newest_first() == [] and not list(tmp_path.iterdir())


def test_hermes_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-9.2: by its public module; the database is closed whatever comes."""
    closed: list[Path] = []

    class SessionDB:
        def __init__(self, file: Path, read_only: bool = False) -> None:
            assert read_only
            self.file = file

        def list_gateway_sessions(self, active_only: bool = True) -> list[dict[str, Any]]:
            return [ROW] if not active_only else []

        def close(self) -> None:
            closed.append(self.file)

    module = ModuleType("hermes_state")
    module.SessionDB = SessionDB  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hermes_state", module)
    assert stored_sessions.read_database(tmp_path / "state.db") == [ROW]
    assert closed == [tmp_path / "state.db"]
