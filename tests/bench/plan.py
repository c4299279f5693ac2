"""How long and how often: the whole run, or a quick look."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple

# Imported once, before the workers are forked: a worker starts in milliseconds.
HEAVY: Final = ["zmq", "msgspec", "asyncio", "nats", "redis", "wakebus.broker.client.client"]
context: Final = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(HEAVY)


class Plan(NamedTuple):
    """Seconds of one cell, repetitions, envelopes' bytes, seconds of idleness, starts."""

    seconds: float = 0.8
    repeat: int = 3
    sizes: tuple[int, ...] = (200, 2048)
    idle: float = 10.0
    starts: int = 5
    clients: int = 1000


QUICK: Final = Plan(seconds=0.3, repeat=1, sizes=(200,), idle=2.0, starts=2, clients=200)


def start(target: Callable[..., Any], *given: Any) -> BaseProcess:
    """Start a worker; whoever starts it ends it."""
    process = context.Process(target=target, args=given, daemon=True)
    process.start()
    return process


def end(*processes: BaseProcess) -> None:
    """End workers, by pid."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join(5)


def turns(names: list[str], number: int) -> list[str]:
    """Return the names, beginning elsewhere in each repetition."""
    return names[number % len(names) :] + names[: number % len(names)]
