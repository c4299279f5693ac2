"""The platform `matrix`: the shapes of its requests. What servers do: test_matrix_synapse.py."""

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
from wakebus.adapters.errors import (
    BadSetting,
    BadTarget,
    DeliveryError,
    Rejected,
    Throttled,
    Uncertain,
)
from wakebus.adapters.inspect.credential_check import check_credential
from wakebus.adapters.platforms.matrix import (
    CODES,
    EVENT_ID,
    IDS,
    Matrix,
    lookup_path,
    next_target,
    read_answer,
    read_field,
    target_of,
)

URL = "https://matrix.example.org"
V3 = f"{URL}/_matrix/client/v3"
ENV = {"MATRIX_HOMESERVER": f"{URL}/", "MATRIX_ACCESS_TOKEN": "hush-hush"}
ROOM, PATH = "!a:b.c", "%21a%3Ab.c"
EVENT = "$Ag1nTEvfqDqhsT5bwXWTUBmN8nxHV1kNmRVyHNYcqY0"
SEND = f"{V3}/rooms/{PATH}/send/m.room.message/"
NOT_FOUND = {"errcode": "M_NOT_FOUND", "error": "Event not found."}


@pytest.fixture
def server() -> Iterator[respx.MockRouter]:
    """A server with a room that is not encrypted and takes everything."""
    with respx.mock(assert_all_called=False) as router:
        router.get(f"{V3}/rooms/{PATH}/state/m.room.encryption/", name="state").respond(
            404, json=NOT_FOUND
        )
        router.put(url__startswith=SEND, name="send").respond(json={"event_id": EVENT})
        router.get(f"{V3}/account/whoami", name="who").respond(json={"user_id": "@bot:b.c"})
        yield router


def sent(router: respx.MockRouter, place: int = -1) -> tuple[str, dict[str, Any]]:
    """Return URL and body of a request that sent an event."""
    request = router["send"].calls[place].request
    return str(request.url), json.loads(request.content)


def test_the_request(server: respx.MockRouter) -> None:
    """ADP-16.1, ADP-16.4: the room and the key in the path; a text without marks has one form."""
    result = Carrier(ENV)(f"matrix:{ROOM}", 'say "中" @room', key="0199-a")
    url, body = sent(server)
    assert (result.result, result.id) == ("sent", EVENT)
    assert url == f"{SEND}0199-a"
    assert body == {"msgtype": "m.text", "body": 'say "中" @room', "m.mentions": {}}
    assert server["send"].calls[0].request.headers["authorization"] == "Bearer hush-hush"


def test_one_format_for_all_parts(server: respx.MockRouter) -> None:
    """ADP-16.1: a message with Markdown is formatted in every part."""
    Carrier(ENV)(f"matrix:{ROOM}", "# report\n\n" + ("plain " * 200 + "\n\n") * 40)
    bodies = [sent(server, place)[1] for place in range(len(server["send"].calls))]
    assert len(bodies) > 1
    assert {body["format"] for body in bodies} == {"org.matrix.custom.html"}


def test_keys_are_safe_in_a_path() -> None:
    """ADP-16.4: whatever the key is, it is one segment of the path, and not too long."""
    adapter = Matrix(ENV)
    target = adapter.parse_target(ROOM, None)
    urls = [adapter.build_request(target, Outgoing("x", key)).url for key in ("a/../b", "k" * 200)]
    assert urls[0] == f"{SEND}a%2F..%2Fb"
    assert len(urls[1].removeprefix(SEND)) <= 100


def test_a_thread(server: respx.MockRouter) -> None:
    """ADP-16.3: the relation, and a reply for clients without threads; Hermes's writing too."""
    for channel in (f"{ROOM}?thread={EVENT}", f"{ROOM}:{EVENT}"):
        assert Carrier(ENV)(f"matrix:{channel}").result == "sent"
        assert sent(server)[1]["m.relates_to"] == {
            "rel_type": "m.thread",
            "event_id": EVENT,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": EVENT},
        }


def test_an_answer() -> None:
    """ADP-3.10, ADP-16.3: to an event of the room, in a thread too."""
    adapter = Matrix(ENV)
    for thread in (None, EVENT):
        target = adapter.parse_target(ROOM, thread)
        body = json.loads(adapter.build_request(target, Outgoing("hi", "k", "$other")).body)
        relation = body["m.relates_to"]
        assert relation.pop("m.in_reply_to") == {"event_id": "$other"}
        in_thread = {"rel_type": "m.thread", "event_id": EVENT, "is_falling_back": False}
        assert relation == (in_thread if thread else {})


def test_two_threads() -> None:
    """ADP-16.3: a chat that names two threads is refused."""
    with pytest.raises(BadTarget, match="thread"):
        Matrix(ENV).parse_target(f"{ROOM}:{EVENT}", "$other")


