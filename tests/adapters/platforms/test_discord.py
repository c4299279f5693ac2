"""The platform `discord`: the shapes of its requests, and what they must never be."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import respx
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.carrier import Carrier
from wakebus.adapters.base import File, Outgoing, Response
from wakebus.adapters.errors import (
    BadSetting,
    BadTarget,
    DeliveryError,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from wakebus.adapters.platforms.discord import (
    CODES,
    Discord,
    key_and_reference,
    read_answer,
    webhook_with_thread,
)

TOKEN = "hush.hush-hush"
HOOK = "https://discord.com/api/webhooks/1/hush-hook"
ENV = {"DISCORD_BOT_TOKEN": TOKEN}
API = "https://discord.com/api/v10"
SENT = {"id": "334385199974967042", "channel_id": "5", "content": "hi"}
DOUBTS = [502, 500, 524]


@pytest.fixture
def discord() -> Iterator[respx.MockRouter]:
    """The API: messages that are taken, and a direct chat."""
    with respx.mock(assert_all_called=False) as router:
        router.post(f"{API}/users/@me/channels", name="open").respond(json={"id": "77", "type": 1})
        router.post(url__startswith=HOOK, name="hook").respond(json=SENT)
        router.post(url__regex=rf"{API}/channels/\d+/messages", name="send").respond(json=SENT)
        yield router


def sent(router: respx.MockRouter, route: str = "send") -> list[dict[str, Any]]:
    """Return the bodies at a route."""
    return [json.loads(call.request.content) for call in router[route].calls]


def test_the_request(discord: respx.MockRouter) -> None:
    """ADP-14.1: bot and agent in headers; nobody is mentioned, links show no previews."""
    result = Carrier(ENV)("discord:5", "hi 中", key="0199-a")
    request = discord["send"].calls[0].request
    assert (result.result, result.id) == ("sent", "334385199974967042")
    assert str(request.url) == f"{API}/channels/5/messages"
    assert request.headers["authorization"] == f"Bot {TOKEN}"
    assert request.headers["user-agent"].startswith("DiscordBot (")
    assert sent(discord) == [
        {
            "content": "hi 中",
            "allowed_mentions": {"parse": []},
            "flags": 4,
            "nonce": "0199-a",
            "enforce_nonce": True,
        }
    ]


@pytest.mark.parametrize("channel", ["discord:5?thread=6", "discord:5:6", "discord:6"])
def test_a_thread_is_a_channel(discord: respx.MockRouter, channel: str) -> None:
    """ADP-14.2: by `?thread=`, as Hermes writes it, or by its own id."""
    assert Carrier(ENV)(channel).result == "sent"
    assert str(discord["send"].calls[0].request.url) == f"{API}/channels/6/messages"


@pytest.mark.parametrize("chat", ["#general", "user:alice", "<#5>", "alice"])
def test_no_name(chat: str) -> None:
    """ADP-14.2: a name is no id, and the error says what is."""
    with pytest.raises(BadTarget, match="a number"):
        Discord(ENV).parse_target(chat, None)


def test_b4_a_forum(discord: respx.MockRouter) -> None:
    """B4, ADP-14.2: a forum takes no texts: refused, once, with the way to name a post."""
    body = {"message": "Cannot send messages in a non-text channel", "code": 50008}
    discord["send"].respond(400, json=body)
    result = Carrier(ENV)("discord:5")
    assert (result.result, len(discord["send"].calls)) == ("rejected", 1)
    assert "?thread=" in result.reason


def test_a_person(discord: respx.MockRouter) -> None:
    """ADP-14.3: the direct chat is opened once, and the texts go there."""
    carrier = Carrier(ENV)
    assert [carrier("discord:user:9", text).result for text in ("one", "two")] == ["sent", "sent"]
    assert sent(discord, "open") == [{"recipient_id": "9"}]
    assert {str(call.request.url) for call in discord["send"].calls} == {
        f"{API}/channels/77/messages"
    }


def test_a_person_who_takes_none(discord: respx.MockRouter) -> None:
    """ADP-14.3: refused, with Discord's code and words; a direct chat has no threads."""
    body = {"message": "Cannot send messages to this user", "code": 50007}
    discord["send"].respond(403, json=body)
    result = Carrier(ENV)("discord:user:9")
    assert result.result == "rejected" and "50007: Cannot send messages" in result.reason
    with pytest.raises(BadTarget, match="no threads"):
        Discord(ENV).parse_target("user:9", "7")


