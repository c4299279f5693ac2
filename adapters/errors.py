"""
What goes wrong between a text and a chat, sorted by what the caller does.

* DeliveryError (a WakebusError)
    * Rejected        the same again would fail the same way: give up      -> `rejected`
        * BadChannel  BadTarget  UnknownAdapter  BrokenAdapter  BadSetting
    * NotSent         certainly not accepted: send again later             -> `not_sent`
        * Throttled (wait `.retry_after`)  Unavailable (back off)
            * Silent (beside the message, and no answer: nothing more is tried now)
        * Held (pacing: our own pace, or a circuit that is open; nothing was begun)
        * Moved (the chat has another id now: there, once)
        * TokenRefused (get another token, once)  WayClosed (take the next way, now)
        * Stopped (delivery/retry.py: the host ends; the rest goes out when it runs again)
            * Overtaken (courier/delivery_log.py: another courier has taken the message over)
    * Uncertain       maybe accepted: again only under the same key        -> `uncertain`

Codes begin with `channel_`, because the broker has an `unavailable` of its own.
"""

import math
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self

from wakebus.broker.errors import WakebusError

Scope = Literal["chat", "app"]
Result = Literal["sent", "rejected", "not_sent", "uncertain"]

MAX_WAIT_S: Final = 3600.0  # a hint beyond this is a mistake or a ban; look again then
LEAST_WAIT_S: Final = 0.1  # "again after 0 s", taken literally, is a flood


class DeliveryError(WakebusError):
    """
    A text did not (certainly) reach its chat. Never raised itself, only its branches.

    result: what the channel result says of a delivery that ends with it.
    """

    code = "channel_error"
    result: ClassVar[Result] = "uncertain"

    @property
    def wait(self) -> float | None:
        """The wait asked for, in seconds, an hour at most; None for no time, and for none."""
        return _usable(self.data.get("retry_after"))

    @classmethod
    def of_bug(cls, platform: str, bug: Exception) -> Self:
        """Return this error for a bug of an adapter, named without its text."""
        return cls(f"the adapter {platform!r} failed: {place_of(bug)}")


class Rejected(DeliveryError):
    """The platform, or we before it, will not take this; change the message or the set-up."""

    code = "channel_rejected"
    result = "rejected"


class BadChannel(Rejected):
    """The channel token itself is wrong, or has no home channel to resolve to."""


class BadTarget(Rejected):
    """The platform knows no such kind of chat id or thread."""


class UnknownAdapter(Rejected):
    """No adapter has this name. `data["near"]`: similar names."""


class BrokenAdapter(Rejected):
    """The adapter cannot be imported or has a bug; the text names it and the error's place."""


class BadSetting(Rejected):
    """A setting of the adapter is missing or wrong; the text names the variable, not its value."""


class NotSent(DeliveryError):
    """Certainly not accepted; the same request may succeed later."""

    code = "channel_not_sent"
    result = "not_sent"
    retry = True


class Throttled(NotSent):
    """
    Too fast. `retry_after`: seconds that the platform asks for, None if it does not say.

    scope: what it holds up, as far as the platform tells: this chat, or all that the app sends.
    """

    def __init__(
        self,
        text: str,
        *,
        retry_after: float | None = None,
        scope: Scope = "chat",
        **data: Any,
    ) -> None:
        super().__init__(text, **data)
        self.retry_after = retry_after
        self.scope = scope

    @property
    def wait(self) -> float | None:
        """The platform's wait: `retry_after` as far as it is a time."""
        return _usable(self.retry_after)


class Held(Throttled):
    """Not begun: our own pace, or the platform's circuit is open. `retry_after`: seconds."""

    @property
    def wait(self) -> float | None:
        """Our own wait: a place that comes in a moment is one."""
        return _usable(max(self.retry_after or 0.0, LEAST_WAIT_S))


class Unavailable(NotSent):
    """Not reachable, or not able to take anything now."""


class Silent(Unavailable):
    """No answer to a request beside the message: of the text nothing went out; back off at once."""


class TokenRefused(NotSent):
    """The platform does not take this access token (any more)."""


class Moved(NotSent):
    """The chat has the id `chat_id` now (a Telegram group that became a supergroup)."""

    def __init__(self, text: str, chat_id: str, **data: Any) -> None:
        super().__init__(text, **data)
        self.chat_id = chat_id


class WayClosed(NotSent):
    """This way to the chat is gone, a session webhook that expired; the next one may work."""


class Uncertain(DeliveryError):
    """Written to the platform, and no answer that says what became of it."""

    code = "channel_uncertain"
    result = "uncertain"


def place_of(error: Exception) -> str:
    """Return type and place of an error, without its text: that may hold a credential."""
    return f"{type(error).__name__}{_where(error.__traceback__)}"


def _where(frames: TracebackType | None) -> str:
    if frames is None:
        return ""
    while frames.tb_next is not None:
        frames = frames.tb_next
    file = frames.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f" at {file}:{frames.tb_lineno}"


def _usable(wait: object) -> float | None:
    # An adapter may have passed on what the platform wrote: any type, NaN, a year.
    if isinstance(wait, int | float) and LEAST_WAIT_S <= wait < math.inf:
        return min(float(wait), MAX_WAIT_S)
    return None
