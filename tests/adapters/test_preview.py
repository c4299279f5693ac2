"""What a text would become."""

import json

import pytest

from fakes.probe import TARGET, Host, Probe, Tokened, Ways, raises
from wakebus.adapters.errors import Rejected
from wakebus.adapters.preview import preview

LONG = "one two three four five six"


def test_what_would_be_sent() -> None:
    """ADP-5.19: the same requests as a delivery makes, part by part, way by way."""
    shown = preview(Ways(), TARGET, LONG + "\x1b[0m", "k", 1_000_000.0, {})
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
    shown = preview(Tokened(), TARGET, LONG, "k", 0.0, {"PROBE_SECRET": "token:ask"})
    assert [(one["way"], one["url"]) for one in shown["tokens"]] == [("", "***")]
    assert json.loads(shown["parts"][0]["requests"][0]["body"])["token"] == "***"


def test_what_cannot_be_sent() -> None:
    """ADP-5.19: rejected as a delivery would; a way that fails is shown with its reason."""
    with pytest.raises(Rejected, match="no text"):
        preview(Probe(), TARGET, " ", "k", 0.0, {})
    shown = preview(
        Probe(build=raises(Rejected("no hush-7f3a"))), TARGET, "x", "k", 0.0, {"A_KEY": "hush-7f3a"}
    )
    assert shown["parts"][0]["requests"] == [{"way": "", "error": "no ***"}]