@pytest.mark.parametrize("status", DOUBTS)
def test_b4_a_doubt(discord: respx.MockRouter, status: int) -> None:
    """B4, ADP-14.4: what may have been accepted goes out again under the same nonce."""
    lost = httpx.Response(status, text="<html>cloudflare</html>")
    discord["send"].side_effect = [lost, httpx.Response(200, json=SENT)]
    assert Carrier(ENV)("discord:5", key="k" * 40).result == "sent"
    one, two = sent(discord)
    assert one["nonce"] == two["nonce"] and one["enforce_nonce"] is True
    assert len(one["nonce"]) == 25


def test_b4_parts(discord: respx.MockRouter) -> None:
    """B4, ADP-14.4: another text, another nonce."""
    result = Carrier(ENV)("discord:5", "a" * 1900 + "\n\n" + "b" * 1900, key="0199c0ffee-" * 5)
    nonces = [body["nonce"] for body in sent(discord)]
    assert result.result == "sent" and len(set(nonces)) == len(nonces) == 2


def test_b4_the_time_of_a_key(discord: respx.MockRouter) -> None:
    """B4, ADP-14.4: "the past few minutes" are two; after them nothing is sent again in doubt."""
    adapter = Discord({**ENV, "DISCORD_WEBHOOK_URL": HOOK})
    assert adapter.capabilities.idempotent_s == 120
    assert adapter.key_time(adapter.parse_target("5", None), "bot") == 120
    assert adapter.key_time(adapter.parse_target("webhook", None), "webhook") == 0


def test_a_message_that_was_deleted(discord: respx.MockRouter) -> None:
    """ADP-14.4: the nonce's message was deleted: it may have been seen, and is not sent again."""
    gone = httpx.Response(404, json={"message": "Unknown Message", "code": 10008})
    discord["send"].side_effect = [httpx.Response(502, text="<html>"), gone]
    result = Carrier(ENV)("discord:5")
    assert (result.result, len(discord["send"].calls)) == ("uncertain", 2)


def test_a_webhook(discord: respx.MockRouter) -> None:
    """ADP-14.5: waits for the message, in its thread; no nonce and no token."""
    result = Carrier({"DISCORD_WEBHOOK_URL": HOOK})("discord:webhook?thread=6", "hi")
    request = discord["hook"].calls[0].request
    assert (result.result, result.id) == ("sent", SENT["id"])
    assert str(request.url) == f"{HOOK}?wait=true&thread_id=6"
    assert "authorization" not in request.headers
    assert set(sent(discord, "hook")[0]) == {"content", "allowed_mentions", "flags"}


def test_b4_a_doubt_of_a_webhook(discord: respx.MockRouter) -> None:
    """B4, ADP-14.5: without a nonce it is not sent again."""
    discord["hook"].respond(502, text="<html>")
    result = Carrier({"DISCORD_WEBHOOK_URL": HOOK})("discord:webhook")
    assert (result.result, len(discord["hook"].calls)) == ("uncertain", 1)


def test_a_webhook_that_is_gone(discord: respx.MockRouter) -> None:
    """ADP-14.5: refused, with the variable and without the URL."""
    discord["hook"].respond(404, json={"message": "Unknown Webhook", "code": 10015})
    result = Carrier({"DISCORD_WEBHOOK_URL": HOOK})("discord:webhook")
    assert result.result == "rejected" and "DISCORD_WEBHOOK_URL" in result.reason
    assert "hush" not in result.reason


TEXTS = ["a" * 1999 + "😀" * 10, "a" * 1997 + "👨‍👩‍👧‍👦" * 5, "中" * 2500, "x" * 2000]


