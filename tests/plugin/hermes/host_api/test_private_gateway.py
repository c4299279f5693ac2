"""What a gateway of hermes-agent 0.19.0 shows to who looks inside."""

import asyncio
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.hermes import Platform, SessionSource, Town, dm
from wakebus.adapters.channel import parse
from wakebus.plugin.hermes.host_api.private_gateway import (
    PrivateGateway,
    listen_to,
    streams,
)
from wakebus.plugin.hermes.host_api.protocol import Unreachable
from wakebus.plugin.hermes.host_api.session_state import session_names

KEY = "agent:main:mattermost:dm:dm1"


def test_an_idle_session(town: Town) -> None:
    """HERMES-3.4: nothing goes on in it."""
    assert town.hermes.busy(dm(), KEY) == ""


@pytest.mark.parametrize(
    ("of", "name", "value", "word"),
    [
        ("adapter", "_active_sessions", {KEY: object()}, "turn"),
        ("adapter", "_pending_messages", {KEY: object()}, "message"),
        ("adapter", "_text_debounce", {KEY: object()}, "message"),
        ("runner", "_running_agents", {KEY: object()}, "turn"),
        ("runner", "_queued_events", {KEY: [object()]}, "message"),
        ("runner", "_update_prompt_pending", {KEY: True}, "update"),
    ],
)
def test_what_is_going_on(of: str, name: str, value: Any, word: str) -> None:
    """HERMES-3.4: each thing that a text would interrupt, be merged with, or answer."""
    adapter = SimpleNamespace()
    runner = SimpleNamespace(_adapter_for_source=lambda source: adapter)
    setattr({"adapter": adapter, "runner": runner}[of], name, value)
    assert word in PrivateGateway(runner).busy(dm(), KEY)
    assert PrivateGateway(runner).busy(dm(), "other") == ""
    assert PrivateGateway(runner).in_turn(KEY) == (name == "_running_agents")


def test_the_adapter_is_of_the_profile_that_was_spoken_to() -> None:
    """HERMES-3.16: by the name that this generation has; never the bot of another profile."""
    ours, default = SimpleNamespace(name="work's"), SimpleNamespace(name="default's")
    source = dm(profile="work")
    for name in ("_delivery_adapter_for", "_adapter_for_source"):
        runner = SimpleNamespace(adapters={source.platform: default})
        setattr(runner, name, lambda source: ours if source.profile == "work" else default)
        assert PrivateGateway(runner).platform_away("mattermost", source) == ""
        setattr(runner, name, lambda source: None)  # that profile's bot is offline
        assert "not connected" in PrivateGateway(runner).platform_away("mattermost", source)
    bare = SimpleNamespace(adapters={source.platform: default}, _profile_adapters={})
    assert "not connected" in PrivateGateway(bare).platform_away("mattermost", source)
    assert PrivateGateway(bare).platform_away("mattermost", dm()) == ""
    bare._profile_adapters["work"] = {source.platform: ours}
    assert PrivateGateway(bare).platform_away("mattermost", source) == ""


@pytest.mark.parametrize(
    ("module", "name", "answer", "word"),
    [
        ("tools.clarify_gateway", "has_pending", True, "question"),
        ("tools.approval", "has_blocking_approval", True, "approval"),
        ("tools.slash_confirm", "get_pending", {"age": 0}, "confirmation"),
        ("tools.slash_confirm", "get_pending", {"age": 301}, ""),
        ("tools.approval", "has_blocking_approval", RuntimeError(), ""),
    ],
)
def test_what_waits_for_an_answer(
    town: Town, monkeypatch: pytest.MonkeyPatch, module: str, name: str, answer: Any, word: str
) -> None:
    """HERMES-3.4: the next text would be taken for it."""

    def look(key: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):  # a moment of the collection may be long ago
            return {"created_at": time.time() - answer["age"]} if key == KEY else None
        return answer if key == KEY else None

    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{name: look}))
    found = town.hermes.busy(dm(), KEY)
    assert word in found and bool(found) == bool(word)


