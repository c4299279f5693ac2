"""From a channel or a session to a person's origin."""

from typing import Any

import pytest

from fakes.hermes import Platform, SessionSource, Town, dm, group
from wakebus.adapters.channel import parse
from wakebus.adapters.errors import BadChannel
from wakebus.plugin.hermes.gateway import conversations as origin
from wakebus.plugin.hermes.gateway.conversations import MAX_HEARD, Heard

GRP = parse("mattermost:grp1")


def found(town: Town, heard: Heard, channel: str) -> str:
    """The key of whose session it is, or ""."""
    whose = origin.in_chat(town.runner, heard, parse(channel))
    return whose.key if whose else ""


def test_who_was_heard_last(town: Town) -> None:
    """HERMES-3.2: before the newest stored session."""
    heard = Heard()
    town.runner.session_store.put(group(user="u2"))
    heard.note(group(user="u2"))
    heard.note(group(user="u1"))
    assert found(town, heard, "mattermost:grp1").endswith(":u1")
    heard.note(group(user="u2"))
    assert found(town, heard, "mattermost:grp1").endswith(":u2")


def test_the_newest_stored_session(town: Town) -> None:
    """HERMES-3.2: after a restart nobody was heard."""
    for user in ("u1", "u2"):
        town.runner.session_store.put(group(user=user))
    assert found(town, Heard(), "mattermost:grp1").endswith(":u2")


def test_who_may_no_longer_talk(town: Town) -> None:
    """HERMES-3.2: is nobody, and so is a stranger who is only heard."""
    heard = Heard()
    town.runner.session_store.put(group(user="u1"))
    heard.note(group(user="u1"))
    heard.note(group(user="stranger"))
    assert found(town, heard, "mattermost:grp1").endswith(":u1")
    town.runner.allowed.clear()
    assert found(town, heard, "mattermost:grp1") == ""


def test_chat_and_thread_are_equal(town: Town) -> None:
    """HERMES-3.2: a thread is a conversation of its own; its channel names it."""
    town.runner.session_store.put(group(thread_id="t1"))
    assert found(town, Heard(), "mattermost:grp1") == ""
    assert found(town, Heard(), "mattermost:grp1?thread=t1").endswith(":grp1:t1")
    assert found(town, Heard(), "Mattermost:grp1?thread=t1").endswith(":grp1:t1")
    assert origin.threads(town.runner, Heard(), GRP) == ["mattermost:grp1?thread=t1"]


def test_a_made_up_origin_never_wins(town: Town) -> None:
    """HERMES-3.2, peer failure 2: `dm:grp1` beside `channel:grp1:u1`, though it is the newest."""
    town.runner.session_store.put(group())
    town.runner.session_store.put(dm("grp1"))
    town.runner.session_store.put(group(user=None))  # type: ignore[arg-type]
    assert found(town, Heard(), "mattermost:grp1") == "agent:main:mattermost:channel:grp1:u1"


def test_profiles(town: Town) -> None:
    """HERMES-3.2: the person's own profile, its adapter and its key."""
    own = object()
    town.runner._profile_adapters["work"] = {Platform.NTFY: own}  # type: ignore[dict-item]
    source = SessionSource(Platform.NTFY, "t", "dm", "u1", profile="work")
    town.runner.session_store.put(source)
    whose = origin.in_chat(town.runner, Heard(), parse("ntfy:t"))
    assert whose is not None and whose.key == "agent:work:ntfy:dm:t"
    assert origin.adapter_for(town.runner, whose.source) is own
    assert "ntfy" in origin.platforms(town.runner)


def test_by_key_and_by_id(town: Town) -> None:
    """HERMES-3.2: exactly that session, or none."""
    entry = town.runner.session_store.put(dm())
    by_key = origin.by_key(town.runner, entry.session_key)
    assert by_key is not None and by_key == origin.by_id(town.runner, entry.session_id)
    assert origin.by_key(town.runner, entry.session_key + "x") is None
    assert origin.by_id(town.runner, "") is None


def test_tokens(town: Town) -> None:
    """A source's channel is what leads back to it."""
    assert origin.token(dm()) == "mattermost:dm1"
    assert origin.token(group(thread_id="t 1")) == "mattermost:grp1?thread=t 1"
    assert origin.token(object()) == ""