@pytest.mark.parametrize("text", TEXTS)
def test_b23_length(discord: respx.MockRouter, text: str) -> None:
    """B23, ADP-14.6: 2000 UTF-16 units at most, no emoji is cut, nothing is lost."""
    assert Carrier(ENV)("discord:5", text).result == "sent"
    texts = [body["content"] for body in sent(discord)]
    assert all(len(part.encode("utf-16-le")) // 2 <= 2000 for part in texts)
    assert "".join(texts) == text and not any(part.startswith("\u200d") for part in texts)


def test_b19_a_throttle_in_the_middle(discord: respx.MockRouter) -> None:
    """B19, ADP-14.7: fractions of a second count; all parts come once, in order."""
    ok = httpx.Response(200, json=SENT)
    body = {"message": "You are being rate limited.", "retry_after": 0.3, "global": False}
    discord["send"].side_effect = [ok, httpx.Response(429, json=body), ok, ok]
    carrier = Carrier(ENV)
    text = "\n\n".join(letter * 1900 for letter in "abc")
    result = carrier("discord:5", text)
    assert (result.result, result.parts, carrier.waits) == ("sent", 3, [0.3])
    assert [body["content"][0] for body in sent(discord)] == ["a", "b", "b", "c"]


@pytest.mark.parametrize(
    ("body", "headers", "scope", "wait"),
    [
        ('{"message": "x", "retry_after": 0.5, "global": false}', {}, "chat", 0.5),
        ('{"message": "x", "retry_after": 0.5, "global": true}', {}, "app", 0.5),
        ('{"message": "x", "retry_after": 2}', {"X-RateLimit-Scope": "global"}, "app", 2),
        ('{"message": "x", "retry_after": 2}', {"X-RateLimit-Scope": "shared"}, "chat", 2),
        ('{"message": "x", "retry_after": true}', {"Retry-After": "3"}, "chat", 3),
        ("<html>1015</html>", {}, "app", 600),
        ("error code: 1015", {"Retry-After": "90"}, "app", 90),
    ],
)
def test_who_waits(body: str, headers: dict[str, str], scope: str, wait: float) -> None:
    """ADP-14.7: a global limit and Cloudflare's ban hold up all, another limit its channel."""
    with pytest.raises(Throttled) as caught:
        Discord(ENV).parse_response(Response(429, body.encode(), headers))
    assert (caught.value.scope, caught.value.retry_after) == (scope, wait)


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        *((401, 0, "DISCORD_BOT_TOKEN"), (404, 10003, "not a server's"), (403, 50001, "see this")),
        *((403, 50013, "permissions"), (400, 50083, "open the thread"), (400, 200000, "AutoMod")),
    ],
)
def test_b20_what_is_refused(
    discord: respx.MockRouter, status: int, code: int, advice: str
) -> None:
    """B20, ADP-14.1: one request, Discord's code and words, and what to do."""
    discord["send"].respond(status, json={"message": "Its words", "code": code})
    result = Carrier(ENV)("discord:5")
    assert (result.result, len(discord["send"].calls)) == ("rejected", 1)
    assert f"{code or status}: Its words" in result.reason and advice in result.reason


def test_the_field_that_is_wrong() -> None:
    """ADP-14.1: an Invalid Form Body says which field."""
    wrong = {"content": {"_errors": [{"message": "Must be 2000 or fewer in length."}]}}
    body = {"message": "Invalid Form Body", "code": 50035, "errors": wrong}
    with pytest.raises(DeliveryError, match="Must be 2000 or fewer"):
        Discord(ENV).parse_response(Response(400, json.dumps(body).encode()))


@pytest.mark.parametrize("channel", ["discord:5", "discord:webhook"])
def test_a_file(discord: respx.MockRouter, channel: str) -> None:
    """ADP-14.8: one form with the message and the file, and the nonce where there is one."""
    env = {**ENV, "DISCORD_WEBHOOK_URL": HOOK}
    carrier = Carrier(env)
    file = File("a.txt", b"\x00 data", "text/plain")
    assert carrier(channel, "", "k9", file=file).result == "sent"
    request = discord["hook" if "webhook" in channel else "send"].calls[0].request
    _, _, rest = request.content.partition(b'name="payload_json"\r\n\r\n')
    payload = json.loads(rest.partition(b"\r\n")[0])
    assert payload["attachments"] == [{"id": 0, "filename": "a.txt"}]
    assert payload.get("nonce") == ("k9" if channel == "discord:5" else None)
    assert b'name="files[0]"; filename="a.txt"' in rest and b"\x00 data" in rest


@pytest.mark.parametrize("token", ["hush hush", "hush/../hush?", "hush\u4e2d"])
def test_settings(token: str) -> None:
    """ADP-14.9: a token that is none is named by its variable, never shown."""
    with pytest.raises(BadSetting, match="DISCORD_BOT_TOKEN") as caught:
        Discord({"DISCORD_BOT_TOKEN": token})
    assert "hush" not in caught.value.text


def test_what_is_not_set_up() -> None:
    """ADP-14.9: what a chat needs is named when the chat is used."""
    bot, hook = Discord(ENV), Discord({"DISCORD_WEBHOOK_URL": HOOK})
    for adapter, chat, name in ((bot, "webhook", "WEBHOOK_URL"), (hook, "5", "BOT_TOKEN")):
        with pytest.raises(BadSetting, match=f"DISCORD_{name}"):
            adapter.build_request(adapter.parse_target(chat, None), Outgoing("hi", "k"))
    with pytest.raises(BadSetting, match="DISCORD_BOT_TOKEN"):
        hook.lookup(hook.parse_target("user:9", None))


def test_a_token_with_its_scheme() -> None:
    """ADP-14.9: `Bot ` before a token is taken off."""
    adapter = Discord({"DISCORD_BOT_TOKEN": f"Bot {TOKEN}"})
    request = adapter.build_request(adapter.parse_target("5", None), Outgoing("hi", "k"))
    assert request.headers["Authorization"] == f"Bot {TOKEN}"


