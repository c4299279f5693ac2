"""Parts, ways, tokens, doubts."""

import json
import math
from dataclasses import replace
from typing import ClassVar

import pytest

from fakes.probe import (
    OK,
    Broken,
    Finder,
    Host,
    Keyed,
    Probe,
    Tokened,
    Uploader,
    Ways,
    Wire,
    raises,
)
from wakebus.adapters.base import Capabilities, File, Outgoing, Part, Request, Response, Target
from wakebus.adapters.delivery.context import MemoryRecord
from wakebus.adapters.delivery.parts import recorded
from wakebus.adapters.errors import (
    DeliveryError,
    Rejected,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
    WayClosed,
)

LONG = "one two three four five six seven eight nine ten"
LOST = Uncertain("the answer is missing")


# --- parts ---------------------------------------------------------------------------------


def test_a_long_text_goes_in_parts() -> None:
    """ADP-5.8: in order, each with the message's key and its number; the id is the first's."""
    host = Host(*(Response(200, f"m{number}".encode()) for number in (1, 2, 3)))
    result = host.send(Probe(), LONG)
    assert "".join(host.wire.of("text")) == LONG
    assert host.wire.of("key") == ["k.1", "k.2", "k.3"]
    assert (result.result, result.id, result.done, result.parts) == ("sent", "m1", 3, 3)
    assert host.parts() == {0: ("sent", "m1"), 1: ("sent", "m2"), 2: ("sent", "m3")}


def test_one_part_has_the_messages_key() -> None:
    """ADP-5.8: as in step 1, so that what was sent then is known now."""
    host = Host()
    assert (host.send(Probe()).parts, host.wire.of("key")) == (1, ["k"])


def test_the_next_delivery_goes_on_where_the_last_ended() -> None:
    """ADP-5.9: parts that are sent are not sent again; the reason says which part failed."""
    host = Host(OK, Rejected("no"), OK)
    result = host.send(Probe(), LONG)
    assert (result.result, result.done, result.parts) == ("rejected", 1, 3)
    assert result.reason == "part 2: no"
    assert host.send(Probe(), LONG).result == "sent"
    assert host.wire.of("key") == ["k.1", "k.2", "k.2", "k.3"]


def test_begun_before_and_ended_after() -> None:
    """ADP-5.9: the record says `begun` while the request runs."""
    seen: list[object] = []

    def look(request: object) -> Response:
        seen.append(host.record.parts())
        return OK

    host = Host(look)
    assert host.send(Probe()).result == "sent"
    assert seen == [{0: Part("begun", first=1_000_000.0)}]


@pytest.mark.parametrize("what", ["parts", "begin_part"])
def test_no_record_no_request(what: str) -> None:
    """ADP-5.9: what cannot be remembered is not begun; the error's own text is not shown."""
    host = Host()
    result = host.send(Probe(), record=Broken(what))
    assert (result.result, host.wire.seen) == ("not_sent", [])
    assert "record" in result.reason and "hush" not in result.reason


def test_a_record_that_fails() -> None:
    """ADP-5.9: a record that fails stops what would have begun."""
    with pytest.raises(Unavailable, match="record"):
        recorded(raises(OSError("hush")))
    with pytest.raises(Rejected):
        recorded(raises(Rejected("no")))


def test_an_end_that_cannot_be_noted(caplog: pytest.LogCaptureFixture) -> None:
    """ADP-5.9: what the platform said counts all the same, and the log says so."""
    assert Host().send(Probe(), record=Broken("end_part")).result == "sent"
    assert "cannot be noted" in caplog.text and "hush" not in caplog.text


def test_a_stop_between_parts() -> None:
    """ADP-5.9: a host that stops begins no further part; the rest is `not_sent`."""
    host = Host()
    host.stops_after = 0
    result = host.send(Probe(), LONG)
    assert (result.result, result.done, len(host.wire.seen)) == ("not_sent", 1, 1)


# --- doubts --------------------------------------------------------------------------------


