"""Calls as steps."""

from collections.abc import Iterator
from typing import Any

import pytest

from wakebus.broker.client.calls import Ask, Pages, Steps, asks, pages, pages_of, steps_of
from wakebus.broker.client.queries import Queries
from wakebus.broker.errors import TimedOut


class Told(Queries):
    """Answers what it is told to; raises what is an error."""

    def __init__(self, *answers: Any) -> None:
        self.answers: Iterator[Any] = iter(answers)
        self.asked: list[Ask] = []

    def _call(self, ask: Ask) -> dict[str, Any]:
        self.asked.append(ask)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return {"answer": answer}

    @asks
    def two(self, first: str, *, second: str = "b") -> Steps[list[Any]]:
        """Ask twice."""
        one = yield Ask(first, {})
        try:
            other = yield Ask(second, {}, 2.0)
        except TimedOut as exc:
            raise ValueError("too late") from exc
        return [one["answer"], other["answer"]]

    @pages
    def rows(self, count: int) -> Pages:
        """Ask for each page of two rows."""
        for _ in range(count):
            page = yield Ask("page", {})
            yield {"row": page["answer"]}
            yield {"row": -page["answer"]}


def test_each_answer_leads_to_the_next_question() -> None:
    """The steps' own result is what the call returns."""
    told = Told(1, 2)
    assert told.two("a", second="c") == [1, 2]
    assert told.asked == [Ask("a", {}), Ask("c", {}, 2.0)]


def test_an_error_is_raised_where_it_was_asked() -> None:
    """So the steps may make another one of it, or let it pass."""
    with pytest.raises(ValueError, match="too late"):
        Told(1, TimedOut("x")).two("a")
    with pytest.raises(TimedOut):
        Told(TimedOut("x")).two("a")


def test_rows_are_asked_for_as_they_are_needed() -> None:
    """The first page at once, so that an error comes where the call stands; then one by one."""
    told = Told(1, 2)
    rows = told.rows(2)
    assert len(told.asked) == 1
    assert [next(rows), next(rows)] == [{"row": 1}, {"row": -1}] and len(told.asked) == 1
    assert [*rows] == [{"row": 2}, {"row": -2}] and len(told.asked) == 2
    assert [*Told().rows(0)] == []
    with pytest.raises(TimedOut):
        Told(TimedOut("x")).rows(1)


def test_the_steps_can_be_had_without_being_run() -> None:
    """For who runs them otherwise; name and words stay."""
    told = Told()
    assert next(steps_of(Told.two)(told, "a")) == Ask("a", {})
    assert next(pages_of(Told.rows)(told, 1)) == Ask("page", {})
    assert not told.asked
    assert (Told.two.__name__, Told.two.__doc__) == ("two", "Ask twice.")
