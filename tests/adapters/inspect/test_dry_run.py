"""What a text would become."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fakes.probe import TARGET, Filer, Finder, Host, Probe, Tokened, Uploader, Ways, raises
from wakebus.adapters.base import File, Outgoing, Request, Target
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.errors import Rejected
from wakebus.adapters.inspect.dry_run import dry_run
from wakebus.adapters.kit import requests

LONG = "one two three four five six"


def shown_of(
    adapter: Probe,
    text: str,
    *,
    target: Target = TARGET,
    file: File | None = None,
    at: float = 0.0,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what is shown of a message."""
    return dry_run(GuardedAdapter(adapter, target), Outgoing(text, "k", file=file), at, env or {})


def test_what_would_be_sent() -> None:
    """ADP-5.19: the same requests as a delivery makes, part by part, way by way."""
    shown = shown_of(Ways(), LONG + "\x1b[0m", at=1_000_000.0)
    host = Host()
    host.send(Ways(), LONG)
    first = [part["requests"][0] for part in shown["parts"]]
    sent = [one.body.decode().replace('"token": ""', '"token": "***"') for one in host.wire.seen]
    assert [one["body"] for one in first] == sent
    assert [[one["way"] for one in part["requests"]] for part in shown["parts"]] == [
        ["first", "second", "last"]
    ] * 2
    assert [(part["part"], part["size"]) for part in shown["parts"]] == [(1, 19), (2, 8)]
    assert (shown["chat"], shown["limit"], shown["unit"]) == ("probe:alice", 20, "characters")
    assert json.loads(json.dumps(shown)) == shown


def test_the_token_is_not_fetched() -> None:
    """ADP-5.19: its request is shown once, masked, and `***` where the token would be."""
    shown = shown_of(Tokened(), LONG, env={"PROBE_SECRET": "token:ask"})
    assert [(one["way"], one["url"]) for one in shown["tokens"]] == [("", "***")]
    assert json.loads(shown["parts"][0]["requests"][0]["body"])["token"] == "***"


def test_what_cannot_be_sent() -> None:
    """ADP-5.19: rejected as a delivery would; a way that fails is shown with its reason."""
    with pytest.raises(Rejected, match="no text"):
        shown_of(Probe(), " ")
    shown = shown_of(Probe(build=raises(Rejected("no hush-7f3a"))), "x", env={"A_KEY": "hush-7f3a"})
    assert shown["parts"][0]["requests"] == [{"way": "", "error": "no ***"}]


def test_a_look_up_is_not_made() -> None:
    """ADP-5.19: its request is shown; the rest is as for the chat as it was named."""
    shown = shown_of(Finder(), "x", target=Target("probe", "@alice"))
    assert (shown["lookup"]["url"], shown["chat"]) == ("look:@alice", "probe:@alice")
    assert shown_of(Finder(), "x")["lookup"] is None


FILE = File("a.txt", b"hush-7f3a" * 10, "text/plain")


def test_a_file() -> None:
    """ADP-5.19: as the last part, and its bytes are told, not dumped."""
    shown = shown_of(Filer(), "look", file=FILE)
    assert [part["part"] for part in shown["parts"]] == [1, 2]
    part = shown["parts"][1]
    assert (part["file"], part["size"], part["text"]) == ("90 bytes of a.txt", 90, "")
    assert json.loads(part["requests"][0]["body"])["data"] == "<90 bytes of a.txt>"
    assert "hush" not in json.dumps(shown)


def test_a_file_by_ways_that_are_one() -> None:
    """ADP-5.19: a file is the same with and without markup, and shown once."""

    class Formats(Filer):
        def ways(self, target: Target, outgoing: Outgoing) -> tuple[str, ...]:
            return ("html", "plain")

        def build_request(self, target: Target, outgoing: Outgoing) -> Request:
            return super().build_request(target, replace(outgoing, way=""))

    shown = shown_of(Formats(), "look", file=FILE)
    ways = [[one["way"] for one in part["requests"]] for part in shown["parts"]]
    assert ways == [["html", "plain"], ["html"]]


def test_an_upload_is_not_made() -> None:
    """ADP-5.19: its first request is shown, and the message as it would be then."""
    shown = shown_of(Uploader(), "", file=FILE)
    (request,) = shown["parts"][0]["requests"]
    assert request["upload"]["url"] == "up:where"
    assert json.loads(request["body"])["ref"] == "***"
    with pytest.raises(Rejected, match="takes no files"):
        shown_of(Probe(), "", file=FILE)


@pytest.mark.parametrize("data", [b"a", b"a" * 40])
def test_the_bytes_of_a_form(data: bytes) -> None:
    """ADP-5.19: a short file is taken out of a form, and not out of the words around it."""

    class Former(Filer):
        def build_request(self, target: Target, outgoing: Outgoing) -> Request:
            file = outgoing.file
            assert file
            return requests.post_form("probe:x", {"chat": "alice"}, {"f": file})

    shown = shown_of(Former(), "", file=File("n.txt", data, "text/plain"))
    body = shown["parts"][0]["requests"][0]["body"]
    assert f"\r\n\r\n<{len(data)} bytes of n.txt>\r\n--" in body and "alice" in body
