"""
Calls from other threads into a loop, in batches.

Rule 1: one wake-up of the loop for all that came since the last one: a wake-up costs more than an
answer. Rule 2: order is kept. Rule 3: a loop that has ended takes nothing; whoever posts is
told so, and nobody is warned.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class LoopBridge:
    """Into one loop. `gone`: called by whoever finds that the loop has ended; must not wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gone: Callable[[], object]) -> None:
        self._loop, self._gone = loop, gone
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._woken = False

    def post(self, function: Callable[..., object], *args: Any) -> bool:
        """
        Have `function(*args)` called in the loop (any thread); it must not raise.

        Return whether the loop still takes it.
        """
        self._posted.append((function, args))
        # A loop may end with a wake-up that it never came to.
        if not self._woken or self._loop.is_closed():
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._call_posted)
            except RuntimeError:  # the loop is closed
                self._woken = False
                self._posted.clear()
                self._gone()
                return False
        return True

    def _call_posted(self) -> None:
        self._woken = False  # first: what is posted from now on wakes again
        posted = self._posted
        while posted:
            function, args = posted.popleft()
            function(*args)


def resolve(future: asyncio.Future[Any], result: Any) -> None:
    """Give a future its result, if it still waits for one."""
    if not future.done():
        future.set_result(result)
