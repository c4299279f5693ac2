"""From a channel or a session to a person's origin."""

import pytest

from fakes.hermes import Platform, SessionSource, Town, dm, group
from wakebus.adapters.channel import parse
from wakebus.adapters.errors import BadChannel
from wakebus.plugin.hermes.gateway.conversations import (
    MAX_HEARD,
    Conversations,
    channel_token,
)
from wakebus.plugin.hermes.host_api.private_gateway import PrivateGateway

GRP = parse("mattermost:grp1")


@pytest.fixture
def conversations(town: Town) -> Conversations:
    """The town's, without home channels in the environment."""
    return Conversations(town.hermes, {})


def found(conversations: Conversations, channel: str) -> str:
    """The key of whose session it is, or ""."""
    whose = conversations.in_chat(parse(channel))
    return whose.key if whose else ""


def test_who_was_heard_last(town: Town, conversations: Conversations) -> None:
    """HERMES-3.2: before the newest stored session."""
    town.runner.session_store.put(group(user="u2"))
    conversations.remember_speaker(group(user="u2"))
    conversations.remember_speaker(group(user="u1"))
    assert found(conversations, "mattermost:grp1").endswith(":u1")
    conversations.remember_speaker(group(user="u2"))
    assert found(conversations, "mattermost:grp1").endswith(":u2")


def test_the_newest_stored_session(town: Town, conversations: Conversations) -> None:
    """HERMES-3.2: after a restart nobody was heard."""
    for user in ("u1", "u2"):
        town.runner.session_store.put(group(user=user))
    assert found(conversations, "mattermost:grp1").endswith(":u2")


def test_who_may_no_longer_talk(town: Town, conversations: Conversations) -> None:
    """HERMES-3.2: is nobody, and so is a stranger who is only heard."""
    town.runner.session_store.put(group(user="u1"))
    conversations.remember_speaker(group(user="u1"))
    conversations.remember_speaker(group(user="stranger"))
    assert found(conversations, "mattermost:grp1").endswith(":u1")
    town.runner.allowed.clear()
    assert found(conversations, "mattermost:grp1") == ""


def test_chat_and_thread_are_equal(town: Town, conversations: Conversations) -> None:
    """HERMES-3.2: a thread is a conversation of its own; its channel names it."""
    town.runner.session_store.put(group(thread_id="t1"))
    assert found(conversations, "mattermost:grp1") == ""
    assert found(conversations, "mattermost:grp1?thread=t1").endswith(":grp1:t1")
    assert found(conversations, "Mattermost:grp1?thread=t1").endswith(":grp1:t1")
    assert conversations.threads(GRP) == ["mattermost:grp1?thread=t1"]


def test_a_made_up_origin_never_wins(town: Town, conversations: Conversations) -> None:
    """HERMES-3.2, peer failure 2: `dm:grp1` beside `channel:grp1:u1`, though it is the newest."""
    town.runner.session_store.put(group())
    town.runner.session_store.put(dm("grp1"))
    town.runner.session_store.put(group(user=None))  # type: ignore[arg-type]
    assert found(conversations, "mattermost:grp1") == "agent:main:mattermost:channel:grp1:u1"


def test_by_key_and_by_id(town: Town, conversations: Conversations) -> None:
    """HERMES-3.2: exactly that session, or none."""
    entry = town.runner.session_store.put(dm())
    by_key = conversations.by_key(entry.session_key)
    assert by_key is not None and by_key == conversations.by_id(entry.session_id)
    assert conversations.by_key(entry.session_key + "x") is None
    assert conversations.by_id("") is None


def test_tokens(town: Town) -> None:
    """A source's channel is what leads back to it."""
    assert channel_token(dm()) == "mattermost:dm1"
    assert channel_token(group(thread_id="t 1")) == "mattermost:grp1?thread=t 1"
    assert channel_token(object()) == ""


def test_the_home_channel(town: Town) -> None:
    """HERMES-3.5, peer failure 10: Hermes's config first, then the environment; else both ways."""
    env = {"MATTERMOST_HOME_CHANNEL": "env1", "MATTERMOST_HOME_CHANNEL_THREAD_ID": "t9"}
    bare = parse("mattermost")
    none, named = Conversations(town.hermes, {}), Conversations(town.hermes, env)
    with pytest.raises(BadChannel, match=r"/sethome.*MATTERMOST_HOME_CHANNEL"):
        none.home(bare)
    from_env = named.home(bare)
    assert (from_env.chat_id, from_env.thread) == ("env1", "t9")
    set_home(town, "home1", thread_id="t2")
    own = named.home(bare)
    assert (own.chat_id, own.thread) == ("home1", "t2")
    assert named.home(parse("mattermost:x")).chat_id == "x"
    assert [channel.chat_id for channel in none.homes()] == ["home1"]
    assert none.is_home(parse("mattermost:home1?thread=t2"))
    assert not none.is_home(parse("mattermost:home1"))


def set_home(town: Town, chat: str, thread_id: str | None = None) -> None:
    """gateway/config.py:421."""
    home = type("HomeChannel", (), {"chat_id": chat, "thread_id": thread_id})
    town.runner.config.platforms[Platform.MATTERMOST].home_channel = home


def test_at_home_nobody_need_have_written(town: Town, conversations: Conversations) -> None:
    """HERMES-3.5: but a direct chat of who may no longer talk is closed."""
    home = parse("mattermost:home1")
    whose = conversations.at_home(home, "channel")
    assert whose is not None and whose.owner
    assert whose.key == "agent:main:mattermost:channel:home1" and whose.source.user_id is None
    town.runner.session_store.put(dm("home1", "gone"))
    assert conversations.at_home(home, "dm") is None


def test_a_chats_type(town: Town, conversations: Conversations) -> None:
    """HERMES-3.5: from its sessions, else as Hermes or the platform says, else a direct chat."""
    assert conversations.type_of_chat(GRP) == "channel"
    town.adapter.types["grp1"] = "nonsense"
    assert conversations.type_of_chat(GRP) == "dm"
    town.runner.session_store.put(SessionSource(Platform.MATTERMOST, "grp1", "forum", "u1"))
    assert conversations.type_of_chat(GRP) == "forum"


def test_half_built_is_empty() -> None:
    """HERMES-3.9: a runner of which nothing is there yet."""
    conversations = Conversations(PrivateGateway(object()), {})
    assert conversations.in_chat(GRP) is None and conversations.homes() == []
    assert conversations.at_home(GRP, "dm") is None and conversations.by_id("x") is None


def test_the_memory_is_bounded(conversations: Conversations) -> None:
    """HERMES-3.10: of persons in chats, the oldest are forgotten."""
    for number in range(MAX_HEARD + 5):
        conversations.remember_speaker(dm(f"dm{number}"))
    assert conversations.people(parse("mattermost:dm4")) == []
    assert conversations.people(parse("mattermost:dm5")) == [dm("dm5")]
