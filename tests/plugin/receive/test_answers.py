"""Where answers go, with a real broker."""

import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.host import deliver
from fakes.program import frozen
from wakebus.adapters.courier.preflight import Preflight
from wakebus.broker import Client, Delivery
from wakebus.broker.errors import Fenced, NotRunning
from wakebus.broker.protocol.message import Message
from wakebus.plugin.receive import answers as reply_module
from wakebus.plugin.receive.answers import MAX_TEXT, Answers, cut_to_body

MakeMessage = Callable[..., Message]
MakeBroker = Callable[..., Broker]


class Desk:
    """Answers of an endpoint `lead` to message `m…`, and who receives them."""

    def __init__(self, address: str) -> None:
        self.address, self.stop = address, threading.Event()
        self.lead, self.alpha, self.id = (f"{n}{secrets.token_hex(5)}" for n in ("lead", "a", "m"))
        self.client = Client(address, timeout=1.0)
        nowhere = Preflight(Path("/nowhere"))  # no courier has written anything there
        self.answers = Answers(self.client, self.lead, self.stop, nowhere)
        self.clients = [self.client]
        self.client.register(self.lead, lambda _: None)

    def inbox(self, name: str = "") -> list[Message]:
        """Register the sender, or `name`; what comes of the message appears in the list."""
        got: list[Message] = []
        self.clients.append(Client(self.address))
        name = name or self.alpha

        def take(delivery: Delivery) -> None:
            if delivery.message.cause == self.id:
                got.append(delivery.message)

        self.clients[-1].register(name, take)
        return got

    def asked(self, **fields: Any) -> Delivery:
        """A directive from `alpha` in a chat; a field that is None is left out."""
        fields = {"type": "directive", "channel": "console:c", **fields}
        body: dict[str, Any] = {"text": "do it", **fields.pop("more", {})}
        body |= {k: v for k in ("type", "channel") if (v := fields.pop(k)) is not None}
        known = {"id": self.id, "ts": 1.0, "sender": self.alpha, "to": self.lead}
        return deliver(Message(**{**known, "body": body, **fields}))

    def close(self) -> None:
        self.stop.set()
        for client in self.clients:
            client.close()


@pytest.fixture(scope="module")
def courier_bus() -> Iterator[Broker]:
    """A broker of this file alone: a courier once known stays known, and other tests have none."""
    with TemporaryDirectory(prefix="wb") as folder:
        found = Broker(Path(folder)).start()
        yield found
        found.kill()


@pytest.fixture
def desk(courier_bus: Broker) -> Iterator[Desk]:
    made = Desk(courier_bus.address)
    yield made
    made.close()


@pytest.fixture
def own_desk(broker: Broker) -> Iterator[Desk]:
    """At a broker that may suffer."""
    made = Desk(broker.address)
    yield made
    made.close()


def test_an_answer_to_the_sender(desk: Desk) -> None:
    """Type answer, reply_to, the same channel and session; cause, hops and path go on."""
    alpha = desk.inbox()
    asked = desk.asked(session="s", hops=2, path=("person",))
    told = desk.answers.answer(asked, "sender", "done ✓")
    (got,) = until(lambda: alpha)
    assert told.keys() == {"answer"} and told["answer"]["result"] == "queued"
    assert told["answer"]["id"] == got.id and told["answer"]["at"] > 0
    assert got.body == {"type": "answer", "text": "done ✓", "channel": "console:c"}
    assert (got.sender, got.to, got.reply_to) == (desk.lead, desk.alpha, desk.id)
    assert (got.session, got.hops, got.path) == ("s", 3, ("person", desk.lead))


@pytest.mark.parametrize(
    ("reply", "channel", "to"),
    [
        ("channel", "console:c", {"channel": "console:c"}),
        ("home", "console:c", {"channel": "console"}),
        ("both", "console:c", {"answer": "console:c", "channel": "console:c"}),
        ("none", "console:c", {}),
        ("sender", None, {"answer": None}),
    ],
)
def test_where_it_goes(desk: Desk, reply: Any, channel: str | None, to: dict[str, str]) -> None:
    """sender, channel, home, both, none; the token is carried unchanged."""
    courier, alpha = desk.inbox("courier"), desk.inbox()
    told = desk.answers.answer(desk.asked(channel=channel), reply, "text")
    until(lambda: len(courier) + len(alpha) == len(to))
    if to:
        assert told.keys() == to.keys()
    else:
        assert told == {"unsent": {"text": "text"}}, "what goes to nobody is kept in the outcome"
    for got in courier:
        assert got.body == {"type": "say", "text": "text", "channel": to["channel"]}
    for got in alpha:
        assert got.body.get("channel") == to["answer"]


