"""
A client's calls as steps: what is asked of the broker, and what becomes of the answers.

Rule 1: pure: who runs the steps does the asking and the waiting. Rule 2: each call is written once,
and run by `Client` in threads and by `AsyncClient` in a loop.
"""

from collections.abc import Callable, Generator, Iterator
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Row = dict[str, Any]


class Ask(NamedTuple):
    """
    One request. `timeout`: seconds for its answer, None: what the client was made with.

    `id`: the message that may be stored although no answer comes; `waited`: the one waited for.
    """

    verb: str
    payload: dict[str, Any]
    timeout: float | None = None
    id: str = ""
    waited: str = ""


def waiting(id: str, state: str, wait: float) -> Ask:
    """Return what waits `wait` seconds until message `id` is `state`."""
    # The broker ends the wait; the second is for the way back.
    return Ask("wait", {"id": id, "state": state, "timeout": wait}, wait + 1.0, waited=id)


# Yields what is asked, is sent the answer or thrown the error, returns the result.
Steps = Generator[Ask, dict[str, Any], T]
# Yields rows as well, one at a time.
Pages = Generator[Ask | Row, Any, None]


class Runs(Protocol):
    """What runs steps."""

    def _run(self, steps: Steps[T]) -> T:
        """Do what the steps ask for; return their result."""

    def _rows(self, pages: Pages) -> Iterator[Row]:
        """Do what the pages ask for; yield their rows."""


R = TypeVar("R", bound=Runs)


def asks(steps: Callable[Concatenate[R, P], Steps[T]]) -> Callable[Concatenate[R, P], T]:
    """Make a method of steps one that runs them."""

    @wraps(steps)
    def call(self: R, /, *args: P.args, **fields: P.kwargs) -> T:
        return self._run(steps(self, *args, **fields))

    return call


def pages(steps: Callable[Concatenate[R, P], Pages]) -> Callable[Concatenate[R, P], Iterator[Row]]:
    """Make a method of pages one that yields their rows."""

    @wraps(steps)
    def call(self: R, /, *args: P.args, **fields: P.kwargs) -> Iterator[Row]:
        return self._rows(steps(self, *args, **fields))

    return call


def steps_of(call: Callable[P, T]) -> Callable[P, Steps[T]]:
    """Return what `asks` was given."""
    found: Callable[P, Steps[T]] = call.__wrapped__  # type: ignore[attr-defined]
    return found


def pages_of(call: Callable[P, Iterator[Row]]) -> Callable[P, Pages]:
    """Return what `pages` was given."""
    found: Callable[P, Pages] = call.__wrapped__  # type: ignore[attr-defined]
    return found
