"""Tells people when the broker of a long-running command goes and when it is there again."""

from collections.abc import Callable

from wakebus.broker import Client
from wakebus.broker.paths import bus_dir, stop_mark


class BrokerPresence:
    """Call `check` a few times a second; `say` tells people what has changed since."""

    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self._client, self._say = client, say
        self._there = True

    def check(self) -> None:
        """Look whether the broker is there."""
        if self._there is (there := self._client.connected(0)):
            return
        self._there = there
        if there:
            self._say("the broker is back")
        elif stop_mark(bus_dir()).exists():
            self._say("the broker was stopped; to go on: hermes-busd start")
        else:
            self._say("the broker is away; waiting")
