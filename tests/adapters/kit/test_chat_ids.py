"""The kinds of chat ids."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.errors import BadTarget
from wakebus.adapters.kit.chat_ids import Shapes, kind_of, setting_of, split_thread, without_prefix
from wakebus.adapters.platforms.dingtalk import IDS as DINGTALK
from wakebus.adapters.platforms.feishu import IDS as FEISHU


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
    assert without_prefix(chat_id, shapes[kind]) == id_


@given(st.text(max_size=40), st.sampled_from([FEISHU, DINGTALK]))
def test_anything(chat_id: str, shapes: Shapes) -> None:
    """Any text has a kind, or is shown and told what is right; no id has a space or a quote."""
    try:
        kind = kind_of("x", chat_id, shapes, "write it well")
    except BadTarget as exc:
        assert exc.text.startswith("x chat ") and exc.text.endswith("write it well")
    else:
        assert not set(without_prefix(chat_id, shapes[kind])) & set(" \t\n\"'<>{}?#&\\")


BOTH, THREAD = re.compile(r"(c\d):(\d+)"), re.compile(r"\d+")


@pytest.mark.parametrize(
    ("chat_id", "thread", "found"),
    [
        *(("c1", None, ("c1", None)), ("c1", "5", ("c1", "5")), ("c1:5", None, ("c1", "5"))),
        *(("c1:5", "5", ("c1", "5")), ("x:5", None, ("x:5", None))),
    ],
)
def test_split_thread(chat_id: str, thread: str | None, found: tuple[str, str | None]) -> None:
    """Hermes's `chat:thread` is a chat and its thread; what has another shape stays as it is."""
    assert split_thread("x", chat_id, thread, BOTH, THREAD) == found


@pytest.mark.parametrize(("chat_id", "thread"), [("c1:5", "6"), ("c1", "a"), ("c1", "5\n")])
def test_no_thread_of_that_shape(chat_id: str, thread: str) -> None:
    """Two threads, or one that is none, are refused and shown."""
    with pytest.raises(BadTarget, match="x chat 'c1"):
        split_thread("x", chat_id, thread, BOTH, THREAD)


def test_setting_of() -> None:
    """A setting that is called after a chat."""
    assert setting_of("WEBHOOK_", "my-ci", "_URL") == "WEBHOOK_MY_CI_URL"
    assert setting_of("APPRISE_URL_", "Ops_mail") == "APPRISE_URL_OPS_MAIL"
