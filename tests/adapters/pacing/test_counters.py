"""What became of deliveries, by platform."""

from wakebus.adapters.base import ChannelResult
from wakebus.adapters.errors import Result
from wakebus.adapters.pacing.counters import DeliveryCounters


def test_counts() -> None:
    """ADP-6.19: each word, what was held back, and the last error; a success keeps it."""
    counters = DeliveryCounters()
    words: tuple[Result, ...] = ("sent", "not_sent", "rejected", "uncertain", "not_sent", "sent")
    for word in words:
        counters.count_result("feishu", ChannelResult(word, reason=f"why {word}"), 7.6, held=False)
    counters.count_result("feishu", ChannelResult("not_sent", reason="pace"), 7.6, held=True)
    counters.count_result("slack", ChannelResult("sent"), 7.6, held=False)
    numbers = {"sent": 2, "rejected": 1, "not_sent": 2, "uncertain": 1, "held": 1}
    assert counters.counts()["feishu"] == numbers | {
        "last_error": "why not_sent",
        "last_error_at": 8,
    }
    assert list(counters.counts()) == ["feishu", "slack"]


def test_an_error_may_name_the_chat() -> None:
    """ADP-6.19: "there is no direct chat with @alice" says nothing without it; the file is 0600."""
    counters = DeliveryCounters()
    counters.count_result(
        "matrix", ChannelResult("rejected", "matrix", reason="no room with @a"), 7.6, held=False
    )
    assert counters.counts()["matrix"]["last_error"] == "no room with @a"


def test_an_error_is_short() -> None:
    """ADP-6.19: the file stays small."""
    counters = DeliveryCounters()
    counters.count_result("feishu", ChannelResult("rejected", reason="x" * 9999), 7.6, held=False)
    assert len(counters.counts()["feishu"]["last_error"]) == 200
