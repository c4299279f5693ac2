"""What a send costs that is not taken."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.errors import Busy
from wakebus.broker.verbs import VERBS


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def test_what_a_busy_broker_refused_is_not_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-4.15: only what is accepted is, however often a sender tried."""
    message = posting("b", queue=True, sender="a", hops=1)
    monkeypatch.setattr(bench.slow, "full", lambda: True)
    for _ in range(20):
        with pytest.raises(Busy):
            VERBS["send"](bench.hub, bench.request(message))
    monkeypatch.setattr(bench.slow, "full", lambda: False)
    VERBS["send"](bench.hub, bench.request(message))
    bench.slow.run_all()
    assert bench.answers[-1]["state"] == "queued"
