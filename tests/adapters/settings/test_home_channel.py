"""Home channels, as Hermes 0.19.0 reads them (gateway/config.py, gateway/run.py)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.errors import BadChannel
from wakebus.adapters.settings.home_channel import Home, configured, find, variable

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
    assert variable(platform) == name


def test_matrix_is_a_room() -> None:
    """B9: MATRIX_HOME_ROOM and MATRIX_HOME_ROOM_THREAD_ID, and no other name."""
    env = {"MATRIX_HOME_ROOM": "!r:s", "MATRIX_HOME_ROOM_THREAD_ID": "$e"}
    assert find("matrix", env) == Home("!r:s", "$e", "MATRIX_HOME_ROOM")
    assert find("matrix", {"MATRIX_HOME_CHANNEL": "!r:s"}) is None


def test_what_hermes_takes_instead() -> None:
    """ADP-7.6: ntfy's own topic, and the name that qqbot had; the variable itself goes first."""
    assert find("ntfy", {"NTFY_TOPIC": "t"}) == Home("t", "", "NTFY_TOPIC")
    assert find("ntfy", {"NTFY_TOPIC": "t", "NTFY_HOME_CHANNEL": "h"}) == Home(
        "h", "", "NTFY_HOME_CHANNEL"
    )
    old = {"QQ_HOME_CHANNEL": "q", "QQ_HOME_CHANNEL_THREAD_ID": "7"}
    assert find("qqbot", old) == Home("q", "7", "QQ_HOME_CHANNEL")


class Env(dict[str, str]):
    """An environment with a configuration, which counts how often it is asked."""

    def __init__(self, config: Any, **values: str) -> None:
        super().__init__(values)
        self.config, self.asked = config, 0

    def home(self, platform: str) -> Home | None:
        """Return what the configuration says."""
        self.asked += 1
        return configured(platform, self.config, None)


def test_a_variable_beats_the_file() -> None:
    """ADP-7.6: as in Hermes, where the environment overrides config.yaml; the file is not asked."""
    file = {"platforms": {"feishu": {"home_channel": {"chat_id": "oc_file", "thread_id": "om_1"}}}}
    env = Env(file, FEISHU_HOME_CHANNEL="oc_env")
    assert find("feishu", env) == Home("oc_env", "", "FEISHU_HOME_CHANNEL") and env.asked == 0
    assert find("feishu", Env(file)) == Home("oc_file", "om_1", YAML)
    assert find("slack", Env(file)) is None


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
    assert configured("feishu", config, old) == found


@pytest.mark.parametrize("wrong", ["oc_1", 7, [], {}, {"chat_id": ""}, {"chat_id": ["x"]}, True])
def test_no_chat_where_one_should_be(wrong: Any) -> None:
    """ADP-7.4: named by file and key, where Hermes passes over it without a word."""
    with pytest.raises(BadChannel, match=f"^{YAML} names no chat") as caught:
        configured("feishu", {"platforms": {"feishu": {"home_channel": wrong}}}, None)
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
        found = configured("feishu", config, old)
    except BadChannel:
        return
    assert found is None or found.chat.strip()