@pytest.mark.parametrize(("reply", "kept"), [("channel", True), ("home", False)])
def test_a_session_webhook_goes_back_with_the_answer(desk: Desk, reply: Any, kept: bool) -> None:
    """ADP-6.13: to the chat that it came from, and no other."""
    courier = desk.inbox("courier")
    held = {"url": "https://x.test/robot", "expires_at": 1}
    asked = desk.asked(more={"session_webhook": held}, channel="console:c")
    desk.answers.answer(asked, reply, "text")
    until(lambda: len(courier) == 1)
    assert courier[0].body.get("session_webhook") == (held if kept else None)


@pytest.mark.parametrize("reply", ["channel", "both", "home"])
def test_no_channel_to_answer_in(desk: Desk, reply: Any) -> None:
    """Said, with the answer; nothing goes to a home channel that nobody named."""
    told = desk.answers.answer(desk.asked(channel=None), reply, "the answer")["channel"]
    assert (told["result"], told["reason"]) == ("not_sent", "the message names no channel")
    assert told["text"] == "the answer"


def test_a_sender_that_nobody_knows(desk: Desk) -> None:
    """RULES-3.14: said in the outcome, with what there was to say: nothing is lost silently."""
    desk.inbox("courier")
    told = desk.answers.answer(desk.asked(), "both", "x" * 9000)
    reason = f"{desk.alpha}, who sent it, is no endpoint and does not wait for an answer"
    assert (told["answer"]["result"], told["answer"]["reason"]) == ("not_sent", reason)
    assert told["answer"]["text"] == "x" * 1500
    assert told["channel"]["result"] == "queued" and "text" not in told["channel"]


def test_a_courier_that_never_ran(own_desk: Desk) -> None:
    """An answer is queued for it; a print belongs on the terminal."""
    desk, asked = own_desk, own_desk.asked()
    assert desk.answers.show(asked, "a print")["result"] == "not_sent"
    assert desk.answers.answer(asked, "channel", "an answer")["channel"]["result"] == "queued"
    courier = desk.inbox("courier")
    assert [got.text for got in until(lambda: courier)] == ["an answer"]


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        ("nosuch:c", "no adapter for the platform 'nosuch'"),
        ("", "empty"),
        ("con sole:c", "no platform"),
    ],
)
def test_a_print_for_no_chat(desk: Desk, channel: str, reason: str) -> None:
    """Without an adapter it is not the courier's."""
    desk.inbox("courier")
    told = desk.answers.show(desk.asked(channel=channel or None), "text")
    assert told["result"] == "not_sent" and reason in told["reason"]


def test_nobody_is_told_the_same_twice(desk: Desk) -> None:
    """After a redelivery: a print once, an answer once per text, to chat and sender alike."""
    courier, alpha, asked = desk.inbox("courier"), desk.inbox(), desk.asked()
    told = [desk.answers.show(asked, text) for text in ("at 10:00", "at 10:01")]
    assert told[0]["id"] == told[1]["id"] and told[1]["again"] is True
    assert "again" not in desk.answers.show(asked, "it failed", what="failure")
    for text in ("first", "first", "second"):
        desk.answers.answer(asked, "both", text)
    until(lambda: len(courier) == 4 and len(alpha) == 2)
    assert [got.text for got in courier] == ["at 10:00", "it failed", "first", "second"]
    assert [got.text for got in alpha] == ["first", "second"]


