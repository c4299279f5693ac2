"""What a delivery asks of a platform: its permit, uploads. (Chats: test_chat_lookup.py.)"""

import logging
from dataclasses import replace
from typing import ClassVar

import pytest

from fakes.probe import (
    OK,
    TARGET,
    FakePermit,
    Filer,
    Finder,
    Host,
    Probe,
    Tokened,
    Uploader,
    Ways,
    Wire,
    raises,
)
from wakebus.adapters.base import Capabilities, File, Outgoing, Request, Response, Target
from wakebus.adapters.delivery.platform_client import ask_platform
from wakebus.adapters.errors import (
    BrokenAdapter,
    DeliveryError,
    Moved,
    Rejected,
    Silent,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
    WayClosed,
)

LONG = "one two three four five six seven eight nine ten"
FILE = File("a.txt", b"hello", "text/plain")
REQUEST = Request("probe:x")
UP = [Response(200, b"p1"), Response(200, b"")]


# --- the permit ----------------------------------------------------------------------------


def test_each_request_asks_the_permit() -> None:
    """ADP-5.22: in before it is begun, under the message's key, and out after its answer."""
    host = Host(OK, Throttled("slow", retry_after=1), OK)
    host.send(Probe(), "one two three four five six seven")
    inside = "in"
    assert host.permit.seen == [inside, "out", inside, "out: slow", inside, "out"]


def test_what_is_held_is_not_begun() -> None:
    """ADP-5.22: `not_sent` with the permit's wait and words, and no other way is tried."""
    host = Host()
    host.permit = FakePermit(None, 7.0)
    result = host.send(Ways(), LONG)
    assert (result.result, result.retry_after, result.again) == ("not_sent", 7.0, True)
    assert (result.reason, result.done) == ("part 2: our own pace", 1)
    assert host.parts() == {0: ("sent", "m")} and host.waits == []
    assert host.send(Ways(), LONG).result == "sent"


def test_a_moment_is_waited_for() -> None:
    """ADP-5.22: as often as it takes: what a chat takes each second needs no courier."""
    host = Host()
    host.permit = FakePermit(0.2, 0.1, None)
    assert host.send(Probe()).result == "sent"
    assert host.waits == [0.2, 0.1]


def test_held_in_doubt() -> None:
    """ADP-5.10, ADP-5.22: what may have been accepted stays `uncertain` when it is held."""
    host = Host(Uncertain("lost"))
    host.permit = FakePermit(None, 7.0)
    result = host.send(Tokened())
    assert (result.result, result.again, result.retry_after) == ("uncertain", True, 7.0)
    assert len(host.wire.seen) == 1


def test_what_cannot_be_built_takes_no_place() -> None:
    """ADP-5.22: nor what is finished, or may not be sent again."""
    host = Host()
    host.send(Probe(build=raises(Rejected("no"))))
    host.left(0, host.time)
    host.send(Probe())
    assert host.permit.seen == []


@pytest.mark.parametrize("what", ["token", "look"])
def test_errors_beside_the_message_are_told(what: str) -> None:
    """ADP-5.22: a platform that gives no token and no chat is as dead as one that takes none."""
    host = Host()
    adapter = Tokened() if what == "token" else Finder()
    host.performers[what] = Wire(Rejected("nobody"))
    host.send(adapter, target=Target("probe", "@x"))
    assert host.permit.seen == ["out: nobody"]
    host.performers[what] = Wire()
    host.send(adapter, target=Target("probe", "@x"))
    assert [one for one in host.permit.seen if str(one).startswith("out")][1:] == ["out"]


@pytest.mark.parametrize(
    ("what", "adapter"), [("token", Tokened()), ("look", Finder()), ("up", Uploader())]
)
def test_silence_beside_the_message_is_the_couriers(what: str, adapter: Probe) -> None:
    """ADP-5.13: asked once, not three times for 15 s; `not_sent`, and the permit is told."""
    host = Host()
    host.performers[what] = wire = Wire(Uncertain("silence"))
    file = FILE if what == "up" else None
    result = host.send(adapter, "hi", target=Target("probe", "@x"), file=file)
    assert (result.result, result.again, len(wire.seen), host.waits) == ("not_sent", True, 1, [])
    assert str(host.permit.seen[-1]).endswith("silence")


@pytest.mark.parametrize("what", ["token", "look"])
def test_who_waited_for_silence_tells_it_too(what: str) -> None:
    """ADP-5.22, ADP-6.18: so that the circuit opens, although one of many has asked."""

    def waited(*_: object) -> None:
        raise Silent("no access token: silence")

    host = Host()
    if what == "token":
        host.tokens.get = waited  # type: ignore[assignment, method-assign]
    else:
        host.lookups.find = waited  # type: ignore[assignment, method-assign]
    host.send(Tokened())
    assert host.permit.seen == ["out: no access token: silence"]


