"""
Calls from our threads on Hermes's event loop.

Rule 1: never from the loop's own thread. Rule 2: always within a time. Rule 3: what is called is
made there, so that a loop that is gone leaves nothing unawaited.
"""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class LoopGone(Exception):
    """The gateway's loop has ended, or there is none yet: nothing was called."""


def call(runner: Any, make: Callable[[], Awaitable[T]], timeout: float) -> T:
    """
    Return what `make()` gives, awaited on the gateway's loop.

    Raises LoopGone, TimeoutError, or what it raised.
    """
    loop = getattr(runner, "_gateway_loop", None)
    if loop is None or loop.is_closed():
        raise LoopGone

    async def run() -> T:
        return await make()

    coroutine = run()
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise LoopGone from None
    try:
        return future.result(timeout)
    except TimeoutError:
        future.cancel()
        raise
    except (concurrent.futures.CancelledError, asyncio.CancelledError):
        raise LoopGone from None
