"""Requests beside the message."""

import pytest

from fakes.probe import Wire, raises
from wakebus.adapters.base import Request, Response
from wakebus.adapters.delivery.aside import ask
from wakebus.adapters.errors import (
    BrokenAdapter,
    DeliveryError,
    Rejected,
    Silent,
    Unavailable,
    Uncertain,
)

REQUEST = Request("probe:x")


def body(response: Response) -> bytes:
    return response.body


def test_an_answer() -> None:
    """What the adapter reads from it."""
    assert ask({"probe": Wire(Response(200, b"7"))}, "probe", REQUEST, body, "no x") == b"7"


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
            ask({"probe": wire}, "probe", REQUEST, parse, "no x")
        assert text in caught.value.text and "hush" not in caught.value.text


def test_a_scheme_that_nothing_speaks() -> None:
    """Rejected by name."""
    with pytest.raises(Rejected, match="probe"):
        ask({}, "probe", REQUEST, body, "no x")
