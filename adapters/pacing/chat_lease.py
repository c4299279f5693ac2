"""
Whose turn it is in a chat, so that two long texts are not shuffled part by part.

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
LAPSE_S: Final = 5.0  # after its time, before one who waits is given up
MAX_CHATS: Final = 10_000
MAX_WAITING: Final = 1_000


@dataclass(slots=True)
class _Turn:
    """Of a chat. `until`: then the owner is given up; `ready`: then it may be through."""

    owner: str = ""
    until: float = 0.0
    ready: float = 0.0
    waiting: OrderedDict[str, float] = field(default_factory=OrderedDict)  # given up at


class Turns:
    """Those of all chats. Not thread-safe."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, _Turn] = OrderedDict()

    def __len__(self) -> int:
        return len(self._turns)

    def wait(self, chat: str, key: str, left: int, now: float) -> float:
        """
        Return 0.0 when the next part of `key` may go, else after how many seconds to ask again.

        left: how many of its parts are to go, 0 where that is not known yet.
        """
        turn = self._turns.get(chat)
        if turn is None or turn.owner == key:
            return 0.0
        self._forget(turn, now)
        if not turn.owner and not turn.waiting:
            del self._turns[chat]
            return 0.0
        first = next(iter(turn.waiting), key)
        if not turn.owner and (left < 2 or first == key):
            if left:
                turn.waiting.pop(key, None)
            return 0.0
        rest = min(turn.ready - now, LONGEST_S) if turn.owner else 0.0
        wait = max(rest, SOON_S) + SPREAD_S * len(turn.waiting)
        if key in turn.waiting or len(turn.waiting) < MAX_WAITING:
            turn.waiting[key] = now + wait + LAPSE_S
        return wait

    def go(self, chat: str, key: str, left: int, now: float, gap: float) -> None:
        """A part of `key` goes out, with `left` to go; `gap`: seconds from one to the next."""
        turn = self._turns.get(chat)
        if left < 2 and (turn is None or turn.owner != key):
            return
        turn = self._turns.setdefault(chat, _Turn())
        self._turns.move_to_end(chat)
        turn.owner, turn.until = key, now + LOST_S
        turn.ready = now + left * gap if left else turn.ready
        while len(self._turns) > MAX_CHATS:
            self._turns.popitem(last=False)

    def off(self, chat: str, key: str, again: float | None, now: float) -> None:
        """`key` is out of hand: it comes again after so many seconds, or (None) never."""
        turn = self._turns.get(chat)
        if turn is None or turn.owner != key:
            return
        if again is not None and again <= LONG_S:
            turn.until, turn.ready = now + again + LONG_S, max(turn.ready, now + again)
            return
        turn.owner = ""
        self._forget(turn, now)
        if not turn.waiting:
            del self._turns[chat]

    def _forget(self, turn: _Turn, now: float) -> None:
        """Give up who is not heard of any more."""
        if turn.until <= now:
            turn.owner = ""
        for key in [key for key, due in turn.waiting.items() if due <= now]:
            del turn.waiting[key]
