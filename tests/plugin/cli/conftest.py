"""A desk for the tests of one module, and listeners that end with their test."""

import shutil
from collections.abc import Callable, Iterator

import pytest

from fakes.desk import Desk, Listener
from fakes.tmux import Tmux, serve


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """A desk whose broker runs, without services."""
    found = Desk()
    found.start()
    yield found
    found.close()


@pytest.fixture
def own_desk() -> Iterator[Desk]:
    """A desk of the test's own; nothing runs yet."""
    found = Desk()
    yield found
    found.close()


@pytest.fixture
def listen(desk: Desk) -> Iterator[Callable[..., Listener]]:
    """Return `desk.listen`, whose listeners end with the test."""
    started: list[Listener] = []

    def start(*words: str, **more: object) -> Listener:
        started.append(desk.listen(*words, **more))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for listener in started:
        if not listener.ended:
            listener.end()


@pytest.fixture(scope="module")
def tmux() -> Iterator[Tmux]:
    """A tmux server with the session `my session`."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    yield from serve()
