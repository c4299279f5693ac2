"""
The lease on a chat, so that two long texts are not shuffled part by part.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: a message of
several parts that has begun owns the chat (its thread) until it ends, is put off for longer than
LONG_S, or is not heard of for LOST_S. Rule 3: a message of one part owns nothing, and waits only
while another owns. Rule 4: who wants to own lets those go first who wait already: a sender of long
texts does not hold the others back for ever. Rule 5: each asking costs a commit: who waits asks
again when the owner may be through, the later the more there are. Rule 6: bounded.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

LONG_S: Final = 30.0
LOST_S: Final = 60.0
SOON_S: Final = 0.25  # a part that nothing holds back
LONGEST_S: Final = 5.0  # the owner may end before that: refused, or quicker than we think
SPREAD_S: Final = 0.05  # for each that waits
EXPIRE_S: Final = 5.0  # after its time, before one who waits is given up
MAX_CHATS: Final = 10_000
MAX_WAITING: Final = 1_000


@dataclass(slots=True)
class _Lease:
    """Of a chat. `until`: then the owner is given up; `ready`: then it may be through."""

    owner: str = ""
    until: float = 0.0
    ready: float = 0.0
    waiting: OrderedDict[str, float] = field(default_factory=OrderedDict)  # given up at


class ChatLeases:
    """Those of all chats. Not thread-safe."""

    def __init__(self) -> None:
        self._leases: OrderedDict[str, _Lease] = OrderedDict()

    def __len__(self) -> int:
        return len(self._leases)

    def wait(self, chat: str, key: str, left: int, now: float) -> float:
        """
        Return 0.0 when the next part of `key` may go, else after how many seconds to ask again.

        left: how many of its parts are to go, 0 where that is not known yet.
        """
        lease = self._leases.get(chat)
        if lease is None or lease.owner == key:
            return 0.0
        self._expire(lease, now)
        if not lease.owner and not lease.waiting:
            del self._leases[chat]
            return 0.0
        first = next(iter(lease.waiting), key)
        if not lease.owner and (left < 2 or first == key):
            if left:
                lease.waiting.pop(key, None)
            return 0.0
        rest = min(lease.ready - now, LONGEST_S) if lease.owner else 0.0
        wait = max(rest, SOON_S) + SPREAD_S * len(lease.waiting)
        if key in lease.waiting or len(lease.waiting) < MAX_WAITING:
            lease.waiting[key] = now + wait + EXPIRE_S
        return wait

    def acquire(self, chat: str, key: str, left: int, now: float, gap: float) -> None:
        """A part of `key` goes out, with `left` to go; `gap`: seconds from one to the next."""
        lease = self._leases.get(chat)
        if left < 2 and (lease is None or lease.owner != key):
            return
        lease = self._leases.setdefault(chat, _Lease())
        self._leases.move_to_end(chat)
        lease.owner, lease.until = key, now + LOST_S
        lease.ready = now + left * gap if left else lease.ready
        while len(self._leases) > MAX_CHATS:
            self._leases.popitem(last=False)

    def release(self, chat: str, key: str, again: float | None, now: float) -> None:
        """`key` is out of hand: it comes again after so many seconds, or (None) never."""
        lease = self._leases.get(chat)
        if lease is None or lease.owner != key:
            return
        if again is not None and again <= LONG_S:
            lease.until, lease.ready = now + again + LONG_S, max(lease.ready, now + again)
            return
        lease.owner = ""
        self._expire(lease, now)
        if not lease.waiting:
            del self._leases[chat]

    def _expire(self, lease: _Lease, now: float) -> None:
        """Give up who is not heard of any more."""
        if lease.until <= now:
            lease.owner = ""
        for key in [key for key, due in lease.waiting.items() if due <= now]:
            del lease.waiting[key]
