"""One profile's part of a gateway that serves several (HERMES-2.16, HERMES-3.16)."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fakes.hermes import Adapter, Platform, Town, dm
from wakebus.adapters.channel import parse
from wakebus.plugin.hermes.host_api.private_gateway import PrivateGateway, listen_to
from wakebus.plugin.hermes.host_api.profile_part import ProfilePart, profile_of_key
from wakebus.plugin.hermes.host_api.served_profiles import ALL, served_profile

HOME = Path("/h/.hermes")
WORK = HOME / "profiles" / "work"


def several(town: Town) -> tuple[Adapter, PrivateGateway, PrivateGateway]:
    """Let the town's gateway serve `work`, too; return its adapter and both parts."""
    runner: Any = town.runner
    own = Adapter(runner, Platform.MATTERMOST)
    runner._primary_profile_name = "default"
    runner._profile_adapters["work"] = {Platform.MATTERMOST: own}
    config = SimpleNamespace(platforms={Platform.NTFY: SimpleNamespace(enabled=True)})
    runner._profile_configs = {"work": config}
    parts = (ProfilePart(runner, name, home) for name, home in (("work", WORK), ("default", HOME)))
    work, default = (PrivateGateway(runner, part) for part in parts)
    return own, work, default


def test_which_profile_a_gateway_serves_at_a_home(tmp_path: Path) -> None:
    """HERMES-2.16: as Hermes keeps it; all that there is where it knows no profiles apart."""
    (tmp_path / "link").symlink_to(tmp_path)
    multiplexed = SimpleNamespace(multiplex_profiles=True)
    runner = SimpleNamespace(
        config=multiplexed,
        _served_profile_for_home=lambda home: "work" if home == tmp_path else None,
        _served_profile_homes={"work": tmp_path / "link"},
    )
    assert served_profile(runner, tmp_path) == "work"
    assert served_profile(runner, tmp_path / "other") is None
    runner._served_profile_homes = None
    assert served_profile(runner, tmp_path) is None
    runner.config = SimpleNamespace(multiplex_profiles=False)
    assert served_profile(runner, tmp_path) == ALL
    assert served_profile(runner, tmp_path / "other") is None
    assert served_profile(object(), tmp_path) == ALL == served_profile(runner, None)


@pytest.mark.parametrize(
    ("key", "profile"),
    [
        ("agent:main:mattermost:dm:dm1", "default"),
        ("agent:main~:mattermost:dm:dm1", "main"),
        ("agent:work:mattermost:dm:dm1", "work"),
        ("agent:", ""),
        ("somebody:work:x", ""),
        ("", ""),
    ],
)
def test_whose_a_session_is(key: str, profile: str) -> None:
    """HERMES-3.16: by its key, also of a profile that is called main."""
    assert profile_of_key(key, {}) == profile
    assert ProfilePart(object(), "work").owns(key) is (profile == "work")
    assert ProfilePart(object()).owns(key)


def test_what_is_anothers_is_not_there(town: Town) -> None:
    """HERMES-3.16: adapters, platforms, sessions."""
    own, work, default = several(town)
    town.runner.session_store.put(dm("dm1"))
    town.runner.session_store.put(dm("dm2", profile="work"))
    assert [one.key for one in work.sessions()] == ["agent:work:mattermost:dm:dm2"]
    assert [one.key for one in default.sessions()] == ["agent:main:mattermost:dm:dm1"]
    assert set(work.platforms()) == {"mattermost", "ntfy"}
    assert set(default.platforms()) == {"mattermost", "dingtalk"}
    assert set(work.all_platforms()) == {"mattermost", "ntfy", "dingtalk"}
    assert work.profile_of("agent:main:x") == "default" and work.profile_of("agent:work:x") == ""
    assert work.is_ours(dm(profile="work")) and not work.is_ours(dm())
    assert default.is_ours(dm()) and not default.is_ours(dm(profile="work"))
    assert work.session_of("s1") is None or work.session_of("s2") is None
    town.runner._profile_adapters["work"].clear()
    assert work.platform_away("mattermost") and not default.platform_away("mattermost")
    assert own.posts == []


