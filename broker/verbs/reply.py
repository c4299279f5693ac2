"""
The verb `reply`: a person answers what was shown to him (PROTOCOL.md section 9).

Rule 1: whoever is on this bus may, where the receiver said that a person was asked; the answer's
steps tell who did. Rule 2: there is one answer; the look and the answer are one transaction.
"""

from functools import partial

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest
from wakebus.broker.core.waiters import count_waiters
from wakebus.broker.errors import BadMessage, Refused, UnknownId
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.dead_letter import CANCELLED
from wakebus.broker.protocol.delivery_state import DeliveryState, receipt_word
from wakebus.broker.protocol.message import Message
from wakebus.broker.protocol.outcome import awaits_reply
from wakebus.broker.store.rows import Put, Row
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import outcome_of
from wakebus.broker.verbs.fields import requester
from wakebus.broker.verbs.send import accept_message


def reply(hub: Hub, request: ClientRequest) -> None:
    """Verb `reply`: store a person's answer as that of the endpoint that was asked."""
    message = messages.from_wire(request.payload.get("message"))
    if message.type != "answer" or message.reply_to is None or message.hops:
        raise BadMessage("reply: a `message` of type `answer` with `reply_to`, and no `hops`")
    accept_message(
        hub,
        request,
        message,
        requester(hub, request),
        claimed=False,
        store_by=lambda put: partial(_store_answer, put=put),
        more={"waiting": count_waiters(hub, message.reply_to, "answer")},
    )


def _store_answer(store: Store, put: Put) -> Row:
    """Store the answer; raises Refused where no person's answer is waited for."""
    message = put.message
    if store.find(message.id) is None:
        asked = store.find(str(message.reply_to))
        if asked is None:
            raise UnknownId(f"no message {message.reply_to} is stored")
        if why := _obstacle(store, asked, message):
            raise Refused(why)
    row = put(store)
    store.take_from_inbox(str(message.reply_to))
    return row


def _obstacle(store: Store, asked: Row, message: Message) -> str:
    """Return why no person may answer `asked` by `message`, "" where one may."""
    id, to, sender = asked["id"], asked["endpoint"], asked["sender"]
    state = DeliveryState(asked["state"])
    if not asked["asks"]:
        return (
            f"{id} is no question: {sender} did not wait for an answer to it. To write to it: "
            f"notify-hermes --to {sender}"
        )
    if (message.sender, message.to) != (to, sender):
        return f"{id} is a question of {sender} for {to}, and not for {message.sender}"
    if (answer := store.answer_to(id)) is not None:
        return f"{id} is answered already; what was said: wakebus trace {answer['id']} --text"
    if receipt_word(state) == "dead":
        return f"{id} is dead, and nobody waits for an answer to it: {asked['reason']}"
    if state is DeliveryState.QUEUED:
        return (
            f"{id} waits for {to} and was shown to nobody yet: wakebus listen {to} shows it, where "
            f"nobody else holds that name (wakebus endpoints)"
        )
    if state is not DeliveryState.HANDLED:
        return (
            f"{to} has {id} in its hands and answers it itself; to take it back: "
            f"wakebus cancel {id}"
        )
    outcome = outcome_of(asked["outcome"])
    if str(note := outcome.get("note", "")).startswith(CANCELLED.format("")):
        return f"{id} was taken back, and nobody waits for an answer to it: {note}"
    if not awaits_reply(outcome):
        return f"{to} has handled {id} and asked no person for an answer: wakebus trace {id}"
    return ""