def test_uncertain_without_a_key_is_not_resent() -> None:
    """ADP-5.10: B1: one request, and nothing after it, now or by a later delivery."""
    host = Host(OK, LOST)
    result = host.send(Probe(), LONG)
    assert (result.result, result.again, result.done) == ("uncertain", False, 1)
    assert len(host.wire.seen) == 2
    result = host.send(Probe(), LONG)
    assert (result.result, result.again, len(host.wire.seen)) == ("uncertain", False, 2)
    assert "not sent again" in result.reason


def test_uncertain_with_a_key_is_resent_once_here() -> None:
    """ADP-5.10: B3: once within a delivery, under the same key."""
    host = Host(LOST, OK)
    assert host.send(Keyed()).result == "sent"
    assert host.wire.of("key") == ["k", "k"]
    host = Host(LOST)
    result = host.send(Keyed())
    assert (result.result, result.again, len(host.wire.seen)) == ("uncertain", True, 2)


@pytest.mark.parametrize(
    ("age", "requests"), [(0, 1), (99, 1), (100, 0), (3600, 0), (-50, 1), (-3600, 0)]
)
def test_the_keys_time_counts_from_the_first_try(age: float, requests: int) -> None:
    """ADP-5.10: begun by an earlier delivery: again while the key is good, never later."""
    host = Host()
    host.left(0, host.time - age)
    result = host.send(Keyed())
    assert len(host.wire.seen) == requests
    assert result.result == ("sent" if requests else "uncertain")
    assert not result.again


def test_no_token_for_what_is_not_resent() -> None:
    """ADP-5.10: a doubt that nothing settles asks nobody for a token."""
    host = Host()
    host.left(0, host.time - 3600)
    assert host.send(Tokened()).result == "uncertain"
    assert host.performers["token"].seen == []


def test_a_key_that_ends_between_tries() -> None:
    """ADP-5.10: the time is looked at before every request."""

    def slow(request: object) -> Response:
        host.time += 100
        raise LOST

    host = Host(slow)
    result = host.send(Keyed())
    assert (result.result, result.again, len(host.wire.seen)) == ("uncertain", False, 1)


class SlowUploader(Uploader):
    """A key that is good for less time than an upload takes (Mattermost: 25 s)."""

    capabilities: ClassVar = Capabilities(max_text=20, idempotent_s=25, max_file=100)


def test_a_key_that_ends_during_an_upload() -> None:
    """ADP-5.10: the time is looked at last before the request, not before what it needs."""

    def slow(request: Request) -> Response:
        host.time += 20
        return Response(200, b"p1")

    host = Host()
    host.up.script = [slow]
    host.left(0, host.time - 1)
    result = host.send(SlowUploader(), "", file=File("a.txt", b"hello"))
    assert (result.result, result.again, len(host.up.seen)) == ("uncertain", False, 2)
    assert host.wire.seen == []
    assert "not sent again" in result.reason


@pytest.mark.parametrize(
    ("later", "again"),
    [
        (Throttled("slow", retry_after=60), True),
        (Unavailable("down"), True),
        (Rejected("no"), False),
    ],
)
def test_a_doubt_stays(later: DeliveryError, again: bool) -> None:
    """ADP-5.10: what a resend is told says nothing about the try before it."""
    host = Host(LOST, later)
    result = host.send(Keyed())
    assert (result.result, result.again) == ("uncertain", again)
    assert "an earlier try may have been accepted" in result.reason and later.text in result.reason
    assert host.parts() == {0: ("begun", "")}
    if isinstance(later, Throttled):
        assert result.retry_after == 60


def test_a_certain_failure_leaves_no_doubt() -> None:
    """ADP-5.10: refused, then lost: the key's time counts from the try that was lost."""
    host = Host(Unavailable("down"), LOST, OK)
    assert host.send(Keyed()).result == "sent"
    host = Host(Rejected("no"))
    host.send(Keyed())
    assert host.parts() == {}


# --- replies -------------------------------------------------------------------------------


class Replying(Probe):
    """Shows a reply to a number."""

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        request, reply = super().build_request(target, outgoing), outgoing.reply_to or ""
        shown = {**json.loads(request.body), "reply": reply if reply.isdigit() else ""}
        return replace(request, body=json.dumps(shown).encode())


