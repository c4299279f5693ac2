"""
The host in the TUI's server (HERMES-8), on a real bus, in a look-alike of hermes-agent 0.22.2.

The look-alike is fakes/hermes_tui.py; tests/e2e_hermes/test_tui.py shows the same in the real one.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.hermes_terminal import TuiSeat
from fakes.hermes_tui import DEAD
from fakes.host import deliver
from wakebus.broker import Later, Refusal
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.hooks import STEER
from wakebus.plugin.hermes.shared import prompt_turns
from wakebus.plugin.hermes.tui import host as tui_host
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import Rules

DO: dict[str, Any] = {"match_type": "do", "context": True}
NOW: dict[str, Any] = {"match_type": "now", "context": True, "interrupt": True}
NOTE: dict[str, Any] = {"match_type": "note", "context": True, "wake": "next_turn"}
SHORT: dict[str, Any] = {"match_type": "short", "context": True, "timeout_s": 1}
LINE: dict[str, Any] = {"match_type": "line", "print": "always"}


@pytest.fixture
def make_tui(
    shared_broker: Broker, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], TuiSeat]]:
    """Return a maker of TUIs without a session."""
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tui_host, "SETTLE_S", 0.5)
    made: list[TuiSeat] = []

    def make() -> TuiSeat:
        made.append(TuiSeat(shared_broker.address, tmp_path, name, DO, NOW, NOTE, SHORT, LINE))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def tui(make_tui: Callable[[], TuiSeat]) -> TuiSeat:
    """A TUI without a session."""
    return make_tui()


def texts(tui: TuiSeat, id: str) -> list[str]:
    """Return the prompts of one session, in order."""
    return [text for session, text in tui.server.prompts if session == id]


def hold(tui: TuiSeat, id: str, text: str = "HOLD the person's own") -> None:
    """Have the person start a turn in a session that runs until `agent.go`."""
    tui.server.person(id, text)
    assert tui.server.agent(id).holding.wait(30)


# --- whose session --------------------------------------------------------------------------------


def test_the_session_that_is_named_has_the_turn(tui: TuiSeat) -> None:
    """HERMES-8.2, HERMES-8.9: that one alone; the answer is shown there and told."""
    a, b = tui.server.open("a"), tui.server.open("b")
    outcome = tui.do("build 7 is red", type="do", session="a")
    assert outcome["turn"]["session"] == "a" and outcome["terminal"]["result"] == "answered"
    assert "unsent" not in outcome and texts(tui, b) == []
    (prompt,) = texts(tui, a)
    assert prompt.startswith("[wakebus] A message.") and "build 7 is red" in prompt


def test_the_only_session_needs_no_name(tui: TuiSeat) -> None:
    """HERMES-8.2: and a channel says only where the answer goes."""
    a = tui.server.open("a")
    assert tui.do("x", type="do")["turn"]["session"] == "a"
    outcome = tui.do("y", type="do", channel="console:team")
    assert "channel" in outcome and len(texts(tui, a)) == 2


def test_several_and_none_named(tui: TuiSeat) -> None:
    """HERMES-8.2: the one in which a person last began a turn; before that, none: it is refused."""
    a, b = tui.server.open("a"), tui.server.open("b")
    receipt = tui.sender.wait(tui.send("x", type="do"), 60)
    assert receipt.state == "dead" and not receipt.failed
    assert "--session KEY, one of:" in receipt.reason and "a" in receipt.reason
    tui.speak(b)
    assert tui.do("y", type="do")["turn"]["session"] == "b"
    tui.do("z", type="do", session="a")  # of the bus, no person's
    assert tui.do("w", type="do")["turn"]["session"] == "b"
    tui.speak(a)
    assert tui.do("v", type="do")["turn"]["session"] == "a"


def test_no_such_session(tui: TuiSeat) -> None:
    """HERMES-8.2: another one never has it, also where there is only one; the keys are told."""
    a = tui.server.open("a")
    for type in ("do", "note", "line"):
        receipt = tui.sender.wait(tui.send("x", type=type, session="closed"), 60)
        assert receipt.state == "dead" and "no such session here: 'closed'" in receipt.reason
        assert receipt.reason.endswith("one of: a")
    assert texts(tui, a) == [] and tui.server.shown == []


@pytest.mark.parametrize("type", ["do", "note", "line"])
@pytest.mark.parametrize("session", [None, "a"])
def test_no_session_at_all(tui: TuiSeat, type: str, session: str | None) -> None:
    """HERMES-8.1: the last one was closed before this left the bus: the message waits."""
    message = Message("m1", 1.0, "ci", tui.name, {"type": type, "text": "x"}, session=session)
    placed = tui.bus.host.place(deliver(message), plan(Rules(), message, "cli"))
    assert isinstance(placed, Later) and placed.reason == "no session is open here", placed


def test_what_answers_goes_to_the_session_that_asked(
    tui: TuiSeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-8.2: from which a tool sent what it answers."""
    tui.server.open("a")
    b = tui.server.open("b")
    tui.speak(b)
    monkeypatch.setattr(tui_host, "session_env", lambda name: {"KEY": "a"}[name])
    asked = tui.sender.send(tui.name, "lunch", type="line", sender="tester").id
    tui.bus.host.remember_sent(asked)
    assert tui.do("it is ready", type="do", reply_to=asked)["turn"]["session"] == "a"


