"""
What a delivery works with: transports, caches, its permit, a clock, a way to wait, a record.

Rule 1: transports and caches are shared by the deliveries of a host; permit and record are one
message's.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from wakebus.adapters.base import Part, Progress, Transport
from wakebus.adapters.delivery.access_tokens import TokenCache
from wakebus.adapters.delivery.chat_lookup import ChatLookups
from wakebus.adapters.delivery.split_cache import SplitCache
from wakebus.adapters.errors import DeliveryError, Result


class Admission(Protocol):
    """
    What one delivery asks before a request, and says after it; the courier's is a pacing Permit.

    Asked before a part is begun, told after it.
    """

    def enter(self, left: int = 0) -> None:
        """
        Return when the next request may go out now; else raise Held with the wait.

        left: the parts of its text that are to go, this one with them; 0: not known yet.
        """
        ...

    def begin(self) -> None:
        """What was let pass goes out only now: an upload came before it."""
        ...

    def report(self, error: DeliveryError | None) -> None:
        """Learn how the request ended: None for sent."""
        ...


class AllowAll:
    """The admission of a host that holds nothing back."""

    def enter(self, left: int = 0) -> None:
        """Return at once."""

    def begin(self) -> None:
        """Learn nothing."""

    def report(self, error: DeliveryError | None) -> None:
        """Learn nothing."""


def pause(seconds: float) -> bool:
    """Wait; a host that never stops."""
    time.sleep(seconds)
    return False


class MemoryRecord:
    """A record of parts that lasts for one delivery."""

    def __init__(self) -> None:
        self._parts: dict[int, Part] = {}
        self._chat_token = ""

    def parts(self) -> Mapping[int, Part]:
        """Return a copy of what is known."""
        return dict(self._parts)

    def chat_token(self) -> str:
        """Return the chat of the last part that was begun."""
        return self._chat_token

    def begin_part(self, number: int, now: float, chat_token: str = "") -> None:
        """Remember the part, by its first try, and its chat."""
        self._chat_token = chat_token
        self._parts.setdefault(number, Part("begun", first=now))

    def end_part(self, number: int, result: Result, id: str = "") -> None:
        """Remember how it ended."""
        if result == "sent":
            self._parts[number] = Part("sent", id)
        elif result != "uncertain":
            self._parts.pop(number, None)


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """
    What a delivery works with.

    performers: by the request's scheme. now: Unix seconds. sleep: waits, and returns True as soon
    as the host stops; then nothing more is begun. permit: whether a request may go out now.
    record: what earlier deliveries of the message left, and where this one writes. secrets: the
    settings' values that no reason may show.
    """

    performers: Mapping[str, Transport]
    tokens: TokenCache = field(default_factory=TokenCache)
    lookups: ChatLookups = field(default_factory=ChatLookups)
    splits: SplitCache = field(default_factory=SplitCache)
    now: Callable[[], float] = time.time
    sleep: Callable[[float], bool] = pause
    permit: Admission = field(default_factory=AllowAll)
    record: Progress = field(default_factory=MemoryRecord)
    secrets: Callable[[], set[str]] = set
