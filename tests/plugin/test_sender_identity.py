"""Who sends, by precedence, with a real tmux."""

import os
from pathlib import Path

import pytest

from fakes.desk import NONE, Desk, Env
from fakes.tmux import Tmux
from wakebus.broker.errors import BadName
from wakebus.plugin import sender_identity
from wakebus.plugin.rules.errors import RulesError
from wakebus.plugin.sender_identity import Sender, as_endpoint_name, find_sender

HOST = {"HERMES_BUS_ENDPOINT": "host"}
ROLES = """\
default_sender: somebody
role_map:
  "my session": {name: builder, color: green}
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No rules, no tmux but those of the test."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("TMUX_PANE", raising=False)
    return tmp_path


def rules(folder: Path, text: str = ROLES) -> str:
    path = folder / "bus-rules.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_precedence_without_tmux(home: Path) -> None:
    """--from, the turn's token, HERMES_BUS_ENDPOINT, default_sender, cli."""
    turn = {"WAKEBUS_TOKEN": "secret", "WAKEBUS_ENDPOINT": "worker"}
    everything = {**turn, "HERMES_BUS_ENDPOINT": "host"}
    assert find_sender("me", everything) == Sender("me")
    assert find_sender("", everything) == Sender("worker", "secret")
    assert find_sender(None, everything) == Sender("worker", "secret")
    assert find_sender(None, {"HERMES_BUS_ENDPOINT": "host"}) == Sender("host")
    assert find_sender(None, {}) == Sender("cli")
    rules(home)
    assert find_sender(None, {}) == Sender("somebody")


def test_a_turn_that_names_itself_keeps_its_proof() -> None:
    """`--from worker` inside worker's turn is no other sender; another name has no token."""
    turn = {"WAKEBUS_TOKEN": "secret", "WAKEBUS_ENDPOINT": "worker"}
    assert find_sender("worker", turn) == Sender("worker", "secret")
    assert find_sender("other", turn) == Sender("other")
    assert find_sender(None, {"WAKEBUS_TOKEN": "secret"}) == Sender("cli", "secret")


@pytest.mark.parametrize("name", ["a b", "a.b", "x" * 65])
def test_a_name_that_was_given_is_checked(name: str) -> None:
    """The error says where it was given."""
    with pytest.raises(BadName, match="--from"):
        find_sender(name, {})
    with pytest.raises(BadName, match="HERMES_BUS_ENDPOINT"):
        find_sender(None, {"HERMES_BUS_ENDPOINT": name})


def test_a_name_that_was_found_is_made_to_fit() -> None:
    """At most 64 of the characters of a name."""
    assert as_endpoint_name("my session.1") == "my-session-1"
    assert (
        as_endpoint_name("工作") == "--"
        and as_endpoint_name("") == "cli"
        and len(as_endpoint_name("x" * 99)) == 64
    )


def test_tmux_session(tmux: Tmux, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """role_map by session, else the session's own name; default_sender is for outside of tmux."""
    for name, value in tmux.env.items():
        monkeypatch.setenv(name, value)
    assert sender_identity.tmux_session(os.environ) == "my session"
    assert find_sender(None, os.environ) == Sender("my-session")
    rules(home)
    assert find_sender(None, os.environ) == Sender("builder")
    other = home / "other"
    other.mkdir()
    path = rules(other, "default_sender: somebody\n")
    assert find_sender(None, os.environ, path) == Sender("my-session")


def test_a_tmux_that_is_gone(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Variables of a server that ended, or no tmux at all: as without."""
    monkeypatch.setenv("TMUX", f"{home}/gone,1,0")
    assert find_sender(None, os.environ) == Sender("cli")
    monkeypatch.setenv("PATH", str(home))
    assert find_sender(None, os.environ) == Sender("cli")


def test_rules_that_are_wrong(home: Path) -> None:
    """The default file costs a note, never the message; one that was named is an error."""
    path = rules(home, "bus: [\n")
    found = find_sender(None, {})
    assert found.name == "cli" and f"{path}:2" in found.note
    with pytest.raises(RulesError, match="bus-rules"):
        find_sender(None, {}, path)
    with pytest.raises(RulesError, match="no such file"):
        find_sender(None, {}, str(home / "none.yaml"))


def test_sending_from_inside_tmux(desk: Desk, tmux: Tmux, name: str) -> None:
    """The real command: the session's role, or --config's, or its note about broken rules."""
    desk.declare(name)
    path = desk.rules(ROLES, "roles.yaml")

    def sent_as(*words: str, env: Env = NONE) -> str:
        receipt = desk.sent("--to", name, *words, "hi", env={**tmux.env, **env})
        return str(desk.traced(receipt["id"])["from"])

    assert sent_as() == "my-session"
    assert sent_as("--config", path) == "builder"
    outside = desk.sent("--to", name, "--config", path, "hi")
    assert desk.traced(outside["id"])["from"] == "somebody"
    assert sent_as("--config", path, env=HOST) == "host"
    assert sent_as("--config", path, "--from", "me", env=HOST) == "me"
    bad = desk.rules("bus: [\n")
    try:
        done = desk.notify("--to", name, "hi", env=tmux.env)
        assert done.status == 0 and "note: sent as my-session; role_map" in done.err
        assert f"{bad}:2" in done.err
        assert desk.notify("--to", name, "--config", bad, "hi", env=tmux.env).status == 2
    finally:
        Path(bad).unlink()


def test_the_rules_of_another_home(home: Path, tmp_path: Path) -> None:
    """HERMES-5.3: of the profile for which a tool is called, beside the process's own."""
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    rules(home)
    rules(work, "default_sender: worker\ncallbacks: []\n")
    assert find_sender(None, {}, home=work) == Sender("worker")
    assert find_sender(None, {}) == Sender("somebody")