def test_b21_throttled(server: respx.MockRouter) -> None:
    """B21, ADP-16.8: M_LIMIT_EXCEEDED is waited for, and the same transaction goes again."""
    body = {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests", "retry_after_ms": 9457}
    answers = [httpx.Response(429, json=body), httpx.Response(200, json={"event_id": EVENT})]
    server["send"].side_effect = answers
    carrier = Carrier(ENV)
    result = carrier(f"matrix:{ROOM}")
    assert (result.result, result.retry_after, result.again) == ("not_sent", 9.457, True)
    assert carrier(f"matrix:{ROOM}").result == "sent"
    assert sent(server, 0) == sent(server, 1)


def test_a_lost_answer_of_yesterday(server: respx.MockRouter) -> None:
    """ADP-16.4: a key is trusted for 12 h of the 24 that Synapse keeps it."""
    server["send"].side_effect = httpx.ReadTimeout("x")
    carrier = Carrier(ENV)
    assert carrier(f"matrix:{ROOM}").again
    assert Matrix.capabilities.idempotent_s == 12 * 3600


def test_an_encrypted_room(server: respx.MockRouter) -> None:
    """ADP-16.5: asked once per room; an encrypted one, or none that can be asked, gets nothing."""
    carrier = Carrier(ENV)
    for key in "12":
        assert carrier(f"matrix:{ROOM}", key=key).result == "sent"
    assert len(server["state"].calls) == 1
    server["state"].respond(json={"algorithm": "m.megolm.v1.aes-sha2"})
    result = Carrier(ENV)(f"matrix:{ROOM}")
    assert result.result == "rejected" and "encrypted" in result.reason
    for status, word in ((404, "rejected"), (502, "not_sent"), (429, "not_sent")):
        server["state"].respond(status, text="<html>")
        assert Carrier(ENV)(f"matrix:{ROOM}").result == word
    assert len(server["send"].calls) == 2


def test_it_may_be_allowed(server: respx.MockRouter) -> None:
    """ADP-16.5: MATRIX_ALLOW_UNENCRYPTED asks no room."""
    env = ENV | {"MATRIX_ALLOW_UNENCRYPTED": "True"}
    assert Carrier(env)(f"matrix:{ROOM}").result == "sent"
    assert not server["state"].calls


def test_a_person(server: respx.MockRouter) -> None:
    """ADP-16.2: who we are, our direct chats, the newest that we are in: three questions."""
    direct = {"@ada:b.c": ["!old:b.c", ROOM, "!left:b.c"], "@eve:b.c": ["!eve:b.c"]}
    server.get(f"{V3}/user/%40bot%3Ab.c/account_data/m.direct", name="direct").respond(json=direct)
    server.get(f"{V3}/joined_rooms", name="joined").respond(
        json={"joined_rooms": ["!x", "!old:b.c", ROOM]}
    )
    assert Carrier(ENV)("matrix:@ada:b.c").result == "sent"
    result = Carrier(ENV)("matrix:@bob:b.c")
    assert result.result == "rejected" and "no direct chat with @bob:b.c" in result.reason
    server["joined"].respond(json={"joined_rooms": []})
    result = Carrier(ENV)("matrix:@ada:b.c")
    assert result.result == "rejected" and "left" in result.reason
    server["direct"].respond(404, json=NOT_FOUND)
    assert Carrier(ENV)("matrix:@ada:b.c").result == "rejected"


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({}, "MATRIX_HOMESERVER and MATRIX_ACCESS_TOKEN"),
        ({"MATRIX_HOMESERVER": URL}, "MATRIX_ACCESS_TOKEN"),
        ({"MATRIX_ACCESS_TOKEN": "hush-hush"}, "MATRIX_HOMESERVER"),
        (ENV | {"MATRIX_HOMESERVER": "http://hush-hush.lan:8008"}, "MATRIX_HOMESERVER.*TLS"),
        (ENV | {"MATRIX_HOMESERVER": "hush-hush.org"}, "MATRIX_HOMESERVER.*https://"),
    ],
)
def test_settings(env: dict[str, str], named: str) -> None:
    """ADP-16.6: what is missing or unsafe is named, never its value."""
    with pytest.raises(BadSetting, match=named) as caught:
        Matrix(env)
    assert "hush-hush" not in caught.value.text


