"""The kinds of chat ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.errors import BadTarget
from wakebus.adapters.facts.dingtalk import IDS as DINGTALK
from wakebus.adapters.facts.feishu import IDS as FEISHU
from wakebus.adapters.ids import Shapes, bare, kind_of


@pytest.mark.parametrize(
    ("shapes", "chat_id", "kind", "id_"),
    [
        (FEISHU, "oc_a-b_1", "chat_id", "oc_a-b_1"),
        (FEISHU, "user_id:a.b@c", "user_id", "a.b@c"),
        (FEISHU, "feishu_user_id:x", "user_id", "x"),
        (FEISHU, "x@y.cn", "email", "x@y.cn"),
        (FEISHU, "webhook", "webhook", "webhook"),
        (DINGTALK, "cid+/a==", "group", "cid+/a=="),
        (DINGTALK, "group:cidA", "group", "cidA"),
        (DINGTALK, "user:cidA", "user", "cidA"),
        (DINGTALK, "user:webhook", "user", "webhook"),
        (DINGTALK, "张三01", "user", "张三01"),
    ],
)
def test_kinds(shapes: Shapes, chat_id: str, kind: str, id_: str) -> None:
    """A shape is one kind, and its prefix does not go out."""
    assert kind_of("x", chat_id, shapes, "") == kind
    assert bare(chat_id, shapes[kind]) == id_


@given(st.text(max_size=40), st.sampled_from([FEISHU, DINGTALK]))
def test_anything(chat_id: str, shapes: Shapes) -> None:
    """Any text has a kind, or is shown and told what is right; no id has a space or a quote."""
    try:
        kind = kind_of("x", chat_id, shapes, "write it well")
    except BadTarget as exc:
        assert exc.text.startswith("x chat ") and exc.text.endswith("write it well")
    else:
        assert not set(bare(chat_id, shapes[kind])) & set(" \t\n\"'<>{}?#&\\")
