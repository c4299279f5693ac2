"""Which session of the TUI's server a message is for (HERMES-8.2)."""

import pytest

from wakebus.plugin.hermes.host_api.protocol import TuiSession
from wakebus.plugin.hermes.tui.session_choice import MAX_NAMED, NoSession, choose_session


def session(key: str, *before: str) -> TuiSession:
    return TuiSession(key, (key, *before), "", busy=False)


A, B, C = session("a"), session("b", "old b"), session("c")


@pytest.mark.parametrize(
    ("sessions", "named", "asked", "spoken", "found"),
    [
        ([A, B], "a", "b", "b", A),
        ([A, B], "old b", "", "a", B),
        ([A, B, C], "", "c", "a", C),
        ([A, B], "", "gone", "b", B),
        ([A], "", "", "", A),
        ([A], "", "", "gone", A),
    ],
)
def test_the_session_of_a_message(
    sessions: list[TuiSession], named: str, asked: str, spoken: str, found: TuiSession
) -> None:
    """HERMES-8.2: the named one, the one that asked, where a person last spoke, the only one."""
    assert choose_session(sessions, named, asked, spoken) is found


def test_none_is_guessed() -> None:
    """HERMES-8.2: a name that none has, several and no word of which: the keys are told."""
    with pytest.raises(NoSession, match=r"no such session here: 'x'; .*--session KEY, one of: a$"):
        choose_session([A], "x", "a", "a")
    with pytest.raises(NoSession, match=r"it names no session; .*one of: a, b$"):
        choose_session([A, B], "")
    with pytest.raises(NoSession, match="no session is open here"):
        choose_session([], "a")


def test_many_are_not_all_told() -> None:
    """HERMES-8.2: a refusal is a line."""
    many = [session(f"s{n}") for n in range(MAX_NAMED + 3)]
    with pytest.raises(NoSession, match=r"s9 and 3 more$"):
        choose_session(many, "")
