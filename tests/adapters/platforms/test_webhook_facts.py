"""The contract of a generic webhook."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Response
from wakebus.adapters.errors import BadSetting, DeliveryError, Throttled
from wakebus.adapters.platforms import webhook_facts as facts

DATE, LATER = "Fri, 27 Nov 2026 10:00:00 GMT", "Fri, 27 Nov 2026 10:02:00 GMT"


def test_b19_waits() -> None:
    """B19, ADP-20.5: seconds, or a date by the answer's own clock."""
    for headers in ({"Retry-After": "120"}, {"retry-after": LATER, "DATE": DATE}):
        with pytest.raises(Throttled) as caught:
            facts.read(Response(503, b"", headers))
        assert caught.value.retry_after == 120.0


@given(st.integers(0, 599), st.binary(max_size=40), st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_answer(status: int, body: bytes, wait: str) -> None:
    """Only a 2xx is `sent`, whatever else stands there."""
    try:
        facts.read(Response(status, body, {"Retry-After": wait, "Date": wait}))
    except DeliveryError:
        assert not 200 <= status < 300
    else:
        assert 200 <= status < 300


def test_the_signature() -> None:
    """As the specification writes it: HMAC-SHA256 of id.timestamp.body, in base64."""
    found = facts.headers(b"secret", "m-1", 1_764_288_000.9, b"{}")
    digest = hmac.new(b"secret", b"m-1.1764288000.{}", hashlib.sha256).digest()
    assert found["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert found["webhook-timestamp"] == "1764288000"


@pytest.mark.parametrize("value", ["whsec_" + "A" * 32, "A" * 32])
def test_a_secret(value: str) -> None:
    """With its prefix or without, as the published libraries take it."""
    assert facts.secret(value, "X") == b"\0" * 24


@pytest.mark.parametrize("value", ["", "whsec_", "whsec_AAAA", "whsec_AAA", "hush hush", "名" * 9])
def test_no_secret(value: str) -> None:
    """What is short or no base64 would sign nothing worth checking."""
    with pytest.raises(BadSetting, match="WEBHOOK_X_SECRET"):
        facts.secret(value, "WEBHOOK_X_SECRET")
