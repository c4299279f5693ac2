"""Requests performed by the real Apprise, against a receiver on this machine."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from threading import Thread

import pytest

from fakes.webhook_receiver import WebhookReceiver, receiving
from wakebus.adapters.base import ChannelResult, Outgoing, Request
from wakebus.adapters.channel import parse
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.delivery.deliver import deliver
from wakebus.adapters.platforms.apprise import Apprise
from wakebus.adapters.transports import apprise_call
from wakebus.adapters.transports.apprise_call import AppriseCalls

CALLS = AppriseCalls(60.0)


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    """A receiver on this machine."""
    with receiving() as found:
        yield found


def send(url: str, text: str = "hi", *, calls: AppriseCalls | None = None) -> ChannelResult:
    """Deliver to a service by its URL, as the courier does."""
    chat = GuardedAdapter.resolve(parse("apprise:x"), {"APPRISE_URL_X": url})
    assert isinstance(chat.adapter, Apprise)
    context = DeliveryContext({"apprise": calls or CALLS}, sleep=lambda _: False)
    return deliver(chat, Outgoing(text, "k1"), context)


def json_url(receiver: WebhookReceiver, path: str = "/in") -> str:
    """Return the receiver's URL in Apprise's spelling."""
    return receiver.url.replace("http://", "json://") + path


def test_yes(receiver: WebhookReceiver) -> None:
    """ADP-21.2: a service that took it is `sent`, and the text is whole."""
    text = "Grüße 中 **x**\n<b>&amp;</b> \\n"
    result = send(json_url(receiver), text)
    assert (result.result, result.id, result.parts) == ("sent", "", 1)
    assert receiver.got[0].json["message"] == text
    assert len(receiver.got) == 1


@pytest.mark.parametrize("query", ["", "?optional=yes", "?retry=3&wait=0"])
def test_no(receiver: WebhookReceiver, query: str) -> None:
    """ADP-21.2, ADP-21.5: a failure is a doubt, after one request, whatever the URL says."""
    receiver.answers = [(500, {}, b"no")]
    result = send(json_url(receiver) + query)
    assert (result.result, result.again) == ("uncertain", False)
    assert len(receiver.got) == 1


def test_a_service_that_hangs(receiver: WebhookReceiver) -> None:
    """ADP-21.2, ADP-21.5: no word in time is a doubt, and nobody waits longer."""
    receiver.go.clear()
    result = send(json_url(receiver), calls=AppriseCalls(1.0))
    assert result.result == "uncertain" and "no end within 1 s" in result.reason


def test_too_many_that_hang(receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-21.5: threads that hang are bounded; one more is put off before anything is sent."""
    monkeypatch.setattr(apprise_call, "MOST", 1)
    receiver.go.clear()
    calls = AppriseCalls(1.0)
    words = [send(json_url(receiver), calls=calls).result for _ in range(2)]
    assert words == ["uncertain", "not_sent"] and len(receiver.got) <= 1


def test_one_name_that_hangs(receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-21.5, ADP-6.37: the threads of one name are no other's."""
    monkeypatch.setattr(apprise_call, "MOST", 1)
    receiver.go.clear()
    calls = AppriseCalls(1.0)
    assert send(json_url(receiver), calls=calls).result == "uncertain"
    receiver.go.set()
    request = Request("apprise:other", b"hi", {"Secret-URL": json_url(receiver)})
    assert calls(request).body == b'{"sent": true}'


def test_redirects(receiver: WebhookReceiver) -> None:
    """ADP-21.5: none is followed; the text goes where the settings say, or nowhere."""
    receiver.answers = [(307, {"location": "/elsewhere"}, b"")]
    assert send(json_url(receiver)).result == "uncertain"
    assert [got.path.rstrip("/") for got in receiver.got] == ["/in"]


def test_a_long_text(receiver: WebhookReceiver) -> None:
    """ADP-21.5: what is over the limit goes in parts, and all of it."""
    result = send(json_url(receiver), "中" * 40_000)
    assert (result.result, result.parts) == ("sent", 2)
    assert "".join(got.json["message"] for got in receiver.got) == "中" * 40_000


def test_as_text(receiver: WebhookReceiver) -> None:
    """ADP-21.6: a service that wants HTML gets it escaped: a text brings no tags along."""
    assert send(json_url(receiver) + "?format=html", "<script>x</script>\n&").result == "sent"
    assert "<script>" not in receiver.got[0].json["message"]
    assert "&lt;script&gt;" in receiver.got[0].json["message"]


@pytest.mark.parametrize(
    "url", ["nosuch://hush-7f3a", "hush-7f3a", "json://", "mailto://hush-7f3a", "pover://hush-7f3a"]
)
def test_no_url_of_apprise(url: str) -> None:
    """ADP-21.4: the variable to mend is named, and not its value."""
    result = send(url)
    assert result.result == "rejected" and "APPRISE_URL_X" in result.reason
    assert "hush" not in result.reason


@pytest.mark.parametrize(
    ("url", "platform"),
    [
        ("https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "slack"),
        ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693axxx67aoc4bc497a00ec2", "wecom"),
    ],
)
def test_b11_native_urls(url: str, platform: str) -> None:
    """B11, ADP-21.3: a service of ours is known by its own URL as well."""
    result = send(url)
    assert result.result == "rejected" and f"{platform}:CHAT" in result.reason


def test_without_the_extra() -> None:
    """ADP-21.4: what to install is said, and importing us needs none of it."""
    program = """
import sys
sys.modules["apprise"] = None
from wakebus.adapters.transports.apprise_call import AppriseCalls
from wakebus.adapters.base import Request
print(AppriseCalls()(Request("apprise:x", b"hi", {"Secret-URL": "json://x"})).body.decode())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "pip install 'wakebus[apprise]'" in done.stdout


def test_no_url_in_a_log(receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-21.7: at its loudest, neither Apprise nor what it uses logs the URL or the text."""
    receiver.answers = [(500, {}, b"no")]
    with caplog.at_level(logging.DEBUG):
        result = send(json_url(receiver, "/hush-path-7f3a"), "hush-text-7f3a")
        send("pover://hush-path-7f3a", "hush-text-7f3a")
    assert "hush" not in caplog.text and "hush" not in result.reason


def test_many_at_once(receiver: WebhookReceiver) -> None:
    """ADP-21.5: calls share nothing; each has its own answer."""
    results: dict[int, ChannelResult] = {}

    def one(number: int) -> None:
        results[number] = send(json_url(receiver, f"/{number}"), f"text {number}")

    threads = [Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {result.result for result in results.values()} == {"sent"} and len(results) == 8
    found = {got.path.strip("/"): got.json["message"] for got in receiver.got}
    assert found == {f"{number}": f"text {number}" for number in range(8)}
