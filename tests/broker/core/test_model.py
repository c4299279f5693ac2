"""What the hub holds."""

from wakebus.broker.core.model import Holder
from wakebus.broker.system.processes import Process


def test_silence_is_counted_from_the_last_beat() -> None:
    """PROTOCOL-5.7: exactly `stale_s` is not yet silent."""
    holder = Holder("a", Process(1), 1, b"c")
    holder.beat = 100.0
    assert not holder.silent(110.0, 10.0) and holder.silent(110.1, 10.0)
