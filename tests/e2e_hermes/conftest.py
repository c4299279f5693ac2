"""Worlds that end with their test or module, and tell their story when a test fails."""

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e_hermes.world import World

MakeWorld = Callable[..., World]


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> None:
    """No test sees the bus or the Hermes of the person who runs it."""
    for name in list(os.environ):
        if name.startswith(("WAKEBUS_", "HERMES_", "MATTERMOST_", "TMUX")):
            del os.environ[name]


@contextmanager
def _closing(world: World) -> Iterator[World]:
    # atexit: a second Ctrl-C skips the ends of fixtures.
    atexit.register(world.close)
    try:
        yield world
    finally:
        world.close()
        atexit.unregister(world.close)


@pytest.fixture(scope="module")
def world(_clean_environment: None) -> Iterator[World]:
    """A world with broker and gateway, shared by a module's tests: each uses its own chat."""
    with _closing(World()) as found:
        yield found.start_all()


@pytest.fixture
def make_world(_clean_environment: None) -> Iterator[MakeWorld]:
    """Return a maker of a test's own worlds, in which nothing runs: `make_world(grant=False)`."""
    made: list[World] = []

    def make(**options: object) -> World:
        made.append(World(**options))  # type: ignore[arg-type]
        atexit.register(made[-1].close)
        return made[-1]

    yield make
    for found in made:
        found.close()
        atexit.unregister(found.close)


@pytest.fixture
def own_world(make_world: MakeWorld) -> World:
    """A world of the test's own, with broker and gateway."""
    return make_world().start_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show the story of every world that a failed test used."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, World) and value.root.exists():
                report.sections.append((f"story of {name}", value.story()))
    return report  # type: ignore[return-value]
