"""
What wakebus needs of a live Hermes, whichever generation of it this is.

Rule 1: pure: nothing of Hermes is imported. Rule 2: what Hermes made (a SessionSource, a
SendResult) passes through as it is; it is never made up, but for the owner's home channel. Rule 3:
nothing raises but as it says; what is missing or half built is "", None, empty: not yet. Rule 4:
any thread but the gateway's own loop may call.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol

from wakebus.adapters.channel import Channel
from wakebus.plugin.hermes.host_api.adapter_limits import TextLimit

Mode = Literal["gateway", "cli", "tui"]
CHAT_TYPES: Final = frozenset({"dm", "group", "channel", "thread", "forum"})


class LiveHost(NamedTuple):
    """
    What makes this process one that listens. `object`: the GatewayRunner, the HermesCLI, or the
    module that serves the Ink TUI and the desktop (tui_gateway/server.py).

    `profile`: which of a gateway's profiles it is for, "" for all that it has. `launched`: whether
    the gateway was started for the profile of this process.
    """

    mode: Mode
    object: Any
    profile: str = ""
    launched: bool = True


class StoredSession(NamedTuple):
    """A session that the gateway keeps. `source`: the SessionSource of who began it."""

    key: str
    source: Any


class Unreachable(Exception):
    """Nothing was called: the gateway or the platform is away; its text says which."""


class CannotBegin(Exception):
    """The turn cannot be begun, and not later either; its text says why."""


def platform_name(platform: Any) -> str:
    """Return `mattermost` of Hermes's Platform member (gateway/config.py:272)."""
    return str(getattr(platform, "value", platform) or "").lower()


class SessionsApi(Protocol):
    """Who is where in a gateway. `source`: a SessionSource of Hermes; `key`: of a session."""

    def has_sessions(self) -> bool:
        """Return whether the stored sessions are known yet."""

    def sessions(self) -> list[StoredSession]:
        """Return the stored sessions that have a source, newest first."""

    def session_of(self, session_id: str) -> StoredSession | None:
        """Return the stored session whose history has this id now."""

    def key_of(self, source: Any) -> str:
        """Return the session key that Hermes gives a source, or ""."""

    def is_ours(self, source: Any) -> bool:
        """Return whether what is said there is for this gateway, or this profile's part of it."""

    def profile_of(self, key: str) -> str:
        """Return the other profile of the same gateway that a session key is of, or ""."""

    def may_talk(self, source: Any) -> bool | None:
        """Return whether this person may talk to the agent now; None: Hermes does not say."""

    def source_of(self, fields: Mapping[str, Any]) -> Any:
        """Return the source that a hook tells of as a mapping, or None."""

    def commander(self, words: str) -> Any:
        """
        Return the source of who gave our slash command with these words, or None.

        Only where Hermes calls a command apart from the message that it came in.
        """


class ChatsApi(Protocol):
    """The chats that a gateway reaches; `source` as in SessionsApi."""

    def platforms(self) -> Collection[str]:
        """Return the names of this gateway's platforms, enabled or connected."""

    def all_platforms(self) -> Collection[str]:
        """Return the names of the platforms of every profile that this gateway serves."""

    def platform_away(self, platform: str, source: Any = None) -> str:
        """Return why nothing reaches the platform (of this source's profile) now, or ""."""

    def home(self, platform: str) -> tuple[str, str] | None:
        """Return chat and thread ("" for none) of the platform's home channel, as configured."""

    def owner_source(self, channel: Channel, chat_type: str) -> Any:
        """Return a source of nobody for the owner's home channel, or None."""

    def chat_type(self, channel: Channel) -> str:
        """Return one of CHAT_TYPES, or "". The platform is asked, for 10 s at most."""

    def misdirection(self, channel: Channel, source: Any, *, answer: bool = False) -> str:
        """
        Return why a text that Hermes sends for the channel would land elsewhere, or nowhere; or "".

        source: somebody heard in exactly this chat, or None. answer: a turn's, which Hermes's core
        sends; else what `send` sends.
        """

    def text_limit(self, channel: Channel, source: Any) -> TextLimit | None:
        """Return how much one `send` posts as one message; None where nobody says."""

    def send(
        self, channel: Channel, text: str, source: Any, timeout: float, heard: list[str]
    ) -> Any:
        """
        Return the SendResult of a text sent into a chat, as in the session of `source` or None.

        heard: gets what the adapter logs meanwhile, warnings and worse. Raises Unreachable,
        TimeoutError, what the platform's adapter raises.
        """


