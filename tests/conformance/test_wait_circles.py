"""PROTOCOL.md sections 7 and 9: turns that wait for each other, against real brokers."""

import secrets
import subprocess
import sys

import pytest

from fakes.broker import Broker, MakeBroker
from fakes.peer import Answer, MakePeer, Peer, traced
from wakebus.broker.errors import WakebusError


class Agent:
    """An endpoint with one turn at a time, as `wakebus listen --agent` has it."""

    def __init__(self, broker: Broker, peers: MakePeer, name: str) -> None:
        self.name, self.holder, self.sender = name, peers(broker), peers(broker)
        self.holder.hello(cancel=True)
        self.holder.ask("register", name=name)
        self.token = ""

    def begin(self, delivery: Answer | None = None) -> str:
        """Begin the turn on the next message; return its id."""
        delivery = delivery or self.holder.take()
        self.token = secrets.token_hex(10)
        self.holder.say("started", delivery, token=self.token)
        return str(delivery["message"]["id"])

    def first_turn(self) -> str:
        """Begin a turn that nobody waits for; return its message."""
        self.sender.send(self.name)
        return self.begin()

    def asks(self, other: "Agent", *, asks: bool = True, token: str = "", **more: str) -> int:
        """Send from inside the turn, and wait; return the number of the wait."""
        self.asked = f"{self.name}-{other.name}-{secrets.token_hex(4)}"
        token = token or self.token
        self.sender.send(other.name, id=self.asked, asks=asks, token=token, **more)
        return self.waits(self.asked, "answer" if asks else "handled")

    def waits(self, id: str, state: str) -> int:
        """Wait for a message from inside the turn."""
        wait = {"id": id, "state": state, "timeout": 60, "token": self.token}
        return self.sender.request("wait", wait)

    def queued_behind(self, turn: str) -> Answer:
        """Take the next message and say that it waits for that turn."""
        delivery = self.holder.take()
        self.holder.say("got", delivery, behind=turn)
        return delivery

    def refusal(self, number: int) -> WakebusError:
        """Return the error that the wait is answered with."""
        with pytest.raises(WakebusError) as error:
            self.sender.answer(number)
        assert error.value.code == "loop", error.value
        return error.value


def a_turn_that_asks(asker: Agent, other: Agent) -> str:
    """Ask `other` in a turn, which begins one on that; return the asker's."""
    turn = asker.first_turn()
    asker.asks(other)
    other.begin()
    return turn


@pytest.fixture
def agents(broker: Broker, peers: MakePeer) -> list[Agent]:
    """Three of them."""
    return [Agent(broker, peers, name) for name in "abc"]


def test_one_that_asks_itself(agents: list[Agent]) -> None:
    """PROTOCOL-9.7: its own turn waits for what begins after it; refused, and taken back."""
    a = agents[0]
    turn = a.first_turn()
    number = a.asks(a)
    delivery = a.queued_behind(turn)
    error = a.refusal(number)
    assert error.text.startswith(f"a loop: a waits for a; {a.asked} was taken back")
    assert error.data["circle"] == ["a", "a"] and error.data["id"] == a.asked
    assert a.holder.next("cancel")["reason"] == "a loop: a waits for a"
    a.holder.say("refused", delivery)
    assert traced(a.sender, a.asked)["reason"] == "a loop: a waits for a"


@pytest.mark.parametrize("length", [2, 3])
def test_a_circle(agents: list[Agent], length: int) -> None:
    """PROTOCOL-9.7: of two, of three; the newest wait is refused, the others go on."""
    a, *others = agents[:length]
    turn, asker, waits = a.first_turn(), a, []
    for other in others:
        waits.append((asker, asker.asks(other)))
        other.begin()
        asker = other
    number = asker.asks(a)
    a.queued_behind(turn)
    names = [agent.name for agent in agents[:length]]
    circle = " waits for ".join([*names, "a"])
    assert f"a loop: {circle}; {asker.asked} was taken back" in asker.refusal(number).text
    assert all(number not in agent.sender._answers for agent, number in waits)
    assert traced(a.sender, others[0].asked if length > 2 else a.asked)["state"] == "delivered"


def test_what_stands_behind_it_in_its_lane(agents: list[Agent]) -> None:
    """PROTOCOL-9.7: two at once from one turn: the first waits, the second is not even out."""
    a, b, _ = agents
    turn = a_turn_that_asks(a, b)
    b.sender.send("a", token=b.token)
    number = b.asks(a)
    a.queued_behind(turn)
    assert "a waits for b waits for a" in b.refusal(number).text
    assert traced(b.sender, b.asked)["state"] == "dead"


