"""The values of the contract."""

import json

import pytest

from wakebus.adapters.base import (
    ChannelResult,
    Outgoing,
    Request,
    Response,
    Target,
    length,
)


def test_a_request_shows_no_credential() -> None:
    """ADP-1.5: path, query, headers, userinfo and body are left out of a request's repr."""
    request = Request(
        "https://u:hush@api.example.org/bothush/send?key=hush", b"hush", {"Authorization": "hush"}
    )
    assert "hush" not in repr(request)
    assert "api.example.org" in repr(request)
    assert request.scheme == "https"


def test_what_a_text_is_sent_with_shows_no_credential() -> None:
    """ADP-1.5: neither token nor webhook, nor an answer's body, which may be a token."""
    outgoing = Outgoing("x", "k", token="hush", webhook="https://h/hush")
    assert "hush" not in f"{outgoing!r} {Response(200, b'hush', {'Set-Cookie': 'hush'})!r}"


@pytest.mark.parametrize("url", ["", "console:alice", "https://[broken", "x"])
def test_any_url_has_a_repr(url: str) -> None:
    """A wrong URL of an adapter can still be shown in an error."""
    assert repr(Request(url)).startswith("Request(POST ")


def test_a_target_is_written_as_its_token() -> None:
    """ADP-2.2: platform, chat and thread, as a sender would write them."""
    assert str(Target("matrix", "!r:srv", "$e")) == "matrix:!r:srv?thread=$e"
    assert str(Target("console", "alice")) == "console:alice"


@pytest.mark.parametrize(("unit", "size"), [("characters", 3), ("utf16", 4), ("bytes", 8)])
def test_length_in_the_platforms_unit(unit: str, size: int) -> None:
    """A text is counted as the platform counts it."""
    assert length("a中😀", unit) == size  # type: ignore[arg-type]


def test_outcome_holds_what_is_known() -> None:
    """ADP-5.4: result, platform, chat, id, time; absent fields are left out; it is JSON."""
    outcome = ChannelResult("sent", "console", "console:alice", id="k").to_outcome(12.5)
    assert json.loads(json.dumps(outcome)) == {
        "channel": {
            "result": "sent",
            "platform": "console",
            "chat": "console:alice",
            "id": "k",
            "at": 12.5,
        }
    }
    assert "id" not in ChannelResult("rejected", reason="no").to_outcome(1)["channel"]


def test_an_outcome_of_several_parts() -> None:
    """ADP-5.8: how many messages it took, and how many of them are sent."""
    sent = ChannelResult("sent", "feishu", "feishu:oc_1", "m1", done=3, parts=3).to_outcome(1)
    assert sent["channel"]["parts"] == sent["channel"]["done"] == 3
