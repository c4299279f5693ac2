"""
What the hub holds: connections, endpoints and their holders, waiters; and what it is given to act.

Rule 1: values and their own questions; whatever needs two of them is a file of its own.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from wakebus.broker.core.mailbox import Mailbox
from wakebus.broker.core.mailbox_entry import HeldReason
from wakebus.broker.core.timers import Timer
from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol.message import MAX_PATH
from wakebus.broker.settings import Settings
from wakebus.broker.store.group_commit import Writer
from wakebus.broker.system.processes import Process, process_of

MessageKey = tuple[str, str]  # endpoint and id
Figures = dict[str, int]  # what passed the topic plane: `in`, `bytes_in`, `out`, `bytes_out`


class ClientRequest(NamedTuple):
    """One request of a client. `uid` and `pid` come from the kernel, 0 where it does not tell."""

    conn: bytes
    sequence: int
    payload: dict[str, Any]
    uid: int = 0
    pid: int = 0


class Effects(NamedTuple):
    """
    What the hub does to the world; none of it waits, and all is called by the router thread.

    `offer(connection, frame)`, for what can wait elsewhere, and `publish(frame)`: whether it was
    taken. `push(connection, frame)`: whether anybody is there. `request_figures(done)`: calls
    `done` with what passed the topic plane. `stop()`: the broker ends once it has finished.
    """

    offer: Callable[[bytes, bytes], bool]
    push: Callable[[bytes, bytes], bool]
    reply: Callable[[ClientRequest, dict[str, Any]], None]
    fail: Callable[[ClientRequest, WakebusError], None]
    store: Writer
    publish: Callable[[bytes], bool]
    request_figures: Callable[[Callable[[Figures], None]], None]
    stop: Callable[[], None]


class Connection:
    """A client that said hello, `greeted` (monotonic) last. `pid` 0: another pid namespace."""

    __slots__ = ("cancels", "greeted", "instance", "lost", "names", "process")

    def __init__(self, instance: str, pid: int, greeted: float) -> None:
        self.instance, self.process, self.greeted = instance, process_of(pid), greeted
        self.cancels = False  # it ends work that is cancelled when it is told
        self.names: set[str] = set()
        self.lost: set[str] = set()  # names that others took from it


class Holder:
    """The client that holds an endpoint. `conn` None: known from the store, not yet back."""

    __slots__ = ("beat", "blocked", "conn", "epoch", "granted", "instance", "process", "since")

    def __init__(self, instance: str, process: Process, epoch: int, conn: bytes | None) -> None:
        self.instance, self.process, self.epoch, self.conn = instance, process, epoch, conn
        self.beat = self.since = 0.0  # monotonic, wall
        self.blocked = False  # its pipe is full; asked again when it has room, or at its next beat
        self.granted = True  # else the grant is not stored yet

    @property
    def takes_deliveries(self) -> bool:
        """Whether deliveries may be sent to it: after its grant, while its pipe has room."""
        return self.granted and not self.blocked

    def silent(self, now: float, stale_s: float) -> bool:
        """Whether nothing was heard of it for `stale_s` seconds."""
        return now - self.beat > stale_s


class Endpoint:
    """A name with its mailbox and, while somebody holds it, its holder."""

    __slots__ = (
        "arriving",
        "arriving_bytes",
        "declared",
        "ended",
        "ephemeral",
        "epoch",
        "holder",
        "instance",
        "mailbox",
        "name",
        "rests",
        "saved",
        "seen",
        "up",
    )

    def __init__(self, name: str, settings: Settings, seen: float = 0.0) -> None:
        self.name, self.seen = name, seen  # 0.0: never registered
        self.saved = seen  # what the store knows of `seen`
        self.declared = self.up = False  # up: told as held
        # The bus gave it its suffix: bus time since when this session has it, else 0.0.
        self.ephemeral = 0.0
        self.ended = False  # as an ephemeral one: it is nobody's, and takes nothing
        self.epoch = 0
        self.instance = ""  # the last holder's
        self.holder: Holder | None = None
        self.mailbox = Mailbox(settings.window_lanes, settings.window_bytes)
        # Of which place (session, else channel) and type the receiver said that it rests.
        self.rests: dict[tuple[str, str], HeldReason] = {}
        self.arriving = self.arriving_bytes = 0  # handed to the store, not committed yet

    def full(self, limits: Settings, size: int) -> str:
        """Return why `size` bytes more do not go in, "" if they do."""
        waiting = len(self.mailbox) + self.arriving
        used = self.mailbox.bytes + self.arriving_bytes + size
        if waiting < limits.mailbox_messages and used <= limits.mailbox_bytes:
            return ""
        # What will be refused itself still counts among what arrives.
        most = min(waiting, limits.mailbox_messages)
        return (
            f"the mailbox of {self.name} is full ({most} messages); "
            "nothing was stored, try again when it has caught up"
        )


class TokenOwner(NamedTuple):
    """A started delivery whose token lets sends be proven."""

    endpoint: str
    id: str
    hops: int
    path: tuple[str, ...]

    @property
    def path_on(self) -> tuple[str, ...]:
        """The path of what it causes."""
        return (*self.path, self.endpoint)[-MAX_PATH:]


class Waiter:
    """
    Somebody waits until message `id` is `want`. Each is itself, whatever it holds.

    `turn`: the message from whose turn it waits, None from none that is known. `generation`: its
    delivery, whose handler waits; 0 where that is not known.
    """

    __slots__ = ("endpoint", "generation", "id", "process", "request", "timer", "turn", "want")

    def __init__(self, request: ClientRequest, id: str, want: str) -> None:
        self.request, self.id, self.want = request, id, want
        self.endpoint = ""  # for which the message is
        self.timer: Timer | None = None
        self.turn: MessageKey | None = None
        self.generation = 0
        self.process = Process(0)  # who waits, from a turn

    @property
    def key(self) -> MessageKey:
        """The message that is waited for."""
        return self.endpoint, self.id


def digest(token: str) -> str:
    """Return what is stored of a token: secrets stay out of the file."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()
