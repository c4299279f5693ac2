"""`wakebus send`: a text to a chat, and what became of it."""

from collections.abc import Iterator

import pytest

from fakes.desk import Desk


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """A desk whose broker runs its courier."""
    found = Desk(services=True)
    found.start()
    yield found
    found.close()


def test_sent(desk: Desk) -> None:
    """Exit 0, the chat and the platform's id; the text is in the chat, cleaned."""
    done = desk.wakebus("send", "console:demo", "all green\x1b[2J 中文", "--from", "ci")
    assert done.status == 0 and done.out.startswith("sent to console:demo (id ")
    chat = (desk.root / "bus" / "console-demo.log").read_text()
    assert "all green 中文" in chat and "\x1b" not in chat
    done = desk.wakebus("send", "console:demo", "-", "--from", "ci", "--json", stdin=b"two\n")
    assert done.json["state"] == "handled" and done.json["channel"]["result"] == "sent"
    assert desk.wakebus("trace", done.json["id"]).status == 0


def test_once_per_key(desk: Desk) -> None:
    """The second with the same key is not written again."""
    for _ in range(2):
        words = ("send", "console:keyed", "once", "--from", "ci", "--key", "k1")
        assert desk.wakebus(*words).status == 0
    assert (desk.root / "bus" / "console-keyed.log").read_text().count("once") == 1


@pytest.mark.parametrize(
    ("channel", "status", "says"),
    [
        ("consle:demo", 1, "did you mean console?"),
        ("carrier-pigeon:7", 1, "no adapter for the platform 'carrier-pigeon'"),
        ("console:", 1, "no chat id after the colon"),
        ("console:../../etc/passwd", 1, "console"),
        ("console", 1, "CONSOLE_HOME_CHANNEL"),
        ("con sole:x", 1, "no platform"),
        ("console:a\x1b[2J", 1, "control"),
        ("", 2, "the channel is empty"),
    ],
)
def test_a_wrong_channel(desk: Desk, channel: str, status: int, says: str) -> None:
    """Told before anything is queued, with the near name or the next step."""
    before = desk.run("hermes-busd", "status", "--json").json["accepted"]
    done = desk.wakebus("send", channel, "x", "--from", "ci", "--json")
    assert done.status == status and says in done.err and "\x1b" not in done.both, done
    assert says in done.json["error"]["text"]
    assert desk.run("hermes-busd", "status", "--json").json["accepted"] == before


def test_bad_input(desk: Desk) -> None:
    """Usage errors are 2."""
    assert desk.wakebus("send", "console:demo").status == 2
    assert desk.wakebus("send", "console:demo", "").status == 2
    assert desk.wakebus("send", "console:demo", "-", stdin=b"\xff").status == 2
    assert desk.wakebus("send", "console:demo", "x", "--from", "a b").status == 2


def test_without_a_courier(own_desk: Desk) -> None:
    """Exit 1: it is kept, and how to get a courier; with one it arrives."""
    own_desk.start()
    done = own_desk.wakebus("send", "console:demo", "x", "--wait", "0.2", "--json")
    assert done.status == 1 and "no courier is running" in done.err
    assert "wakebus courier" in done.err and "wakebus trace" in done.err
    assert done.json["error"]["message"] in done.err