@pytest.mark.parametrize("sessions", [[], ["a"], ["a", "b"]])
def test_a_notice_is_never_refused(
    tui: TuiSeat, make: Callable[..., Message], sessions: list[str]
) -> None:
    """HERMES-8.2: its session is that of whoever its dead message was for."""
    for key in sessions:
        tui.server.open(key)
    message = Message("n1", 1.0, "bus", tui.name, {"type": "notice", "text": "x"}, session="other")
    placed = tui.bus.host.place(deliver(message), plan(Rules(), message, "cli"))
    assert not isinstance(placed, Refusal)
    assert placed.session == ("a" if len(sessions) == 1 else "")


# --- when -----------------------------------------------------------------------------------------


def test_busy(tui: TuiSeat) -> None:
    """HERMES-8.3: after the person's turn and what they typed, in order, interrupting nothing."""
    a, b = tui.server.open("a"), tui.server.open("b")
    hold(tui, a)
    first = tui.send("first", type="do", session="a")
    until(lambda: tui.held(first), 30)
    second = tui.send("second", type="do", session="a")
    assert tui.do("elsewhere", type="do", session="b")["turn"]["session"] == "b"
    tui.server.person(a, "typed meanwhile")
    assert not tui.server.agent(a)._interrupt_requested
    tui.server.agent(a).go.set()
    assert tui.outcome(first)["turn"]["queued_behind"]
    assert "error" not in tui.outcome(second)["turn"]
    person, typed, one, two = texts(tui, a)
    assert (person, typed) == ("HOLD the person's own", "typed meanwhile")
    assert "first" in one and "second" in two and len(texts(tui, b)) == 1


def test_a_rule_that_interrupts(tui: TuiSeat) -> None:
    """HERMES-8.3: it does not end a person's turn."""
    a = tui.server.open("a")
    hold(tui, a)
    id = tui.send("fire!", type="now")
    until(lambda: tui.held(id), 30)
    assert not tui.server.agent(a)._interrupt_requested
    tui.server.agent(a).go.set()
    assert "error" not in tui.outcome(id)["turn"] and len(texts(tui, a)) == 2


