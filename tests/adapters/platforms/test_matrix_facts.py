"""What Matrix servers say and want to hear."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Response, Target
from wakebus.adapters.errors import BadTarget, DeliveryError, Rejected, Throttled, Uncertain
from wakebus.adapters.platforms import matrix_facts as matrix

EVENT = "$Ag1nTEvfqDqhsT5bwXWTUBmN8nxHV1kNmRVyHNYcqY0"


def answer(status: int, body: Any) -> Response:
    """Return an answer in JSON."""
    return Response(status, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("chat", "room", "thread"),
    [
        ("!a:b.c", "!a:b.c", None),
        ("!a:b.c:8448", "!a:b.c:8448", None),
        ("!a:[::1]:8448", "!a:[::1]:8448", None),
        (f"!a:b.c:{EVENT}", "!a:b.c", EVENT),
        ("!a:b.c:8448:$e:b.c:8448", "!a:b.c:8448", "$e:b.c:8448"),
        ("!31hneApxJ_1o-63DmFrpeqnkFfWppnzWso1JvH3ogLM", None, None),
        (f"!a:{EVENT}", "!a", EVENT),
    ],
)
def test_rooms(chat: str, room: str | None, thread: str | None) -> None:
    """A room may name its server or not, and a thread behind it as Hermes writes it."""
    assert matrix.target(chat, None, "room") == Target("matrix", room or chat, thread, "room")


@pytest.mark.parametrize("thread", ["", "5", "$", "$a b", "e:b", "$" + "x" * 255])
def test_a_thread_is_an_event(thread: str) -> None:
    """Anything else is refused."""
    with pytest.raises(BadTarget):
        matrix.target("!a:b", thread, "room")


STEPS = [
    ("alias", "#a:b", {"room_id": "!r"}, "room", "!r"),
    ("user", "@ada:b", {"user_id": "@bot:b"}, "pair", "@bot:b @ada:b"),
    ("pair", "@bot:b @ada:b", {"@ada:b": ["!1", "no room", 5, "!2"]}, "direct", "!1 !2"),
    ("direct", "!1 !2", {"joined_rooms": ["!2", "!1"]}, "room", "!2"),
]


@pytest.mark.parametrize(("kind", "chat", "body", "then", "there"), STEPS)
def test_steps(kind: str, chat: str, body: dict[str, Any], then: str, there: str) -> None:
    """A name leads to its room, one question at a time; a thread goes along."""
    now = Target("matrix", chat, EVENT, kind)
    assert matrix.question(now)
    assert matrix.step(now, answer(200, body)) == Target("matrix", there, EVENT, then)


@pytest.mark.parametrize("room", [f"!r:s:{EVENT}", f"!r:{EVENT}", "#r:s", "@a:s", "!r s", "", None])
def test_an_alias_leads_to_a_room(room: object) -> None:
    """ADP-16.2: an answer with a thread behind the room, or with none at all, is no room."""
    with pytest.raises(Uncertain):
        matrix.step(Target("matrix", "#a:b", kind="alias"), answer(200, {"room_id": room}))


def test_the_last_step() -> None:
    """A room is written to when the server itself says that it has no encryption."""
    room = Target("matrix", "!r", kind="room")
    found = matrix.step(room, answer(404, {"errcode": "M_NOT_FOUND"}))
    assert found.kind == "open" and matrix.question(found) is None
    for bad in (answer(200, {"algorithm": "x"}), answer(200, {}), answer(404, {})):
        with pytest.raises(Rejected):
            matrix.step(room, bad)
    with pytest.raises(DeliveryError):
        matrix.step(room, Response(404, b"<html>"))


VALUE = st.none() | st.integers() | st.sampled_from(["", "!r", "@a:b", EVENT, "M_NOT_FOUND"])
NAMES = st.sampled_from(["room_id", "user_id", "joined_rooms", "@ada:b", "errcode", "event_id"])


@given(
    st.sampled_from([step[:2] for step in STEPS] + [("room", "!r")]),
    st.sampled_from([200, 302, 404, 429, 500]),
    st.dictionaries(NAMES, VALUE | st.lists(VALUE, max_size=3), max_size=3) | st.lists(VALUE),
)
@settings(max_examples=60, deadline=None)
def test_any_answer(start: tuple[str, str], status: int, body: Any) -> None:
    """Whatever comes back is a step or a delivery error; a room only by its server's word."""
    kind, chat = start
    try:
        found = matrix.step(Target("matrix", chat, kind=kind), answer(status, body))
    except DeliveryError:
        return
    assert found.chat_id and found.kind != kind
    assert 200 <= status < 300 or (kind in ("room", "pair") and status == 404)


def test_waits() -> None:
    """The body's milliseconds are finer than the header's seconds; it holds up all rooms."""
    body = b'{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":1913}'
    with pytest.raises(Throttled) as caught:
        matrix.read(Response(429, body, {"Retry-After": "2"}))
    assert (caught.value.retry_after, caught.value.scope) == (1.913, "app")


def test_a_success_names_an_event() -> None:
    """B11's kind of mistake: a 200 without an event's id is none."""
    for body in ({}, {"event_id": ""}, {"event_id": 5}, {"event_id": "x"}):
        with pytest.raises(Uncertain):
            matrix.text_of(answer(200, body), "event_id", matrix.EVENT)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["!", ":", "$", "[", "a", "a.", "1:", "!a:", ":$"])
def test_a_hostile_id(unit: str) -> None:
    """An id of any length is read in no time worth speaking of."""
    for start in "!#@":
        for shape in matrix.IDS.values():
            shape.fullmatch(start + unit * 100_000)


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in matrix.CODES.values() if found.kind == "rejected")