class TurnsApi(Protocol):
    """
    What goes on in a gateway's sessions, and turns of ours there.

    `unseen`: why nobody tells whether an answer was delivered; "" where `listen` may tell.
    """

    unseen: str

    def away(self) -> str:
        """Return why the gateway takes no turns now, or ""."""

    def paused(self) -> str:
        """Return why no new turn is to begin, or "": the owner has stopped all new work."""

    def busy(self, source: Any, key: str) -> str:
        """
        Return what goes on in the session, or "".

        Anything that a text would interrupt, be merged with, or answer: a turn, a queued message,
        a question.
        """

    def in_turn(self, key: str) -> bool:
        """Return whether a turn runs in the session, also in a gateway that is away."""

    def joined(self, key: str) -> bool:
        """Return whether a person wrote while the turn runs, and may be answered by it."""

    def shows_turns(self, source: Any) -> bool:
        """Return whether `busy` and `in_turn` could tell of a turn; else they are always empty."""

    def can_withhold(self, platform: str) -> bool:
        """Return whether a turn's answer can be kept from the chat, and from nobody else."""

    def withhold(self, withheld: Callable[[str], bool]) -> None:
        """
        Have `withheld(session_id)` asked when a turn's answer is about to be delivered: where it is
        true, the chat is shown nothing; the history keeps it. A bound method, asked as long as its
        object lives; `can_withhold` says whether Hermes asks.
        """

    def begin(
        self,
        text: str,
        source: Any,
        key: str,
        look: Callable[[], str],
        handed: Callable[[Any], None],
    ) -> str:
        """
        Begin a turn on `text`, unless `look` says what goes on there instead; return that, or "".

        `look` is called on the gateway's loop. `handed` gets the event that Hermes works on, where
        we make it; then nothing comes in between. Else Hermes has only accepted the text: it may
        begin the turn at once, later, or never (heard_log.refusal_in). Raises Unreachable,
        CannotBegin, what `look` or Hermes raises.
        """

    def withdraw(self, text: str, source: Any) -> bool:
        """Take back a text that waits in Hermes's queue; whether it was there, and is no more."""

    def interrupt(self, key: str, over: Callable[[], bool]) -> bool:
        """
        End the turn that runs in the session as `/stop` does, unless it is `over`.

        Return whether it was told to; then once it is over, or after 15 s. Raises Unreachable,
        TimeoutError.
        """

    def listen(self, source: Any, told: Callable[[Any, Any], None]) -> bool:
        """Call `told(event, outcome)` when the core ends with an event; whether that can be."""


class GatewayApi(SessionsApi, ChatsApi, TurnsApi, Protocol):
    """A live gateway."""


class ConversationApi(Protocol):
    """One conversation in which a person's prompts and ours take turns."""

    @property
    def running(self) -> bool:
        """Whether a turn runs, a person's or ours."""

    @property
    def idle(self) -> bool:
        """Whether a prompt would be taken at once: no turn, command, question, nothing typed."""

    @property
    def leaving(self) -> bool:
        """Whether the window was closed or a signal came: Hermes is about to end."""

    @property
    def gone(self) -> str:
        """Why there is no such conversation here any more, or ""; Hermes goes on without it."""

    def enqueue(self, text: str) -> bool:
        """
        Hand over a prompt: it is run after what was typed before. False: not now; once it is idle.

        Raises CannotBegin, Unreachable.
        """

    def is_queued(self, text: str) -> bool:
        """Whether `text` still waits to be run."""

    def withdraw(self, text: str) -> bool:
        """Take `text` back; False when it is there no more."""

    def interrupt(self, over: Callable[[], bool]) -> None:
        """End the running turn as Ctrl-C does; return when it is `over`, or after 15 s."""


class TerminalApi(ConversationApi, Protocol):
    """A live interactive CLI, which is one conversation."""

    def printer(self) -> Callable[[str], object] | None:
        """Return what prints above the prompt, from any thread; None where there is none."""

    def session_ids(self) -> set[str]:
        """Return Hermes's own names of the conversation; two while its history is compressed."""


class TuiSession(NamedTuple):
    """
    A live session of the TUI's server.

    `key`: Hermes's durable session key. `names`: all that it is or was called here, the key first
    (it changes when its history is compressed). `away`: why it takes no turn, or ""; `busy`:
    whether it rests not.
    """

    key: str
    names: tuple[str, ...]
    away: str
    busy: bool


class TuiApi(Protocol):
    """The server of the Ink TUI and the desktop, as far as it serves one profile."""

    def sessions(self) -> list[TuiSession]:
        """Return the live sessions, the one that was last active first."""

    def conversation(self, key: str) -> ConversationApi:
        """Return the conversation that is, or was, called so; it may be `gone`."""

    def show(self, key: str, text: str) -> str:
        """Show a text in a session; return why it cannot be seen there, or ""."""
