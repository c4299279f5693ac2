"""PROTOCOL.md section 6: the life of a delivery, against real brokers and processes."""

import re
import subprocess
import sys
from typing import Any

import pytest

from fakes import each
from fakes.broker import Broker, MakeBroker, until
from fakes.peer import MakePeer, Peer, reference, traced
from wakebus.broker import errors


def steps(peer: Peer, id: str) -> list[str]:
    """Return the steps of a message."""
    return [step["what"] for step in traced(peer, id)["steps"]]


def test_a_delivery(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.2: all its fields."""
    other.register(name)
    id = peer.send(name, "hi")["id"]
    delivery = other.take()
    assert delivery.pop("message")["id"] == id
    assert delivery == {
        "to": name,
        "epoch": 1,
        "attempt": 1,
        "redelivered": False,
        "started": False,
        "asks": False,
        "claimed": True,
        "sender_known": False,
    }


def test_the_straight_way(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.1, PROTOCOL-6.3, PROTOCOL-6.4, PROTOCOL-6.5: each word is stored and answered."""
    other.register(name)
    id = peer.send(name)["id"]
    delivery = other.take()
    assert traced(peer, id)["state"] == "queued"
    assert other.say("got", delivery) == {"id": id}
    assert traced(peer, id)["state"] == "delivered"
    assert other.say("started", delivery) == {"id": id}
    assert traced(peer, id)["state"] == "delivered"
    assert other.say("handled", delivery, outcome={"rule": "r", "n": [1]}) == {"id": id}
    found = traced(peer, id)
    assert (found["state"], found["outcome"]) == ("handled", {"rule": "r", "n": [1]})
    assert steps(peer, id) == ["accepted", "queued", "held", "started", "handled"]


def test_saying_it_twice_is_harmless(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.1, PROTOCOL-6.3: also after the end, in any order; the first end counts."""
    other.register(name)
    id = peer.send(name)["id"]
    delivery = other.take()
    for verb in ("got", "got", "started", "got", "started"):
        other.say(verb, delivery)
    other.say("handled", delivery, outcome={"n": 1})
    for verb in ("handled", "refused", "got", "started"):
        assert other.say(verb, delivery, outcome={"n": 2}) == {"id": id}
    assert other.say("later", delivery, after_s=1) == {"id": id}
    assert traced(peer, id)["outcome"] == {"n": 1}


def test_an_end_without_got(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.1: a lost `got` turns no finished work into a redelivery."""
    other.register(name)
    id = peer.send(name)["id"]
    other.say("handled", other.take())
    assert traced(peer, id)["state"] == "handled"


def test_many_words_at_once(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.3: a client need not wait for one answer before the next word."""
    other.register(name)
    id = peer.send(name)["id"]
    named = reference(other.take())
    numbers = [
        other.request(verb, named) for verb in ("got", "started", "handled", "got", "handled")
    ]
    assert [other.answer(n) for n in numbers] == [{"id": id}] * 5
    assert steps(peer, id) == ["accepted", "queued", "held", "started", "handled"]


@pytest.mark.parametrize("change", [{"to": 5}, {"id": None}, {"epoch": "1"}, {"epoch": True}])
@pytest.mark.parametrize("verb", ["got", "started", "handled", "refused", "later"])
def test_a_delivery_named_wrongly(
    peer: Peer, other: Peer, name: str, verb: str, change: dict[str, Any]
) -> None:
    """PROTOCOL-6.3: by kind of field."""
    other.register(name)
    peer.send(name)
    named = {**reference(other.take()), "after_s": 1, **change}
    assert other.error(verb, **named).code == "bad_message"


def test_a_delivery_of_somebody_else(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.3: another connection, another epoch, no such name."""
    other.register(name)
    peer.send(name)
    named = reference(other.take())
    assert peer.error("handled", **named).code == "not_registered"
    assert other.error("handled", **{**named, "epoch": 2}).code == "not_registered"
    assert other.error("handled", **{**named, "epoch": 0}).code == "fenced"
    assert other.error("handled", **{**named, "to": "nobody"}).code == "not_registered"
    assert other.ask("handled", **{**named, "id": "never-was"}) == {"id": "never-was"}


@pytest.mark.parametrize(
    "fields",
    [
        *({"token": bad} for bad in each("short", "x" * 129, 5, [])),
        *({"hops": bad} for bad in each(-1, True, 0.5, "1", 2**70)),
        *({"path": bad} for bad in each("a", [5], ["a b"], ["a"] * 65, {})),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_start_with_wrong_fields(
    peer: Peer, other: Peer, name: str, fields: dict[str, Any]
) -> None:
    """PROTOCOL-6.4: refused; nothing of it is kept."""
    other.register(name)
    id = peer.send(name)["id"]
    error = other.error("started", **reference(other.take()), **{"token": "t" * 16, **fields})
    assert isinstance(error, errors.Refused)
    assert "started" not in steps(peer, id)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ([], "bad_message"),
        ("fine", "bad_message"),
        (5, "bad_message"),
        ({"x": "a" * (16 << 10)}, "too_big"),
        ({"x": "ü" * (9 << 10)}, "too_big"),
        ({"v": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}, "bad_message"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_wrong_outcome(peer: Peer, other: Peer, name: str, outcome: Any, code: str) -> None:
    """PROTOCOL-6.5: the delivery stays in hand and can be ended with another one."""
    other.register(name)
    id = peer.send(name)["id"]
    delivery = other.take()
    for verb in ("handled", "refused"):
        assert other.error(verb, **reference(delivery), outcome=outcome).code == code
    other.say("handled", delivery, outcome=None)
    assert traced(peer, id)["state"] == "handled"


def test_a_refusal(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.6: a dead letter with reason and outcome; a long reason is cut."""
    other.register(name)
    before = peer.ask("status")["dead_letters"]
    id = peer.send(name)["id"]
    other.say("refused", other.take(), reason="no" * 800, outcome={"rule": "r"})
    found = traced(peer, id)
    assert (found["state"], found["outcome"]) == ("dead", {"rule": "r"})
    assert found["reason"] == ("no" * 800)[:1000]
    assert peer.ask("status")["dead_letters"] == before + 1


def test_work_that_failed(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.13, PROTOCOL-6.6: told everywhere as failed, done anew by a plain retry."""
    sender = f"{name}-sender"
    peer.ask("declare", name=sender)
    other.register(name)
    failed = {"reason": "the turn failed: exit 1: 429", "outcome": {"failed": True, "exit": 1}}
    ids = {}
    for notice in (True, False):
        ids[notice] = peer.send(name, sender=sender)["id"]
        delivery = other.take()
        other.say("started", delivery)
        other.say("refused", delivery, **failed, **({} if notice else {"notice": False}))
    receipt = peer.ask("wait", id=ids[True], state="answer", timeout=5)
    assert receipt["state"] == "dead" and receipt["outcome"] == failed["outcome"]
    (notice,) = peer.ask("inbox", name=sender)["messages"]
    message = peer.ask("read", id=notice["id"])["message"]
    assert message["reply_to"] == ids[True] and message["body"]["about"]["failed"] is True
    assert "was worked on, and that failed: the turn failed" in message["body"]["text"]
    letters = peer.ask("dead", to=name)["letters"]
    assert [letter["in_doubt"] for letter in letters] == [False, False]
    assert peer.ask("retry", ids=[ids[True]])["retried"] == [ids[True]]
    again = other.take()
    assert (again["retried"], again["started"], again["redelivered"]) == (1, False, True)
    assert "outcome" not in traced(peer, ids[True])


def test_work_that_failed_is_tried_again(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.16: counted, stored with its time, told to who waits; anew after a retry."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    id = peer.send("e", session="s")["id"]
    delivery = holder.take()
    assert "failures" not in delivery and "failed" not in delivery
    holder.say("started", delivery)
    holder.say("later", delivery, after_s=0.3, failed="exit 1", failures=1)
    again = holder.take()
    assert (again["failures"], again["failed"], again["attempt"]) == (1, "exit 1", 1)
    assert (again["redelivered"], again["started"]) == (False, False)
    for word, now in (("got", "is under way again"), ("started", "is worked on again")):
        holder.say(word, again)
        error = peer.error("wait", id=id, state="handled", timeout=0)
        assert f"delivered, not yet handled; it failed once and {now}: exit 1" in error.text
    holder.say("later", again, after_s=50, failed="x" * 1200)
    peer.send("e", "behind it", session="s")
    error = peer.error("wait", id=id, state="handled", timeout=0)
    assert error.code == "timeout" and error.data["failures"] == 2
    assert re.search(r"queued, not yet handled; it failed 2 times, again in \d\d s: x", error.text)
    found = traced(peer, id)
    assert (found["failures"], found["failed"]) == (2, "x" * 1000) and "reason" not in found
    steps = [step for step in found["steps"] if step["what"] == "later"]
    assert [step["failures"] for step in steps] == [1, 2] and steps[0]["reason"] == "exit 1"
    broker.restart()
    peer, holder = peers(broker), peers(broker)
    holder.register("e", takeover=True)
    other = peer.send("e", "of another lane", session="t")["id"]
    assert holder.take()["message"]["id"] == other, "what failed waits on, and so does its lane"
    assert traced(peer, id)["failures"] == 2
    peer.ask("cancel", id=id)
    assert peer.ask("retry", ids=[id], force=True)["retried"] == [id]
    assert holder.take()["message"]["body"]["text"] == "behind it"
    assert "failures" not in traced(peer, id)


def test_a_time_that_has_come_while_no_broker_ran(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.16: it comes at once, with its count; the death of its holder is no failure."""
    peer, holder = peers(broker), peers(broker)
    holder.register("e")
    id = peer.send("e")["id"]
    holder.say("later", holder.take(), after_s=0.01, failed="exit 1")
    holder.say("got", holder.take())
    broker.restart()
    holder = peers(broker)
    holder.register("e", takeover=True)
    again = holder.take()
    assert (again["message"]["id"], again["failures"], again["redelivered"]) == (id, 1, True)
    holder.say("handled", again)
    found = traced(peers(broker), id)
    assert found["state"] == "handled" and found["failures"] == 1


def test_a_failure_that_is_said_twice(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.16: to a broker that stored it and to the next one, it is one failure."""
    holder = peers(broker)
    holder.register("e")
    id = peers(broker).send("e")["id"]
    delivery = holder.take()
    word = {"after_s": 50, "failed": "exit 1", "failures": 1}
    holder.say("later", delivery, **word)
    broker.restart()
    holder = peers(broker)
    epoch = holder.register("e", takeover=True, holding=[{"id": id, "more": False}])
    holder.ask("later", to="e", id=id, epoch=epoch, **word)
    assert traced(peers(broker), id)["failures"] == 1


def test_a_refusal_without_a_text(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.6: a reason of another kind is an error, none is said so."""
    other.register(name)
    id = peer.send(name)["id"]
    delivery = other.take()
    assert other.error("refused", **reference(delivery), reason=["no"]).code == "bad_message"
    other.say("refused", delivery)
    assert traced(peer, id)["reason"] == "refused by its receiver"


def test_later_holds_its_lane_only(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.7: it comes again first of its lane, and counts no attempt."""
    other.register(name)
    for text, session in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        peer.send(name, text, session=session)
    first, second = other.take(), other.take()
    assert {d["message"]["body"]["text"] for d in (first, second)} == {"a1", "b1"}
    other.say("later", first, after_s=0.3)
    other.say("handled", second)
    peer.send(name, "b2", session="b")
    assert other.take()["message"]["body"]["text"] == "b2"
    again = other.take()
    assert again["message"]["body"]["text"] == "a1"
    assert (again["attempt"], again["redelivered"]) == (1, False)
    other.say("handled", again)
    assert other.finish() == ["a2"]


@pytest.mark.parametrize("after", [-1, 86_401, "1", None, True, [], 2**70])
def test_a_wrong_time_for_later(peer: Peer, other: Peer, name: str, after: Any) -> None:
    """PROTOCOL-6.7: 0 to 86,400 seconds."""
    other.register(name)
    peer.send(name)
    assert other.error("later", **reference(other.take()), after_s=after).code == "bad_message"


def test_later_with_zero_seconds(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-6.7: at once, as often as it is said."""
    other.register(name)
    peer.send(name)
    for _ in range(20):
        other.say("later", other.take(), after_s=0)
    assert other.finish() == ["hi"]


def test_that_work_began_is_told_after_very_many_later(name: str, peer: Peer, other: Peer) -> None:
    """PROTOCOL-6.7, PROTOCOL-10.4: the steps are bounded; the first, `started` and the end stay."""
    other.register(name)
    id = peer.send(name)["id"]
    for _ in range(150):
        other.say("later", other.take(), after_s=0, reason="paused " * 20)
    frame = other.take()
    other.say("started", frame)
    other.say("handled", frame)
    words = [step["what"] for step in traced(peer, id)["steps"]]
    assert words[:2] == ["accepted", "queued"] and words[-2:] == ["started", "handled"]
    assert words.count("later") < 150


def test_later_is_forgotten_by_a_restart(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.7: it comes at once then, to the holder that comes back."""
    peer = peers(broker, "a" * 16)
    peer.register("e")
    peer.send("e", "work", sender="e")
    peer.say("later", peer.take(), after_s=3600)
    broker.restart()
    again = peers(broker, "a" * 16)
    again.register("e")
    assert again.finish() == ["work"]


def dying(broker: Broker, *, poison: str = "", words: str = "'got'") -> dict[str, Any]:
    """
    Run a receiver of `e` that is killed by the first message that holds `poison`, having said
    `words` of it; other messages it handles. Return how it ended.
    """
    script = (
        "import sys, os; sys.path.insert(0, 'tests')\n"
        "from fakes.peer import Peer\n"
        f"p = Peer({broker.address!r}); p.register('e')\n"
        "while True:\n"
        "    d = p.take()\n"
        "    text = d['message']['body']['text']\n"
        f"    if {poison!r} in text:\n"
        f"        for word in [{words}]: p.say(word, d)\n"
        "        os.kill(os.getpid(), 9)\n"
        "    p.say('handled', d)\n"
    )
    return {"status": subprocess.run([sys.executable, "-c", script], timeout=60).returncode}


def test_a_receiver_that_dies(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.8: the message comes again, with attempt and labels."""
    peer = peers(broker)
    id = peer.send("e", "work", queue=True)["id"]
    assert dying(broker)["status"] == -9
    peer.register("e")
    again = peer.take()
    assert (again["attempt"], again["redelivered"], again["started"]) == (2, True, False)
    assert steps(peer, id)[-2:] == ["held", "returned"]


def test_a_receiver_that_dies_at_work(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.8, PROTOCOL-6.2: `started` says that the work had begun."""
    peer = peers(broker)
    peer.send("e", "work", queue=True)
    dying(broker, words="'got', 'started'")
    peer.register("e")
    again = peer.take()
    assert (again["attempt"], again["redelivered"], again["started"]) == (2, True, True)


def test_a_poison_dies_alone(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-6.8, PROTOCOL-6.9: after the last attempt it is dead, and no innocent with it."""
    broker = make_broker(attempts=3)
    peer = peers(broker)
    innocent = [peer.send("e", str(n), queue=True, session=str(n))["id"] for n in range(8)]
    bad = peer.send("e", "poison", session="p")["id"]
    innocent += [peer.send("e", str(n), session=str(n))["id"] for n in range(8, 16)]
    deaths = 0
    while traced(peer, bad)["state"] != "dead":
        dying(broker, poison="poison")
        deaths += 1
        until(lambda: peer.ask("list")["endpoints"][0]["state"] == "away")
    assert deaths == 3 and "3 times" in traced(peer, bad)["reason"]
    peer.register("e")
    while any(traced(peer, id)["state"] != "handled" for id in innocent):
        peer.finish()


def die_holding(broker: Broker, count: int) -> None:
    """Run a receiver of `e` that is killed with `count` messages in its hands."""
    script = (
        "import sys, os; sys.path.insert(0, 'tests')\n"
        "from fakes.peer import Peer\n"
        f"p = Peer({broker.address!r}); p.register('e')\n"
        f"for d in [p.take() for _ in range({count})]: p.say('got', d)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == -9


def test_a_broker_killed_between_two_deaths_condemns_nobody(
    broker: Broker, peers: MakePeer
) -> None:
    """
    PROTOCOL-6.9: what came back uncounted, beside another that was counted, goes singly after it.

    Else it would be beside that one at the next death too, and an innocent be counted for it.
    """
    peer = peers(broker)
    peer.send("e", "innocent", queue=True, session="i")
    die_holding(broker, 1)
    until(lambda: peer.ask("list")["endpoints"][0]["state"] == "away")
    peer.send("e", "poison", session="p")
    die_holding(broker, 2)
    until(lambda: peer.ask("list")["endpoints"][0]["state"] == "away")
    broker.restart()
    last = peers(broker)
    last.register("e")
    labels = {}
    for _ in range(2):
        delivery = last.take()
        assert last.silence() == [], "two of them are out at once"
        labels[delivery["message"]["body"]["text"]] = delivery["attempt"], delivery["redelivered"]
        last.say("handled", delivery)
    assert labels == {"innocent": (3, True), "poison": (1, True)}


def test_expiry(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-6.10: what waited too long is dead; what is in hand is not."""
    broker = make_broker()
    peer = peers(broker)
    peer.register("e")
    ids = [peer.send("e", sender="e", ttl_s=0.2)["id"] for _ in range(2)]
    held = peer.take()
    until(lambda: traced(peer, ids[1])["state"] == "dead")
    assert "expired" in traced(peer, ids[1])["reason"]
    peer.say("handled", held)
    assert traced(peer, ids[0])["state"] == "handled"
    assert peer.silence() == []


def test_expiry_of_what_was_put_off(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.10, PROTOCOL-6.11: the reason and the notice have its receiver's words."""
    sender, peer = peers(broker), peers(broker)
    sender.register("s")
    peer.register("e")
    id = sender.send("e", sender="s", ttl_s=0.2)["id"]
    peer.say("later", peer.take(), after_s=3600, reason="429: {slow}")
    until(lambda: traced(peer, id)["state"] == "dead")
    assert traced(peer, id)["reason"].endswith("put it off until then: 429: {slow}")
    assert "429: {slow}" in sender.take()["message"]["body"]["text"]


def test_expiry_behind_what_was_put_off(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.10, PROTOCOL-6.11: what waited behind it has its words, and names it."""
    sender, peer = peers(broker), peers(broker)
    sender.register("s")
    peer.register("e")
    head = sender.send("e", sender="s")["id"]
    peer.say("later", peer.take(), after_s=3600, reason="429: slow")
    behind = sender.send("e", sender="s", ttl_s=0.1)["id"]
    until(lambda: traced(peer, behind)["state"] == "dead")
    assert traced(peer, behind)["reason"] == f"it expired; it waited behind {head}: 429: slow"
    assert "429: slow" in sender.take()["message"]["body"]["text"]


def begun(peer: Peer, said: list[str]) -> str:
    """Return a message on which work had begun, and which was put off with each of `said`."""
    id: str = peer.send("e", sender="e")["id"]
    for number, word in enumerate(said, 1):
        delivery = peer.take()
        if word != "held":
            peer.say("started", delivery)
        work = {"work": word} if word in ("none", "maybe") else {}
        peer.say("later", delivery, after_s=0 if number < len(said) else 3600, **work)
    return id


@pytest.mark.parametrize(
    ("said", "doubt"),
    [
        (["none"], False),
        (["nothing said"], True),
        (["maybe"], True),
        (["maybe", "none"], False),
        (["none", "nothing said"], True),
        # Put off before it began again: what was said last still counts.
        (["none", "held"], False),
        (["maybe", "held"], True),
    ],
)
def test_given_up_after_work_had_begun(
    broker: Broker, peers: MakePeer, said: list[str], doubt: bool
) -> None:
    """PROTOCOL-6.7, PROTOCOL-10.7, PROTOCOL-10.8: where nothing was done it is in no doubt."""
    peer = peers(broker)
    peer.register("e")
    id = begun(peer, said)
    last = next((word for word in reversed(said) if word != "held"), "")
    word = last if last in ("none", "maybe") else None
    assert traced(peer, id).get("work") == word
    peer.ask("cancel", id=id)
    assert peer.ask("dead", limit=1)["letters"][0]["in_doubt"] is doubt
    assert peer.ask("retry", ids=[id])["retried"] == ([] if doubt else [id])


def test_what_is_no_word_of_work(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.7: it is refused, and the message stays in hand."""
    peer = peers(broker)
    peer.register("e")
    id = peer.send("e", sender="e")["id"]
    delivery = peer.take()
    for odd in ("all", 7, None, ["none"]):
        found = peer.error("later", **reference(delivery), after_s=1, work=odd)
        assert isinstance(found, errors.BadMessage)
    peer.say("handled", delivery)
    assert traced(peer, id)["state"] == "handled" and "later" not in steps(peer, id)


def test_expiry_of_what_a_restart_finds(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.10: the broker's own deadline is stored."""
    id = peers(broker).send("e", queue=True, ttl_s=0.05)["id"]
    broker.restart()
    peer = peers(broker)
    until(lambda: traced(peer, id)["state"] == "dead")


def test_strange_words_then_expiry(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-6.1: words about a message that waits do not break the broker when it expires."""
    broker = make_broker()
    peer = peers(broker)
    peer.register("e")
    ids = [peer.send("e", str(n), sender="e", ttl_s=0.5)["id"] for n in range(4)]
    for verb, id in zip(("got", "started", "got", "started"), ids, strict=True):
        peer.ask(verb, to="e", id=id, epoch=1)
    peer.ask("later", to="e", id=ids[1], epoch=1, after_s=0)
    peer.ask("unregister", name="e")
    until(lambda: all(traced(peer, id)["state"] == "dead" for id in ids))
    assert broker.alive and "Traceback" not in broker.log


@pytest.mark.parametrize("verb", ["handled", "refused"])
def test_an_end_of_what_still_waits(peer: Peer, other: Peer, name: str, verb: str) -> None:
    """PROTOCOL-6.1: a holder may end what is not yet on its way; it is not sent then."""
    other.register(name)
    ids = [peer.send(name, str(n))["id"] for n in range(2)]
    first = other.take()
    other.ask(verb, to=name, id=ids[1], epoch=1)
    other.say("handled", first)
    assert other.silence() == []
    assert traced(peer, ids[1])["state"] in ("handled", "dead")
