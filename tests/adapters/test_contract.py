"""
The contract, for every installed adapter: a new one adds a file and an answers folder, no test.

`answers/<name>/card.json`: env to build it from, secrets in there, needs (variables without which
it must not be built), targets and bad_targets as [chat_id, thread]. Every other file there is a
recorded answer: status, headers, body (text, or JSON), expect (the channel result's word), and
`id` or `retry_after` where they follow from it. `status_is_success` in a card: a 2xx status is the
platform's whole criterion (a generic webhook). `token_answers` in a card: recorded answers to
`token_request`, with expect `token` (and `value`, `expires_s`) or a word. What an adapter leaves
out (ways, tokens, a measure) is not asked of it.
"""

import ast
import inspect
import json
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters import registry
from wakebus.adapters.abilities import HasToken, HasWays, KeysByWay, Measures
from wakebus.adapters.base import Adapter, Outgoing, Request, Response, Sent, Target, Token
from wakebus.adapters.calls import ways_of
from wakebus.adapters.channel import parse
from wakebus.adapters.errors import (
    BadSetting,
    BadTarget,
    DeliveryError,
    Rejected,
    Throttled,
    TokenRefused,
)
from wakebus.adapters.send import outgoing_of, result_of

ANSWERS = Path(__file__).parent / "answers"
NAMES = sorted({entry.name for entry in entry_points(group="wakebus.adapters")})
RECORDED = sorted(
    (file.parent.name, file.stem) for file in ANSWERS.glob("*/*.json") if file.stem != "card"
)
each = pytest.mark.parametrize("name", NAMES)
# What an adapter may not even import: files, clocks, sockets, logs and chance are the shell's.
IMPURE = {"os", "io", "pathlib", "time", "datetime", "socket", "ssl", "logging", "random"} | {
    "secrets", "uuid", "threading", "asyncio", "subprocess", "httpx", "requests", "zmq", "tenacity"
}  # fmt: skip


def card(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ANSWERS / name / "card.json").read_text())
    return found


def build(name: str) -> Adapter:
    return registry.load(name)(card(name)["env"])


def some_request(name: str, key: str = "k1", text: str = "probe-7f3a") -> Any:
    adapter = build(name)
    return adapter.build_request(
        adapter.parse_target(*card(name)["targets"][0]), Outgoing(text, key)
    )


@each
def test_one_class_in_one_small_file(name: str) -> None:
    """ADP-1.1: found by its entry point, one file of at most 100 lines."""
    source = inspect.getsourcefile(registry.load(name))
    assert source is not None
    assert len(Path(source).read_text().splitlines()) <= 100


@each
def test_card(name: str) -> None:
    """ADP-1.2: the card is filled in, on the class, before anything is built."""
    capabilities = registry.load(name).capabilities
    assert capabilities.max_text > 0
    assert capabilities.unit in ("characters", "utf16", "bytes")
    assert capabilities.idempotent_s >= 0


@each
def test_a_missing_setting_is_named(name: str) -> None:
    """ADP-1.3: without a setting it needs, it is not built, and the error names the variable."""
    for variable in card(name)["needs"]:
        env = {k: v for k, v in card(name)["env"].items() if k != variable}
        with pytest.raises(BadSetting, match=variable):
            registry.load(name)(env)


