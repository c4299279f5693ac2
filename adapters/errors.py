"""
What goes wrong between a text and a chat, sorted by what the caller does.

* DeliveryError (a WakebusError)
    * Rejected        the same again would fail the same way: give up      -> `rejected`
        * BadChannel  BadTarget  UnknownAdapter  BrokenAdapter  BadSetting
    * NotSent         certainly not accepted: send again later             -> `not_sent`
        * Throttled (wait `.retry_after`)  Unavailable (back off)
            * Silent (beside the message, and no answer: nothing more is tried now)
        * Held (gate.py: our own pace, or a circuit that is open; nothing was begun)
        * Moved (the chat has another id now: there, once)
        * TokenRefused (get another token, once)  WayClosed (take the next way, now)
        * Stopped (retry.py: the host ends; the rest goes out when it runs again)
            * Overtaken (progress.py: another courier has taken the message over)
    * Uncertain       maybe accepted: again only under the same key        -> `uncertain`

Codes begin with `channel_`, because the broker has an `unavailable` of its own.
"""

from typing import Any, Literal

from wakebus.broker.errors import WakebusError

Scope = Literal["chat", "app"]


class DeliveryError(WakebusError):
    """A text did not (certainly) reach its chat. Never raised itself, only its branches."""

    code = "channel_error"


class Rejected(DeliveryError):
    """The platform, or we before it, will not take this; change the message or the set-up."""

    code = "channel_rejected"


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


class Held(Throttled):
    """Not begun: our own pace, or the platform's circuit is open. `retry_after`: seconds."""


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
