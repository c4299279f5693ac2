"""What Mattermost says and wants to hear."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Response, Target
from wakebus.adapters.errors import DeliveryError, Rejected, Throttled, Uncertain
from wakebus.adapters.platforms import mattermost_facts as mattermost

ONE, TWO, THREE = (letter * 26 for letter in "abc")


def answer(status: int, body: Any) -> Response:
    """Return an answer in JSON."""
    return Response(status, json.dumps(body).encode())


STEPS: list[tuple[Target, Any, Target]] = [
    (Target("m", "@ada", kind="user"), {"id": ONE}, Target("m", ONE, kind="person")),
    (Target("m", ONE, kind="person"), {"id": TWO}, Target("m", f"{TWO} {ONE}", kind="pair")),
    (Target("m", f"{TWO} {ONE}", kind="pair"), {"id": THREE}, Target("m", THREE, kind="channel")),
    (Target("m", "#ops", kind="name"), [{"name": "t-1"}], Target("m", "t-1/ops", kind="named")),
    (Target("m", "t-1/ops", kind="named"), {"id": ONE}, Target("m", ONE, kind="channel")),
    (
        Target("m", ONE, TWO, "channel"),
        {"id": TWO, "root_id": THREE, "channel_id": ONE},
        Target("m", ONE, THREE, "thread"),
    ),
]


@pytest.mark.parametrize(("now", "body", "then"), STEPS)
def test_steps(now: Target, body: Any, then: Target) -> None:
    """A name leads to its channel, a reply to its root, one question at a time."""
    assert mattermost.question(now)
    assert mattermost.step(now, answer(200, body)) == then


def test_the_questions() -> None:
    """A person's own words are one segment of a path; two ids go as a list."""
    asked = mattermost.question(Target("m", "@a..b/../c", kind="user"))
    assert asked == ("/users/username/a..b%2F..%2Fc", b"", "GET")
    asked = mattermost.question(Target("m", "a b", kind="pair"))
    assert asked == ("/channels/direct", b'["a","b"]', "POST")
    assert mattermost.question(Target("m", ONE, kind="channel")) is None
    assert mattermost.question(Target("m", ONE, TWO, "thread")) is None


VALUE = st.none() | st.integers() | st.sampled_from(["", ONE, TWO, "api.x", "t-1", "../x"])
BODY = st.dictionaries(
    st.sampled_from(["id", "root_id", "channel_id", "name", "message"]), VALUE, max_size=4
)


@given(
    st.sampled_from([step[0] for step in STEPS]),
    st.sampled_from([200, 201, 302, 400, 404, 429, 500]),
    BODY | st.lists(BODY, max_size=2) | VALUE,
)
@settings(max_examples=60, deadline=None)
def test_any_answer(now: Target, status: int, body: Any) -> None:
    """Whatever comes back is a step or a delivery error; only a success is a step."""
    try:
        found = mattermost.step(now, answer(status, body))
    except DeliveryError:
        return
    assert 200 <= status < 300 and found.kind != now.kind
    shape = mattermost.IDS["named"] if now.kind == "name" else mattermost.ID
    assert shape.fullmatch(found.chat_id.split(" ")[0])


def test_a_success_names_a_post() -> None:
    """A 2xx with an error's id, or none, is no success."""
    for body in ({}, {"id": ""}, {"id": "api.post.x"}, {"id": 5}, {"id": ONE.upper()}):
        with pytest.raises(Uncertain):
            mattermost.id_of(answer(201, body))


def test_waits() -> None:
    """The wait stands in a header, and it holds up all channels."""
    with pytest.raises(Throttled) as caught:
        mattermost.read(Response(429, b"limit exceeded", {"x-ratelimit-reset": "3"}))
    assert (caught.value.retry_after, caught.value.scope) == (3.0, "app")


@pytest.mark.parametrize(("status", "advice"), [(401, "MATTERMOST_TOKEN"), (403, "add the bot")])
def test_advice_by_status(status: int, advice: str) -> None:
    """A refusal in words that nobody listed still says what to do."""
    with pytest.raises(Rejected, match=advice):
        mattermost.read(answer(status, {"id": "api.new.app_error", "message": "no"}))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in mattermost.CODES.values() if found.kind == "rejected")


@pytest.mark.parametrize("name", ["", None, 7])
def test_who_is_nobody(name: object) -> None:
    """ADP-15.8: an answer without our name is none."""
    body = {"id": "a" * 26, "username": name}
    with pytest.raises(Uncertain):
        mattermost.who(Response(200, json.dumps(body).encode()))
