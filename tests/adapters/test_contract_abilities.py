"""
The contract of what an adapter may be able to do: look-ups, files, checks. See test_contract.py.

In a card, all optional, each answer with status, headers, body: `lookup_answers`, with target as
[chat_id, thread], and expect a result or `target` (and `chat_id`); `upload_answers`, with the file
so far (`ref`, `url`), and expect a result or `file` (and `then`, its `ref`); `check_answers`, with
expect a result or `ok` (and `text`). `check_posts`: URLs of checks that only read, but by POST.
"""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.cards import NAMES, build, card, each, response, secrets_in, targets
from wakebus.adapters import registry
from wakebus.adapters.abilities import Checks, HasToken, KeysByWay, LooksUp, Uploads
from wakebus.adapters.base import Adapter, File, Outgoing, Request, Response, Target
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.errors import DeliveryError, Rejected, Uncertain
from wakebus.adapters.inspect.dry_run import dry_run

FILE = File("报 a.txt", b"bytes-7f3a" * 3, "text/plain")
ANYTHING = {
    "status": st.sampled_from([200, 201, 302, 400, 403, 404, 429, 500]),
    "body": st.binary(max_size=40)
    | st.sampled_from([b"{}", b"[]", b"null", b'{"ok":true}', b'{"ok":true,"channel":7}'])
    | st.sampled_from([b'{"id":{}}', b'{"room_id":7}', b'{"file_infos":[]}', b"[" * 9999]),
}


# --- look-ups ------------------------------------------------------------------------------


@each
def test_look_ups(name: str) -> None:
    """ADP-3.7: the same request for the same target, over https, and its repr shows no secret."""
    adapter = build(name)
    for target in targets(name) if isinstance(adapter, LooksUp) else []:
        assert isinstance(adapter, LooksUp)
        request = adapter.lookup(target)
        assert request == adapter.lookup(target)
        if request is not None:
            assert request.scheme == "https" and not secrets_in(name, repr(request))


@each
def test_who_looks_up_has_a_chat_that_needs_it(name: str) -> None:
    """ADP-3.7: the card has one, so that the other tests mean something."""
    adapter = build(name)
    assert not isinstance(adapter, LooksUp) or any(adapter.lookup(one) for one in targets(name))


def looked_up(adapter: LooksUp, target: Target, answer: Response) -> tuple[str, str | None]:
    try:
        found = adapter.parse_lookup(target, answer)
    except DeliveryError as exc:
        return exc.result, None
    assert isinstance(found, Target) and found.platform == target.platform and found.chat_id
    assert found.thread == target.thread and found != target
    return "target", found.chat_id


@each
def test_look_up_answers(name: str) -> None:
    """ADP-3.7, ADP-6.26: each recorded answer means what it says; its chat can be remembered."""
    adapter = build(name)
    for one in card(name).get("lookup_answers", []):
        target = adapter.parse_target(*one["target"])
        assert isinstance(adapter, LooksUp)
        found = looked_up(adapter, target, response(one))
        assert found == (one["expect"], one.get("chat_id")), one
        if found[0] == "target":
            there = adapter.parse_lookup(target, response(one))
            assert adapter.lookup(there) or GuardedAdapter(build(name), there).token == str(there)


@given(**ANYTHING)
@settings(max_examples=60, deadline=None)
def test_any_look_up_answer(status: int, body: bytes) -> None:
    """ADP-3.7: any answer is a target nearer to the chat, or a delivery error."""
    for name in NAMES:
        adapter = build(name)
        for target in targets(name) if isinstance(adapter, LooksUp) else []:
            assert isinstance(adapter, LooksUp)
            if adapter.lookup(target):
                looked_up(adapter, target, Response(status, body))


# --- replies -------------------------------------------------------------------------------


@each
def test_replies(name: str) -> None:
    """ADP-3.10: any id gives a request; one that is not the platform's gives the one without."""
    adapter = build(name)
    for target in targets(name):
        try:
            way = GuardedAdapter(adapter, target).ways(Outgoing("x", "k1"))[0]
            bare = Outgoing("x", "k1", token="t-1", way=way, at=1.5e9)
            request = adapter.build_request(target, bare)
        except DeliveryError:
            continue
        for id in ("7", "om_1", "$e:x", "1.5", "9" * 200):
            assert (
                adapter.build_request(target, replace(bare, reply_to=id)).scheme == request.scheme
            )
        assert adapter.build_request(target, replace(bare, reply_to="no/id at all")) == request


# --- files ---------------------------------------------------------------------------------


def with_file(adapter: Adapter, target: Target, file: File = FILE, key: str = "k1") -> Outgoing:
    chat = GuardedAdapter(adapter, target)
    way = chat.ways(Outgoing("", key, file=file))[0]
    token = "t-1" if chat.token_request(way) else ""
    return Outgoing("", key, token=token, way=way, at=1.5e9, file=file)


def takers(name: str) -> list[Target]:
    """Return the chats of a card that take a file."""
    found = []
    for target in targets(name) if build(name).capabilities.max_file else []:
        try:
            first_of(name, target)
        except Rejected:
            continue
        found.append(target)
    return found


def first_of(name: str, target: Target, **more: Any) -> Request:
    """Return the first request by which a file goes to a chat."""
    adapter = build(name)
    outgoing = with_file(adapter, target, **more)
    upload = adapter.upload(target, outgoing) if isinstance(adapter, Uploads) else None
    return upload or adapter.build_request(target, outgoing)


@each
def test_files(name: str) -> None:
    """ADP-3.8: a platform that takes files has a chat for them; the requests are a function."""
    assert bool(takers(name)) == bool(registry.load(name).capabilities.max_file)
    for target in takers(name):
        request = first_of(name, target)
        assert request == first_of(name, target) and request.scheme == "https"
        assert not secrets_in(name, repr(request))


