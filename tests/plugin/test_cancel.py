"""Ending from another thread."""

import os
import selectors
import threading

from wakebus.plugin.cancel import Cancel, Waker


def _readable(waker: Waker, seconds: float = 0.0) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(waker.fd, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def test_cancel_wakes_all_that_wait() -> None:
    """From another thread, every one of them; who was removed is left alone."""
    cancel = Cancel()
    wakers = [Waker() for _ in range(3)]
    for waker in wakers:
        cancel.add(waker)
    cancel.remove(wakers[2])
    thread = threading.Thread(target=cancel.cancel)
    thread.start()
    assert all(_readable(waker, 5) for waker in wakers[:2])
    thread.join()
    assert cancel.asked and not _readable(wakers[2])
    for waker in wakers:
        waker.close()


def test_a_waker_never_blocks_and_takes_late_wakes() -> None:
    """A full pipe is awake enough; a closed one does nothing."""
    waker = Waker()
    for _ in range(100_000):
        waker.wake()
    assert len(os.read(waker.fd, 1 << 20)) > 0
    waker.close()
    waker.wake()