def test_a_permit_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """ADP-5.5: what became of a message is known, whatever the permit does with it."""

    class Jammed(FakePermit):
        report = raises(KeyError("hush"))

    host = Host()
    host.permit = Jammed()
    with caplog.at_level(logging.WARNING):
        assert host.send(Probe()).result == "sent"
    assert "the permit was not told: KeyError" in caplog.text and "hush" not in caplog.text


# --- requests beside the message -----------------------------------------------------------


def body(response: Response) -> bytes:
    return response.body


def test_an_answer() -> None:
    """What the adapter reads from it."""
    assert (
        ask_platform({"probe": Wire(Response(200, b"7"))}, "probe", REQUEST, body, "no x") == b"7"
    )


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Uncertain("lost"), Silent, "no x: lost"),
        (Unavailable("down"), Unavailable, "down"),
        (Rejected("no"), Rejected, "no"),
        (KeyError("hush"), BrokenAdapter, "'probe' failed: KeyError"),
    ],
)
def test_what_goes_wrong(error: Exception, kind: type[DeliveryError], text: str) -> None:
    """ADP-5.20: a doubt is `not_sent`; a bug is named without its text."""
    for wire, parse in ((Wire(error), body), (Wire(), raises(error))):
        with pytest.raises(kind) as caught:
            ask_platform({"probe": wire}, "probe", REQUEST, parse, "no x")
        assert text in caught.value.text and "hush" not in caught.value.text


def test_a_scheme_that_nothing_speaks() -> None:
    """Rejected by name."""
    with pytest.raises(Rejected, match="probe"):
        ask_platform({}, "probe", REQUEST, body, "no x")


# --- files ---------------------------------------------------------------------------------


def test_a_file_follows_its_text() -> None:
    """ADP-5.23: as the last part, with a key of its own; the id is the text's."""
    host = Host(Response(200, b"m1"), Response(200, b"m2"))
    result = host.send(Filer(), "look at this", file=FILE)
    assert (result.result, result.id, result.parts) == ("sent", "m1", 2)
    assert host.wire.of("key") == ["k.1", "k.2"] and host.wire.of("text") == ["look at this", ""]


def test_a_file_alone() -> None:
    """ADP-5.23: needs no text, and has the message's key."""
    host = Host()
    assert host.send(Filer(), "", file=FILE).parts == 1
    assert [host.wire.of(name) for name in ("key", "text", "data")] == [["k"], [""], ["hello"]]


@pytest.mark.parametrize(
    ("adapter", "size", "says"),
    [
        (Probe(), 5, "probe takes no files; send a link, or use one that does ("),
        (Filer(), 101, "the file has 101 bytes, and probe takes at most 100 bytes"),
        (Filer(build=raises(Rejected("not to a webhook"))), 5, "not to a webhook"),
    ],
)
def test_a_file_that_is_not_taken(adapter: Probe, size: int, says: str) -> None:
    """ADP-5.23: `rejected` before the text goes out, and what to do instead."""
    host = Host()
    result = host.send(adapter, "look", file=replace(FILE, data=b"x" * size))
    assert (result.result, host.wire.seen) == ("rejected", []) and says in result.reason


def test_an_upload() -> None:
    """ADP-5.24: in steps, before the part begins; then what the platform said of it is shown."""
    host = Host()
    host.up.script = [*UP]
    seen: list[object] = []

    def look(request: Request) -> Response:
        seen.append(host.parts())
        return OK

    host.wire.script = [look]
    assert host.send(Uploader(), "", file=FILE).result == "sent"
    assert [(one.url, one.body) for one in host.up.seen] == [("up:where", b""), ("up:p1", b"hello")]
    assert host.wire.of("ref") == ["p1"] and host.wire.of("data") == [""]
    assert seen == [{0: ("begun", "")}]
    assert host.permit.seen == ["in", "begins", "out"]


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (Uncertain("lost"), "not_sent"),
        (Unavailable("down"), "not_sent"),
        (Rejected("too large"), "rejected"),
        (KeyError("hush"), "rejected"),
    ],
)
def test_an_upload_that_fails(error: Exception, word: str) -> None:
    """ADP-5.24: a doubt about it is none about the message: nobody saw it."""
    host = Host()
    host.up.script = [UP[0], error, UP[0], error, UP[0], error]
    result = host.send(Uploader(), "", file=FILE)
    assert (result.result, host.wire.seen, host.parts()) == (word, [], {})
    assert "hush" not in result.reason


