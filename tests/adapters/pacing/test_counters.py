"""What became of deliveries, by platform."""

from wakebus.adapters.base import ChannelResult
from wakebus.adapters.errors import Result
from wakebus.adapters.pacing.counters import Tally


def test_counts() -> None:
    """ADP-6.19: each word, what was held back, and the last error; a success keeps it."""
    tally = Tally()
    words: tuple[Result, ...] = ("sent", "not_sent", "rejected", "uncertain", "not_sent", "sent")
    for word in words:
        tally.count("feishu", ChannelResult(word, reason=f"why {word}"), 7.6, held=False)
    tally.count("feishu", ChannelResult("not_sent", reason="pace"), 7.6, held=True)
    tally.count("slack", ChannelResult("sent"), 7.6, held=False)
    numbers = {"sent": 2, "rejected": 1, "not_sent": 2, "uncertain": 1, "held": 1}
    assert tally.counts()["feishu"] == numbers | {"last_error": "why not_sent", "last_error_at": 8}
    assert list(tally.counts()) == ["feishu", "slack"]


def test_an_error_may_name_the_chat() -> None:
    """ADP-6.19: "there is no direct chat with @alice" says nothing without it; the file is 0600."""
    tally = Tally()
    tally.count(
        "matrix", ChannelResult("rejected", "matrix", reason="no room with @a"), 7.6, held=False
    )
    assert tally.counts()["matrix"]["last_error"] == "no room with @a"


def test_an_error_is_short() -> None:
    """ADP-6.19: the file stays small."""
    tally = Tally()
    tally.count("feishu", ChannelResult("rejected", reason="x" * 9999), 7.6, held=False)
    assert len(tally.counts()["feishu"]["last_error"]) == 200
