"""One turn in a session of the gateway: how it begins, ends, and what is told of it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fakes.broker import until
from fakes.gateway import Gateway
from fakes.hermes import Platform, SendResult, Town, dm
from wakebus.broker.errors import NotNow, NotRunning, TimedOut
from wakebus.plugin.cli.no_answer import why_no_answer
from wakebus.plugin.hermes.gateway.conversations import Conversation
from wakebus.plugin.hermes.gateway.turn_end import Intervals

MakeGateway = Callable[..., Gateway]

CI = {"match_type": "ci", "context": True}
DM1 = "mattermost:dm1"
KEY = "agent:main:mattermost:dm:dm1"


@pytest.fixture
def gateway(town: Town, make_gateway: MakeGateway) -> Gateway:
    """An endpoint; u1 has written in dm1."""
    found = make_gateway(CI)
    town.ask("hello", dm())
    return found


def running(town: Town, text: str) -> None:
    """Wait until a turn on `text` runs."""
    until(lambda: town.tracker.running(session_id=f"id of {KEY}") and text in town.runner.turns[-1])


def test_a_person_interrupts(town: Town, gateway: Gateway) -> None:
    """HERMES-3.4: it failed and says so, and is not run again; the person is answered."""
    town.held.clear()
    id = gateway.send("HOLD this", channel=DM1)
    running(town, "HOLD this")
    town.say("wait", dm())
    outcome = gateway.outcome(id, "dead")
    assert outcome["turn"]["interrupted"] is True and outcome["answered"] is False
    assert "a person stopped it; its text stays in the session's history" in gateway.failed(id)
    until(lambda: town.adapter.posts[-1][1] == "answer to wait")
    assert len(town.adapter.posts) == 2, "who stopped it needs no line about it (RULES-8.7)"


def test_what_waits_for_a_turn_says_so(town: Town, gateway: Gateway) -> None:
    """RULES-3.12: what goes on in the session, to who waits."""
    town.held.clear()
    town.say("HOLD mine", dm())
    until(lambda: town.runner.turns and "HOLD mine" in town.runner.turns[-1])
    id = gateway.send("after it", channel=DM1)

    def why() -> str:
        with pytest.raises(TimedOut) as caught:
            gateway.sender.wait(id, 0)
        return str(caught.value.data.get("why", ""))

    until(lambda: why() == "its session in Hermes is busy: a turn runs there")
    town.held.set()
    assert gateway.outcome(id)["channel"]["result"] == "answered"


def test_an_ask_without_a_channel_says_why_it_has_no_answer(gateway: Gateway) -> None:
    """RULES-3.12: in words, with what to name."""
    receipt, answer = gateway.sender.ask(gateway.name, "well?", type="ci", wait=30, sender="tester")
    assert answer is None
    assert "names neither channel nor session (--channel platform:chat_id, --session KEY)" in (
        why_no_answer(receipt.outcome)
    )


def test_we_interrupt_nobody(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.4: `interrupt: true` is for terminals; here the turns follow each other."""
    gateway = make_gateway(CI | {"interrupt": True})
    town.ask("hello", dm())
    town.held.clear()
    first = gateway.send("HOLD one", channel=DM1)
    running(town, "HOLD one")
    second = gateway.send("two", channel=DM1)
    until(lambda: gateway.dispatch._turns._sessions[KEY].line)
    town.held.set()
    for id in (first, second):
        assert gateway.outcome(id)["channel"]["result"] == "answered"
    assert town.runner.interrupted == []


def test_a_platform_that_takes_no_answer(town: Town, gateway: Gateway) -> None:
    """HERMES-3.7, peer failure 5: uncertain, not said by another way; the next one comes."""
    town.adapter.sends = [SendResult(False, error="Failed to create post")]
    told = gateway.do("one", channel=DM1)["channel"]
    assert told["result"] == "uncertain" and "did not take the answer" in told["reason"]
    assert gateway.do("two", channel=DM1)["channel"]["result"] == "answered"


