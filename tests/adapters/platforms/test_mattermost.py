"""The platform `mattermost`: the shapes of its requests, and what they must never be."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import respx
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.carrier import Carrier
from wakebus.adapters.base import File, Outgoing, Response, Target
from wakebus.adapters.errors import BadSetting, DeliveryError, Rejected, Throttled, Uncertain
from wakebus.adapters.inspect.credential_check import check_credential
from wakebus.adapters.platforms.mattermost import (
    CODES,
    ID,
    IDS,
    Mattermost,
    lookup_question,
    next_target,
    read_answer,
    read_id,
)

URL = "https://chat.example.com"
API = f"{URL}/api/v4"
ENV = {"MATTERMOST_URL": f"{URL}/", "MATTERMOST_TOKEN": "hush-hush"}
CHANNEL, POST, ROOT = (letter * 26 for letter in "cpr")
ME, ADA, FILE = (letter * 26 for letter in "maf")


def error(id: str, status: int = 400) -> httpx.Response:
    """Return an error as Mattermost writes it."""
    return httpx.Response(status, json={"id": id, "message": "no", "status_code": status})


@pytest.fixture
def server() -> Iterator[respx.MockRouter]:
    """A server with a person, a team and a channel, which takes every post."""
    with respx.mock(assert_all_called=False) as router:
        router.post(f"{API}/posts", name="posts").respond(201, json={"id": POST})
        router.get(f"{API}/users/me", name="me").respond(json={"id": ME, "username": "bot"})
        router.get(f"{API}/users/username/ada").respond(json={"id": ADA})
        router.post(f"{API}/channels/direct", name="direct").respond(201, json={"id": CHANNEL})
        router.get(f"{API}/users/me/teams", name="teams").respond(json=[{"name": "core"}])
        router.get(f"{API}/teams/name/core/channels/name/ops", name="named").respond(
            json={"id": CHANNEL}
        )
        yield router


def posted(router: respx.MockRouter, place: int = -1) -> dict[str, Any]:
    """Return the body of a post."""
    found: dict[str, Any] = json.loads(router["posts"].calls[place].request.content)
    return found


def test_the_request(server: respx.MockRouter) -> None:
    """ADP-15.1, ADP-15.4: the channel, the text, and the key as pending_post_id."""
    result = Carrier(ENV)(f"mattermost:{CHANNEL}", 'say "中"', key="0199-a")
    assert (result.result, result.id) == ("sent", POST)
    assert posted(server) == {
        "channel_id": CHANNEL,
        "message": 'say "中"',
        "pending_post_id": "0199-a",
    }
    assert server["posts"].calls[0].request.headers["authorization"] == "Bearer hush-hush"
    assert len(server.calls) == 1


def test_an_error_is_no_post(server: respx.MockRouter) -> None:
    """ADP-15.1: `id` is an error's name as well; only a post's is a success."""
    body = {"id": "api.context.session_expired.app_error", "status_code": 401}
    server["posts"].respond(200, json=body)
    assert Carrier(ENV)(f"mattermost:{CHANNEL}").result == "uncertain"


def test_a_person(server: respx.MockRouter) -> None:
    """ADP-15.2: a name leads to the user, to ourselves, to the channel of both."""
    carrier = Carrier(ENV)
    for key in "12":
        assert carrier("mattermost:@ada", key=key).result == "sent"
    assert json.loads(server["direct"].calls[0].request.content) == [ME, ADA]
    assert posted(server)["channel_id"] == CHANNEL
    assert len(server["direct"].calls) == 1  # the second time it is known


@pytest.mark.parametrize("chat", ["core/ops", "#ops", "~ops"])
def test_a_channel_by_name(server: respx.MockRouter, chat: str) -> None:
    """ADP-15.2: a team's channel; without a team the bot's only one."""
    assert Carrier(ENV)(f"mattermost:{chat}").result == "sent"
    assert posted(server)["channel_id"] == CHANNEL


@pytest.mark.parametrize("teams", [[], [{"name": "core"}, {"name": "ops"}], [{"name": "../x"}]])
def test_no_team_to_look_in(server: respx.MockRouter, teams: list[dict[str, str]]) -> None:
    """ADP-15.2: a name that may mean two channels means none."""
    server["teams"].respond(json=teams)
    result = Carrier(ENV)("mattermost:#ops")
    assert result.result == "rejected" and "team/name" in result.reason


def test_a_name_that_is_not_there(server: respx.MockRouter) -> None:
    """ADP-15.2: refused with advice; a doubt is `not_sent`, nothing went out yet."""
    server["named"].mock(return_value=error("app.channel.get_by_name.missing.app_error", 404))
    result = Carrier(ENV)("mattermost:core/ops")
    assert result.result == "rejected" and "is the name right" in result.reason
    server["named"].respond(502, text="<html>")
    assert Carrier(ENV)("mattermost:core/ops").result == "not_sent"
    assert not server["posts"].calls


@pytest.mark.parametrize("root", ["", ROOT])
def test_a_thread(server: respx.MockRouter, root: str) -> None:
    """ADP-15.3: a thread is its first post; a reply's id leads there (hermes-agent #28005)."""
    post = {"id": POST, "root_id": root, "channel_id": CHANNEL}
    server.get(f"{API}/posts/{POST}").respond(json=post)
    assert Carrier(ENV)(f"mattermost:{CHANNEL}?thread={POST}").result == "sent"
    assert posted(server)["root_id"] == (root or POST)


