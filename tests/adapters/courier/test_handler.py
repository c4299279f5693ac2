"""What the courier decides about one message."""

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from fakes.courier import NOW, FakeDelivery, FakeTransport, MakeDesk, say
from wakebus.adapters.base import Capabilities, Limit, Outgoing, Request, Response, Target
from wakebus.adapters.courier import attachment_memory
from wakebus.adapters.courier.delivery_log import DeliveryLog
from wakebus.adapters.delivery import attachments
from wakebus.adapters.errors import DeliveryError, Rejected, Throttled, Unavailable, Uncertain
from wakebus.adapters.platforms.console import Console
from wakebus.broker import Later, Refusal
from wakebus.broker.errors import Busy, NotRegistered


@pytest.mark.parametrize("type", ["say", "task_done", "anything at all", None])
def test_sent(courier: MakeDesk, type: str | None) -> None:
    """ADP-6.1, ADP-6.4: channel and text go out whatever the type; the outcome has the id."""
    wire = FakeTransport()
    body = {"text": "build done", "channel": "console:alice"} | ({"type": type} if type else {})
    assert courier(wire).handle(FakeDelivery(body)) == {
        "channel": {
            "result": "sent",
            "platform": "console",
            "chat": "console:alice",
            "id": "k",
            "at": NOW,
        }
    }
    assert wire.seen[0].body == b"build done"


def test_the_key_is_the_messages_id(courier: MakeDesk) -> None:
    """ADP-6.8: each attempt of one message has the same key, whichever process makes it."""
    wire = FakeTransport(*[Unavailable("disk full")] * 3)
    courier(wire).handle(say())
    courier(wire).handle(say())
    assert [request.headers["key"] for request in wire.seen] == ["m1"] * 4


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"text": "hi"}, "names no channel"),
        ({"channel": "console:alice"}, "no text"),
        ({"text": " \n", "channel": "console:alice"}, "no text"),
        ({"text": "hi", "channel": "consol:alice"}, "did you mean console"),
        ({"text": "hi", "channel": "console:a/b"}, "a/b"),
        ({"text": "hi", "channel": "console:"}, "no chat id"),
        ({"text": "hi", "channel": "console"}, "CONSOLE_HOME_CHANNEL is not set"),
        ({"text": "hi", "channel": "console:a?thread=1"}, "no threads"),
    ],
)
def test_refused_before_anything(courier: MakeDesk, body: dict[str, Any], named: str) -> None:
    """ADP-6.1, ADP-6.2: refused with what is wrong, in reason and outcome; nothing was begun."""
    wire, delivery = FakeTransport(), FakeDelivery(body)
    refusal = courier(wire).handle(delivery)
    assert isinstance(refusal, Refusal) and refusal.outcome
    assert named in refusal.reason and named in refusal.outcome["channel"]["reason"]
    assert refusal.outcome["channel"]["result"] == "rejected"
    assert (delivery.starts, wire.seen) == (0, [])


@pytest.mark.parametrize("wrong", ["", " 5", "a\nb", "x" * 201, 5, ["5"], "\u202e5"])
def test_a_wrong_reply(courier: MakeDesk, wrong: object) -> None:
    """ADP-6.25: what is no message's id is refused before anything."""
    wire, delivery = (
        FakeTransport(),
        FakeDelivery({"text": "hi", "channel": "console:a", "reply_to": wrong}),
    )
    refusal = courier(wire).handle(delivery)
    assert isinstance(refusal, Refusal) and "body.reply_to is no message's id" in refusal.reason
    assert (delivery.starts, wire.seen) == (0, [])


def test_a_reply_where_there_are_none(courier: MakeDesk) -> None:
    """ADP-6.25: sent without, and the outcome says so."""
    body = {"text": "hi", "channel": "console:a", "reply_to": "5"}
    outcome = courier(FakeTransport()).handle(FakeDelivery(body))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"
    assert "not as a reply to 5" in outcome["channel"]["reason"]