def test_a_reply() -> None:
    """ADP-3.10, ADP-6.25: the first part answers, and nothing is said of it."""
    host = Host()
    result = host.send(Replying(), LONG, reply_to="55")
    assert (host.wire.of("reply"), result.reason) == (["55", "", ""], "")


@pytest.mark.parametrize(("adapter", "id"), [(Probe(), "55"), (Replying(), "om_1")])
def test_a_reply_that_cannot_be_shown(adapter: Probe, id: str) -> None:
    """ADP-3.10, ADP-6.25: the text matters: it is sent without, and the result says so once."""
    host = Host()
    result = host.send(adapter, LONG, reply_to=id)
    assert (result.result, result.done) == ("sent", 3)
    assert result.reason == f"not as a reply to {id}: probe cannot show that here"


# --- ways ----------------------------------------------------------------------------------


def test_a_closed_way() -> None:
    """ADP-5.11: the next way at once, without a wait, and the other parts go it as well."""
    host = Host(WayClosed("expired"), OK)
    assert host.send(Ways(), LONG).result == "sent"
    assert host.wire.of("way") == ["first", "second", "second", "second"]
    assert host.waits == []


def test_a_way_that_fails() -> None:
    """ADP-5.11: the next way after its retries; the shortest hint is the result's."""
    host = Host(Throttled("slow", retry_after=60), OK)
    assert host.send(Ways()).result == "sent"
    assert host.wire.of("way") == ["first", "second"]
    host = Host(*(Throttled("slow", retry_after=wait) for wait in (600, 60, 90)))
    result = host.send(Ways())
    assert (result.result, result.retry_after) == ("not_sent", 60)


@pytest.mark.parametrize("error", [LOST, Rejected("no")])
def test_no_second_way_after(error: DeliveryError) -> None:
    """ADP-5.11: never after `uncertain` or `rejected`."""
    host = Host(error)
    host.send(Ways())
    assert host.wire.of("way") == ["first"]


def test_no_second_way_for_what_is_in_doubt() -> None:
    """ADP-5.11: also not when the resend is told that its way is closed."""

    class Last(Ways):
        names = ("last", "first")

    host = Host(LOST, WayClosed("gone"))
    result = host.send(Last())
    assert (result.result, host.wire.of("way")) == ("uncertain", ["last", "last"])


def test_the_same_place_is_no_other_way() -> None:
    """ADP-5.11: another format at the same URL is taken when the first is closed, not when busy."""

    class Formats(Ways):
        def build_request(self, target: Target, outgoing: Outgoing) -> Request:
            return Request("probe:one", super().build_request(target, outgoing).body)

    host = Host(Throttled("slow", retry_after=60))
    assert host.send(Formats()).retry_after == 60
    assert host.wire.of("way") == ["first"]
    host = Host(WayClosed("no such format"), OK)
    assert host.send(Formats()).result == "sent"


def test_a_way_that_cannot_carry_it() -> None:
    """ADP-5.11: a busy way is waited for, where the other one cannot even be built."""

    class Half(Ways):
        def build_request(self, target: Target, outgoing: Outgoing) -> Request:
            if outgoing.way != "first":
                raise Rejected("not this way")
            return super().build_request(target, outgoing)

    result = Host(Throttled("slow", retry_after=60)).send(Half())
    assert (result.result, result.retry_after) == ("not_sent", 60)


def test_every_way_is_closed() -> None:
    """ADP-5.11: nothing is left to wait for: `rejected`, and the same words are said once."""
    result = Host(WayClosed("gone")).send(Ways())
    assert (result.result, result.reason) == ("rejected", "gone")
    result = Host(WayClosed("gone"), WayClosed("no robot"), WayClosed("gone")).send(Ways())
    assert result.reason == "gone; no robot"


def test_no_way_at_all() -> None:
    """ADP-5.11: an adapter that knows no way for a chat is told so."""

    class Nowhere(Ways):
        names = ()

    assert "no way" in Host().send(Nowhere()).reason


def test_a_doubt_from_before_counts_for_all_ways() -> None:
    """ADP-5.10: nobody knows by which way it went, so all of them must keep the key."""
    host = Host()
    host.left(0, host.time)
    assert (host.send(Ways()).result, host.wire.seen) == ("uncertain", [])

    class Last(Ways):
        names = ("last",)

    assert host.send(Last()).result == "sent"


