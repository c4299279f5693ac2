"""URLs from settings and messages."""

import pytest

from wakebus.adapters.errors import BadSetting
from wakebus.adapters.urls import base, needed, on_base, pair, safe, setting, webhook


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example/a",
        "https://x.example:8443/a?b=c",
        "http://127.0.0.1:9/a",
        "http://[::1]/",
    ],
)
def test_safe(url: str) -> None:
    """TLS, or this machine."""
    assert webhook({"U": f" {url} "}, "U") == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://x.example/hush", "ftp://hush", "hush", "//hush/x", "https:///hush"),
        *("https://hush@x.example/", "https://x.example:hush/", "https://x\\hush", "https://[hush"),
        *("https://x.example/hu sh", "https://x\thush", "http://localhost.hush.example/"),
    ],
)
def test_unsafe(url: str) -> None:
    """Anything else is refused by the variable's name, and the value is not shown."""
    with pytest.raises(BadSetting, match="MY_URL") as caught:
        webhook({"MY_URL": url}, "MY_URL")
    assert "hush" not in caught.value.text


def test_base() -> None:
    """A base has no last slash, no query and no fragment; without a setting it is the default."""
    assert base({}, "B", "https://x.example") == "https://x.example"
    assert base({"B": "https://y.example/p/"}, "B", "https://x.example") == "https://y.example/p"
    for tail in ("?a=b", "#c"):
        with pytest.raises(BadSetting, match="B: a base URL"):
            base({"B": f"https://y.example/{tail}"}, "B", "https://x.example")


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("https://x.example/p/s?t=1", True),
        ("HTTPS://X.example/p/s", True),
        ("http://x.example/p/s", False),
        ("https://x.example:443/p/s", False),
        ("https://x.example.evil/p/s", False),
        ("https://u@x.example/p/s", False),
        ("https://x.example/p/s/../t", False),
        ("https://x.example/s", False),
        ("https://x.example\n/p/s", False),
        ("https://[x/p/s", False),
        ("https://x.example/p/s?session=" + "1" * 2018, True),
        ("https://x.example/p/s?session=" + "1" * 2019, False),
        ("", False),
    ],
)
def test_on_base(url: str, fits: bool) -> None:
    """Only this scheme, host, port and path."""
    assert on_base(url, "https://x.example/p", "/s") is fits


def test_pair() -> None:
    """Both, or neither; one alone names the other."""
    assert pair({"A": "1", "B": " 2 "}, "A", "B") == ("1", "2")
    assert pair({"A": " "}, "A", "B") is None
    for env, missing in (({"A": "hush"}, "B"), ({"B": "hush"}, "A")):
        with pytest.raises(BadSetting, match=f"^{missing} is not set") as caught:
            pair(env, "A", "B")
        assert "hush" not in caught.value.text


def test_needed() -> None:
    """What a chat needs is named."""
    needed("there", "A")
    with pytest.raises(BadSetting, match="A and B"):
        needed(None, "A and B")
    assert setting({"A": " x "}, "A") == "x" and setting({}, "A") == ""


def test_a_url_of_an_answer() -> None:
    """The same rules hold for a URL that a platform gives."""
    assert safe("https://x.example/a") and safe("http://127.0.0.1:9/a")
    for url in ("", "x", "ftp://x/", "http://x.example/", "https://a@x.example/", "https://x:y/"):
        assert not safe(url)
