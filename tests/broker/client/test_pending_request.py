"""A request on its way."""

import threading

from fakes.broker import until
from wakebus.broker.client.pending_request import PendingRequest
from wakebus.broker.errors import Conflict, NotRunning


def test_an_answer_ends_the_wait() -> None:
    """`ok` is the answer; who waits is woken."""
    pending = PendingRequest(1, b"")
    assert not pending.wait(0)
    pending.settle("ok", {"a": 1})
    assert pending.wait(0)
    assert (pending.answer, pending.error) == ({"a": 1}, None)


def test_an_error_is_one_of_ours() -> None:
    """`err` becomes the error of its code."""
    pending = PendingRequest(1, b"")
    pending.settle("err", {"code": "conflict", "text": "no"})
    assert isinstance(pending.error, Conflict)
    assert pending.answer is None


def test_who_wants_to_know_is_called_once() -> None:
    """`notify` gets the request itself, with its answer."""
    told: list[PendingRequest] = []
    pending = PendingRequest(1, b"", told.append)
    pending.settle("ok", {})
    assert told == [pending]


def test_finished_without_an_answer_means_closed() -> None:
    """The connection has gone: neither answer nor error."""
    pending = PendingRequest(1, b"")
    pending.finish()
    assert pending.wait(0)
    assert pending.answer is None and pending.error is None


def test_all_who_wait_are_woken() -> None:
    """By the answer, and by a fork; then nobody is notified: that would be the parent's."""
    told: list[PendingRequest] = []
    for forked in (False, True):
        pending = PendingRequest(1, b"", told.append)
        threads = [threading.Thread(target=pending.wait, args=(60,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda p=pending: len(p._waiters) == 3)  # type: ignore[misc]
        if forked:
            pending.abandon(NotRunning("forked"))
        else:
            pending.settle("ok", {})
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert len(told) == 1 and isinstance(pending.error, NotRunning)


def test_a_wait_ends_in_time() -> None:
    """Whatever time is given; and an answer that comes later is still told."""
    pending = PendingRequest(1, b"")
    assert not pending.wait(0.01) and not pending.wait(-1)
    pending.settle("ok", {})
    assert pending.wait(1e12)
