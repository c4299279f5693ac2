"""Answers of what stands before a platform."""

import pytest

from wakebus.adapters.base import Response
from wakebus.adapters.kit.gateways import masked, refusal_before


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://login.example/", "https://login.example/"),
        ("https://login.example:8443/v1/login.html", "https://login.example:8443/v1/login.html"),
        ("https://u:hush@x.example/a", "https://x.example/a"),
        ("https://x.example/bot123:hush/sendMessage", "https://x.example/***/***"),
        ("https://x.example/services/hush/hush", "https://x.example/services/***/***"),
        ("https://x.example/webhooks/hush", "https://x.example/webhooks/***"),
        ("https://x.example/robot/send?access_token=hush", "https://x.example/robot/***?***"),
        ("https://x.example/a#hush", "https://x.example/a"),
        ("/login?next=hush", "/login?***"),
        ("//x.example/a", "://x.example/a"),
        ("//[hush/a", "***"),
        ("javascript:hush()", "***"),
        ("https://[::1]/a", "https://[::1]/a"),
        ("https://hush hush/a", "***"),
        ("?hush", "?***"),
        ("\x1b[31mhush hush", "***"),
    ],
)
def test_where_a_redirect_leads(location: str, shown: str) -> None:
    """ADP-4.9: host and plain words, nothing that may be a credential."""
    assert masked(location) == shown and "hush" not in masked(location)


def test_no_location() -> None:
    """ADP-4.9: it is said that there is none."""
    found = refusal_before(Response(302))
    assert found and "status 302: a redirect to nowhere; redirects are not followed" in found.text


def test_a_size() -> None:
    """ADP-4.9: a proxy's limit, with the size that it did not take; others are no such answer."""
    found = refusal_before(Response(413, b"<html>", asked=1_234_567))
    assert found and "takes no request of 1,234,567 bytes; raise it there (nginx:" in found.text
    assert refusal_before(Response(400)) is refusal_before(Response(200)) is None