def test_an_adapter_that_says_nothing(
    town: Town, make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-3.7: whether the platform took it is then not known."""
    gateway = make_gateway(CI, intervals=Intervals(look=0.01, settle=0.3, delivery=0.05))
    town.ask("hello", dm())
    monkeypatch.setattr(town.hermes.__class__, "listen", lambda *args: False)
    told = gateway.do("one", channel=DM1)["channel"]
    assert told["result"] == "uncertain" and "has not said" in told["reason"]


def test_silence_on_purpose(town: Town, gateway: Gateway) -> None:
    """HERMES-3.7: NO_REPLY is no answer, and nobody is told one."""
    outcome = gateway.do("SILENT", channel=DM1)
    assert outcome["turn"]["silent"] is True and "channel" not in outcome
    assert outcome["answered"] is False and len(town.adapter.posts) == 1


def test_a_turn_that_hermes_drops(town: Town, gateway: Gateway) -> None:
    """HERMES-3.9: told after a bounded time, not repeated for ever."""

    async def drop(event: Any) -> None:
        return None

    town.adapter.handle_message = drop  # type: ignore[method-assign]
    assert "did not begin the turn" in gateway.failed(gateway.send("one", channel=DM1))


def test_a_turn_that_hermes_ends_without_a_word(town: Town, gateway: Gateway) -> None:
    """HERMES-3.9: an error of the model ends it before its hooks (conversation_loop.py)."""

    async def fails(text: str) -> str:
        raise RuntimeError("the model is gone")

    town.runner.agent = fails
    id = gateway.send("one", channel=DM1)
    assert "did not say how it ended" in gateway.failed(id)
    assert gateway.outcome(id, "dead")["answered"] is False


def test_the_chat_is_told_by_the_gateway(town: Town, gateway: Gateway) -> None:
    """RULES-8.5, RULES-8.7: one line in the person's chat, and no second one after a retry."""

    async def fails(text: str) -> str:
        raise RuntimeError("the model is gone")

    town.runner.agent = fails
    id = gateway.send("one", channel=DM1)
    why = "Hermes did not say how it ended (agent.log may)"
    line = f'{gateway.name} could not do "ci" from tester: {why} (wakebus trace {id})'
    assert gateway.outcome(id, "dead")["failure_told"]["result"] == "sent"
    assert [text for _, text, _ in town.adapter.posts[1:]] == [line]
    gateway.sender.retry([id])
    assert gateway.outcome(id, "dead")["failure_told"] == {"again": True}
    assert len(town.adapter.posts) == 2


def test_hermes_has_told_it_itself(
    town: Town, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RULES-8.7: its own words stand in that chat; there is no second line."""
    words = "The request failed: 429"  # gateway/run.py:2804

    async def ill(text: str, key: str, id: str, turn: str) -> str:
        town.tracker.on_end(turn_id=turn, completed=False, interrupted=False)
        return words

    monkeypatch.setattr(town.runner, "_answer", ill)
    outcome = gateway.outcome(gateway.send("one", channel=DM1), "dead")
    told = outcome["failure_told"]
    assert (told["result"], told["to"]) == ("answered", DM1)
    assert [text for _, text, _ in town.adapter.posts[1:]] == [words]


def test_hermes_could_not_tell_it(
    town: Town, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RULES-8.7: its own words did not arrive: the line is sent as a print is."""

    async def ill(text: str, key: str, id: str, turn: str) -> str:
        town.tracker.on_end(turn_id=turn, completed=False, interrupted=False)
        town.adapter.sends.append(SendResult(False, error="502"))
        return "The request failed: 429"

    monkeypatch.setattr(town.runner, "_answer", ill)
    outcome = gateway.outcome(gateway.send("one", channel=DM1), "dead")
    assert outcome["failure_told"]["result"] == "sent"
    (line,) = [text for _, text, _ in town.adapter.posts[1:]]
    assert "could not do" in line and "no answer" in line


def test_hermes_raises(town: Town, gateway: Gateway) -> None:
    """HERMES-3.9: its error is told, and stops nothing else."""

    async def fails(event: Any) -> None:
        raise RuntimeError("half built")

    town.adapter.handle_message, whole = fails, town.adapter.handle_message  # type: ignore[method-assign]
    assert "RuntimeError: half built" in gateway.failed(gateway.send("one", channel=DM1))
    town.adapter.handle_message = whole  # type: ignore[method-assign]
    assert gateway.do("two", channel=DM1)["channel"]["result"] == "answered"


def test_the_right_is_lost_meanwhile(town: Town, gateway: Gateway) -> None:
    """HERMES-3.2: authorization is asked again where the turn begins."""
    town.runner._update_prompt_pending[KEY] = True
    id = gateway.send("one", channel=DM1)
    until(lambda: gateway.host._routed.get(KEY))
    town.runner.allowed.clear()
    town.runner._update_prompt_pending.clear()
    assert "u1 may no longer talk" in gateway.failed(id)
    assert len(town.runner.turns) == 1


def test_a_person_comes_in_between(town: Town, gateway: Gateway) -> None:
    """HERMES-3.4: what Hermes queued behind a person is taken back, and runs alone afterwards."""
    town.held.clear()
    came = threading.Event()

    def come() -> None:
        if not came.is_set():
            came.set()
            town.say("HOLD me", dm())  # while ours awaits (base.py:4776)

    town.adapter.recovery = come
    id = gateway.send("one", channel=DM1)
    until(lambda: "HOLD me" in town.runner.turns)
    until(lambda: not town.adapter._pending_messages)
    town.held.set()
    outcome = gateway.outcome(id)
    assert outcome["turn"]["queued_behind"] is True
    assert outcome["channel"]["result"] == "answered"
    assert town.runner.turns.count("HOLD me") == 1


def test_the_gateway_stops_in_the_middle(town: Town, gateway: Gateway) -> None:
    """HERMES-3.9: not acknowledged: it comes again, labelled."""
    town.held.clear()
    id = gateway.send("HOLD this", channel=DM1)
    running(town, "HOLD this")
    gateway.stop.set()
    gateway.dispatch.stop()
    with pytest.raises(TimedOut):
        gateway.sender.wait(id, 0.2)


def test_the_time_limit(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.9: `timeout_s` ends the waiting; the turn goes on in Hermes."""
    gateway = make_gateway(CI | {"timeout_s": 0.1})
    town.ask("hello", dm())
    town.held.clear()
    assert "goes on in Hermes" in gateway.failed(gateway.send("HOLD this", channel=DM1))


def test_an_adapter_that_went_away(town: Town, gateway: Gateway) -> None:
    """HERMES-3.9: while it waited for its turn: it comes again."""
    turns = gateway.host._turns
    found = Conversation(dm(), KEY)
    del town.runner.adapters[Platform.MATTERMOST]
    with pytest.raises(NotNow, match="mattermost is not connected"):
        turns.until_idle(found)
    town.runner._draining = True
    with pytest.raises(NotNow, match="stopping"):
        turns.until_idle(found)
    gateway.stop.set()
    with pytest.raises(NotRunning):
        turns.until_idle(found)


def test_a_newer_hermes(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.6: `ctx.inject_message(session_key=)` is used where there is one."""
    calls: list[str] = []

    def inject(text: str, session_key: str = "") -> bool:
        calls.append(session_key)
        if "refuse" in text:
            return False
        town.say(text, dm())
        return True

    gateway = make_gateway(CI, inject=inject)
    town.ask("hello", dm())
    outcome = gateway.do("one", channel=DM1)
    assert calls == [KEY] and outcome["channel"]["result"] == "answered"
    assert "inject_message" in gateway.failed(gateway.send("refuse", channel=DM1))


# --- what is cancelled ----------------------------------------------------------------------


def test_our_turn_is_ended_when_its_message_is_cancelled(town: Town, gateway: Gateway) -> None:
    """HERMES-3.15: as `/stop` ends one; dead, no word in the chat, and the next has its turn."""
    town.held.clear()
    id = gateway.send("HOLD this", channel=DM1)
    running(town, "HOLD this")
    posts = len(town.adapter.posts)
    assert gateway.sender.cancel(id, by="ci").told
    receipt = gateway.sender.wait(id, 30)
    assert (receipt.state, receipt.reason) == ("dead", "cancelled by ci") and not receipt.failed
    assert receipt.outcome and receipt.outcome["turn"]["error"] == "its message was cancelled"
    assert town.runner.stopped == [(KEY, "Stop requested")] and town.runner.interrupted == []
    town.held.set()
    gateway.do("next", channel=DM1)
    assert [post[1] for post in town.adapter.posts[posts:]] == [town.adapter.posts[-1][1]]


def test_a_persons_turn_is_not_ended(town: Town, gateway: Gateway) -> None:
    """HERMES-3.15: a message that waits for it is taken back, and never begins."""
    town.held.clear()
    town.say("HOLD mine", dm())
    until(lambda: town.runner.turns[-1:] == ["HOLD mine"])
    id = gateway.send("later", channel=DM1)
    until(lambda: gateway.steps(id, "held"))
    gateway.sender.cancel(id, by="ci")
    assert gateway.sender.wait(id, 30).reason == "cancelled by ci"
    town.held.set()
    until(lambda: town.adapter.posts[-1][1] == "answer to HOLD mine")
    assert town.runner.stopped == [] and "later" not in "".join(town.runner.turns)


def test_a_turn_that_a_person_joined_goes_on(town: Town, gateway: Gateway) -> None:
    """HERMES-3.15: it is theirs, too; the message is dead when it has ended."""
    town.held.clear()
    id = gateway.send("HOLD this", channel=DM1)
    running(town, "HOLD this")
    gateway.host._person_wrote.put(KEY, True)
    gateway.sender.cancel(id, by="ci")
    until(lambda: gateway.steps(id, "cancelled"))
    town.held.set()
    receipt = gateway.sender.wait(id, 30)
    assert receipt.reason == "cancelled by ci" and town.runner.stopped == []
    assert receipt.outcome and "error" not in receipt.outcome["turn"]
