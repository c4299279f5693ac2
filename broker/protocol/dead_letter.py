"""
What the reason of a dead letter says, and what its sender can do about it.

Rule 1: pure. Rule 2: a command that is named is one that the broker takes: `next_steps` follows the
same facts by which `retry` is refused (PROTOCOL.md section 10).
"""

from typing import Final

UNREADABLE: Final = "what is stored of it cannot be read"
# Why a message died with an ephemeral name: for its session, or for whoever held the name.
FOR_IT: Final = "its session ended: the client that held {} is gone"
WITH_IT: Final = "the session that held {} has ended"
_FOR_IT, _WITH_IT = (reason.partition("{")[0] for reason in (FOR_IT, WITH_IT))
ORPHANED: Final = (_FOR_IT, _WITH_IT)

# Why an open message is cancelled: by whom, or because waits for it go in a circle.
CANCELLED: Final = "cancelled by {}"
CIRCLE: Final = "a loop: {}"
_CIRCLE: Final = CIRCLE.partition("{")[0]

MAY_BE_DONE: Final = "work on it had begun, and may be done in part or whole"


def is_known_to(sender: str, reason: str) -> bool:
    """Whether the sender of what was cancelled knows that: by itself, or told as it waited."""
    return reason == CANCELLED.format(sender) or reason.startswith(_CIRCLE)


def next_steps(id: str, reason: str, *, in_doubt: bool) -> str:
    """
    Return in words what can be done about dead letter `id`.

    in_doubt: work on it may have been done, so that only `--force` has it done again.
    """
    look = f"Look at it: wakebus dead show {id}"
    retry = f"wakebus dead retry {id}"
    if reason.startswith(_FOR_IT):
        return f"{look}. It is for nobody else; whom you can reach now: wakebus endpoints"
    if reason.startswith(_WITH_IT):
        return f"{look}. Once somebody has that name again: {retry}"
    if reason.startswith(UNREADABLE):
        return f"{look}. Send it anew; to delete this one: wakebus dead purge {id}"
    if in_doubt:
        return f"{look}. To have it done again all the same: wakebus dead retry --force {id}"
    return f"{look}. Send it again: {retry}"
