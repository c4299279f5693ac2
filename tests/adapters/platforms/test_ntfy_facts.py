"""What ntfy says and wants to hear."""

import json
from email.header import decode_header

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Response
from wakebus.adapters.errors import DeliveryError, Rejected, Throttled, Uncertain
from wakebus.adapters.platforms import ntfy_facts as ntfy


@given(st.text(min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_any_name_fits_into_a_header(name: str) -> None:
    """ASCII without line ends, and the name can be read from it again."""
    name = name.encode(errors="replace").decode()
    header = ntfy.header(name)
    assert header.isascii() and header.isprintable()
    ((found, charset),) = decode_header(header)
    text = found.decode(charset or "ascii") if isinstance(found, bytes) else found
    assert text == name or header == name


@given(st.text(max_size=60), st.text(max_size=20))
@settings(max_examples=50, deadline=None)
def test_a_longer_text_measures_more(one: str, two: str) -> None:
    """And never less than its bytes, or half of its JSON."""
    assert ntfy.size(one) <= ntfy.size(one + two)
    assert len(one.encode(errors="surrogatepass")) <= ntfy.size(one)


@pytest.mark.parametrize(
    ("code", "wait"), [(42901, 5.0), (42905, 3600.0), (42908, 3600.0), (42909, 60.0)]
)
def test_throttles(code: int, wait: float) -> None:
    """Each has its own wait, and holds up all topics."""
    body = json.dumps({"code": code, "http": 429, "error": "limit reached"}).encode()
    with pytest.raises(Throttled) as caught:
        ntfy.read(Response(429, body))
    assert (caught.value.retry_after, caught.value.scope) == (wait, "app")


def test_a_stranger() -> None:
    """What is not ntfy's own answer is judged by what may have become of the message."""
    for status, kind in ((500, Uncertain), (404, Rejected), (403, DeliveryError)):
        with pytest.raises(kind):
            ntfy.read(Response(status, b'{"error":"x"}'))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in ntfy.CODES.values() if found.kind == "rejected")
