"""
Texts of all lengths and shapes, and files, on every platform, over the real transport.

The stand-ins refuse what is over a limit in the platform's own unit, and markup that is none; what
stands in a chat is read as its reader sees it.
"""

from collections.abc import Iterator

import pytest

from fakes.carrier import Carrier
from fakes.chats.cases import BY_NAME, CASES, LONG, Case, each, long_text
from fakes.platform import Platform
from wakebus.adapters.base import File


@pytest.fixture
def platform() -> Iterator[Platform]:
    """A server of the test's own."""
    found = Platform()
    yield found
    found.close()


EACH, PARTED = each(), each(LONG)
HOOKS = pytest.mark.parametrize("name", ["feishu", "dingtalk", "wecom", "slack", "discord"])


@EACH
def test_one_text(platform: Platform, case: Case) -> None:
    """ADP-4.1, ADP-5.8: one request, the text as it was, in this chat; the platform's id."""
    text = "hello 中 <b> & 'x' 😀"
    result = Carrier(platform.settings(case.platform))(case.channel, text)
    assert (result.result, bool(result.id)) == ("sent", True)
    (message,) = platform.messages
    assert (message.platform, message.chat, message.text) == (case.platform, case.chat, text)
    assert result.id == message.id and len(platform.requests()) == 1


@PARTED
def test_parts(platform: Platform, case: Case) -> None:
    """ADP-5.7, ADP-5.8: a long text stands in order, whole, each part once with its own key."""
    result = Carrier(platform.settings(case.platform))(case.channel, long_text())
    assert (result.result, result.done) == ("sent", len(platform.texts()))
    assert "".join(platform.texts(case.chat)).split() == long_text().split()
    keys = [seen.key for seen in platform.requests()]
    assert len(set(keys)) == (len(keys) if case.keyed else 1) and len(keys) >= 2


@HOOKS
def test_a_group_s_webhook(platform: Platform, name: str) -> None:
    """ADP-5.7: its own limits, in parts, with no token; the text stands there whole."""
    result = Carrier(platform.settings(name))(f"{name}:webhook", long_text())
    assert (result.result, result.done) == ("sent", len(platform.texts()))
    assert "".join(platform.texts("webhook")).split() == long_text().split()
    assert platform.requests("token") == []


FAMILY = "👨‍👩‍👧‍👦"
WILD = [
    "😀" * 5000,
    "a" * 1999 + "😀" * 10,
    ("a" * 1990 + FAMILY) * 9,
    '中"\\q\n' * 1000,
    "&<>" * 900,
]


@pytest.mark.parametrize("text", WILD, ids=["emoji", "at-2000", "family", "chinese", "escapes"])
@EACH
def test_b23_b24_lengths(platform: Platform, case: Case, text: str) -> None:
    """B23, B24: within the limit in the platform's own unit, no emoji broken, nothing lost."""
    result = Carrier(platform.settings(case.platform))(case.channel, text)
    assert (result.result, result.parts) == ("sent", len(platform.texts()))
    said = "".join("".join(platform.texts()).split())
    assert said == "".join(text.split()) and "\ufffd" not in said
    if FAMILY in text:
        assert all(part.count("👨") == part.count("👦") for part in platform.texts())


ROW = "| 甲 {n} | " + "乙" * 40 + " |"


@PARTED
def test_b24_rows(platform: Platform, case: Case) -> None:
    """B24: a long table is cut between its rows, never within one."""
    rows = [ROW.format(n=number) for number in range(300)]
    assert Carrier(platform.settings(case.platform))(case.channel, "\n".join(rows)).result == "sent"
    for part in platform.texts():
        lines = [line.strip() for line in part.strip().splitlines() if "甲" in line]
        assert len(lines) >= 1 and all("乙" * 40 in line for line in lines)


MARKED = "# Head\n\n**bold** `a<b` [x](https://e.org/?a=1&b=2) _it_ ~~gone~~\n- one\n> said\n"
LOUD = '@everyone <!channel> <@U1> <at user_id="all">all</at> @all <@all> & <b>'


@EACH
def test_markup(platform: Platform, case: Case) -> None:
    """ADP-3.3: Markdown of any length is taken by a server that checks markup and lengths."""
    text = (MARKED + LOUD + "\n\n```py\nif a < b & c:\n    pass\n```\n\n") * 25
    result = Carrier(platform.settings(case.platform))(case.channel, text)
    assert (result.result, result.done) == ("sent", len(platform.texts()))
    said = "".join(platform.texts())
    assert said.count("bold") == said.count("gone") == 25 and said.count("a < b & c") == 25


FILES = ["feishu", "telegram", "slack", "discord", "mattermost", "matrix", "ntfy"]
FILE = File("notes 中.txt", b"forty-two", "text/plain")


@pytest.mark.parametrize("name", FILES)
def test_a_file(platform: Platform, name: str) -> None:
    """ADP-5.8: the text first, then the file, in this chat; each once."""
    case = BY_NAME[name]
    result = Carrier(platform.settings(name))(case.channel, "see below", file=FILE)
    assert (result.result, result.done) == ("sent", 2), result
    first, second = platform.messages
    assert (first.text, first.chat, second.chat) == ("see below", case.chat, case.chat)
    shown = "forty-two" in second.text or platform.requests("upload")
    assert shown and (first.key != second.key or not case.keyed)


@pytest.mark.parametrize("name", ["feishu", "slack", "mattermost", "matrix"])
def test_a_file_that_does_not_arrive(platform: Platform, name: str) -> None:
    """ADP-5.9: a doubt about an upload is none about the chat, where nothing was shown."""
    platform.plan("upload", "reset_lost", "error_500_lost", "reset_lost", "error_500_lost")
    result = Carrier(platform.settings(name))(BY_NAME[name].channel, "", file=FILE)
    assert (result.result, platform.texts()) == ("not_sent", [])


@EACH
def test_two_texts_alike(platform: Platform, case: Case) -> None:
    """ADP-3.2: the same words twice are two messages: their keys differ."""
    carrier = Carrier(platform.settings(case.platform))
    assert [carrier(case.channel, key=key).result for key in ("k1", "k2")] == ["sent", "sent"]
    assert platform.texts() == ["hi", "hi"]


@each([c for c in CASES if c.thread])
def test_threads(platform: Platform, case: Case) -> None:
    """ADP-2.3: a text for a thread names it in its request."""
    channel = f"{case.channel}?thread={case.thread}"
    assert Carrier(platform.settings(case.platform))(channel).result == "sent"
    (seen,) = platform.requests()
    assert case.thread in f"{seen.call.url} {seen.call.data.decode()}"