def test_a_broker_that_is_killed(
    own_desk: Desk, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The send is repeated under its id until one is there: exactly one answer arrives."""
    monkeypatch.setattr(reply_module, "PAUSE_S", 0.05)
    desk, alpha, asked = own_desk, own_desk.inbox(), own_desk.asked()
    broker.kill()
    told: list[Any] = []
    thread = threading.Thread(
        target=lambda: told.append(desk.answers.answer(asked, "sender", "one"))
    )
    thread.start()
    thread.join(1.2)  # longer than the client's own patience
    assert thread.is_alive()
    broker.start()
    thread.join(20)
    until(lambda: alpha)
    assert told[0]["answer"] == {**told[0]["answer"], "result": "queued", "id": alpha[0].id}
    assert "again" not in told[0]["answer"]
    desk.answers.answer(asked, "sender", "two")
    until(lambda: len(alpha) == 2)
    assert [got.text for got in alpha] == ["one", "two"]


def test_a_broker_that_is_frozen(own_desk: Desk, broker: Broker) -> None:
    """Written, no receipt, asked again: still one answer."""
    desk, alpha, asked = own_desk, own_desk.inbox(), own_desk.asked()
    told: list[Any] = []
    thread = threading.Thread(
        target=lambda: told.append(desk.answers.answer(asked, "sender", "one"))
    )
    with frozen(broker.pid):
        thread.start()
        thread.join(1.3)
        assert thread.is_alive()
    thread.join(20)
    until(lambda: alpha)
    desk.answers.answer(asked, "sender", "two")
    until(lambda: len(alpha) == 2)
    assert told[0]["answer"]["id"] == alpha[0].id


def test_stopped_before_the_broker_had_it(own_desk: Desk, broker: Broker) -> None:
    """It raises: the message must come again, for its answer would be lost."""
    own_desk.inbox()
    broker.kill()
    own_desk.stop.set()
    with pytest.raises(NotRunning, match="stopped before"):
        own_desk.answers.answer(own_desk.asked(), "sender", "text")


def test_it_does_not_speak_for_another_holder(desk: Desk) -> None:
    """The delivery was lost: the next holder answers, and prints; nobody is told twice."""
    courier, alpha, asked = desk.inbox("courier"), desk.inbox(), desk.asked()
    asked.lost = True
    for speak in (
        lambda: desk.answers.answer(asked, "both", "x"),
        lambda: desk.answers.show(asked, "x"),
    ):
        with pytest.raises(Fenced, match="another holder"):
            speak()
    asked.lost = False
    desk.answers.answer(asked, "both", "the only one")
    until(lambda: courier and alpha)
    assert [got.text for got in (*courier, *alpha)] == ["the only one"] * 2


def test_a_delivery_that_is_lost_while_the_broker_is_away(own_desk: Desk, broker: Broker) -> None:
    """The repeating ends then."""
    own_desk.inbox()
    broker.kill()
    asked = own_desk.asked()
    timer = threading.Timer(0.5, lambda: setattr(asked, "lost", True))
    timer.start()
    with pytest.raises(Fenced):
        own_desk.answers.answer(asked, "sender", "x")
    timer.join()


def test_a_full_mailbox_holds_up_no_turn_for_ever(
    make_broker: MakeBroker, make: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a minute the answer is told in the outcome instead."""
    monkeypatch.setattr(reply_module, "FULL_S", 0.2)
    monkeypatch.setattr(reply_module, "PAUSE_S", 0.05)
    address = make_broker(mailbox_messages=1).address
    with Client(address) as client:
        client.send("alpha", "before", queue=True)
        answers = Answers(client, "lead", threading.Event())
        told = answers.answer(deliver(make()), "sender", "late")["answer"]
    assert told["result"] == "not_sent" and "full" in told["reason"] and told["text"] == "late"


@pytest.mark.parametrize("text", ["x", '"', "é", "\ufffd", "\n"])
def test_an_answer_that_is_too_large_for_a_message(text: str) -> None:
    """As much as fits, and that it was cut; whole characters."""
    assert cut_to_body(text * 1000) == text * 1000
    cut = cut_to_body(text * 2_000_000)
    assert "[cut: " in cut and "of 2000000 characters]" in cut
    assert MAX_TEXT * 0.9 < len(cut.encode()) * (2 if text in '"\n' else 1) <= MAX_TEXT + 200


def test_the_largest_answer_arrives(desk: Desk) -> None:
    """In a chat, too."""
    courier = desk.inbox("courier")
    told = desk.answers.answer(desk.asked(), "channel", '"' * 3_000_000)
    assert told["channel"]["result"] == "queued"
    assert len(until(lambda: courier)[0].text) > 400_000