def test_home_channel(courier: MakeDesk) -> None:
    """ADP-7.3: a bare platform goes to the home channel of the courier's environment."""
    outcome = courier(FakeTransport(), CONSOLE_HOME_CHANNEL="bob").handle(say(channel="console"))
    assert isinstance(outcome, dict) and outcome["channel"]["chat"] == "console:bob"


@pytest.mark.parametrize("card", ["keyless", "keyed", "always"])
@pytest.mark.parametrize("ends", [Throttled("slow", retry_after=9), SystemExit("killed")])
def test_a_home_that_changes_meanwhile(
    courier: MakeDesk, request: pytest.FixtureRequest, card: str, ends: BaseException
) -> None:
    """ADP-6.26: throttled or killed between its parts, a text stays in one chat, told as that."""
    if card != "always":
        request.getfixturevalue(card)
    else:
        request.getfixturevalue("monkeypatch").setattr(
            Console, "capabilities", Capabilities(max_text=100, idempotent_s=math.inf)
        )
    text, wire = "a" * 90 + "\n\n" + "b" * 90, FakeTransport(None, ends)  # type: ignore[arg-type]
    with suppress(SystemExit):
        assert isinstance(
            courier(wire, CONSOLE_HOME_CHANNEL="old").handle(say(text, "console")), Later
        )
    moved = courier(wire, CONSOLE_HOME_CHANNEL="new")
    outcome = moved.handle(say(text, "console", **AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["chat"] == "console:old"
    assert {request.url for request in wire.seen} == {"console:old"}
    if isinstance(ends, SystemExit) and card == "keyless":
        assert (outcome["channel"]["result"], outcome["channel"]["done"]) == ("uncertain", 1)
    else:
        assert (outcome["channel"]["result"], outcome["channel"]["done"]) == ("sent", 2)


@pytest.mark.usefixtures("keyed")
def test_a_home_that_is_gone_meanwhile(courier: MakeDesk) -> None:
    """ADP-6.26: after a doubt it goes on in the chat where it may stand, named or not."""
    wire = FakeTransport(Uncertain("reset"), Uncertain("reset"))
    assert isinstance(courier(wire, CONSOLE_HOME_CHANNEL="old").handle(say("hi", "console")), Later)
    outcome = courier(wire).handle(say("hi", "console", started=True))
    assert isinstance(outcome, dict) and outcome["channel"]["chat"] == "console:old"


@pytest.mark.usefixtures("keyless")
def test_a_home_that_changes_before_anything_is_begun(courier: MakeDesk) -> None:
    """ADP-6.26: of what is certainly nowhere, the new home counts."""
    wire = FakeTransport(*[Unavailable("down")] * 3)
    assert isinstance(courier(wire, CONSOLE_HOME_CHANNEL="old").handle(say("hi", "console")), Later)
    outcome = courier(wire, CONSOLE_HOME_CHANNEL="new").handle(say("hi", "console"))
    assert isinstance(outcome, dict) and outcome["channel"]["chat"] == "console:new"


@pytest.mark.usefixtures("keyless")
def test_two_couriers_and_two_homes(courier: MakeDesk, delivery_log: DeliveryLog) -> None:
    """ADP-6.26, ADP-6.10: what another courier began after we looked is not begun elsewhere."""
    wire, desk, claim = (
        FakeTransport(),
        courier(FakeTransport(), CONSOLE_HOME_CHANNEL="new"),
        delivery_log.claim,
    )
    delivery_log.chat = lambda message: ""  # type: ignore[method-assign]
    claim("m1", 1, "console:old").begin_part(0, 1.0)
    later = desk.handle(say("hi", "console"))
    assert isinstance(later, Later) and "at console:old, an earlier home" in later.reason
    assert wire.seen == []


def test_started_comes_first(courier: MakeDesk) -> None:
    """ADP-6.3: the broker has stored that work began before the request is performed."""
    order: list[str] = []
    delivery, wire = say(), FakeTransport()

    def begin(token: str | None = None) -> None:
        order.append("started")

    def perform(request: Request) -> Response:
        order.append("sent")
        return wire(request)

    delivery.started = begin  # type: ignore[method-assign]
    courier(perform).handle(delivery)
    assert order == ["started", "sent"]


def test_a_start_that_cannot_be_stored(courier: MakeDesk) -> None:
    """ADP-6.3: a broker that cannot store now makes it come again; nothing was performed."""
    wire = FakeTransport()
    assert isinstance(courier(wire).handle(say(error=Busy("queue full"))), Later)
    assert wire.seen == []


def test_a_delivery_that_is_no_longer_ours(courier: MakeDesk) -> None:
    """ADP-6.3: when the name went to another, nothing is performed and nothing is claimed."""
    wire = FakeTransport()
    with pytest.raises(NotRegistered):
        courier(wire).handle(say(error=NotRegistered("gone")))
    assert wire.seen == []


def test_rejected(courier: MakeDesk) -> None:
    """ADP-6.4: what the platform rejects is refused with the channel result."""
    answer = Response(400, b'{"error": "no such chat"}')
    refusal = courier(lambda _: answer).handle(say())
    assert isinstance(refusal, Refusal) and refusal.outcome
    assert refusal.reason == "no such chat"
    assert refusal.outcome["channel"]["result"] == "rejected"


@pytest.mark.parametrize(
    "error",
    [Rejected, Unavailable, Uncertain, Throttled],
)
def test_a_credential_that_the_platform_quotes(
    courier: MakeDesk, error: type[DeliveryError], caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-1.5, ADP-5.14: a fixed one is hidden in outcome, reason, log and state alike."""
    said = "M_UNKNOWN_TOKEN: token syt_short_tok1 unknown, no hook tok12345abc here"
    env = {"MATRIX_ACCESS_TOKEN": "syt_short_tok1", "SLACK_WEBHOOK_URL": "https://x.test/?key="}
    env["SLACK_WEBHOOK_URL"] += "tok12345abc"
    desk = courier(FakeTransport(*[error(said)] * 6), **env)
    outcome = desk.handle(say())
    shown = f"{outcome} {desk.admission.state(NOW)} {caplog.text}"
    assert "tok1" not in shown and "M_UNKNOWN_TOKEN: token *** unknown, no hook *** here" in shown
    assert desk.admission.state(NOW)["console"]["last_error"].startswith(
        "M_UNKNOWN_TOKEN: token ***"
    )


def test_a_credential_in_a_channel(courier: MakeDesk) -> None:
    """ADP-5.14: also in what is refused before anything."""
    refusal = courier(FakeTransport(), SLACK_BOT_TOKEN="xoxb-77").handle(
        say(channel="console:xoxb-77/x")
    )
    assert isinstance(refusal, Refusal) and "xoxb-77" not in str(refusal)


def test_not_sent_comes_again(courier: MakeDesk) -> None:
    """ADP-6.5: 1, 2, 4 … 60 s, or what the platform says; a success starts over."""
    wire = FakeTransport(*[Unavailable("down")] * 100)
    desk = courier(wire)
    waits = [desk.handle(say()) for _ in range(8)]
    assert [w.after_s for w in waits if isinstance(w, Later)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert waits[0] == Later(1.0, "down", "none")
    wire.answers = [Throttled("fast", retry_after=75)]
    assert desk.handle(say()) == Later(75.0, "fast", "none")
    desk.at += 75
    assert isinstance(desk.handle(say()), dict)
    wire.answers = [Unavailable("down")] * 3
    assert desk.handle(say()) == Later(1.0, "down", "none")


def test_uncertain_under_a_key(courier: MakeDesk) -> None:
    """ADP-6.6: where the key makes it safe, uncertain is sent again with the same key."""
    wire = FakeTransport(Uncertain("reset"), Uncertain("reset"), None)
    desk = courier(wire)
    assert isinstance(desk.handle(say()), Later)
    assert isinstance(desk.handle(say()), dict)
    assert [request.headers["key"] for request in wire.seen] == ["m1"] * 3


def test_what_may_have_been_accepted_says_so(courier: MakeDesk) -> None:
    """ADP-6.32: from the first time on, and as long as nothing else is known."""
    desk = courier(FakeTransport(*[Uncertain("status 500")] * 2, *[Unavailable("down")] * 3))
    first, second = desk.handle(say()), desk.handle(say())
    assert isinstance(first, Later) and isinstance(second, Later)
    key = "; it is sent again under its key"
    assert first == Later(1.0, f"it may have been accepted: status 500{key}", "maybe")
    assert second.work == "maybe" and second.reason.endswith(f"down{key}")
    assert second.reason.count("may have been accepted") == 1


@pytest.mark.parametrize("always", [True, False])
def test_what_was_done_of_what_waits(
    courier: MakeDesk, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    """ADP-6.32: nothing, as long as no part is begun or sent; what is only held says nothing."""
    card = {**PACED, "idempotent_s": math.inf if always else 60.0}
    monkeypatch.setattr(Console, "capabilities", Capabilities(**card))
    desk = courier(FakeTransport(Unavailable("down"), Uncertain("reset"), Unavailable("down")))
    said = []
    for wait in (0, 20, 0, 20, 0):
        later = desk.handle(say())
        assert isinstance(later, Later)
        said.append((later.work, later.reason))
        desk.at += wait
    assert [work for work, _ in said] == ["none", "", "maybe", "", "maybe"]
    assert all("may have been accepted; " in why or work == "none" for work, why in said[2:4])
    assert "may have been accepted" in said[4][1] and "key" not in said[1][1]


@pytest.mark.usefixtures("keyed")
def test_some_parts_are_sent(courier: MakeDesk) -> None:
    """ADP-6.32: then it is neither nothing nor a doubt: that work had begun is what counts."""
    desk = courier(FakeTransport(None, *[Unavailable("down")] * 3))
    later = desk.handle(say("word " * 30))
    assert isinstance(later, Later) and (later.reason, later.work) == ("part 2: down", "")


def test_settings_that_cannot_be_read(courier: MakeDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.31: the message comes again; nothing is refused for what may stand in them."""
    desk = courier(FakeTransport())

    def unreadable() -> dict[str, str]:
        raise Unavailable("/home/me/.env cannot be read: Permission denied")

    monkeypatch.setattr(desk.one, "_env", unreadable)
    later = desk.handle(taken := say())
    assert isinstance(later, Later) and "/home/me/.env" in later.reason and not taken.starts


@pytest.mark.usefixtures("keyless")
def test_uncertain_without_a_key(courier: MakeDesk) -> None:
    """ADP-6.6: where no key helps, uncertain is the end, said so."""
    wire = FakeTransport(Uncertain("reset"))
    outcome = courier(wire).handle(say())
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert outcome["channel"]["reason"] == "reset" and len(wire.seen) == 1


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("ts", [NOW - 1e6, NOW + 1e6])
def test_a_key_that_has_aged(courier: MakeDesk, ts: float) -> None:
    """ADP-6.6: its time counts from the first try, not from the message's clock."""
    wire = FakeTransport(*[Uncertain("reset")] * 9)
    desk = courier(wire)
    assert isinstance(desk.handle(say(ts=ts)), Later)
    desk.at += 29
    assert isinstance(desk.handle(say(ts=ts)), Later)
    before = len(wire.seen)
    desk.at += 2
    outcome = desk.handle(say(ts=ts))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert len(wire.seen) == before == 4


AFTER_A_DEATH: dict[str, Any] = {"redelivered": True, "started": True, "attempt": 2}


def dies(request: Request) -> Response:
    """A transport in which the process ends (whoever handles the message sees none of it)."""
    raise SystemExit


@pytest.mark.usefixtures("keyless")
def test_a_predecessor_died_in_the_middle(courier: MakeDesk) -> None:
    """ADP-6.7: a part had begun, no key: not sent again, `uncertain`, with what was sent."""
    words = say("a" * 90 + "\n\n" + "b" * 90)
    wire = FakeTransport()
    with pytest.raises(SystemExit):
        courier(lambda request: wire(request) if not wire.seen else dies(request)).handle(words)
    outcome = courier(wire).handle(say(words.message.text, **AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert (outcome["channel"]["parts"], outcome["channel"]["done"]) == (2, 1)
    assert len(wire.seen) == 1


@pytest.mark.usefixtures("keyless")
@pytest.mark.parametrize("started", [True, False])
def test_a_predecessor_died_before_it_began(courier: MakeDesk, started: bool) -> None:
    """ADP-6.7: work may have been announced; no part had begun, so it is sent."""
    courier(FakeTransport()).handle(say(error=Busy("died here")))
    outcome = courier(FakeTransport()).handle(say(redelivered=True, started=started, attempt=2))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


@pytest.mark.usefixtures("keyless")
def test_the_notes_of_a_predecessor_are_lost(courier: MakeDesk) -> None:
    """ADP-6.7: begun, and nothing is known of it: not sent again, and no start is told."""
    wire, delivery = FakeTransport(), say(**AFTER_A_DEATH)
    outcome = courier(wire).handle(delivery)
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "uncertain"
    assert outcome["channel"]["chat"] == "console:alice"
    assert (delivery.starts, wire.seen) == (0, [])


@pytest.mark.usefixtures("keyed")
def test_a_predecessor_died_and_the_key_helps(courier: MakeDesk) -> None:
    """ADP-6.7: with a key it is sent again."""
    with pytest.raises(SystemExit):
        courier(dies).handle(say())
    outcome = courier(FakeTransport()).handle(say(**AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


def test_where_a_key_always_helps_nothing_is_noted(
    courier: MakeDesk, delivery_log: DeliveryLog
) -> None:
    """ADP-6.8: a console chat needs no notes, also where they cannot be written."""
    delivery_log.close()
    outcome = courier(FakeTransport()).handle(say(**AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"


@pytest.mark.usefixtures("keyless")
def test_notes_that_cannot_be_written(courier: MakeDesk, delivery_log: DeliveryLog) -> None:
    """ADP-6.12: nothing is sent, it comes again, and the reason names the file."""
    delivery_log.close()
    wire, delivery = FakeTransport(), say()
    later = courier(wire).handle(delivery)
    assert isinstance(later, Later) and "courier.db" in later.reason
    assert (delivery.starts, wire.seen) == (0, [])


@pytest.mark.usefixtures("keyless")
def test_killed_before_the_broker_stored_the_end(courier: MakeDesk) -> None:
    """ADP-6.8: sent, and it comes again: nothing goes out, and the outcome is the same."""
    wire = FakeTransport()
    told = [courier(wire).handle(say()), courier(wire).handle(say(**AFTER_A_DEATH))]
    assert told[0] == told[1] and len(wire.seen) == 1


@pytest.mark.usefixtures("keyless")
def test_a_refused_text_that_is_retried(courier: MakeDesk) -> None:
    """ADP-6.8: a dead letter that comes again goes on at the part that was refused."""
    text, wire = "a" * 90 + "\n\n" + "b" * 90, FakeTransport(None, Rejected("blocked"))
    refusal = courier(wire).handle(say(text))
    assert isinstance(refusal, Refusal) and refusal.outcome
    assert (refusal.outcome["channel"]["done"], refusal.outcome["channel"]["parts"]) == (1, 2)
    outcome = courier(wire).handle(say(text))
    assert isinstance(outcome, dict) and outcome["channel"]["result"] == "sent"
    assert [request.body[:1] for request in wire.seen] == [b"a", b"b", b"b"]


@pytest.mark.usefixtures("keyless")
def test_the_older_of_two_couriers(courier: MakeDesk) -> None:
    """ADP-6.10: what the newer one has taken, the older one does not begin; the broker decides."""
    wire = FakeTransport()
    assert isinstance(
        courier(FakeTransport(*[Unavailable("down")] * 9)).handle(say(epoch=2)), Later
    )
    with pytest.raises(NotRegistered):
        courier(wire).handle(say(error=NotRegistered("taken over")))
    assert wire.seen == []
    assert isinstance(courier(wire).handle(say()), dict)  # the broker says that it is ours


@pytest.mark.usefixtures("keyless")
def test_overtaken_between_two_parts(courier: MakeDesk, delivery_log: DeliveryLog) -> None:
    """ADP-6.10: the answer to its running request is kept; it begins no other."""
    text, wire = "a" * 90 + "\n\n" + "b" * 90, FakeTransport()

    def slow(request: Request) -> Response:
        delivery_log.claim("m1", 2)
        return wire(request)

    assert isinstance(courier(slow).handle(say(text)), Later)
    outcome = courier(wire).handle(say(text, epoch=2, **AFTER_A_DEATH))
    assert isinstance(outcome, dict) and outcome["channel"]["done"] == 2
    assert [request.body[:1] for request in wire.seen] == [b"a", b"b"]


@pytest.mark.usefixtures("keyless")
def test_told_to_stop(courier: MakeDesk) -> None:
    """ADP-6.11: it waits no longer, begins no other part and takes no other message."""
    text, wire = "a" * 90 + "\n\n" + "b" * 90, FakeTransport()

    def stopping(request: Request) -> Response:
        desk.halt.set()
        return wire(request)

    desk = courier(stopping)
    assert isinstance(desk.handle(say(text)), Later)
    assert isinstance(desk.handle(say()), Later)
    assert len(wire.seen) == 1 and desk.one.drain(0)


# ---- the permit ------------------------------------------------------------------------------

PACED: dict[str, Any] = {"max_text": 100, "limits": (Limit(1, 10.0),)}


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message in ten seconds, and no key."""
    monkeypatch.setattr(Console, "capabilities", Capabilities(**PACED))


@pytest.mark.usefixtures("paced")
def test_held_back(courier: MakeDesk) -> None:
    """ADP-6.15: it comes again at its place; no start is stored, no note taken, nothing counted."""
    wire = FakeTransport()
    desk = courier(wire)
    assert isinstance(desk.handle(say(id="m1")), dict)
    held = say(id="m2")
    later = desk.handle(held)
    assert isinstance(later, Later) and 10 < later.after_s < 11
    assert "kept to the pace of console (1 in 10 s)" in later.reason
    assert (held.starts, len(wire.seen)) == (0, 1)
    desk.at += later.after_s
    assert isinstance(desk.handle(held), dict) and held.starts == 1


@pytest.mark.usefixtures("paced")
def test_held_back_between_parts(courier: MakeDesk) -> None:
    """ADP-6.15: what is sent stays sent; the rest comes again when its place has come."""
    text, wire = "a" * 90 + "\n\n" + "b" * 90, FakeTransport()
    desk = courier(wire)
    later = desk.handle(say(text))
    assert isinstance(later, Later) and 10 < later.after_s < 11
    assert later.reason.startswith("part 2: kept to the pace")
    desk.at += later.after_s
    outcome = desk.handle(say(text))
    assert isinstance(outcome, dict) and outcome["channel"]["done"] == 2
    assert [request.body[:1] for request in wire.seen] == [b"a", b"b"]


@pytest.mark.usefixtures("paced")
def test_a_grant_that_is_not_used(courier: MakeDesk) -> None:
    """ADP-6.15: a message that did not begin leaves its place to the next one."""
    desk = courier(FakeTransport())
    assert isinstance(desk.handle(say(id="m1", error=Busy("queue full"))), Later)
    with pytest.raises(NotRegistered):
        desk.handle(say(id="m2", error=NotRegistered("gone")))
    assert isinstance(desk.handle(say(id="m3")), dict)


def test_the_settings_change_the_pace(
    courier: MakeDesk, paced: None, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.16: at the next message; each wrong value is named once, and the card's limit holds."""
    desk = courier(FakeTransport(), CONSOLE_RATE_CHAT="often")
    assert isinstance(desk.handle(say(id="m1")), dict)
    assert isinstance(desk.handle(say(id="m2")), Later)
    assert isinstance(desk.handle(say(id="m3")), Later)
    assert caplog.text.count("CONSOLE_RATE_CHAT") == 1
    desk.env["CONSOLE_RATE_CHAT"] = "seldom"
    assert isinstance(desk.handle(say(id="m3")), Later)
    assert caplog.text.count("CONSOLE_RATE_CHAT") == 2
    desk.env["CONSOLE_RATE_CHAT"] = "off"
    assert isinstance(desk.handle(say(id="m4")), dict)


@pytest.mark.parametrize("scope", ["chat", "app"])
def test_a_throttle_holds_back_what_it_is_for(
    courier: MakeDesk, keyless: None, scope: Literal["chat", "app"]
) -> None:
    """ADP-6.17: the chat, or all of the platform, waits as long as it says; in its words."""
    wire = FakeTransport(Throttled("slow down (77)", retry_after=30, scope=scope))
    desk = courier(wire)
    assert isinstance(desk.handle(say(id="m1")), Later)
    other = desk.handle(say(id="m2", sender="another"))
    assert isinstance(other, Later) and "slow down (77)" in other.reason
    assert other.after_s == 30
    away = desk.handle(say(id="m3", channel="console:bob"))
    assert isinstance(away, Later if scope == "app" else dict)
    desk.at += 30
    assert isinstance(desk.handle(say(id="m1")), dict)


def test_an_open_circuit(courier: MakeDesk, keyless: None) -> None:
    """ADP-6.18: after failures at two chats only a probe goes out, and the reason is told."""
    wire = FakeTransport(*[Unavailable("no route to host")] * 100)
    desk = courier(wire, trips=5)
    for n in range(4):
        desk.handle(say(id=f"m{n}", channel=f"console:c{n}"))
    tried = len(wire.seen)
    held = [desk.handle(say(id=f"n{n}", channel=f"console:d{n}")) for n in range(50)]
    assert tried == len(wire.seen) == 5
    assert all(isinstance(one, Later) and "no route to host" in one.reason for one in held)
    wire.answers = []
    desk.at += 5
    assert isinstance(desk.handle(say(id="n1", channel="console:d1")), dict)
    assert isinstance(desk.handle(say(id="n2", channel="console:d2")), dict)


def test_the_reason_keeps_the_platforms_words(courier: MakeDesk, paced: None) -> None:
    """ADP-6.20: what it said last stands in front of what holds the message back now."""
    desk = courier(FakeTransport(None, Throttled("code 42", retry_after=15)))
    desk.handle(say(id="m0", channel="console:alice"))
    desk.at += 11
    assert desk.handle(say()) == Later(15.0, "code 42", "none")
    desk.at += 15
    assert isinstance(desk.handle(say(id="m2", sender="quicker")), dict)
    later = desk.handle(say())
    assert isinstance(later, Later) and later.reason.startswith("code 42 (now: kept to the pace")


# ---- files -----------------------------------------------------------------------------------


@pytest.fixture
def takes_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The console as a platform that takes files, as text, and knows no key."""
    monkeypatch.setattr(Console, "capabilities", Capabilities(max_text=100, max_file=1000))
    build = Console.build_request

    def shown(self: Console, target: Target, outgoing: Outgoing) -> Request:
        text = outgoing.file.data.decode() if outgoing.file else outgoing.text
        return build(self, target, replace(outgoing, text=text))

    monkeypatch.setattr(Console, "build_request", shown)


def file_body(tmp_path: Path, data: str, **more: str) -> dict[str, Any]:
    """Return the body of a message with a file that is stored."""
    path = tmp_path / "report.txt"
    path.write_text(data)
    return {"channel": "console:alice", "file": attachments.store(path, tmp_path)} | more


@pytest.mark.usefixtures("takes_files")
def test_a_file(courier: MakeDesk, tmp_path: Path) -> None:
    """ADP-6.1: a file goes out after the text; without a text it is the only part."""
    wire = FakeTransport()
    desk = courier(wire, folder=tmp_path)
    done = desk.handle(FakeDelivery(file_body(tmp_path, "rows", text="see"), id="m1"))
    assert isinstance(done, dict) and done["channel"]["parts"] == 2
    assert isinstance(desk.handle(FakeDelivery(file_body(tmp_path, "alone"), id="m2")), dict)
    assert [request.body for request in wire.seen] == [b"see", b"rows", b"alone"]


@pytest.mark.usefixtures("takes_files")
def test_a_file_that_was_changed(courier: MakeDesk, tmp_path: Path) -> None:
    """ADP-6.2: refused before the broker is told that work began."""
    body = file_body(tmp_path, "rows")
    (tmp_path / "files" / body["file"]["copy"]).write_text("sows")
    wire, delivery = FakeTransport(), FakeDelivery(body)
    refusal = courier(wire, folder=tmp_path).handle(delivery)
    assert isinstance(refusal, Refusal) and "its copy was changed" in refusal.reason
    assert (delivery.starts, wire.seen) == (0, [])


@pytest.mark.usefixtures("takes_files")
def test_the_copy_outlives_the_end(courier: MakeDesk, tmp_path: Path) -> None:
    """ADP-6.21: killed before the broker stored the end, it is told as sent, not as lost."""
    desk = courier(FakeTransport(), folder=tmp_path)
    body = file_body(tmp_path, "rows")
    assert isinstance(desk.handle(FakeDelivery(body)), dict)
    desk.one.attachments.sweep(desk.at)
    again = courier(FakeTransport(), folder=tmp_path).handle(FakeDelivery(body, **AFTER_A_DEATH))
    assert isinstance(again, dict) and again["channel"]["result"] == "sent"
    desk.one.attachments.sweep(desk.at + 3600)
    assert not list((tmp_path / "files").iterdir())


@pytest.mark.usefixtures("takes_files")
def test_more_files_than_there_is_room(
    courier: MakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADP-6.24: the next one comes again after a second, unread and not begun; a text goes on."""
    monkeypatch.setattr(attachment_memory, "MOST", 7)
    body, told = file_body(tmp_path, "rows"), list[Any]()
    second = FakeDelivery(body, id="m2", sender="other")

    def wire(request: Request) -> Response:
        if request.body == b"rows" and not told:  # it is under way while the next ones come
            told.append(desk.handle(second))
            told.append(desk.handle(say(id="m3")))
        return Response(200, b'{"id": "k"}')

    desk = courier(wire, folder=tmp_path)
    assert isinstance(desk.handle(FakeDelivery(body, id="m1")), dict)
    assert [type(one) for one in told] == [Later, dict] and second.starts == 0
    assert told[0].after_s == 1.0 and "files of 7 bytes are under way" in told[0].reason
    assert isinstance(desk.handle(second), dict)


@pytest.mark.usefixtures("takes_files")
@pytest.mark.parametrize("error", [Rejected("no"), Unavailable("down"), Busy("no"), OSError("bug")])
def test_the_room_of_a_file_is_free_again(
    courier: MakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """ADP-6.24: whatever becomes of it."""
    monkeypatch.setattr(attachment_memory, "MOST", 4)
    body, busy = file_body(tmp_path, "rows"), error if isinstance(error, Busy) else None
    desk = courier(
        FakeTransport(*[error] * 3) if busy is None else FakeTransport(), folder=tmp_path
    )
    desk.handle(FakeDelivery(body, busy, id="m1"))
    with desk.one.attachments.reserve(body) as room:
        assert room