def test_an_upload_is_kept_for_its_part() -> None:
    """ADP-5.24, ADP-5.22: a busy chat brings no second one; only after it a part begins anew."""
    host = Host(Throttled("slow", retry_after=1), OK)
    host.up.script = [*UP]
    assert host.send(Uploader(), "", file=FILE).result == "sent"
    assert (len(host.up.seen), host.wire.of("ref")) == (2, ["p1", "p1"])
    inside = "in"
    assert host.permit.seen == [inside, "begins", "out: slow", inside, "out"]


class TwoWays(Uploader, Ways):
    """Ways that each take a file by an upload of their own."""

    names = ("first", "second")


def test_another_way_another_upload() -> None:
    """ADP-5.24: and so does another chat: a platform may tie a file to where it was brought."""
    for error in (WayClosed("gone"), Moved("moved", "bob")):
        host = Host(error, OK)
        host.up.script = [*UP, *UP]
        assert host.send(TwoWays(), "", file=FILE).result == "sent"
        assert len(host.up.seen) == 4


class TokenedUploader(Uploader, Tokened):
    """An upload needs the access token as well."""

    capabilities: ClassVar = Capabilities(max_text=20, max_file=100)


def test_an_upload_with_a_refused_token() -> None:
    """ADP-5.12, ADP-5.24: another one, once, for the upload as for the message."""
    host = Host(tokens=Wire(Response(200, b"t-1"), Response(200, b"t-2")))
    host.up.script = [TokenRefused("old"), *UP]
    assert host.send(TokenedUploader(), "", file=FILE).result == "sent"
    assert [one.headers.get("token") for one in host.up.seen] == ["t-1", "t-2", None]
    assert host.wire.of("token") == ["t-2"]


@pytest.mark.parametrize("kind", [Filer, Uploader])
def test_a_file_is_made_a_form_of_once(kind: type[Filer]) -> None:
    """ADP-5.23: what is only asked has one byte of it; 20 MiB are hashed and copied once."""
    whole: list[str] = []

    class Counting(kind):  # type: ignore[misc, valid-type]
        def _count(self, what: str, file: File | None) -> None:
            whole.extend([what] * (file is not None and not file.ref and len(file.data) > 1))

        def build_request(self, target: Target, outgoing: Outgoing) -> Request:
            self._count("message", outgoing.file)
            found: Request = super().build_request(target, outgoing)
            return found

        def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
            if kind is Filer:
                return None
            self._count("upload", outgoing.file)
            found: Request | None = super().upload(target, outgoing)
            return found

    host = Host()
    host.up.script = [*UP]
    assert host.send(Counting(), "look", file=FILE).result == "sent"
    assert whole == ["message" if kind is Filer else "upload"]


def test_an_upload_without_end() -> None:
    """ADP-5.24: at most four steps; more is the adapter's bug."""

    class Endless(Uploader):
        def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
            return Request("up:x") if outgoing.file else None

    host = Host()
    result = host.send(Endless(), "", file=FILE)
    assert (result.result, host.wire.seen, len(host.up.seen)) == ("rejected", [], 4)
    assert "without end" in result.reason


def test_an_upload_in_four_steps() -> None:
    """ADP-5.24: is one that ends."""

    class Slow(Uploader):
        def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
            done = outgoing.file is None or len(outgoing.file.ref) == 4
            return None if done else Request("up:x")

        def parse_upload(self, file: File, response: Response) -> File:
            return replace(file, ref=file.ref + "x")

    host = Host()
    assert host.send(Slow(), "", file=FILE).result == "sent"
    assert (len(host.up.seen), host.wire.of("ref")) == (4, ["xxxx"])


def test_an_upload_that_loses_its_file() -> None:
    """ADP-5.5: an adapter that returns no file is named."""

    class Crooked(Uploader):
        def parse_upload(self, file: File, response: Response) -> File:
            return None  # type: ignore[return-value]

    assert "'probe' failed" in Host().send(Crooked(), "", file=FILE).reason


def test_a_file_that_was_sent_is_not_brought_again() -> None:
    """ADP-5.9, ADP-5.23: the next delivery goes on where the last one ended."""
    host = Host(OK, Rejected("no"), OK)
    host.up.script = [*UP, *UP]
    host.send(Uploader(), "look", file=FILE)
    assert host.send(Uploader(), "look", file=FILE).result == "sent"
    assert host.send(Uploader(), "look", file=FILE).result == "sent"
    assert (host.wire.of("key"), len(host.up.seen)) == (["k.1", "k.2", "k.2"], 4)


def test_target_is_the_probes() -> None:
    """The fakes' own chat."""
    assert str(TARGET) == "probe:alice"