# --- tokens --------------------------------------------------------------------------------


def test_a_token_is_fetched_once() -> None:
    """ADP-5.12: for all parts and deliveries while it is good."""
    host = Host()
    host.send(Tokened(), LONG)
    host.send(Tokened(), "hi", record=MemoryRecord())
    assert host.wire.of("token") == ["t-1"] * 4
    assert len(host.performers["token"].seen) == 1


def test_a_refused_token() -> None:
    """ADP-5.12: B15, B16: another one, once, then the same part under the same key."""
    host = Host(
        TokenRefused("expired"), OK, tokens=Wire(Response(200, b"t-1"), Response(200, b"t-2"))
    )
    assert host.send(Tokened()).result == "sent"
    assert host.wire.of("token") == ["t-1", "t-2"]
    assert host.wire.of("key") == ["k", "k"] and host.waits == []


def test_a_new_token_that_is_refused() -> None:
    """ADP-5.12: two tokens, two requests, then `not_sent`; the next delivery asks anew."""
    host = Host(TokenRefused("bad token t-12345"), tokens=Wire(Response(200, b"t-12345")))
    result = host.send(Tokened())
    assert (result.result, result.again, len(host.wire.seen)) == ("not_sent", True, 2)
    assert result.reason == "bad token ***"
    host.send(Tokened())
    assert len(host.performers["token"].seen) == 4


@pytest.mark.parametrize(
    ("answer", "word", "asked"),
    [
        (Rejected("wrong secret"), "rejected", 1),
        (Unavailable("down"), "not_sent", 3),
        (Uncertain("no answer"), "not_sent", 1),
        (OSError("https://x/?secret=hush"), "rejected", 1),
        (Response(200, b""), "not_sent", 3),
    ],
)
def test_no_token(answer: object, word: str, asked: int) -> None:
    """ADP-5.12: by its own words; a doubt about a token is none about the text."""
    host = Host(tokens=Wire(answer))
    result = host.send(Tokened())
    assert (result.result, host.wire.seen, host.parts()) == (word, [], {})
    assert len(host.performers["token"].seen) == asked
    assert "hush" not in result.reason


# --- what surrounds it -----------------------------------------------------------------------


def test_a_stop_while_waiting() -> None:
    """ADP-5.13: the wait ends at once and nothing more is tried."""
    host = Host(Unavailable("down"))
    host.stops_after = 1
    result = host.send(Probe())
    assert (result.result, len(host.wire.seen)) == ("not_sent", 1)
    assert "stops" in result.reason


def test_two_seconds_for_all_parts() -> None:
    """ADP-5.13: a text of many parts waits no longer than a short one."""

    class Busy(Keyed):
        capabilities: ClassVar = Capabilities(max_text=5, idempotent_s=math.inf)

    host = Host(*[step for _ in range(20) for step in (Throttled("slow", retry_after=0.8), OK)])
    result = host.send(Busy(), LONG)
    assert (result.result, result.retry_after, result.done) == ("not_sent", 0.8, 2)
    assert host.waits == [0.8, 0.8]


def test_a_wrong_transport() -> None:
    """A request in a scheme that nothing speaks is rejected by name."""
    host = Host()
    del host.performers["probe"]
    assert "probe" in host.send(Probe()).reason


def test_the_signatures_time_is_the_trys() -> None:
    """A signature made of the first try's time would be refused an hour later."""
    host = Host(Throttled("slow", retry_after=2), OK)
    host.send(Probe())
    assert host.wire.of("at") == [1_000_000.0, 1_000_002.0]


def test_a_doubt_stays_where_the_chat_is_not_found() -> None:
    """ADP-5.10: begun by an earlier delivery, and now a look-up fails: still `uncertain`."""
    host = Host()
    host.left(0, host.time)
    host.look.script = [Unavailable("down")]
    result = host.send(Finder(), target=Target("probe", "@alice"))
    assert (result.result, result.again, host.wire.seen) == ("uncertain", False, [])
    assert "down" in result.reason
