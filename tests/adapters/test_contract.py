"""
The contract, for every installed adapter: a new one adds a file and an answers folder, no test.

`answers/<name>/card.json`: env to build it from, secrets in there, needs (variables without which
it must not be built), targets and bad_targets as [chat_id, thread], not_settings (of env, what is
no variable of its own). Every other file there is a recorded answer: status, headers, body (text,
or JSON), expect (the channel result), and `id`, `retry_after`, `scope` or `moved` where they follow
from it, and `says`: what its reason has to say. `status_is_success` in a card: a 2xx status is the
platform's whole criterion (a generic webhook). `token_answers` in a card: recorded answers to
`token_request`, with expect `token` (and `value`, `expires_s`) or a result. What an adapter leaves
out (ways, tokens, a measure) is not asked of it. test_contract_abilities.py goes on with look-ups,
files and checks.
"""

import ast
import inspect
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.cards import (
    NAMES,
    RECORDED,
    build,
    build_by,
    card,
    each,
    record,
    response,
    secrets_in,
    targets,
)
from fakes.code_lines import code_lines
from wakebus.adapters import registry
from wakebus.adapters.abilities import Checks, HasToken, HasWays, KeysByWay, LooksUp, Uploads
from wakebus.adapters.base import Adapter, File, Outgoing, Request, Response, Sent, Token, length
from wakebus.adapters.channel import parse
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.deliver import parts_of
from wakebus.adapters.delivery.split import pieces
from wakebus.adapters.delivery.split_cache import SplitCache
from wakebus.adapters.errors import (
    BadSetting,
    BadTarget,
    DeliveryError,
    Moved,
    Rejected,
    Throttled,
    TokenRefused,
)
from wakebus.adapters.sanitize import plain

# What an adapter may not even import: files, clocks, sockets, logs and chance are the shell's.
IMPURE = {"os", "io", "pathlib", "time", "datetime", "socket", "ssl", "logging", "random"} | {
    "secrets", "uuid", "threading", "asyncio", "subprocess", "httpx", "requests", "zmq", "tenacity"
}  # fmt: skip


def some_request(name: str, key: str = "k1", text: str = "probe-7f3a") -> Any:
    adapter = build(name)
    return adapter.build_request(
        adapter.parse_target(*card(name)["targets"][0]), Outgoing(text, key)
    )


@each
def test_one_class_in_one_small_file(name: str) -> None:
    """ADP-1.1: found by its entry point, one file of at most 300 lines of code."""
    source = inspect.getsourcefile(registry.load(name))
    assert source is not None
    assert len(code_lines(Path(source))) <= 300


@each
def test_card(name: str) -> None:
    """ADP-1.2: the card is filled in, on the class, before anything is built."""
    capabilities = registry.load(name).capabilities
    assert capabilities.max_text > 0
    assert capabilities.unit in ("characters", "utf16", "bytes")
    assert capabilities.idempotent_s >= 0 and capabilities.max_file >= 0


@each
def test_limits(name: str) -> None:
    """ADP-1.2: a limit is a number of messages in a number of seconds, of kinds that there are."""
    kinds = {target.kind for target in targets(name)}
    for limit in registry.load(name).capabilities.limits:
        assert limit.count > 0 and 0 < limit.seconds <= 86_400
        assert limit.scope in ("chat", "app") and limit.kinds <= kinds


@each
def test_settings(name: str) -> None:
    """ADP-1.2: a card names every variable that its adapter is built from, `<NAME>` for a word."""
    capabilities = registry.load(name).capabilities
    shapes = [re.sub("<[A-Z]+>", "[A-Z0-9_]+", one) for one in capabilities.settings]
    assert len(shapes) == len(set(shapes))
    read = set(card(name)["env"]) - set(card(name).get("not_settings", []))
    assert not {one for one in read if not any(re.fullmatch(shape, one) for shape in shapes)}
    assert {one for group in capabilities.needs for one in group} <= set(capabilities.settings)


@each
def test_an_unsafe_url_is_refused(name: str) -> None:
    """ADP-1.3: a URL in a setting that texts must not go to is BadSetting with the variable."""
    adapter = registry.load(name)
    urls = [one for one in adapter.capabilities.settings if one.endswith(("_BASE", "_URL"))]
    for variable in [one for one in urls if "<" not in one]:
        for url in ("http://example.org/hush-7f3a", "https://u:hush-7f3a@x.test/", "hush-7f3a"):
            with pytest.raises(BadSetting, match=variable) as caught:
                adapter({**card(name)["env"], variable: url})
            assert "hush-7f3a" not in caught.value.text


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
    assert not secrets_in(name, shown)


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


