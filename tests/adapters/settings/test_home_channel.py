"""Home channels, as Hermes 0.19.0 reads them (gateway/config.py, gateway/run.py)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.channel import parse
from wakebus.adapters.errors import BadChannel
from wakebus.adapters.settings.home_channel import (
    Home,
    configured_home,
    find_home,
    home_variable,
    resolve,
)

YAML = "platforms.feishu.home_channel in config.yaml"


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        ("feishu", "FEISHU_HOME_CHANNEL"),
        ("matrix", "MATRIX_HOME_ROOM"),
        ("email", "EMAIL_HOME_ADDRESS"),
        ("my-chat.v2", "MY_CHAT_V2_HOME_CHANNEL"),
    ],
)
def test_the_variable(platform: str, name: str) -> None:
    """ADP-7.3: as Hermes names it; `_` for what a variable cannot hold."""
    assert home_variable(platform) == name


def test_matrix_is_a_room() -> None:
    """B9: MATRIX_HOME_ROOM and MATRIX_HOME_ROOM_THREAD_ID, and no other name."""
    env = {"MATRIX_HOME_ROOM": "!r:s", "MATRIX_HOME_ROOM_THREAD_ID": "$e"}
    assert find_home("matrix", env) == Home("!r:s", "$e", "MATRIX_HOME_ROOM")
    assert find_home("matrix", {"MATRIX_HOME_CHANNEL": "!r:s"}) is None


def test_what_hermes_takes_instead() -> None:
    """ADP-7.6: ntfy's own topic, and the name that qqbot had; the variable itself goes first."""
    assert find_home("ntfy", {"NTFY_TOPIC": "t"}) == Home("t", "", "NTFY_TOPIC")
    assert find_home("ntfy", {"NTFY_TOPIC": "t", "NTFY_HOME_CHANNEL": "h"}) == Home(
        "h", "", "NTFY_HOME_CHANNEL"
    )
    old = {"QQ_HOME_CHANNEL": "q", "QQ_HOME_CHANNEL_THREAD_ID": "7"}
    assert find_home("qqbot", old) == Home("q", "7", "QQ_HOME_CHANNEL")


class Env(dict[str, str]):
    """An environment with a configuration, which counts how often it is asked."""

    def __init__(self, config: Any, **values: str) -> None:
        super().__init__(values)
        self.config, self.asked = config, 0

    def home(self, platform: str) -> Home | None:
        """Return what the configuration says."""
        self.asked += 1
        return configured_home(platform, self.config, None)


def test_a_variable_beats_the_file() -> None:
    """ADP-7.6: as in Hermes, where the environment overrides config.yaml; the file is not asked."""
    file = {"platforms": {"feishu": {"home_channel": {"chat_id": "oc_file", "thread_id": "om_1"}}}}
    env = Env(file, FEISHU_HOME_CHANNEL="oc_env")
    assert find_home("feishu", env) == Home("oc_env", "", "FEISHU_HOME_CHANNEL") and env.asked == 0
    assert find_home("feishu", Env(file)) == Home("oc_file", "om_1", YAML)
    assert find_home("slack", Env(file)) is None


def block(chat: object, **more: object) -> dict[str, Any]:
    """Return `platforms:` with Feishu's home channel."""
    return {"platforms": {"feishu": {"home_channel": {"chat_id": chat, **more}}}}


@pytest.mark.parametrize(
    ("config", "old", "found"),
    [
        (None, None, None),
        ({}, {}, None),
        (block("oc_1"), None, Home("oc_1", "", YAML)),
        (block(-100123, thread_id=7), None, Home("-100123", "7", YAML)),
        ({"gateway": block("g")}, None, Home("g", "", f"gateway.{YAML}")),
        (block("p") | {"gateway": block("g")}, None, Home("p", "", YAML)),
        ({}, block("old"), Home("old", "", "platforms.feishu.home_channel in gateway.json")),
        (block("new"), block("old"), Home("new", "", YAML)),
        (
            {"FEISHU_HOME_CHANNEL": "top", "FEISHU_HOME_CHANNEL_THREAD_ID": "om_2"} | block("p"),
            None,
            Home("top", "om_2", "FEISHU_HOME_CHANNEL in config.yaml"),
        ),
        ({"FEISHU_HOME_CHANNEL": "  "} | block("p"), None, Home("p", "", YAML)),
        (
            {"platforms": {"feishu": {"enabled": True}}},
            block("old"),
            Home("old", "", "platforms.feishu.home_channel in gateway.json"),
        ),
        ({"platforms": {"feishu": {"home_channel": None}}}, None, None),
        ({"platforms": {"feishu": {"home_channel": None}}}, block("old"), None),
        ({"platforms": ["feishu"], "gateway": 7}, "x", None),
        ({"feishu": {"home_channel": {"chat_id": "top level"}}}, None, None),
    ],
)
def test_the_configuration(config: Any, old: Any, found: Home | None) -> None:
    """ADP-7.6: the name at the top, platforms, gateway.platforms, gateway.json: first come."""
    assert configured_home("feishu", config, old) == found