def test_a_lock_whose_turn_has_ended() -> None:
    """HERMES-3.4: is none; Hermes clears it itself."""
    task = SimpleNamespace(done=lambda: True)
    adapter = SimpleNamespace(_active_sessions={KEY: object()}, _session_tasks={KEY: task})
    runner = SimpleNamespace(_adapter_for_source=lambda source: adapter)
    assert PrivateGateway(runner).busy(dm(), KEY) == ""


def test_a_session_has_two_names(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.4: the adapter's own has no profile."""
    found = session_names(town.adapter, dm(profile="work"), "agent:work:mattermost:dm:dm1")
    assert found == ("agent:work:mattermost:dm:dm1", KEY)
    assert session_names(town.adapter, dm(), KEY) == (KEY,)
    monkeypatch.delitem(sys.modules, "gateway.session")
    assert session_names(town.adapter, dm(), KEY) == (KEY,)


def test_a_gateway_that_is_away(town: Town) -> None:
    """HERMES-3.9: half built, starting, restoring, stopping."""
    assert town.hermes.away() == ""
    assert PrivateGateway(object()).away() == "the gateway is starting"
    town.runner._startup_restore_in_progress = True  # type: ignore[attr-defined]
    assert town.hermes.away() == "the gateway is starting"
    town.runner._draining = True
    assert town.hermes.away() == "the gateway is stopping"


def test_profiles(town: Town) -> None:
    """HERMES-3.2: the person's own profile, its adapter and its key."""
    own = object()
    town.runner._profile_adapters["work"] = {Platform.NTFY: own}  # type: ignore[dict-item]
    source = SessionSource(Platform.NTFY, "t", "dm", "u1", profile="work")
    assert town.hermes.key_of(source) == "agent:work:ntfy:dm:t"
    assert town.hermes.platform_away("ntfy", source) == ""
    assert town.hermes.platform_away("ntfy") == "ntfy is not connected to the gateway now"
    assert "ntfy" in town.hermes.platforms()


def test_stored_sessions(town: Town) -> None:
    """HERMES-3.2: the newest first; what has no source is nobody's."""
    first = town.runner.session_store.put(dm())
    second = town.runner.session_store.put(dm("dm2"))
    second.origin = None
    assert town.hermes.sessions() == [(first.session_key, dm())]
    assert town.hermes.session_of(first.session_id) == (first.session_key, dm())
    assert town.hermes.session_of(second.session_id) is town.hermes.session_of("") is None


@pytest.mark.parametrize("directory", [None, "group", "nonsense", OSError()])
def test_a_chats_type(town: Town, monkeypatch: pytest.MonkeyPatch, directory: Any) -> None:
    """HERMES-3.5: from Hermes's channel directory, else the platform is asked."""

    def lookup_channel_type(platform: str, chat_id: str) -> Any:
        if isinstance(directory, Exception):
            raise directory
        return directory

    module = SimpleNamespace(lookup_channel_type=lookup_channel_type)
    monkeypatch.setitem(sys.modules, "gateway.channel_directory", module)
    expected = "group" if directory == "group" else "channel"
    assert town.hermes.chat_type(parse("mattermost:grp1")) == expected
    town.adapter.types["grp2"] = "nonsense"
    assert town.hermes.chat_type(parse("mattermost:grp2")) in ("", directory)
    del town.runner.adapters[Platform.MATTERMOST]
    assert town.hermes.chat_type(parse("mattermost:grp1")) in ("", directory)


def test_half_built_is_empty() -> None:
    """HERMES-3.9: a runner of which nothing is there yet."""
    hermes = PrivateGateway(object())
    assert hermes.platforms() == () and hermes.sessions() == [] and not hermes.has_sessions()
    assert hermes.platform_away("mattermost", dm()) and hermes.key_of(dm()) == ""
    assert not hermes.may_talk(dm()) and hermes.home("mattermost") is None
    assert hermes.owner_source(parse("mattermost:grp1"), "dm") is None
    assert not hermes.listen(dm(), lambda event, outcome: None)
    with pytest.raises(Unreachable, match="not connected"):
        hermes.send(parse("mattermost:grp1"), "text", None, 1.0, [])


def test_a_check_that_fails_allows_nobody(town: Town) -> None:
    """HERMES-3.2: nor does one that answers something odd."""

    def fails(source: Any) -> bool:
        raise RuntimeError("half built")

    town.runner._is_user_authorized = fails  # type: ignore[method-assign]
    assert not town.hermes.may_talk(dm())
    town.runner._is_user_authorized = lambda source: "yes"  # type: ignore[method-assign,assignment,return-value]
    assert not town.hermes.may_talk(dm())


@pytest.mark.parametrize(
    ("own", "display", "expected"),
    [
        (None, None, False),
        ({"enabled": True, "transport": "auto"}, None, True),
        ({"enabled": True, "transport": "off"}, None, False),
        ({"enabled": False, "transport": "auto"}, True, True),
        ({"enabled": True, "transport": "auto"}, False, True),
    ],
)
def test_answers_that_are_shown_as_they_are_written(
    own: dict[str, Any] | None, display: bool | None, expected: bool, town: Town
) -> None:
    """HERMES-3.7: by Hermes's config, or the platform's own display setting."""
    runner = SimpleNamespace(
        config=SimpleNamespace(streaming=SimpleNamespace(**own) if own else None)
    )
    modules = {
        "gateway.run": SimpleNamespace(_load_gateway_config=dict),
        "gateway.display_config": SimpleNamespace(resolve_display_setting=lambda *a: display),
    }
    assert streams(runner.config.streaming, "mattermost", modules) is expected
    gateway = PrivateGateway(runner)
    assert not gateway.can_withhold("mattermost"), "nobody is asked yet"
    gateway.withhold(town.is_unseen)
    assert gateway.can_withhold("mattermost") is not (expected and display is not True)
    assert streams(runner.config.streaming, "mattermost", {}) is (expected and display is not True)


def test_a_hermes_that_steers_withholds_nothing(town: Town) -> None:
    """HERMES-3.7: what a person writes goes into the turn; its answer is theirs."""
    assert town.hermes.can_withhold("mattermost")
    town.runner._busy_input_mode = "steer"  # type: ignore[attr-defined]
    assert not town.hermes.can_withhold("mattermost")


class Adapter:
    """Remembers what reached its own hook."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def on_processing_complete(self, event: Any, outcome: Any) -> None:
        """The platform's own."""
        self.seen.append(outcome)


def test_an_adapter_is_listened_to_once() -> None:
    """HERMES-3.10: the last who asked hears it; the adapter's own hook is always called on."""
    adapter, heard = Adapter(), list[Any]()

    def hears(event: Any, outcome: Any) -> None:
        heard.append("never: another asked later")

    def fails(event: Any, outcome: Any) -> None:
        heard.append((event, outcome))
        raise RuntimeError("ours")

    for told in (hears, fails, fails):
        assert listen_to(adapter, told)
    asyncio.run(adapter.on_processing_complete("event", "outcome"))
    assert heard == [("event", "outcome")] and adapter.seen == ["outcome"]


def test_what_cannot_be_heard() -> None:
    """HERMES-3.9: an adapter without the hook is another Hermes's."""

    def told(event: Any, outcome: Any) -> None:
        raise AssertionError

    assert not listen_to(object(), told)
    assert not listen_to(SimpleNamespace(on_processing_complete=None), told)


@pytest.mark.parametrize("agent", [None, object()])
def test_nothing_that_could_be_interrupted(town: Town, agent: object) -> None:
    """HERMES-3.15: no turn, or one whose agent is just made (`_AGENT_PENDING_SENTINEL`)."""
    if agent is not None:
        town.runner._running_agents[KEY] = agent
    assert town.hermes.interrupt(KEY, lambda: False) is False


def test_an_interrupt_that_nobody_heard(town: Town) -> None:
    """HERMES-3.15: it must not end the person's next turn; a turn that is over gets none."""
    agent = SimpleNamespace(_interrupt_requested=False, asked=0)

    def interrupt(reason: str) -> None:
        agent._interrupt_requested, agent.asked = True, agent.asked + 1

    agent.interrupt = interrupt
    agent.clear_interrupt = lambda: setattr(agent, "_interrupt_requested", False)
    town.runner._running_agents[KEY] = agent
    assert town.hermes.interrupt(KEY, lambda: True) is False
    assert town.hermes.interrupt(KEY, lambda: agent.asked > 0) is True
    assert agent._interrupt_requested is False