def test_its_own_lane(agents: list[Agent]) -> None:
    """PROTOCOL-9.7: what a lane holds up needs no word of the holder."""
    a = agents[0]
    a.holder.send("a", sender="a")
    a.begin()
    number = a.asks(a)
    assert "a waits for a" in a.refusal(number).text
    assert traced(a.sender, a.asked)["reason"] == "a loop: a waits for a"


def test_a_wait_that_closes_the_circle_last(agents: list[Agent]) -> None:
    """PROTOCOL-9.7: whichever comes last: here the wait for the first message."""
    a, b, _ = agents
    turn = a.first_turn()
    first = "m-first"
    a.sender.send("b", id=first, asks=True, token=a.token)
    b.begin()
    number = b.asks(a)
    a.queued_behind(turn)
    early = a.waits(first, "answer")
    assert "a waits for b waits for a" in b.refusal(number).text
    assert early not in a.sender._answers


def test_who_waits_until_it_is_handled(agents: list[Agent]) -> None:
    """PROTOCOL-9.7: the wait is refused, the message stays; it is done when the turn has ended."""
    a, b, _ = agents
    turn = a_turn_that_asks(a, b)
    number = b.asks(a, asks=False)
    a.queued_behind(turn)
    assert f"{b.asked} stays" in b.refusal(number).text
    assert traced(b.sender, b.asked)["state"] == "delivered"
    assert "cancel" not in a.holder.silence()


@pytest.mark.parametrize("why", ["other session", "no wait", "over", "another one's", "gone"])
def test_what_is_no_circle(agents: list[Agent], broker: Broker, peers: MakePeer, why: str) -> None:
    """PROTOCOL-9.7: only what is certain is refused."""
    a, b, _ = agents
    turn = a.first_turn()
    if why == "gone":
        ask_and_die(broker, a.token)
    elif why == "no wait":
        a.sender.send("b", token=a.token, asks=True)
    elif why == "another one's":  # a person follows what the turn asked, and waits for it
        id = a.sender.send("b", token=a.token)["id"]
        a.sender.request("wait", {"id": id, "state": "handled", "timeout": 60})
    else:
        a.asks(b)
    b.begin()
    number = b.asks(a)
    delivery = a.holder.take()
    if why == "over":
        a.holder.ask("handled", to="a", id=turn, epoch=1)
    if why != "other session":
        a.holder.say("got", delivery, behind=turn)
    assert b.sender.ask("list") and number not in b.sender._answers
    a.begin(delivery)
    answer = {"body": {"type": "answer"}, "reply_to": b.asked, "sender": "a"}
    a.holder.send("b", "yes", **answer)
    assert b.sender.answer(number)["answer"]["body"]["text"] == "yes"


def ask_and_die(broker: Broker, token: str) -> None:
    """Ask `b` and wait, in a process that is killed meanwhile, as a tool's time limit does."""
    script = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from fakes.peer import Peer\n"
        f"p, token = Peer({broker.address!r}), {token!r}\n"
        "p.send('b', id='m-b', asks=True, token=token)\n"
        "p.request('wait', {'id': 'm-b', 'state': 'answer', 'timeout': 60, 'token': token})\n"
        "p.ask('list'); print('up', flush=True); input()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        child.kill()


def test_a_holder_that_waits_itself(agents: list[Agent]) -> None:
    """PROTOCOL-9.7: on its own connection it waits from the turn that it sent from."""
    a, b, _ = agents
    turn = a.first_turn()
    id = a.holder.send("b", sender="a", asks=True)["id"]
    a.holder.request("wait", {"id": id, "state": "answer", "timeout": 60})
    b.begin()
    number = b.asks(a)
    a.queued_behind(turn)
    b.refusal(number)


def test_over_a_restart(make_broker: MakeBroker, peers: MakePeer) -> None:
    """PROTOCOL-9.7: tokens are kept, and waits are asked anew."""
    broker = make_broker()
    a = Agent(broker, peers, "a")
    turn = a.first_turn()
    a.asks(a)
    delivery = a.holder.take()
    broker.restart()
    again = peers(broker, a.holder.instance)
    again.hello(cancel=True)
    holding = [{"id": turn}, {"id": delivery["message"]["id"]}]
    epoch = again.ask("register", name="a", holding=holding)["epoch"]
    a.sender = peers(broker)
    number = a.waits(a.asked, "answer")
    a.sender.ask("list")
    again.ask("got", to="a", id=a.asked, epoch=epoch, behind=turn)
    a.refusal(number)