@each
def test_a_file_goes_out_whole(name: str) -> None:
    """ADP-3.8: in the request that shows it, or in one of an upload's."""
    adapter = build(name)
    for target in takers(name):
        outgoing = with_file(adapter, target)
        if not isinstance(adapter, Uploads):
            assert FILE.data in adapter.build_request(target, outgoing).body
            continue
        asked = [FILE, replace(FILE, url="https://x.test/up"), replace(FILE, ref="r-1")]
        steps = [adapter.upload(target, replace(outgoing, file=file)) for file in asked]
        assert any(FILE.data in step.body for step in steps if step)


def brought(name: str, target: Target, key: str = "k1") -> Request:
    """Return the request that shows a file which is there."""
    adapter = build(name)
    file = replace(FILE, ref="ref-7f3a", url="https://x.test/up", stored=True)
    outgoing = with_file(adapter, target, file, key)
    assert not isinstance(adapter, Uploads) or adapter.upload(target, outgoing) is None
    return adapter.build_request(target, outgoing)


@each
def test_what_shows_a_file(name: str) -> None:
    """ADP-3.8, ADP-3.2: a function; with the key where that makes a resend safe."""
    adapter = build(name)
    for target in takers(name):
        request = brought(name, target)
        assert request == brought(name, target)
        if isinstance(adapter, Uploads):
            assert b"ref-7f3a" in request.body + request.url.encode()
            assert FILE.data not in request.body
        way = GuardedAdapter(adapter, target).ways(Outgoing("", "k1"))[0]
        keyed = isinstance(adapter, KeysByWay) and adapter.key_time(target, way) > 0
        if keyed or (not isinstance(adapter, KeysByWay) and adapter.capabilities.idempotent_s):
            assert request != brought(name, target, key="k2")


def uploaded(adapter: Uploads, file: File, answer: Response) -> tuple[str, str | None]:
    try:
        found = adapter.parse_upload(file, answer)
    except DeliveryError as exc:
        return exc.result, None
    assert isinstance(found, File) and found != file
    assert (found.name, found.data) == (file.name, file.data)
    return "file", found.ref


@each
def test_upload_answers(name: str) -> None:
    """ADP-3.8: each recorded answer means what it says."""
    adapter = build(name)
    for one in card(name).get("upload_answers", []):
        assert isinstance(adapter, Uploads)
        file = replace(FILE, ref=one.get("ref", ""), url=one.get("url", ""))
        word, ref = uploaded(adapter, file, response(one))
        assert (word, ref if "then" in one else None) == (one["expect"], one.get("then")), one


@given(**ANYTHING)
@settings(max_examples=60, deadline=None)
def test_any_upload_answer(status: int, body: bytes) -> None:
    """ADP-3.8: any answer is the file one step further, or a delivery error."""
    for name in NAMES:
        adapter = build(name)
        for file in (FILE, replace(FILE, ref="r", url="https://x.test/up")):
            if isinstance(adapter, Uploads):
                uploaded(adapter, file, Response(status, body))


@each
def test_a_preview_of_a_file(name: str) -> None:
    """ADP-5.19: every chat that takes one, without its bytes and without a secret."""
    adapter, env = build(name), card(name)["env"]
    for target in takers(name):
        chat, message = GuardedAdapter(adapter, target), Outgoing("look", "k1", file=FILE)
        shown = json.dumps(dry_run(chat, message, 1.5e9, env))
        assert "30 bytes of" in shown and '"error"' not in shown
        assert "bytes-7f3a" not in shown and not secrets_in(name, shown)


# --- checks --------------------------------------------------------------------------------


@each
def test_checks(name: str) -> None:
    """ADP-3.9: a GET, or a read that the card names; a function; without one, a token says it."""
    adapter = build(name)
    if not isinstance(adapter, Checks):
        return
    request = adapter.check_request("t-1")
    assert request == adapter.check_request("t-1")
    if request is None:
        assert isinstance(adapter, HasToken) and adapter.token_request(adapter.check_way)
        return
    assert request.method == "GET" or request.url in card(name).get("check_posts", [])
    assert request.scheme == "https" and not secrets_in(name, repr(request))


def checked(adapter: Checks, answer: Response) -> tuple[str, str | None]:
    try:
        found = adapter.parse_check(answer)
    except DeliveryError as exc:
        return exc.result, None
    assert isinstance(found, str)
    return "ok", found


@each
def test_check_answers(name: str) -> None:
    """ADP-3.9: each recorded answer means what it says."""
    adapter = build(name)
    for one in card(name).get("check_answers", []):
        assert isinstance(adapter, Checks)
        assert checked(adapter, response(one)) == (one["expect"], one.get("text")), one


@given(**ANYTHING)
@settings(max_examples=60, deadline=None)
def test_any_check_answer(status: int, body: bytes) -> None:
    """ADP-3.9: any answer says who we are, or is a delivery error; an error never says `ok`."""
    for name in NAMES:
        adapter = build(name)
        if isinstance(adapter, Checks):
            word, _ = checked(adapter, Response(status, body))
            assert word != "ok" or status < 300, name


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b"null", b"[]", b"\xff\xfe"])
@each
def test_garbage_is_no_check(name: str, body: bytes) -> None:
    """ADP-3.9: what is not the platform's own answer is never `ok`."""
    adapter = build(name)
    if isinstance(adapter, Checks) and adapter.check_request("t-1") is not None:
        assert checked(adapter, Response(200, body))[0] != "ok"


def test_doubts_are_words_here() -> None:
    """A doubt beside a message is Unavailable in the shell only (ask_platform)."""
    assert Uncertain("x").result == "uncertain"
