"""
Everything wakebus raises on purpose, and the code each error has on the wire.

* WakebusError
    * ProtocolError       a peer breaks PROTOCOL.md; never retried
        * BadFrame  BadVersion
    * Refused             the broker will not do this; change the request
        * TooBig  BadName  BadTopic  BadMessage  UnknownTarget  NameTaken
        * NotRegistered  Fenced  Conflict  BadToken  UnknownId  UnknownVerb  Loop
    * NotNow              nothing was stored; the same request may succeed later
        * MailboxFull  Busy  BrokerUnavailable
    * NotRunning          no broker answers at this address; nothing was written
    * Undecided           written, no receipt in time: resend `.id` to settle it
    * TimedOut            the thing waited for did not happen in time (nothing is lost)

`code`, `text` and `retry` travel in the wire's `err` answer (PROTOCOL.md section 3); `from_wire`
turns that answer back into the same class.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Final

CLOSED: Final = "this client is closed"


class WakebusError(Exception):
    """Base of all errors that wakebus raises on purpose. `data`: extra fields for the wire."""

    code: ClassVar[str] = "error"
    retry: ClassVar[bool] = False

    def __init__(self, text: str, **data: Any) -> None:
        super().__init__(text)
        self.text = text
        self.data = data

    def to_wire(self) -> dict[str, Any]:
        """Return the payload of an `err` answer."""
        return {**self.data, "code": self.code, "text": self.text, "retry": self.retry}


class ProtocolError(WakebusError):
    """A peer breaks PROTOCOL.md."""


class BadFrame(ProtocolError):
    """A frame is no JSON that the protocol allows, or has the wrong shape."""

    code = "bad_frame"


class BadVersion(ProtocolError):
    """The peer speaks a protocol version that is not served here."""

    code = "bad_version"


class Refused(WakebusError):
    """The broker will not do this, now or later."""

    code = "refused"


class TooBig(Refused):
    """A body, field or frame is over its limit."""

    code = "too_big"


class BadName(Refused):
    """Not an endpoint name: `[A-Za-z0-9_-]{1,64}`."""

    code = "bad_name"


class BadTopic(Refused):
    """Not a topic of an event, or not a pattern of topics; the text says what is wrong."""

    code = "bad_topic"


class BadMessage(Refused):
    """A field of a message is missing or wrong; the text names the field."""

    code = "bad_message"


class UnknownTarget(Refused):
    """Nobody ever registered or declared this endpoint. `data["near"]`: similar names."""

    code = "unknown_target"


class NameTaken(Refused):
    """Another live client holds this endpoint. `data["pid"]`: the process."""

    code = "name_taken"


class NotRegistered(Refused):
    """This connection holds no such endpoint."""

    code = "not_registered"


class Fenced(Refused):
    """Another client has taken this endpoint over since; this one must stop."""

    code = "fenced"


class Conflict(Refused):
    """This id is already stored with another sender or content."""

    code = "conflict"


class BadToken(Refused):
    """The turn that this token belongs to is over, or never was."""

    code = "bad_token"


class UnknownId(Refused):
    """No message with this id is stored (any more)."""

    code = "unknown_id"


class UnknownVerb(Refused):
    """The broker knows no such request."""

    code = "unknown_verb"


class Loop(Refused):
    """
    Turns cause each other without end, or wait for each other; the text names them.

    To send again makes it no better: a person lifts a pause (`data`: from, to, until), and whoever
    would wait in a circle goes on without the answer.
    """

    code = "loop"


class NotNow(WakebusError):
    """Nothing was stored; the same request may succeed later."""

    code = "not_now"
    retry = True


class MailboxFull(NotNow):
    """The target's mailbox is at its limit."""

    code = "mailbox_full"


class Busy(NotNow):
    """The broker has more work queued than it takes."""

    code = "busy"


class BrokerUnavailable(NotNow):
    """The store cannot write (disk full, I/O error) or the broker is going down."""

    code = "unavailable"


class NotRunning(WakebusError):
    """No broker answers at this address; nothing was written."""

    code = "not_running"
    retry = True


class Undecided(WakebusError):
    """Written, but no receipt came in time: the broker may or may not have stored it."""

    code = "unknown"
    retry = True

    def __init__(self, text: str, *, id: str) -> None:
        super().__init__(text, id=id)
        self.id = id


class TimedOut(WakebusError):
    """What was waited for did not happen in time. `data["state"]`: how far it came."""

    code = "timeout"
    retry = True


if TYPE_CHECKING:
    Unavailable = BrokerUnavailable
else:

    def __getattr__(name: str) -> Any:
        # Its old name, which another class has too: wakebus.adapters.errors.Unavailable.
        if name == "Unavailable":
            return BrokerUnavailable
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _leaves(base: type[WakebusError]) -> dict[str, type[WakebusError]]:
    found = {base.code: base}
    for sub in base.__subclasses__():
        if sub.__module__ == __name__:  # what other rooms derive never comes over the wire
            found |= _leaves(sub)
    return found


def from_wire(payload: dict[str, Any]) -> WakebusError:
    """
    Return the error that an `err` answer describes.

    A code that a newer broker knows is Refused, or NotNow where the same request may succeed.
    """
    data = {k: v for k, v in payload.items() if k not in ("code", "text", "retry", "self")}
    retry = payload.get("retry")
    unknown = NotNow if retry is True else Refused if retry is False else WakebusError
    kind = _leaves(WakebusError).get(str(payload.get("code")), unknown)
    text = str(payload.get("text", "the broker gave no reason"))
    if kind is Undecided:
        return Undecided(text, id=str(data.get("id", "")))
    return kind(text, **data)
