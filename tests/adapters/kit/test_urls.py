"""URLs from settings and messages."""

import pytest

from wakebus.adapters import registry
from wakebus.adapters.errors import BadSetting
from wakebus.adapters.kit.urls import (
    base_url,
    credential,
    is_on_base,
    is_safe,
    pair,
    require,
    setting,
    webhook_url,
)


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example/a",
        "https://x.example:8443/a?b=c",
        "http://127.0.0.1:9/a",
        "http://[::1]/",
    ],
)
def test_is_safe(url: str) -> None:
    """TLS, or this machine."""
    assert webhook_url({"U": f" {url} "}, "U") == url


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
        webhook_url({"MY_URL": url}, "MY_URL")
    assert "hush" not in caught.value.text


def test_base_url() -> None:
    """A base has no last slash, no query and no fragment; without a setting it is the default."""
    assert base_url({}, "B", "https://x.example") == "https://x.example"
    assert (
        base_url({"B": "https://y.example/p/"}, "B", "https://x.example") == "https://y.example/p"
    )
    for tail, says in (("?a=b", "no query"), ("#c", "no fragment"), ("#", "no fragment")):
        with pytest.raises(BadSetting, match=f"^B: .*{says}"):
            base_url({"B": f"https://y.example/{tail}"}, "B", "https://x.example")


@pytest.mark.parametrize("tail", ["#f", "?wait=1#f", "#"])
def test_a_webhook_has_no_fragment(tail: str) -> None:
    """It would swallow the query that an adapter puts behind it; the variable is named."""
    with pytest.raises(BadSetting, match=r"^DISCORD_WEBHOOK_URL: .*no fragment"):
        webhook_url({"DISCORD_WEBHOOK_URL": f"https://d.example/x{tail}"}, "DISCORD_WEBHOOK_URL")


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
        ("https://x.example/p/s?t=1#f", False),
        ("https://x.example\n/p/s", False),
        ("https://[x/p/s", False),
        ("https://x.example/p/s?session=" + "1" * 2018, True),
        ("https://x.example/p/s?session=" + "1" * 2019, False),
        ("", False),
    ],
)
def test_is_on_base(url: str, fits: bool) -> None:
    """Only this scheme, host, port and path."""
    assert is_on_base(url, "https://x.example/p", "/s") is fits


def test_pair() -> None:
    """Both, or neither; one alone names the other."""
    assert pair({"A": "1", "B": " 2 "}, "A", "B") == ("1", "2")
    assert pair({"A": " "}, "A", "B") is None
    for env, missing in (({"A": "hush"}, "B"), ({"B": "hush"}, "A")):
        with pytest.raises(BadSetting, match=f"^{missing} is not set") as caught:
            pair(env, "A", "B")
        assert "hush" not in caught.value.text


@pytest.mark.parametrize("token", ["tk_é", "two words", "a\nb", "a\x00b", "\udcff", "中"])
def test_a_credential(token: str) -> None:
    """What no header can hold is named by its variable, and not shown."""
    assert credential({"T": " tk_~! "}, "T") == "tk_~!" and credential({}, "T") == ""
    with pytest.raises(BadSetting, match=r"^MY_TOKEN: ") as caught:
        credential({"MY_TOKEN": token}, "MY_TOKEN")
    assert token not in caught.value.text


SAME = {
    "matrix": {"MATRIX_HOMESERVER": "https://m.example", "MATRIX_ACCESS_TOKEN": "%s"},
    "mattermost": {"MATTERMOST_URL": "https://m.example", "MATTERMOST_TOKEN": "%s"},
    "ntfy": {"NTFY_TOKEN": "%s"},
    "discord": {"DISCORD_BOT_TOKEN": "%s"},
    "slack": {"SLACK_BOT_TOKEN": "xoxb-%s"},
    "telegram": {"TELEGRAM_BOT_TOKEN": "123456:%s"},
    "weixin": {"WEIXIN_TOKEN": "%s"},
}


@pytest.mark.parametrize("platform", SAME)
@pytest.mark.parametrize("token", ["é", "a b", "\udcff"])
def test_a_token_in_a_header(platform: str, token: str) -> None:
    """ADP-1.3: no adapter is ready with a credential that cannot go out."""
    env = {name: value.replace("%s", token) for name, value in SAME[platform].items()}
    with pytest.raises(BadSetting, match=f"{platform.upper()}_.*TOKEN"):
        registry.load(platform)(env)


@pytest.mark.parametrize("name", ["NTFY_TOKEN", "FEISHU_APP_SECRET", "WECOM_CALLBACK_CORP_SECRET"])
def test_bytes_that_are_no_text(name: str) -> None:
    """ADP-1.3: an environment may hold them, a request cannot."""
    with pytest.raises(BadSetting, match=f"^{name}: is not UTF-8"):
        setting({name: "user:\udcff"}, name)


def test_require() -> None:
    """What a chat needs is named."""
    require("there", "A")
    with pytest.raises(BadSetting, match="A and B"):
        require(None, "A and B")
    assert setting({"A": " x "}, "A") == "x" and setting({}, "A") == ""


def test_a_url_of_an_answer() -> None:
    """The same rules hold for a URL that a platform gives."""
    assert is_safe("https://x.example/a") and is_safe("http://127.0.0.1:9/a")
    for url in ("", "x", "ftp://x/", "http://x.example/", "https://a@x.example/", "https://x:y/"):
        assert not is_safe(url)
