"""The reply token."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.channel import Channel, home_variable, parse, resolve
from wakebus.adapters.errors import BadChannel


@pytest.mark.parametrize(
    ("token", "platform", "chat_id", "thread"),
    [
        ("feishu:oc_abc123", "feishu", "oc_abc123", None),
        ("dingtalk:group:cidA/+b==", "dingtalk", "group:cidA/+b==", None),
        ("matrix:!room:srv.org", "matrix", "!room:srv.org", None),
        ("slack:C1?thread=1712.5", "slack", "C1", "1712.5"),
        ("webhook:https://h/?a=b?thread=9", "webhook", "https://h/?a=b", "9"),
        ("feishu", "feishu", None, None),
        ("feishu?thread=om_1", "feishu", None, "om_1"),
        ("telegram:-1001234", "telegram", "-1001234", None),
    ],
)
def test_parse(token: str, platform: str, chat_id: str | None, thread: str | None) -> None:
    """ADP-7.1: split at the first colon; the thread follows the last `?thread=`."""
    assert parse(token) == Channel(platform, chat_id, thread, token)


@pytest.mark.parametrize(
    ("token", "named"),
    [
        ("", "empty"),
        ("   ", "empty"),
        (":alice", "no platform"),
        ("console:", "no chat id after the colon"),
        ("console:?thread=1", "no chat id after the colon"),
        ("console:a?thread=", "no thread"),
        ("con sole:a", "no platform"),
        (" console:a", "begins or ends with a space"),
        ("console:a\n", "character 10 is U\\+000A"),
        ("console:\x1b[1m", "U\\+001B"),
        ("console:\u202ea", "U\\+202E"),
        ("console:\ud800", "U\\+D800"),
        ("console:" + "x" * 600, "608 bytes; the limit is 512"),
        ("控制台:a", "no platform"),
    ],
)
def test_bad_tokens(token: str, named: str) -> None:
    """ADP-7.2: empty, half, invisible or too long: refused, naming what is wrong."""
    with pytest.raises(BadChannel, match=named) as caught:
        parse(token)
    assert caught.value.text.isprintable()


@given(st.text(max_size=40))
def test_any_token(token: str) -> None:
    """ADP-7.2: any text is a channel or BadChannel; the token is kept as it was."""
    with suppress(BadChannel):
        assert parse(token).token == token


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


def test_home_variable() -> None:
    """The platform's name in capitals, with `_` for what a variable cannot hold."""
    assert home_variable("my-chat.v2") == "MY_CHAT_V2_HOME_CHANNEL"
