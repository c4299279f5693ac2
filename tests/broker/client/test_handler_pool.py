"""Threads for handlers."""

import threading

import pytest

from fakes.broker import until
from wakebus.broker.client.handler_pool import HandlerPool


def test_jobs_run_at_once() -> None:
    """No job waits for another: each gets a thread."""
    pool, all_here = HandlerPool(), threading.Barrier(5)
    for _ in range(4):
        pool.run(lambda: all_here.wait(10))
    all_here.wait(10)
    pool.stop()


def test_a_thread_that_is_done_takes_the_next_job() -> None:
    """One job after the other needs one thread."""
    pool, seen = HandlerPool(), []
    for number in range(20):
        pool.run(lambda: seen.append(threading.get_ident()))
        until(lambda n=number: len(seen) > n and pool._idle == 1)  # type: ignore[misc]
    assert len(set(seen)) == 1
    pool.stop()


def test_stopping_ends_the_threads() -> None:
    """Idle ones end at once, busy ones after their job; stop waits for none."""
    pool, go = HandlerPool(), threading.Event()
    threads: list[threading.Thread] = []

    def job(wait: float) -> None:
        threads.append(threading.current_thread())
        go.wait(wait)

    pool.run(lambda: job(0))
    pool.run(lambda: job(10))
    until(lambda: len(threads) == 2)
    pool.stop()
    assert any(thread.is_alive() for thread in threads)
    go.set()
    until(lambda: not any(thread.is_alive() for thread in threads))
    assert all(thread.daemon for thread in threads)


def test_a_process_without_threads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can start the caller hears of it, and the job is not kept."""

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = HandlerPool()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            pool.run(lambda: None)
    done = threading.Event()
    pool.run(done.set)
    assert done.wait(10)
    pool.stop()