def test_an_answer() -> None:
    """ADP-14.1: a text that answers a message names it; it may be gone."""
    adapter = Discord(ENV)
    target = adapter.parse_target("5", None)
    body = json.loads(adapter.build_request(target, Outgoing("hi", "k", "66")).body)
    assert body["message_reference"] == {"message_id": "66", "fail_if_not_exists": False}


def test_the_check() -> None:
    """ADP-14.10: /users/@me says who the bot is; with a webhook only there is nothing to ask."""
    adapter = Discord(ENV)
    request = adapter.check_request("")
    assert request is not None
    assert (request.method, request.url) == ("GET", f"{API}/users/@me")
    body = {"id": "1", "username": "bus", "bot": True}
    assert adapter.parse_check(Response(200, json.dumps(body).encode())) == "bus (id 1)"
    assert Discord({"DISCORD_WEBHOOK_URL": HOOK}).check_request("") is None


VALUES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-1, 10_003)
    | st.floats()
    | st.sampled_from(["", "7", "07", "x", {}, []])
)


NAMES = ["id", "code", "message", "retry_after", "global", "errors", "channel_id"]


@given(
    st.sampled_from([200, 201, 204, 302, 400, 401, 429, 500]),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
)
@settings(max_examples=100)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """ADP-14.1: `sent` is a 2xx with a snowflake and no code; all else is an error of ours."""
    try:
        sent = Discord({}).parse_response(Response(status, json.dumps(body).encode()))
    except DeliveryError:
        return
    assert 200 <= status < 300 and body.get("code") is None
    assert sent.id == body["id"] == "7"


def test_errors_that_are_too_deep() -> None:
    """ADP-14.1: what can just be read and not be shown is left out."""
    deep: dict[str, Any] = {}
    body = json.dumps({"code": 50035, "message": "Invalid Form Body", "errors": deep})
    for depth in range(200, 1100, 20):
        nested = body.replace("{}", '{"a":' * depth + "1" + "}" * depth)
        with pytest.raises(DeliveryError):
            read_answer(Response(400, nested.encode()))


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        *((503, 130000, Unavailable), (403, 40333, Unavailable), (500, 0, Uncertain)),
        *((400, 1, Rejected), (401, 0, Rejected), (404, 0, Rejected)),
    ],
)
def test_codes(status: int, code: int, error: type[DeliveryError]) -> None:
    """ADP-14.1: the code decides; code 0, and one that is not listed, mean what the status says."""
    body = json.dumps({"message": "x", "code": code}).encode()
    with pytest.raises(error):
        read_answer(Response(status, body))


def test_code_0_is_not_shown() -> None:
    """ADP-14.1: it says nothing: the status stands there instead, once."""
    body = json.dumps({"message": "401: Unauthorized", "code": 0}).encode()
    with pytest.raises(Rejected, match=r"^401: Unauthorized; check DISCORD_BOT_TOKEN$"):
        read_answer(Response(401, body))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in CODES.values() if found.kind == "rejected")


@pytest.mark.parametrize(
    ("url", "thread", "shown"),
    [
        ("https://x/h", None, "https://x/h?wait=true"),
        ("https://x/h", "6", "https://x/h?wait=true&thread_id=6"),
        ("https://x/h?a=1", None, "https://x/h?a=1&wait=true"),
        ("https://x/h?thread_id=5", None, "https://x/h?thread_id=5&wait=true"),
        ("https://x/h?thread_id=5", "6", "https://x/h?thread_id=6&wait=true"),
    ],
)
def test_hook(url: str, thread: str | None, shown: str) -> None:
    """ADP-14.5: a webhook's URL may have a query of its own."""
    assert webhook_with_thread(url, thread) == shown


def test_keyed() -> None:
    """ADP-14.4: the key as it is, or a hash of 25 characters that never changes."""
    short, long = Outgoing("x", "k" * 25), Outgoing("x", "k" * 26)
    assert key_and_reference(short)["nonce"] == "k" * 25
    assert key_and_reference(long) == key_and_reference(long)
    assert len(key_and_reference(long)["nonce"]) == 25 != key_and_reference(short)["nonce"]
    assert key_and_reference(long)["enforce_nonce"] is True


@pytest.mark.parametrize("body", [b"{}", b'{"id": "1"}', b'{"id": 1, "username": "bus"}'])
def test_who_is_nobody(body: bytes) -> None:
    """ADP-14.10: an answer without our name and id is none."""
    with pytest.raises(DeliveryError):
        Discord(ENV).parse_check(Response(200, body))