def test_a_profile_whose_chats_another_bot_hears(town: Town) -> None:
    """HERMES-3.16: it answers where it was heard (`profile_routes`), by that bot, there alone."""
    runner: Any = town.runner
    own, _, _ = several(town)
    runner._adapters_for_profile = lambda name: {} if name == "work" else town.runner.adapters
    runner._delivery_adapter_for = lambda source: town.adapter
    routed = PrivateGateway(runner, ProfilePart(runner, "routed", HOME / "profiles" / "routed"))
    assert "mattermost" in routed.platforms()
    assert routed.platform_away("mattermost") and not routed.platform_away("", dm())
    assert routed.send(parse("mattermost:dm1"), "x", dm(profile="routed"), 10.0, []).success
    assert own.posts == [] and len(town.adapter.posts) == 1


def test_a_print_is_by_its_own_bot(town: Town) -> None:
    """HERMES-3.16: where nobody has been heard, too."""
    own, work, default = several(town)
    for hermes, text in ((work, "of work"), (default, "of default")):
        assert hermes.send(parse("mattermost:dm9"), text, None, 10.0, []).success
    assert [post[1] for post in own.posts] == ["of work"]
    assert [post[1] for post in town.adapter.posts] == ["of default"]


def test_the_owners_source_is_heard_by_its_own_bot(town: Town) -> None:
    """HERMES-3.16: Hermes takes a source that says nothing for one of the default's bot."""
    own, work, default = several(town)
    source = work.owner_source(parse("mattermost:home"), "dm")
    assert source.profile == "work" and source._transport_adapter_ref() is own
    assert work.key_of(source) == "agent:work:mattermost:dm:home"
    assert default.owner_source(parse("mattermost:home"), "dm").profile == "default"


def test_a_home_channel_that_hermes_keeps_for_all_is_not_asked(town: Town) -> None:
    """HERMES-3.5: /sethome in any profile's chat changes the gateway's own (0.22.2)."""
    _, work, default = several(town)
    home = SimpleNamespace(chat_id="x", thread_id=None)
    town.runner.config.platforms[Platform.MATTERMOST].home_channel = home
    assert town.hermes.home("mattermost") == ("x", "")
    assert work.home("mattermost") is None and default.home("mattermost") is None


def test_in_the_profiles_own_scope(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.16: turns and sends have its files and credentials, looks its files."""
    seen: list[Any] = []

    @asynccontextmanager
    async def scope(home: Path) -> AsyncIterator[None]:
        seen.append(home)
        yield
        seen.append("left")

    run: Any = ModuleType("gateway.run")
    run._async_profile_runtime_scope = scope
    monkeypatch.setitem(sys.modules, "gateway.run", run)
    constants: Any = ModuleType("hermes_constants")

    def override(home: Path) -> str:
        seen.append(home)
        return "token"

    constants.set_hermes_home_override = override
    constants.reset_hermes_home_override = seen.append
    monkeypatch.setitem(sys.modules, "hermes_constants", constants)
    _, work, _ = several(town)
    work.send(parse("mattermost:dm1"), "x", None, 10.0, [])
    assert seen == [WORK, "left"]
    seen.clear()
    work.can_withhold("mattermost")
    assert seen == [WORK, "token"]
    seen.clear()
    town.hermes.send(parse("mattermost:dm1"), "x", None, 10.0, [])
    town.hermes.can_withhold("mattermost")
    assert not seen


def test_how_a_person_interrupts_is_each_profiles_own(town: Town) -> None:
    """HERMES-3.7: `busy_input_mode: steer` of the one is not the other's."""
    runner: Any = town.runner
    _, work, default = several(town)
    runner._busy_input_mode = "interrupt"
    runner._busy_input_modes_by_profile = {"work": "steer"}
    for hermes in (default, work):
        hermes.withhold(town.is_unseen)
    assert default.can_withhold("mattermost") and not work.can_withhold("mattermost")


def test_a_bot_that_serves_two_profiles_is_heard_by_both() -> None:
    """HERMES-3.10: once each."""
    heard: list[str] = []

    class Bot:
        async def on_processing_complete(self, event: Any, outcome: Any) -> None:
            heard.append("hermes")

    bot = Bot()
    for profile in ("default", "work", "default"):

        def told(event: Any, outcome: Any, who: str = profile) -> None:
            heard.append(who)

        assert listen_to(bot, told, profile)
    asyncio.run(bot.on_processing_complete("e", "o"))
    assert sorted(heard) == ["default", "hermes", "work"]