@given(chat_id=st.text(max_size=80), thread=st.none() | st.text(max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_target(chat_id: str, thread: str | None) -> None:
    """ADP-2.1: any chat id is a target or refused, nothing else."""
    for name in NAMES:
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


# Words, Chinese, emoji of several code points, marks, mentions, and whole code blocks.
BITS = st.sampled_from(
    [
        *("word ", "中文。", "\n", "\n\n", "x" * 40, "👨‍👩‍👧‍👦", "😀"),
        *("e\u0301", '"\\', "<&>", "\ud800", "@all ", "<at id=1>", "*", "_", "# ", "- ", "`x`"),
        *("**bold** ", "[a](https://b.example) ", "| a | b |\n|---|---|\n| c | d |\n"),
        *("```py\ncode\n```\n", "~~~\ncode\n~~~\n"),
    ]
)
TEXTS = st.text(max_size=300) | st.lists(BITS, max_size=60).map("".join)


@each
@given(text=TEXTS, times=st.integers(1, 40))
@settings(max_examples=12, deadline=None)
def test_any_text(name: str, text: str, times: int) -> None:
    """ADP-3.4, ADP-5.7: the parts of any text are within the limit and join to it, by every way."""
    adapter, target = build(name), targets(name)[0]
    chat = GuardedAdapter(adapter, target)
    whole, limit, measure = plain(text * times), adapter.capabilities.max_text, chat.measure
    assert measure("") >= 0 and measure(whole) >= length(whole, adapter.capabilities.unit)
    with suppress(Rejected):
        parts = parts_of(chat, Outgoing(text * times, "k1"), SplitCache())
        assert "".join(piece.body for piece in pieces(whole, measure, limit)) == whole
        for part in parts:
            assert measure(part.text) <= limit and part.text.encode()  # no half of a code point
            for way in chat.ways(part):
                assert build_by(adapter, target, way, part.text, part.key).body


@each
@given(blocks=st.lists(st.sampled_from(["word", "```py", "~~~~"]), min_size=1, max_size=3))
@settings(max_examples=3, deadline=None)
def test_code_blocks(name: str, blocks: list[str]) -> None:
    """ADP-5.7: each part closes the code blocks that it opens, by any limit and markup."""
    chat = GuardedAdapter(build(name), targets(name)[0])
    code = "a line of code\n" * min(chat.card.max_text // 20, 5000)
    text = "".join(f"{mark}\n{code}{mark[:4].strip('wordpy')}\n" for mark in blocks)
    with suppress(Rejected):
        for part in parts_of(chat, Outgoing(text, "k1"), SplitCache()):
            fences = [line for line in part.text.splitlines() if line.startswith(("```", "~~~~"))]
            assert len(fences) % 2 == 0, fences


@each
def test_the_token_of_a_chat(name: str) -> None:
    """ADP-6.26: it leads to just this chat, so that a message can stay where it began."""
    adapter = build(name)
    for target in targets(name):
        chat = GuardedAdapter(adapter, target)
        assert chat.token == str(target)
        assert chat.at_token(str(target)) == chat


@each
def test_ways(name: str) -> None:
    """ADP-3.5: every chat has a way; each way carries the text, and shows no credential."""
    adapter = build(name)
    for target in targets(name) if isinstance(adapter, HasWays) else []:
        chat, outgoing = GuardedAdapter(adapter, target), Outgoing("x", "k1")
        found = chat.ways(outgoing)
        assert found == chat.ways(outgoing) == list(dict.fromkeys(found))
        for way in found:
            request = build_by(adapter, target, way)
            assert b"probe-7f3a" in request.body and request.scheme == "https"
            assert not secrets_in(name, repr(request))


@each
def test_the_key_by_way(name: str) -> None:
    """ADP-3.6: a way whose key makes a resend safe has it in its request, and the others none."""
    adapter = build(name)
    for target in targets(name) if isinstance(adapter, KeysByWay) else []:
        for way in GuardedAdapter(adapter, target).ways(Outgoing("x", "k1")):
            assert isinstance(adapter, KeysByWay)
            assert 0 <= adapter.key_time(target, way) <= adapter.capabilities.idempotent_s
            differs = build_by(adapter, target, way) != build_by(adapter, target, way, key="k2")
            assert differs == (adapter.key_time(target, way) > 0)


def token_requests(name: str) -> list[Request]:
    adapter = build(name)
    assert isinstance(adapter, HasToken)
    chats = [GuardedAdapter(adapter, target) for target in targets(name)]
    ways = {way for chat in chats for way in chat.ways(Outgoing("x", "k1"))}
    return [found for way in sorted(ways) if (found := adapter.token_request(way)) is not None]


@each
def test_token_requests(name: str) -> None:
    """ADP-4.6: the same each time, over https, and its repr shows no credential."""
    if not isinstance(build(name), HasToken):
        return
    assert token_requests(name) == token_requests(name) != []
    for request in token_requests(name):
        assert request.scheme == "https"
        assert not secrets_in(name, repr(request))


def read_token(name: str, response: Response) -> tuple[str, Any]:
    adapter = build(name)
    assert isinstance(adapter, HasToken)
    try:
        token = adapter.parse_token(response)
    except Throttled as exc:
        return exc.result, exc.retry_after
    except DeliveryError as exc:
        return exc.result, None
    assert isinstance(token, Token) and token.value and token.value not in repr(token)
    return "token", (token.value, token.expires_s)


@each
def test_token_answers(name: str) -> None:
    """ADP-4.6: each recorded answer means what it says: a token, a refusal, and what is neither."""
    if not isinstance(build(name), HasToken):
        return
    for one in card(name)["token_answers"]:
        more = one.get("retry_after")
        if one["expect"] == "token":
            more = one["value"], one["expires_s"]
        assert read_token(name, response(one)) == (one["expect"], more), one
    words = {one["expect"] for one in card(name)["token_answers"]}
    assert {"token", "rejected", "not_sent"} <= words


@given(status=st.sampled_from([200, 400, 403, 500]), body=st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_token_answer(status: int, body: bytes) -> None:
    """ADP-4.6: any answer is a token or a delivery error; garbage is never a token."""
    for name in [name for name in NAMES if isinstance(build(name), HasToken)]:
        assert read_token(name, Response(status, body))[0] != "token", name


@each
def test_a_refused_token_is_told_apart(name: str) -> None:
    """ADP-4.7: an adapter with tokens knows the answers that say so, in a 4xx or in a 200."""
    adapter = build(name)
    if not isinstance(adapter, HasToken):
        return
    refused = 0
    for platform, file in RECORDED:
        try:
            if platform == name:
                adapter.parse_response(response(record(name, file)))
        except TokenRefused:
            refused += 1
        except DeliveryError:
            pass
    assert refused


def read(adapter: Adapter, response: Response) -> tuple[str, dict[str, Any]]:
    """Return the channel result's word and what else an answer says."""
    try:
        sent = adapter.parse_response(response)
    except DeliveryError as exc:
        more: dict[str, Any] = {"text": exc.text}
        if isinstance(exc, Throttled):
            assert exc.scope in ("chat", "app")
            more |= {"retry_after": exc.retry_after, "scope": exc.scope}
        if isinstance(exc, Moved):
            with suppress(BadTarget):  # what the platform wrote there is checked as any chat id
                assert adapter.parse_target(exc.chat_id, None)
            more |= {"moved": exc.chat_id}
        return exc.result, more
    assert isinstance(sent, Sent) and isinstance(sent.id, str)
    return "sent", {"id": sent.id}


@pytest.mark.parametrize(("name", "file"), RECORDED)
def test_recorded_answers(name: str, file: str) -> None:
    """ADP-4.1, ADP-4.4, ADP-4.7 to ADP-4.10: each recorded answer means what its file says."""
    found = record(name, file)
    word, more = read(build(name), response(found))
    assert word == found["expect"]
    assert (more.get("id"), more.get("retry_after")) == (found.get("id"), found.get("retry_after"))
    assert "moved" not in found or more.get("moved") == found["moved"]
    assert found.get("says", "") in more.get("text", "")
    assert "scope" not in found or more.get("scope") == found["scope"]


ALIKE = {"ok": True, "code": 0, "errcode": 0, "errmsg": "ok", "ret": 0, "id": "1" * 26}
BODIES = [b"", b"<html>", b"ok", b"moved_permanently", b"{}", b"[]", json.dumps(ALIKE).encode()]


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 399, 413, 414, 431])
@each
def test_b1_redirects_and_sizes(name: str, status: int) -> None:
    """ADP-4.9: on the way nothing was taken; where it leads is said, and no credential of it."""
    if some_request(name).scheme != "https":
        pytest.skip("no HTTP")
    adapter, file = build(name), File("a.txt", b"x")
    parsers: list[Callable[[Response], object]] = [adapter.parse_response]
    parsers += [adapter.parse_token] if isinstance(adapter, HasToken) else []
    parsers += [adapter.parse_check] if isinstance(adapter, Checks) else []
    if isinstance(adapter, Uploads):
        parsers += [partial(adapter.parse_upload, replace(file, url=url)) for url in ("", "u")]
    if isinstance(adapter, LooksUp):
        parsers += [partial(adapter.parse_lookup, one) for one in targets(name)]
    secret = card(name)["secrets"][0]
    there = {"location": f"https://u:{secret}@login.example/hooks/{secret}?token={secret}"}
    bodies = BODIES if status < 400 else BODIES[:2]  # a platform's own 413 has words of its own
    for parser, body in product(parsers, bodies):
        with pytest.raises(Rejected) as caught:
            parser(Response(status, body, there))
        shown = "limit" if status > 399 else "https://login.example/hooks/***"
        assert shown in caught.value.text and secret not in caught.value.text


WORDS = st.sampled_from(["id", "ok", "code", "errcode", "error", "data", "retry_after"])


@given(
    status=st.sampled_from([0, 200, 201, 204, 302, 400, 401, 403, 404, 429, 500, 502]),
    body=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
@settings(max_examples=100, deadline=None)
def test_any_answer(status: int, body: bytes) -> None:
    """ADP-4.2: any answer is Sent or a delivery error; nothing else escapes."""
    for name in NAMES:
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
    words = {record(name, file)["expect"] for platform, file in RECORDED if platform == name}
    assert {"sent", "rejected", "uncertain"} <= words
