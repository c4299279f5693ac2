"""PROTOCOL.md section 3: every field of every verb, of every wrong type, against a real broker."""

import secrets
import time
from typing import Any, Final

import pytest

from fakes.broker import Broker
from fakes.peer import MakePeer, Peer, reference
from wakebus.broker.errors import from_wire
from wakebus.broker.verbs import VERBS

JSON: Final[dict[str, list[Any]]] = {
    "null": [None],
    "flag": [True],
    "number": [-1, 1.5, 2**53, 1e308],
    "text": ["", "x y", "\0", "x" * 5000],
    "list": [[], [None], [1, 2, 3], [[1], [2]], ["x", 2], [1, 2, 3, 4]],
    "object": [{}, {"a": [1]}],
}
# The types that are right, or are not looked at; `null` is a field that was left out.
FLAG: Final = tuple(JSON)  # only true counts; all else is false, and no error
DELIVERY: Final = {"to": ("text",), "id": ("text",), "epoch": ("number",)}
FIELDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "hello": {"min": ("number",), "max": ("number",), "instance": (), "cancel": FLAG},
    "register": {
        "name": (),
        "takeover": FLAG,
        "suffix": FLAG,
        "ephemeral": FLAG,
        "holding": ("list",),
    },
    "unregister": {"name": ()},
    "beat": {"missed": ("number",)},
    "send": {"message": (), "queue": FLAG, "asks": FLAG, "outside_turn": FLAG, "token": ("null",)},
    "wait": {"id": ("text",), "state": (), "timeout": ("number",), "token": ("text",)},
    "got": {
        **DELIVERY,
        "more": FLAG,
        "behind": ("text",),
        "why": ("null", "text"),
        "for_s": ("number",),
    },
    "started": {
        **DELIVERY,
        "token": ("null", "text"),
        "hops": ("number",),
        "path": ("list",),
    },
    "handled": {**DELIVERY, "outcome": ("null", "object")},
    "refused": {
        **DELIVERY,
        "outcome": ("null", "object"),
        "reason": ("null", "text"),
        "notice": FLAG,  # of which only false counts
    },
    "later": {
        **DELIVERY,
        "after_s": ("number",),
        "reason": ("null", "text"),
        "failed": ("null", "text"),
        "failures": ("number",),
        "work": ("text",),
    },
    "list": {},
    "declare": {"name": ()},
    "forget": {"name": ()},
    "trace": {"id": ("text",)},
    "read": {"id": ("text",)},
    "status": {},
    "dead": {
        "to": ("null",),
        "from": ("null",),
        "before": ("null", "number"),
        "oldest": FLAG,
        "after": ("null",),
        "limit": (),
    },
    "retry": {"ids": (), "force": FLAG, "by": ("null",)},
    "purge": {"ids": ()},
    "inbox": {"name": (), "all": FLAG, "after": ("null", "list"), "limit": ()},
    "cancel": {"id": ("text",), "by": ("null",)},
    "reply": {"message": (), "by": ("null",)},
    "resume": {"name": ("null",), "from": ("null",), "to": ("null",)},
    "publish": {"topic": (), "event": ("object",), "pub": (), "n": ("number",)},
    "probe": {"instance": ()},
    "stop": {"boot": ()},
}
MESSAGE: Final[dict[str, tuple[str, ...]]] = {
    "id": (),
    "ts": ("number",),
    "from": (),
    "to": (),
    "body": ("object",),
    "session": ("null", "text"),
    "wake": ("null",),
    "reply_to": ("null",),
    "cause": ("null",),
    "hops": ("number",),
    "path": ("list",),
    "ttl_s": ("number",),
    "key": ("null", "text"),
}
# A list of three is a cursor of `inbox`, and the cursor of `dead` has two.
ONE_MORE: Final[dict[tuple[str, str], list[Any]]] = {
    ("dead", "after"): [[1, 2, 3], [1, "2"], [True, 1], [2**60, 1]],
    ("inbox", "after"): [[], [1, 2], [0, -1, None], [1, 2, 3, 4]],
    ("register", "holding"): [[{"id": 5}], [None]],
    ("retry", "ids"): [[5], ["x" * 65], [["a"]]],
    ("purge", "ids"): [[5], ["x" * 65], [["a"]]],
    ("started", "path"): [[5], [None], [["a"]]],
    ("send", "message"): [[{"id": "a"}]],
}
OTHERS_WORDS: Final = ("sqlite", "bindings", "binding", "datatype", "constraint", "not stored")
# `not_registered` and `bad_token` say what is not there; of a message its own field is named.
ANSWER: Final = {
    "id": "fields-answer",
    "ts": 1.0,
    "from": "fields",
    "to": "tester",
    "reply_to": "fields-question",
    "body": {"type": "answer", "text": "x"},
}
UNNAMED: Final = {
    ("unregister", "name"),
    ("send", "token"),
    ("send", "message"),
    ("reply", "message"),
}