@pytest.mark.parametrize("restarted", [False, True])
def test_who_was_refused_gets_no_notice(
    make_broker: MakeBroker, peers: MakePeer, restarted: bool
) -> None:
    """PROTOCOL-9.7, PROTOCOL-6.14: of what was taken back, also where a new broker ends it."""
    broker = make_broker()
    a, b = (Agent(broker, peers, name) for name in "ab")
    turn = a_turn_that_asks(a, b)
    number = b.asks(a)
    a.queued_behind(turn)
    b.refusal(number)
    assert traced(b.sender, b.asked)["state"] == "delivered"
    holder = a.holder
    if restarted:
        broker.restart()
        holder = peers(broker, a.holder.instance)
        holder.hello(cancel=True)
        holder.ask("register", name="a", holding=[{"id": turn}, {"id": b.asked}])
    holder.ask("refused", to="a", id=b.asked, epoch=1)
    found = traced(holder, b.asked)
    assert (found["state"], found["reason"]) == ("dead", "a loop: a waits for b waits for a")
    assert not [step for step in found["steps"] if step["what"] == "noticed"]


def test_what_its_holder_says_is_over_when_it_begins(agents: list[Agent]) -> None:
    """PROTOCOL-7.6: and when the message is given back; of what nobody knows nothing follows."""
    a, b, _ = agents
    turn = a_turn_that_asks(a, b)
    b.sender.send("a", id="m3", token=b.token)
    delivery = a.queued_behind(turn)
    a.holder.say("got", delivery, behind="never")
    a.holder.say("got", delivery, behind=turn)
    a.holder.say("later", delivery, after_s=0)
    a.holder.take()
    number = b.waits("m3", "handled")
    b.sender.ask("list")
    assert number not in b.sender._answers
    assert a.sender.error("wait", id="m3", state="handled", token=5).code == "bad_message"


def held(peer: Peer, name: str, sender: Peer) -> Answer:
    """Send `name` a message, and have it in hand: held, not begun; return the delivery."""
    sender.send(name, session=secrets.token_hex(4))
    delivery = peer.take()
    peer.say("got", delivery)
    return delivery


def asked(holder: Peer, delivery: Answer, to: str) -> tuple[str, int]:
    """Ask from inside the handler of a delivery; return the message and the wait's number."""
    id, cause = secrets.token_hex(8), delivery["message"]["id"]
    holder.send(to, id=id, sender=delivery["to"], asks=True, cause=cause, hops=1)
    return id, holder.request("wait", handler_wait(id, delivery))


def handler_wait(id: str, delivery: Answer) -> Answer:
    """Return the payload of a wait by the handler of `delivery`."""
    inside = {"to": delivery["to"], "id": delivery["message"]["id"]}
    return {"id": id, "state": "answer", "timeout": 60, "delivery": inside}


def test_handlers_that_wait(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-9.8: by the delivery, also where it is held only, and the second one here."""
    a, b, sender = (peers(broker) for _ in range(3))
    a.register("a")
    b.register("b")
    first, _ = held(a, "a", sender), held(a, "a", sender)
    _, waits = asked(a, first, "b")
    at_b = b.take()
    b.say("got", at_b)
    asked(b, at_b, "a")
    at_a = a.take()
    a.say("got", at_a)
    last, number = asked(a, at_a, "b")
    with pytest.raises(WakebusError) as error:
        a.answer(number)
    assert error.value.code == "loop" and error.value.data["circle"] == ["b", "a", "b"]
    assert waits not in a._answers and traced(sender, last)["state"] == "dead"


@pytest.mark.parametrize("why", ["another's", "given back", "unknown"])
def test_a_delivery_that_is_not_in_hand(broker: Broker, peers: MakePeer, why: str) -> None:
    """PROTOCOL-9.8: who does not have it, or no longer, waits from no turn."""
    a, sender = peers(broker), peers(broker)
    a.register("a")
    delivery = held(a, "a", sender)
    id = secrets.token_hex(8)
    a.send("a", id=id, sender="a")
    begun = a.take()
    inside = (
        {**begun, "message": {**begun["message"], "id": "never"}} if why == "unknown" else begun
    )
    waiter = sender if why == "another's" else a
    number = waiter.request("wait", handler_wait(delivery["message"]["id"], inside))
    waiter.ask("list")
    if why == "given back":
        a.say("later", begun, after_s=0)
        begun = a.take()
    behind = {"behind": begun["message"]["id"]}
    a.say("got", delivery, **behind)
    waiter.ask("list")
    assert number not in waiter._answers
    for wrong in ("x", {"to": "a"}, {"to": "a", "id": 5}):
        assert a.error("wait", id=id, state="handled", delivery=wrong).code == "bad_message"
