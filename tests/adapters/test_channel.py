"""The reply token."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.channel import Channel, parse
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
