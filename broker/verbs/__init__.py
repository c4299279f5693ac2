"""
The table of verbs. One file for each group of requests: check, decide, reply; nothing is kept here.

    send, wait     messages in                   registration  hello, names and beats
    acks           what a holder says            events        publish, probe
    inbox          what a name has               dead_letters  dead, retry, purge
    queries        list, trace, read, status     cancel        what waits or is in hand
    loops          resume                        stop          the end of the broker
    reply          a person's answer             fields        what several of them read
"""

from collections.abc import Callable
from typing import Final

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest
from wakebus.broker.verbs import (
    acks,
    cancel,
    dead_letters,
    events,
    inbox,
    loops,
    queries,
    registration,
    reply,
    send,
    stop,
    wait,
)

Verb = Callable[[Hub, ClientRequest], None]
VERBS: Final[dict[str, Verb]] = {
    "hello": registration.hello,
    "register": registration.register,
    "unregister": registration.unregister,
    "beat": registration.beat,
    "send": send.send,
    "reply": reply.reply,
    "wait": wait.wait,
    "got": acks.got,
    "started": acks.started,
    "handled": acks.handled,
    "refused": acks.refused,
    "later": acks.later,
    "list": queries.list_endpoints,
    "declare": queries.declare,
    "forget": queries.forget,
    "trace": queries.trace,
    "read": queries.read,
    "status": queries.status,
    "dead": dead_letters.dead,
    "retry": dead_letters.retry,
    "purge": dead_letters.purge,
    "inbox": inbox.inbox,
    "cancel": cancel.cancel,
    "resume": loops.resume,
    "publish": events.publish,
    "probe": events.probe,
    "stop": stop.stop,
}
