"""A request on its way."""

from wakebus.broker.errors import Conflict
from wakebus.broker.pending import Pending


def test_an_answer_ends_the_wait() -> None:
    """`ok` is the answer; who waits is woken."""
    pending = Pending(1, b"")
    assert not pending.wait(0)
    pending.settle("ok", {"a": 1})
    assert pending.wait(0)
    assert (pending.answer, pending.error) == ({"a": 1}, None)


def test_an_error_is_one_of_ours() -> None:
    """`err` becomes the error of its code."""
    pending = Pending(1, b"")
    pending.settle("err", {"code": "conflict", "text": "no"})
    assert isinstance(pending.error, Conflict)
    assert pending.answer is None


def test_who_wants_to_know_is_called_once() -> None:
    """`notify` gets the request itself, with its answer."""
    told: list[Pending] = []
    pending = Pending(1, b"", told.append)
    pending.settle("ok", {})
    assert told == [pending]


def test_finished_without_an_answer_means_closed() -> None:
    """The transport has gone: neither answer nor error."""
    pending = Pending(1, b"")
    pending.finish()
    assert pending.wait(0)
    assert pending.answer is None and pending.error is None