def test_the_home_channel(town: Town) -> None:
    """HERMES-3.5, peer failure 10: Hermes's config first, then the environment; else both ways."""
    env = {"MATTERMOST_HOME_CHANNEL": "env1", "MATTERMOST_HOME_CHANNEL_THREAD_ID": "t9"}
    bare = parse("mattermost")
    with pytest.raises(BadChannel, match=r"/sethome.*MATTERMOST_HOME_CHANNEL"):
        origin.home(town.runner, bare, {})
    from_env = origin.home(town.runner, bare, env)
    assert (from_env.chat_id, from_env.thread) == ("env1", "t9")
    set_home(town, "home1", thread_id="t2")
    own = origin.home(town.runner, bare, env)
    assert (own.chat_id, own.thread) == ("home1", "t2")
    assert origin.home(town.runner, parse("mattermost:x"), env).chat_id == "x"
    assert [channel.chat_id for channel in origin.homes(town.runner, {})] == ["home1"]
    assert origin.is_home(town.runner, parse("mattermost:home1?thread=t2"), {})
    assert not origin.is_home(town.runner, parse("mattermost:home1"), {})


def set_home(town: Town, chat: str, thread_id: str | None = None) -> None:
    """gateway/config.py:421."""
    home = type("HomeChannel", (), {"chat_id": chat, "thread_id": thread_id})
    town.runner.config.platforms[Platform.MATTERMOST].home_channel = home


def test_at_home_nobody_need_have_written(town: Town) -> None:
    """HERMES-3.5: but a direct chat of who may no longer talk is closed."""
    home = parse("mattermost:home1")
    whose = origin.at_home(town.runner, Heard(), home, "channel")
    assert whose is not None and whose.owner
    assert whose.key == "agent:main:mattermost:channel:home1" and whose.source.user_id is None
    town.runner.session_store.put(dm("home1", "gone"))
    assert origin.at_home(town.runner, Heard(), home, "dm") is None


@pytest.mark.parametrize("directory", [None, "channel", "nonsense", OSError()])
def test_a_chats_type(town: Town, monkeypatch: pytest.MonkeyPatch, directory: Any) -> None:
    """HERMES-3.5: from its sessions, else from Hermes's channel directory."""

    def lookup_channel_type(platform: str, chat_id: str) -> Any:
        if isinstance(directory, Exception):
            raise directory
        return directory

    module = type("Module", (), {"lookup_channel_type": staticmethod(lookup_channel_type)})
    monkeypatch.setitem(__import__("sys").modules, "gateway.channel_directory", module)
    expected = "channel" if directory == "channel" else ""
    assert origin.known_type(town.runner, Heard(), GRP) == expected
    town.runner.session_store.put(SessionSource(Platform.MATTERMOST, "grp1", "forum", "u1"))
    assert origin.known_type(town.runner, Heard(), GRP) == "forum"


def test_half_built_is_empty() -> None:
    """HERMES-3.9: a runner of which nothing is there yet."""
    runner = object()
    assert origin.platforms(runner) == {} and origin.entries(runner) == []
    assert origin.in_chat(runner, Heard(), GRP) is None
    assert origin.adapter_for(runner, dm()) is None and origin.key_of(runner, dm()) == ""
    assert not origin.authorized(runner, dm()) and origin.homes(runner, {}) == []
    assert origin.at_home(runner, Heard(), GRP, "dm") is None


def test_a_check_that_fails_allows_nobody(town: Town) -> None:
    """HERMES-3.2: nor does one that answers something odd."""

    def fails(source: Any) -> bool:
        raise RuntimeError("half built")

    town.runner._is_user_authorized = fails  # type: ignore[method-assign]
    assert not origin.authorized(town.runner, dm())
    town.runner._is_user_authorized = lambda source: "yes"  # type: ignore[method-assign,assignment,return-value]
    assert not origin.authorized(town.runner, dm())


def test_the_memory_is_bounded() -> None:
    """HERMES-3.10: of persons in chats, the oldest are forgotten."""
    heard = Heard()
    for number in range(MAX_HEARD + 5):
        heard.note(dm(f"dm{number}"))
    assert len(heard.all()) == MAX_HEARD
    assert heard.all()[0].chat_id == f"dm{MAX_HEARD + 4}"