@pytest.fixture(scope="module")
def holder(shared_broker: Broker) -> Any:
    """A registered peer."""
    peer = Peer(shared_broker.address)
    peer.register("fields")
    yield peer
    peer.close()


def right(peer: Peer, verb: str, name: str = "fields") -> dict[str, Any]:
    """Return a payload of `verb` that would be taken."""
    id = secrets.token_hex(8)
    if "epoch" in FIELDS[verb]:
        peer.send(name, sender=name, id=id, session=id)
        return {**reference(peer.take()), **({"after_s": 0} if verb == "later" else {})}
    message = {"id": id, "ts": 1.0, "from": name, "to": name, "body": {"text": "hi"}}
    known: dict[str, dict[str, Any]] = {
        "hello": {"min": 1, "max": 1, "instance": peer.instance},
        "send": {"message": message},
        "wait": {"id": id, "state": "handled", "timeout": 0},
        "publish": {"topic": "a.b", "event": {}, "pub": "0" * 16, "n": 1},
        "probe": {"instance": "0" * 16},
        "retry": {"ids": [id]},
        "purge": {"ids": [id]},
        "cancel": {"id": id},
        "reply": {"message": ANSWER},
    }
    return known.get(verb, {"name": name} if "name" in FIELDS[verb] else {})


def answered(peer: Peer, verb: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return `ok` or `err`, and what it says."""
    number = peer.request(verb, payload)
    while number not in peer._answers:
        peer._read(time.monotonic() + 15)
    return peer._answers.pop(number)


def check(peer: Peer, verb: str, field: str, payload: dict[str, Any], *, named: bool) -> None:
    """Assert that this is answered with an error of the protocol that names the field."""
    word, answer = answered(peer, verb, payload)
    assert word == "err", (verb, payload, answer)
    assert from_wire(answer).code == answer["code"] not in ("error", "unavailable"), answer
    text = answer["text"].lower()
    assert not any(words in text for words in OTHERS_WORDS), answer
    assert not named or field in text, (verb, field, answer)


def test_the_table_has_every_verb() -> None:
    """PROTOCOL-3.2: a new verb has its row here."""
    assert FIELDS.keys() == VERBS.keys()


CASES: Final = [(verb, field) for verb, fields in FIELDS.items() for field in fields]


@pytest.mark.parametrize(("verb", "field"), CASES)
def test_a_field_of_a_wrong_type_is_named(
    shared_broker: Broker, holder: Peer, verb: str, field: str
) -> None:
    """PROTOCOL-3.2, PROTOCOL-10.7: by an error of the protocol, and never in SQLite's words."""
    wrong = [
        value
        for kind, values in JSON.items()
        if kind not in FIELDS[verb][field]
        for value in values
    ]
    payload = right(holder, verb)
    for value in wrong + ONE_MORE.get((verb, field), []):
        named = (verb, field) not in UNNAMED
        check(holder, verb, field, {**payload, field: value}, named=named)
    if "epoch" in FIELDS[verb]:  # the delivery is still there, and in order
        holder.ask("handled", **{name: payload[name] for name in ("to", "id", "epoch")})
    assert shared_broker.alive and "Traceback" not in shared_broker.log


FLAGS: Final = [(verb, field) for verb, field in CASES if FIELDS[verb][field] == FLAG]


@pytest.mark.parametrize(("verb", "field"), FLAGS)
def test_only_true_is_true(
    shared_broker: Broker, peers: MakePeer, name: str, verb: str, field: str
) -> None:
    """PROTOCOL-3.2: what is true or false by another type is false, and makes no fault."""
    peer = peers(shared_broker)
    peer.register(name)
    for value in (value for values in JSON.values() for value in values):
        _, answer = answered(peer, verb, {**right(peer, verb, name), field: value})
        assert answer.get("code") not in ("error", "unavailable"), answer
    assert shared_broker.alive and "Traceback" not in shared_broker.log


@pytest.mark.parametrize("field", MESSAGE)
def test_a_field_of_a_message_of_a_wrong_type_is_named(
    shared_broker: Broker, holder: Peer, field: str
) -> None:
    """PROTOCOL-4.2, PROTOCOL-3.2: those of `send`, too."""
    message = right(holder, "send")["message"]
    for kind, values in JSON.items():
        for value in values if kind not in MESSAGE[field] else []:
            check(holder, "send", field, {"message": {**message, field: value}}, named=True)
    assert shared_broker.alive and "Traceback" not in shared_broker.log