def test_a_person_who_is_faster(tui: TuiSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-8.3: what came behind a person's turn is taken back, and is a turn of its own."""
    a = tui.server.open("a")
    inject = tui.server.inject

    def slow(content: str, **named: str) -> bool:
        if not tui.server.prompts:
            hold(tui, a)
        return inject(content, **named)

    monkeypatch.setattr(tui.server, "inject", slow)
    id = tui.send("ours", type="do")
    assert tui.server.agent(a).holding.wait(30)
    tui.server.person(a, "typed one")
    tui.server.person(a, "typed two")
    tui.server.agent(a).go.set()
    assert "error" not in tui.outcome(id)["turn"]
    _, typed, ours = texts(tui, a)
    assert typed == "typed one\n\ntyped two" and ours.startswith("[wakebus]")


def test_a_question_is_no_rest(tui: TuiSeat) -> None:
    """HERMES-8.3: nothing starts while a question waits for the person."""
    a = tui.server.open("a")
    tui.server.asks.add(a)
    id = tui.send("yes", type="do")
    until(lambda: tui.held(id), 30)
    assert texts(tui, a) == []
    tui.server.asks.clear()
    assert "error" not in tui.outcome(id)["turn"]


def test_a_session_that_is_being_opened(tui: TuiSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-8.1: it waits, and comes again."""
    monkeypatch.setattr(tui_host, "AGAIN_S", 0.1)
    a = tui.server.open("a")
    agent = tui.server.agent(a)
    tui.server._sessions[a]["agent"] = None
    id = tui.send("x", type="do")
    until(lambda: any(s["what"] == "later" for s in tui.sender.trace(id)[0]["steps"]), 30)
    tui.server._sessions[a]["agent"] = agent
    assert "error" not in tui.outcome(id)["turn"]


def test_no_turn_begins_while_hermes_is_paused(
    tui: TuiSeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-3.19: it waits, and begins when its owner goes on."""
    a, why = tui.server.open("a"), ["Hermes is paused"]
    monkeypatch.setattr(prompt_turns, "paused", lambda: why[0])
    id = tui.send("later", type="do")
    until(lambda: "paused" in str(tui.sender.trace(id)), 30)
    assert texts(tui, a) == []
    why[0] = ""
    assert "error" not in tui.outcome(id)["turn"]


def test_no_turn_begins(tui: TuiSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-8.7: True of inject_message is not begun; what the marker never shows is an error."""
    monkeypatch.setattr(prompt_turns, "IDLE_S", 0.5)
    tui.server.open("a")
    assert "began no turn" in tui.failed(tui.send("REFUSED", type="do"))


def test_without_the_grant(tui: TuiSeat) -> None:
    """HERMES-8.4: it waits for the session's next turn and says so; no turn begins."""
    a = tui.server.open("a")
    tui.granted.on = tui.server.granted = False
    outcome = tui.do("build 7 is red", type="do")
    assert outcome["note"] == tui.granted.waiting_note and texts(tui, a) == []
    assert "build 7 is red" in tui.speak(a)


# --- how it ends ----------------------------------------------------------------------------------


def test_a_person_stops_our_turn(tui: TuiSeat) -> None:
    """HERMES-8.7: it failed, and is not begun again."""
    a = tui.server.open("a")
    id = tui.send("HOLD", type="do")
    assert tui.server.agent(a).holding.wait(30)
    tui.server.agent(a).interrupt()
    assert "the person at the session stopped it" in tui.failed(id)
    assert len(texts(tui, a)) == 1


def test_its_session_is_closed(tui: TuiSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-8.7: no stop: it comes again, and is refused where it named the session."""
    a = tui.server.open("a")
    tui.server.open("b")
    id = tui.send("HOLD", type="do", session="a")
    agent = tui.server.agent(a)
    assert agent.holding.wait(30)
    tui.server.close(a)
    receipt = tui.sender.wait(id, 60)
    assert receipt.state == "dead" and "no such session here: 'a'" in receipt.reason


def test_the_process_ends(make_tui: Callable[[], TuiSeat]) -> None:
    """HERMES-8.7: what runs is not acknowledged; the next holder gets it, labelled."""
    first = make_tui()
    first.server.agent(first.server.open("a"))
    id = first.send("HOLD", type="do")
    assert first.server.agent("ui-a").holding.wait(30)
    first.close()
    second = make_tui()
    a = second.server.open("a")
    second.server.agent(a).go.set()
    assert "error" not in second.outcome(id)["turn"]
    assert "work on it had started and was cut off" in texts(second, a)[0]


def test_its_time_limit(tui: TuiSeat) -> None:
    """HERMES-8.7: a rule's `timeout_s` ends the turn."""
    tui.server.open("a")
    assert "time limit of 1 s" in tui.failed(tui.send("HOLD", type="short"))


def test_what_is_cancelled(tui: TuiSeat) -> None:
    """HERMES-8.7: what waits never begins, the person's turn goes on; our own turn is ended."""
    a = tui.server.open("a")
    hold(tui, a)
    waits = tui.send("later", type="do")
    until(lambda: tui.held(waits))
    tui.sender.cancel(waits, by="ci")
    assert tui.sender.wait(waits, 30).reason == "cancelled by ci"
    assert not tui.server.agent(a)._interrupt_requested
    tui.server.agent(a).go.set()
    tui.server.rested(a)
    tui.server.agent(a).go.clear()
    tui.server.agent(a).holding.clear()
    runs = tui.send("HOLD ours", type="do")
    assert tui.server.agent(a).holding.wait(30)
    tui.sender.cancel(runs, by="ci")
    assert tui.sender.wait(runs, 30).reason == "cancelled by ci"
    tui.server.agent(a).go.set()
    assert "error" not in tui.do("next", type="do")["turn"]


def test_an_answer_to_a_persons_words(tui: TuiSeat) -> None:
    """HERMES-8.9: who writes into the turn has its answer; the sender is told so, not it."""
    agent = tui.server.agent(tui.server.open("a"))
    id = tui.send("HOLD", type="do", asks=True)
    assert agent.holding.wait(30)
    agent.written_into = [{"role": "tool", "content": STEER}]
    agent.go.set()
    outcome = tui.outcome(id)
    assert outcome["answer"]["reason"] == prompt_turns.STEERED and outcome["answered"] is False
    assert outcome["terminal"]["result"] == "answered"


# --- without a turn -------------------------------------------------------------------------------


def test_what_waits_is_shown_in_its_session(tui: TuiSeat) -> None:
    """HERMES-8.5: once, also after the history was compressed, and in no other."""
    a, b = tui.server.open("a"), tui.server.open("b")
    tui.do("remember the milk", type="note", session="a")
    assert "milk" not in tui.speak(b)
    tui.server.compress(a, "a2")
    seen = tui.speak(a)
    assert "remember the milk" in seen and seen.count("milk") == 1
    assert "milk" not in tui.speak(a, "again")
    assert tui.do("x", type="do", session="a")["turn"]["session"] == "a2"


def test_a_session_is_told_where_it_is(tui: TuiSeat) -> None:
    """HERMES-8.8: in its first turn, with the key by which it is named."""
    a = tui.server.open("a")
    line = f"**Source:** TUI (endpoint: {tui.name}, session: a)"
    assert line in tui.speak(a) and line not in tui.speak(a, "again")


def test_prints(tui: TuiSeat) -> None:
    """HERMES-8.6: in the session that is named, in all without a name."""
    a, b = tui.server.open("a"), tui.server.open("b")
    (done,) = tui.do("red", type="line", session="a")["actions"]
    assert done["to"] == "terminal" and "error" not in done
    assert [id for id, text in tui.server.shown if "red" in text] == [a]
    tui.do("green", type="line")
    assert sorted(id for id, text in tui.server.shown if "green" in text) == [a, b]


def test_a_print_that_nobody_sees(tui: TuiSeat) -> None:
    """HERMES-8.6: it says so."""
    tui.server.open("a")
    tui.server.muted = True
    (done,) = tui.do("red", type="line")["actions"]
    assert "keep it from being shown" in done["error"]


def test_the_sessions_are_told(tui: TuiSeat) -> None:
    """HERMES-8.8: their keys, and what goes on there."""
    a = tui.server.open("a")
    tui.server.open("b", agent=None)
    tui.server.open("c", transport=DEAD)
    hold(tui, a)
    told = {one["session"]: one["state"] for one in tui.bus.host.sessions()}
    opening = "the session is still being opened"
    assert told == {"a": "busy", "b": opening, "c": "nobody is connected to the session"}
    del tui.server._sessions["ui-b"]


def test_what_a_session_may_read(tui: TuiSeat) -> None:
    """HERMES-8.8: what is for it, and what names none."""
    tui.server.open("a")
    may_show = tui.bus.host.may_show("a")
    assert may_show("", "a") and may_show("mattermost:dm1", "") and not may_show("", "b")