def test_a_thread_elsewhere(server: respx.MockRouter) -> None:
    """ADP-15.3: a post of another channel, or none, is refused: not said in front of everybody."""
    post = {"id": POST, "root_id": "", "channel_id": ADA}
    server.get(f"{API}/posts/{POST}", name="post").respond(json=post)
    result = Carrier(ENV)(f"mattermost:{CHANNEL}?thread={POST}")
    assert result.result == "rejected" and "another channel" in result.reason
    server["post"].mock(return_value=error("app.post.get.app_error", 404))
    result = Carrier(ENV)(f"mattermost:{CHANNEL}?thread={POST}")
    assert result.result == "rejected" and "gone" in result.reason
    assert not server["posts"].calls


def test_a_lost_answer(server: respx.MockRouter) -> None:
    """ADP-15.4: what is in doubt goes again at once, under the same key."""
    lost: list[Any] = [httpx.ReadTimeout("x"), httpx.Response(201, json={"id": POST})]
    server["posts"].side_effect = lost
    assert Carrier(ENV)(f"mattermost:{CHANNEL}").result == "sent"
    assert posted(server, 0) == posted(server, 1)


def test_the_first_request_is_still_being_stored(server: respx.MockRouter) -> None:
    """ADP-15.4: `…pending` says that it may become a post: a doubt, settled by the next try."""
    pending = error("api.post.deduplicate_create_post.pending", 500)
    server["posts"].side_effect = [pending, httpx.Response(200, json={"id": POST})]
    result = Carrier(ENV)(f"mattermost:{CHANNEL}")
    assert (result.result, result.id) == ("sent", POST)


def test_a_doubt_that_is_too_old(server: respx.MockRouter) -> None:
    """ADP-15.4: 25 s after the first try the server may have forgotten the key: nothing again."""
    carrier = Carrier(ENV)

    def late(request: httpx.Request) -> httpx.Response:
        carrier.time += 26
        raise httpx.ReadTimeout("x")

    server["posts"].side_effect = late
    result = carrier(f"mattermost:{CHANNEL}")
    assert (result.result, result.again, len(server["posts"].calls)) == ("uncertain", False, 1)


@pytest.mark.parametrize("unit", ["x", "中", "😀", "**x** ", "@all ", "a\n"])
def test_a_long_text(server: respx.MockRouter, unit: str) -> None:
    """ADP-15.5: at most 16,383 code points, as they go out."""
    result = Carrier(ENV)(f"mattermost:{CHANNEL}", unit * (17_000 // len(unit)))
    posts = [posted(server, place) for place in range(len(server["posts"].calls))]
    assert result.result == "sent" and 1 < len(posts) == result.parts < 4
    assert all(len(post["message"]) <= 16_383 for post in posts)
    assert len({post["pending_post_id"] for post in posts}) == len(posts)


def test_nobody_is_mentioned(server: respx.MockRouter) -> None:
    """ADP-15.5: a text from elsewhere calls nobody."""
    Carrier(ENV)(f"mattermost:{CHANNEL}", "**hi** @all and @channel")
    message = posted(server)["message"]
    assert "**hi**" in message and "@all" not in message and "@channel" not in message


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({}, "MATTERMOST_URL and MATTERMOST_TOKEN"),
        ({"MATTERMOST_URL": URL}, "MATTERMOST_TOKEN"),
        ({"MATTERMOST_TOKEN": "hush-hush"}, "MATTERMOST_URL"),
        (ENV | {"MATTERMOST_URL": "http://hush-hush.lan:8065"}, "MATTERMOST_URL.*TLS"),
        (ENV | {"MATTERMOST_URL": "chat.example.com"}, "MATTERMOST_URL.*https://"),
    ],
)
def test_settings(env: dict[str, str], named: str) -> None:
    """ADP-15.6: what is missing or unsafe is named, never its value."""
    with pytest.raises(BadSetting, match=named) as caught:
        Mattermost(env)
    assert "hush-hush" not in caught.value.text