@each
def test_pure(name: str) -> None:
    """ADP-1.4: no IO, no clock, no chance, no retry, no log: none of their modules is imported."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(registry.load(name)) or registry))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported}.isdisjoint(IMPURE)


@each
def test_no_secret_is_shown(name: str) -> None:
    """ADP-1.5: neither the adapter's nor a request's repr holds a credential."""
    adapter = build(name)
    target = adapter.parse_target(*card(name)["targets"][0])
    shown = f"{adapter!r} {target!r} {target} {some_request(name)!r}"
    assert not [secret for secret in card(name)["secrets"] if secret in shown]


@each
def test_targets(name: str) -> None:
    """ADP-2.1, ADP-2.2: a good chat id is taken, and its token leads to the same chat again."""
    adapter = build(name)
    for chat_id, thread in card(name)["targets"]:
        target = adapter.parse_target(chat_id, thread)
        again = parse(str(target))
        assert target.platform == again.platform == name
        assert adapter.parse_target(again.chat_id or "", again.thread) == target


@each
def test_bad_targets(name: str) -> None:
    """ADP-2.1: a bad chat id is refused before any IO, and the error shows which."""
    for chat_id, thread in card(name)["bad_targets"]:
        with pytest.raises(BadTarget) as caught:
            build(name).parse_target(chat_id, thread)
        assert repr(chat_id)[:80].strip("'\"") in caught.value.text or not chat_id


@each
@given(chat_id=st.text(max_size=80), thread=st.none() | st.text(max_size=20))
def test_any_target(name: str, chat_id: str, thread: str | None) -> None:
    """ADP-2.1: any chat id is a target or refused, nothing else."""
    with suppress(Rejected):
        assert build(name).parse_target(chat_id, thread).platform == name


@each
def test_a_thread_is_never_dropped(name: str) -> None:
    """ADP-2.3: a thread on a platform without threads is refused; it would go to everybody."""
    adapter = build(name)
    if not adapter.capabilities.threads:
        with pytest.raises(BadTarget, match="thread"):
            adapter.parse_target(card(name)["targets"][0][0], "5")


@each
def test_a_request_is_a_function(name: str) -> None:
    """ADP-3.1: the same arguments give the same request, so a resend is the same."""
    assert some_request(name) == some_request(name)


@each
def test_the_key_is_in_the_request(name: str) -> None:
    """ADP-3.2: where a key makes a resend safe, two keys make two requests."""
    if build(name).capabilities.idempotent_s:
        assert some_request(name, key="k1") != some_request(name, key="k2")


@each
def test_the_text_is_in_the_request(name: str) -> None:
    """ADP-3.3: the text goes out, and one at the limit is a request like any other."""
    assert b"probe-7f3a" in some_request(name).body
    limit = registry.load(name).capabilities
    longest = "x" * limit.max_text
    assert some_request(name, text=longest).body


def targets(name: str) -> list[Target]:
    return [build(name).parse_target(*target) for target in card(name)["targets"]]


@each
@given(text=st.text(max_size=3000), times=st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_any_text(name: str, text: str, times: int) -> None:
    """ADP-3.4: whatever its measure says fits is built, by every way; more text measures more."""
    adapter, target = build(name), targets(name)[0]
    with suppress(Rejected):
        parts = outgoing_of(adapter, target, text * times, "k1")
        for part in parts:
            for way in ways_of(adapter, target, part):
                assert build_by(adapter, target, way, part.text, part.key).body
    if isinstance(adapter, Measures):
        assert 0 <= adapter.measure("") <= adapter.measure(text) <= adapter.measure(text + "x")


def build_by(
    adapter: Adapter, target: Target, way: str, text: str = "probe-7f3a", key: str = "k1"
) -> Request:
    return adapter.build_request(target, Outgoing(text, key, token="t-1", way=way, at=1.5e9))


@each
def test_ways(name: str) -> None:
    """ADP-3.5: every chat has a way; each way carries the text, and shows no credential."""
    adapter = build(name)
    for target in targets(name) if isinstance(adapter, HasWays) else []:
        found = ways_of(adapter, target, Outgoing("x", "k1"))
        assert found == ways_of(adapter, target, Outgoing("x", "k1")) == list(dict.fromkeys(found))
        for way in found:
            request = build_by(adapter, target, way)
            assert b"probe-7f3a" in request.body and request.scheme == "https"
            assert not [secret for secret in card(name)["secrets"] if secret in repr(request)]


@each
def test_the_key_by_way(name: str) -> None:
    """ADP-3.6: a way whose key makes a resend safe has it in its request, and the others none."""
    adapter = build(name)
    for target in targets(name) if isinstance(adapter, KeysByWay) else []:
        for way in ways_of(adapter, target, Outgoing("x", "k1")):
            assert isinstance(adapter, KeysByWay)
            assert 0 <= adapter.key_time(target, way) <= adapter.capabilities.idempotent_s
            differs = build_by(adapter, target, way) != build_by(adapter, target, way, key="k2")
            assert differs == (adapter.key_time(target, way) > 0)


def token_requests(name: str) -> list[Request]:
    adapter = build(name)
    assert isinstance(adapter, HasToken)
    ways = {way for chat in targets(name) for way in ways_of(adapter, chat, Outgoing("x", "k1"))}
    return [found for way in sorted(ways) if (found := adapter.token_request(way)) is not None]


@each
def test_token_requests(name: str) -> None:
    """ADP-4.6: the same each time, over https, and its repr shows no credential."""
    if not isinstance(build(name), HasToken):
        return
    assert token_requests(name) == token_requests(name) != []
    for request in token_requests(name):
        assert request.scheme == "https"
        assert not [secret for secret in card(name)["secrets"] if secret in repr(request)]


def read_token(name: str, response: Response) -> tuple[str, Any]:
    adapter = build(name)
    assert isinstance(adapter, HasToken)
    try:
        token = adapter.parse_token(response)
    except Throttled as exc:
        return result_of(exc).word, exc.retry_after
    except DeliveryError as exc:
        return result_of(exc).word, None
    assert isinstance(token, Token) and token.value and token.value not in repr(token)
    return "token", (token.value, token.expires_s)


@each
def test_token_answers(name: str) -> None:
    """ADP-4.6: each recorded answer means what it says: a token, a refusal, and what is neither."""
    if not isinstance(build(name), HasToken):
        return
    for record in card(name)["token_answers"]:
        body = record["body"] if isinstance(record["body"], str) else json.dumps(record["body"])
        response = Response(record["status"], body.encode(), record.get("headers", {}))
        more = record.get("retry_after")
        if record["expect"] == "token":
            more = record["value"], record["expires_s"]
        assert read_token(name, response) == (record["expect"], more), record
    words = {record["expect"] for record in card(name)["token_answers"]}
    assert {"token", "rejected", "not_sent"} <= words


@each
@given(status=st.sampled_from([200, 400, 403, 500]), body=st.binary(max_size=60))
@settings(max_examples=60)
def test_any_token_answer(name: str, status: int, body: bytes) -> None:
    """ADP-4.6: any answer is a token or a delivery error; garbage is never a token."""
    if isinstance(build(name), HasToken):
        assert read_token(name, Response(status, body))[0] != "token"


@each
def test_a_refused_token_is_told_apart(name: str) -> None:
    """ADP-4.7: an adapter with tokens knows the answers that say so, in a 4xx or in a 200."""
    adapter = build(name)
    if not isinstance(adapter, HasToken):
        return
    refused = 0
    for platform, file in RECORDED:
        record = json.loads((ANSWERS / platform / f"{file}.json").read_text())
        try:
            if platform == name and not isinstance(record["body"], str):
                body = json.dumps(record["body"]).encode()
                adapter.parse_response(Response(record["status"], body, record.get("headers", {})))
        except TokenRefused:
            refused += 1
        except DeliveryError:
            pass
    assert refused


def read(adapter: Adapter, response: Response) -> tuple[str, Any]:
    try:
        sent = adapter.parse_response(response)
    except Throttled as exc:
        return result_of(exc).word, exc.retry_after
    except DeliveryError as exc:
        return result_of(exc).word, None
    assert isinstance(sent, Sent) and isinstance(sent.id, str)
    return "sent", sent.id


@pytest.mark.parametrize(("name", "file"), RECORDED)
def test_recorded_answers(name: str, file: str) -> None:
    """ADP-4.1, ADP-4.4: each recorded answer means what its file says, with id and hint."""
    record = json.loads((ANSWERS / name / f"{file}.json").read_text())
    body = record["body"] if isinstance(record["body"], str) else json.dumps(record["body"])
    response = Response(record["status"], body.encode(), record.get("headers", {}))
    word, more = read(build(name), response)
    assert word == record["expect"]
    assert more == record.get("id", record.get("retry_after"))


@each
@given(
    status=st.sampled_from([0, 200, 201, 204, 302, 400, 401, 403, 404, 429, 500, 502]),
    body=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["id", "ok", "code", "error", "data"]), inner)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
@settings(max_examples=300)
def test_any_answer(name: str, status: int, body: bytes) -> None:
    """ADP-4.2: any answer is Sent or a delivery error; nothing else escapes."""
    read(build(name), Response(status, body))


@each
@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'"ok"']
)
def test_garbage_is_not_success(name: str, body: bytes) -> None:
    """ADP-4.3: a 200 that is not the platform's own answer is never `sent`."""
    if card(name).get("status_is_success"):
        pytest.skip("this platform promises nothing but a 2xx status")
    assert read(build(name), Response(200, body))[0] != "sent"


@each
def test_has_recorded_answers(name: str) -> None:
    """ADP-4.5: an answers folder with a card, a success, a rejection and a garbage answer."""
    words = {
        json.loads((ANSWERS / name / f"{file}.json").read_text())["expect"]
        for platform, file in RECORDED
        if platform == name
    }
    assert {"sent", "rejected", "uncertain"} <= words
