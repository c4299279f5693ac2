"""What is cancelled on its way to a holder, where the disk is slow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.core import dispatch
from wakebus.broker.verbs import VERBS


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def test_what_is_fetched_is_not_sent(bench: Bench) -> None:
    """PROTOCOL-6.14: cancelled while the disk is asked for its body, it reaches nobody."""
    VERBS["send"](bench.hub, bench.request(posting("e", queue=True, id="m1")))
    bench.slow.run_all()
    bench.greeted().cancels = True
    dispatch.dispatch(bench.hub, bench.held("e"))
    VERBS["cancel"](bench.hub, bench.request({"id": "m1", "by": "ci"}))
    bench.slow.run_all()
    assert not [frame for frame in bench.posted if b'"deliver"' in frame]
    assert bench.hub.endpoint("e").mailbox.entries == {}