@pytest.mark.parametrize("text", ["", "see the report"])
def test_a_file(server: respx.MockRouter, text: str) -> None:
    """ADP-15.7: the file is brought to the channel, then a post of its own shows it."""
    upload = server.post(url__startswith=f"{API}/files?")
    upload.respond(201, json={"file_infos": [{"id": FILE}], "client_ids": []})
    file = File("报告 1.pdf", b"%PDF", "application/pdf")
    result = Carrier(ENV)("mattermost:@ada", text, "k", file=file)
    brought = upload.calls[0].request
    assert result.result == "sent" and brought.content == b"%PDF"
    assert dict(brought.url.params) == {"channel_id": CHANNEL, "filename": "报告 1.pdf"}
    assert brought.headers["content-type"] == "application/pdf"
    assert posted(server)["file_ids"] == [FILE] and posted(server)["message"] == ""
    assert len(server["posts"].calls) == 1 + bool(text)


@pytest.mark.parametrize("body", [{}, {"file_infos": []}, {"file_infos": [{"id": "x"}]}, "<html>"])
def test_an_upload_that_gives_no_id(server: respx.MockRouter, body: Any) -> None:
    """ADP-15.7: without an id nothing is posted, and it may be tried again."""
    text = body if isinstance(body, str) else json.dumps(body)
    server.post(url__startswith=f"{API}/files?").respond(201, text=text)
    result = Carrier(ENV)(f"mattermost:{CHANNEL}", "", "k", file=File("a", b"x"))
    assert result.result == "not_sent" and not server["posts"].calls


def test_check(server: respx.MockRouter) -> None:
    """ADP-15.8: the bot's name; a wrong token is said to be wrong."""
    context = Carrier(ENV).context
    assert check_credential("mattermost", Mattermost(ENV), context) == ("ok", "@bot")
    server["me"].mock(return_value=error("api.context.session_expired.app_error", 401))
    found = check_credential("mattermost", Mattermost(ENV), context)
    assert found.result == "failed" and "MATTERMOST_TOKEN" in found.text


def test_a_throttle(server: respx.MockRouter) -> None:
    """ADP-15.9: 429 in plain text; the wait is in X-Ratelimit-Reset."""
    slow = httpx.Response(429, text="limit exceeded", headers={"X-Ratelimit-Reset": "2"})
    server["posts"].side_effect = [slow, httpx.Response(201, json={"id": POST})]
    carrier = Carrier(ENV)
    assert carrier(f"mattermost:{CHANNEL}").result == "sent"
    assert carrier.waits == [2.0]


def test_a_preview_needs_no_server() -> None:
    """ADP-15.2: what is not looked up yet is shown as it was written."""
    adapter = Mattermost(ENV)
    request = adapter.build_request(adapter.parse_target("@ada", None), Outgoing("hi", "k"))
    assert json.loads(request.body)["channel_id"] == "@ada"


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
    assert lookup_question(now)
    assert next_target(now, answer(200, body)) == then


def test_the_questions() -> None:
    """A person's own words are one segment of a path; two ids go as a list."""
    asked = lookup_question(Target("m", "@a..b/../c", kind="user"))
    assert asked == ("/users/username/a..b%2F..%2Fc", b"", "GET")
    asked = lookup_question(Target("m", "a b", kind="pair"))
    assert asked == ("/channels/direct", b'["a","b"]', "POST")
    assert lookup_question(Target("m", ONE, kind="channel")) is None
    assert lookup_question(Target("m", ONE, TWO, "thread")) is None


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
        found = next_target(now, answer(status, body))
    except DeliveryError:
        return
    assert 200 <= status < 300 and found.kind != now.kind
    shape = IDS["named"] if now.kind == "name" else ID
    assert shape.fullmatch(found.chat_id.split(" ")[0])


def test_a_success_names_a_post() -> None:
    """A 2xx with an error's id, or none, is no success."""
    for body in ({}, {"id": ""}, {"id": "api.post.x"}, {"id": 5}, {"id": ONE.upper()}):
        with pytest.raises(Uncertain):
            read_id(answer(201, body))


def test_waits() -> None:
    """The wait stands in a header, and it holds up all channels."""
    with pytest.raises(Throttled) as caught:
        read_answer(Response(429, b"limit exceeded", {"x-ratelimit-reset": "3"}))
    assert (caught.value.retry_after, caught.value.scope) == (3.0, "app")


@pytest.mark.parametrize(("status", "advice"), [(401, "MATTERMOST_TOKEN"), (403, "add the bot")])
def test_advice_by_status(status: int, advice: str) -> None:
    """A refusal in words that nobody listed still says what to do."""
    with pytest.raises(Rejected, match=advice):
        read_answer(answer(status, {"id": "api.new.app_error", "message": "no"}))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in CODES.values() if found.kind == "rejected")


@pytest.mark.parametrize("name", ["", None, 7])
def test_who_is_nobody(name: object) -> None:
    """ADP-15.8: an answer without our name is none."""
    body = {"id": "a" * 26, "username": name}
    with pytest.raises(Uncertain):
        Mattermost(ENV).parse_check(Response(200, json.dumps(body).encode()))