@pytest.mark.parametrize("wrong", ["oc_1", 7, [], {}, {"chat_id": ""}, {"chat_id": ["x"]}, True])
def test_no_chat_where_one_should_be(wrong: Any) -> None:
    """ADP-7.4: named by file and key, where Hermes passes over it without a word."""
    with pytest.raises(BadChannel, match=f"^{YAML} names no chat") as caught:
        configured_home("feishu", {"platforms": {"feishu": {"home_channel": wrong}}}, None)
    assert caught.value.text.isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["platforms", "gateway", "feishu", "home_channel", "chat_id"]), inner
        )
    ),
    max_leaves=8,
)


@given(JSON, JSON)
def test_any_configuration(config: Any, old: Any) -> None:
    """ADP-7.6: whatever stands there is a home, none, or BadChannel; nothing else."""
    try:
        found = configured_home("feishu", config, old)
    except BadChannel:
        return
    assert found is None or found.chat.strip()


HOME = {"FEISHU_HOME_CHANNEL": "oc_1"}


def test_an_explicit_chat_stays() -> None:
    """ADP-7.3: an explicit chat never falls back to home (hermes-agent #8616)."""
    assert resolve(parse("feishu:oc_2"), HOME).chat_id == "oc_2"


@pytest.mark.parametrize(
    ("value", "chat_id", "thread"),
    [
        ("oc_1", "oc_1", None),
        ("feishu:oc_1", "oc_1", None),
        (" oc_1 ", "oc_1", None),
        ("oc_1?thread=om_9", "oc_1", "om_9"),
        ("slack:C1", "slack:C1", None),
    ],
)
def test_home(value: str, chat_id: str, thread: str | None) -> None:
    """ADP-7.3: a bare platform is its home channel; only its own prefix is taken off."""
    found = resolve(parse("feishu"), {"FEISHU_HOME_CHANNEL": value})
    assert (found.chat_id, found.thread, found.token) == (chat_id, thread, "feishu")


def test_home_thread() -> None:
    """ADP-7.3: the home thread's variable holds for home only, and an explicit thread wins."""
    env = {**HOME, "FEISHU_HOME_CHANNEL_THREAD_ID": "om_7"}
    assert resolve(parse("feishu"), env).thread == "om_7"
    assert resolve(parse("feishu?thread=om_1"), env).thread == "om_1"
    assert resolve(parse("feishu:oc_1"), env).thread is None


@pytest.mark.parametrize("thread", ["a\x00b", "x" * 600, "\u202ea"])
def test_bad_home_thread(thread: str) -> None:
    """ADP-7.4: named by its variable as well."""
    with pytest.raises(BadChannel, match="thread of FEISHU_HOME_CHANNEL"):
        resolve(parse("feishu"), {**HOME, "FEISHU_HOME_CHANNEL_THREAD_ID": thread})


def test_the_home_room_of_matrix() -> None:
    """B9, ADP-7.3: MATRIX_HOME_ROOM; its ids have colons; an explicit room never falls back."""
    env = {"MATRIX_HOME_ROOM": "!room:srv.org", "MATRIX_HOME_ROOM_THREAD_ID": "$e"}
    found = resolve(parse("matrix"), env)
    assert (found.chat_id, found.thread) == ("!room:srv.org", "$e")
    explicit = resolve(parse("matrix:!other:srv.org"), env)
    assert (explicit.chat_id, explicit.thread) == ("!other:srv.org", None)
    with pytest.raises(BadChannel, match="MATRIX_HOME_ROOM is not set"):
        resolve(parse("matrix"), {"MATRIX_HOME_CHANNEL": "!room:srv.org"})


@pytest.mark.parametrize("env", [{}, {"FEISHU_HOME_CHANNEL": "  "}, {"SLACK_HOME_CHANNEL": "C1"}])
def test_no_home(env: dict[str, str]) -> None:
    """ADP-7.4: no home channel is an error that names the variable, never success."""
    with pytest.raises(BadChannel, match="FEISHU_HOME_CHANNEL is not set"):
        resolve(parse("feishu"), env)


@pytest.mark.parametrize("value", ["a\x00b", "feishu:", "x" * 600, "oc_1?thread="])
def test_bad_home(value: str) -> None:
    """ADP-7.4: a wrong value is refused by the variable's name."""
    with pytest.raises(BadChannel, match="FEISHU_HOME_CHANNEL"):
        resolve(parse("feishu"), {"FEISHU_HOME_CHANNEL": value})
