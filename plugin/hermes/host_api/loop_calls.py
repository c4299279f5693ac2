"""
Calls from our threads on Hermes's event loop.

Rule 1: never from the loop's own thread. Rule 2: always within a time. Rule 3: what is called is
made there, so that a loop that is gone leaves nothing unawaited.
"""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from typing import TypeVar

from wakebus.plugin.hermes.host_api.protocol import Unreachable

GONE = "the gateway is stopping"

T = TypeVar("T")


def call_on_loop(
    loop: asyncio.AbstractEventLoop | None, make: Callable[[], Awaitable[T]], timeout: float
) -> T:
    """
    Return what `make()` gives, awaited on `loop`.

    Raises Unreachable where there is no loop, or it has ended; TimeoutError; what it raised.
    """
    if loop is None or loop.is_closed():
        raise Unreachable(GONE)

    async def run() -> T:
        return await make()

    coroutine = run()
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise Unreachable(GONE) from None
    try:
        return future.result(timeout)
    except TimeoutError:
        future.cancel()
        raise
    except (concurrent.futures.CancelledError, asyncio.CancelledError):
        raise Unreachable(GONE) from None