@pytest.mark.parametrize("text", ["x" * 60_000, '"\\\n\t' * 4000, "<&>" * 4000, "中😀" * 4000])
def test_measure(text: str) -> None:
    """ADP-16.7: what is measured is never less than the event, with both forms and a thread."""
    adapter = Matrix(ENV)
    target = adapter.parse_target(ROOM, "$" + "e" * 254)
    for marks in ("", "# "):
        body = adapter.build_request(target, Outgoing(marks + text, "k")).body
        assert len(body) <= adapter.measure(marks + text)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("image/png", "m.image"),
        ("video/mp4", "m.video"),
        ("audio/ogg", "m.audio"),
        ("a/b", "m.file"),
    ],
)
def test_a_file(server: respx.MockRouter, kind: str, shown: str) -> None:
    """ADP-16.10: brought to the server, then shown by its name and kind."""
    upload = server.post(url__startswith=f"{URL}/_matrix/media/v3/upload?")
    upload.respond(json={"content_uri": "mxc://b.c/AQwafuaFswefuhsfAFAgsw"})
    file = File("报告 1.pdf", b"%PDF", kind)
    assert Carrier(ENV)(f"matrix:{ROOM}", "", "k", file=file).result == "sent"
    brought, body = upload.calls[0].request, sent(server)[1]
    assert brought.content == b"%PDF" and brought.headers["content-type"] == kind
    assert dict(brought.url.params) == {"filename": "报告 1.pdf"}
    assert (body["msgtype"], body["body"], body["filename"]) == (shown, file.name, file.name)
    assert body["url"] == "mxc://b.c/AQwafuaFswefuhsfAFAgsw"
    assert body["info"] == {"mimetype": kind, "size": 4}


def test_an_upload_that_gives_no_address(server: respx.MockRouter) -> None:
    """ADP-16.10: without an mxc:// address nothing is shown, and it may be tried again."""
    server.post(url__startswith=f"{URL}/_matrix/media/v3/upload?").respond(
        json={"content_uri": "https://b.c/x"}
    )
    result = Carrier(ENV)(f"matrix:{ROOM}", "", "k", file=File("a", b"x"))
    assert result.result == "not_sent" and not server["send"].calls


def test_check(server: respx.MockRouter) -> None:
    """ADP-16.9: the user's id; a token that is out of date is said to be."""
    context = Carrier(ENV).context
    assert check_credential("matrix", Matrix(ENV), context) == ("ok", "@bot:b.c")
    body = {"errcode": "M_UNKNOWN_TOKEN", "error": "Access token has expired", "soft_logout": True}
    server["who"].respond(401, json=body)
    found = check_credential("matrix", Matrix(ENV), context)
    assert found.result == "failed" and "MATRIX_ACCESS_TOKEN" in found.text


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
    assert target_of(chat, None, "room") == Target("matrix", room or chat, thread, "room")


@pytest.mark.parametrize("thread", ["", "5", "$", "$a b", "e:b", "$" + "x" * 255])
def test_a_thread_is_an_event(thread: str) -> None:
    """Anything else is refused."""
    with pytest.raises(BadTarget):
        target_of("!a:b", thread, "room")


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
    assert lookup_path(now)
    assert next_target(now, answer(200, body)) == Target("matrix", there, EVENT, then)


@pytest.mark.parametrize("room", [f"!r:s:{EVENT}", f"!r:{EVENT}", "#r:s", "@a:s", "!r s", "", None])
def test_an_alias_leads_to_a_room(room: object) -> None:
    """ADP-16.2: an answer with a thread behind the room, or with none at all, is no room."""
    with pytest.raises(Uncertain):
        next_target(Target("matrix", "#a:b", kind="alias"), answer(200, {"room_id": room}))


def test_the_last_step() -> None:
    """A room is written to when the server itself says that it has no encryption."""
    room = Target("matrix", "!r", kind="room")
    found = next_target(room, answer(404, {"errcode": "M_NOT_FOUND"}))
    assert found.kind == "open" and lookup_path(found) is None
    for bad in (answer(200, {"algorithm": "x"}), answer(200, {}), answer(404, {})):
        with pytest.raises(Rejected):
            next_target(room, bad)
    with pytest.raises(DeliveryError):
        next_target(room, Response(404, b"<html>"))


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
        found = next_target(Target("matrix", chat, kind=kind), answer(status, body))
    except DeliveryError:
        return
    assert found.chat_id and found.kind != kind
    assert 200 <= status < 300 or (kind in ("room", "pair") and status == 404)


def test_waits() -> None:
    """The body's milliseconds are finer than the header's seconds; it holds up all rooms."""
    body = b'{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":1913}'
    with pytest.raises(Throttled) as caught:
        read_answer(Response(429, body, {"Retry-After": "2"}))
    assert (caught.value.retry_after, caught.value.scope) == (1.913, "app")


def test_a_success_names_an_event() -> None:
    """B11's kind of mistake: a 200 without an event's id is none."""
    for body in ({}, {"event_id": ""}, {"event_id": 5}, {"event_id": "x"}):
        with pytest.raises(Uncertain):
            read_field(answer(200, body), "event_id", EVENT_ID)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["!", ":", "$", "[", "a", "a.", "1:", "!a:", ":$"])
def test_a_hostile_id(unit: str) -> None:
    """An id of any length is read in no time worth speaking of."""
    for start in "!#@":
        for shape in IDS.values():
            shape.fullmatch(start + unit * 100_000)


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in CODES.values() if found.kind == "rejected")
