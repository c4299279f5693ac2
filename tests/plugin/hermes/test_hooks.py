"""What Hermes's hooks tell wakebus, and what they put in front of a person's turn (HERMES-4)."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.hermes_terminal import Bus, Terminal
from fakes.host import deliver
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes import hooks
from wakebus.plugin.hermes.hooks import (
    HOW_TO_SEND,
    MAX_SESSIONS,
    REDIRECT,
    STEER,
    Hooks,
    _state_of,
    message_text,
    steered,
)
from wakebus.plugin.hermes.tools import schemas
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.prompt.pending_context import Context
from wakebus.plugin.receive.host import TurnRequest
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import Rules

MakeMessage = Callable[..., Message]

NOTE: dict[str, Any] = {"match_type": "note", "context": True, "wake": "next_turn"}


class Gateway:
    """gateway.py's host, as far as hooks ask it: sessions `a…` are chats, others nobody's."""

    def __init__(self, channel: str = "mattermost:dm1") -> None:
        self.events: list[Any] = []
        self._channel = channel

    def names(self, session_id: str) -> tuple[str, ...]:
        """A session key, the chat."""
        return (f"key:{session_id}", f"chat:{session_id}") if session_id[:1] == "a" else ()

    def channel(self, session_id: str = "") -> str:
        """Of the session that calls."""
        return self._channel

    def on_message(self, event: Any) -> None:
        """A person's message."""
        self.events.append(event)

    def on_answer(self, text: str, session_id: str) -> None:
        """The model's answer."""
        self.events.append((session_id, text))

    def on_admitted(self, session_key: str, fields: Mapping[str, Any]) -> None:
        """A person who may talk."""
        self.events.append((session_key, fields["user_id"]))


@pytest.fixture
def bus(tmp_path: Path) -> Bus:
    """A gateway's hooks."""
    found = Bus().registered()
    found.host, found.context = Gateway(), Context(tmp_path / "c.jsonl")
    found.endpoint, found.mode = "hermes-bus-gateway", "gateway"
    return found


@pytest.fixture
def terminal(shared_broker: Broker, tmp_path: Path, name: str) -> Iterator[Terminal]:
    """An idle terminal with a rule for `note`."""
    tmp_path.chmod(0o700)
    found = Terminal(shared_broker.address, tmp_path, name, NOTE)
    yield found
    found.close()


def begin(bus: Bus, turn_id: str = "t1", session_id: str = "a1", **fields: Any) -> str:
    """Return what stands in front of a turn."""
    known = {"user_message": "hello", "task_id": "x", "platform": "mattermost", **fields}
    found = bus.fire("pre_llm_call", session_id=session_id, turn_id=turn_id, **known)
    return str(found[0]["context"]) if found else ""


def end(bus: Bus, turn_id: str, session_id: str = "a1", *, completed: bool = True) -> None:
    """Tell that a turn has ended."""
    fields = {"session_id": session_id, "turn_id": turn_id, "interrupted": not completed}
    bus.fire("on_session_end", completed=completed, **fields)


def in_review(call: Callable[[], Any]) -> Any:
    """Call as Hermes's review in the background does (run_agent.py:1668)."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), name="bg-review")
    thread.start()
    thread.join(30)
    return found[0]


# --- what waits -----------------------------------------------------------------------------------


def test_what_waits_is_shown_once(terminal: Terminal) -> None:
    """HERMES-4.8: in front of the person's next turn, labelled, then never again."""
    outcome = terminal.do("remember the milk", type="note")
    assert outcome["actions"][0]["waiting"] == 1
    seen = terminal.turn("hello")
    assert seen.startswith("hello\n\n") and "[wakebus] For your information" in seen
    assert seen.count("remember the milk") == 1
    assert "milk" not in terminal.turn("again")


def test_a_turn_that_failed_shows_it_again(terminal: Terminal) -> None:
    """HERMES-4.8: what a model did not answer to may never have reached it."""
    terminal.do("remember the milk", type="note")
    assert "milk" in terminal.turn("FAIL this")
    assert "milk" in terminal.turn("again")
    assert "milk" not in terminal.turn("and again")


def test_a_turn_that_was_interrupted_shows_it_again(terminal: Terminal) -> None:
    """HERMES-4.8: however often; of a turn without an answer Hermes keeps only what was typed."""
    terminal.do("remember the milk", type="note")
    terminal.cli.person("HOLD")
    assert terminal.cli.agent.holding.wait(30)
    terminal.cli.agent.interrupt()
    until(lambda: "HOLD" in terminal.cli.agent.ended, 30)
    assert "milk" in terminal.turn("again") and "milk" not in terminal.turn("at last")


@pytest.mark.parametrize("platform", ["subagent", "cron", "curator"])
def test_forks_eat_nothing(bus: Bus, make: MakeMessage, platform: str) -> None:
    """HERMES-4.9, peer failure 6: nor do they learn a source that is not theirs."""
    bus.context.add("key:a1", PromptItem(make(), "milk"))
    assert begin(bus, platform=platform) == ""
    assert begin(bus, "t2", session_id="cron_1") == ""
    assert "milk" in begin(bus, "t3")


def test_a_review_eats_nothing(bus: Bus, make: MakeMessage) -> None:
    """HERMES-4.9, peer failure 6: it has session and platform of the turn that it reviews."""
    bus.context.add("key:a1", PromptItem(make(), "milk"))
    assert in_review(lambda: begin(bus)) == ""
    assert "milk" in begin(bus, "t2")
    in_review(lambda: end(bus, "t2"))
    assert bus.context.waiting("key:a1").items


def test_sessions_do_not_mix(bus: Bus, make: MakeMessage) -> None:
    """HERMES-4.8, peer failure 6: what waits for one chat is in no other's turn."""
    bus.context.add("chat:a1", PromptItem(make(id="m1"), "for one"))
    bus.context.add("key:a2", PromptItem(make(id="m2"), "for two"))
    one, two = begin(bus, "t1", "a1"), begin(bus, "t2", "a2")
    assert "for one" in one and "for two" not in one
    assert "for two" in two and "for one" not in two


def test_a_turn_after_one_without_an_answer(bus: Bus, make: MakeMessage) -> None:
    """HERMES-4.8: Hermes would drop it (agent_runtime_helpers.py:645); it waits one turn more."""
    bus.context.add("key:a1", PromptItem(make(), "milk"))
    unanswered = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    assert begin(bus, conversation_history=unanswered) == ""
    end(bus, "t1")
    answered = [*unanswered, {"role": "assistant"}, {"role": "user", "content": "three"}]
    assert "milk" in begin(bus, "t2", conversation_history=answered)


def test_before_the_bus(bus: Bus) -> None:
    """HERMES-4.11: before this process is on the bus, and after, turns are as without us."""
    bus.host = bus.context = None
    assert begin(bus) == ""
    assert bus.fire("pre_gateway_dispatch", event="e", gateway="g") == []
    assert bus.fire("post_llm_call", assistant_response="x", session_id="a1") == []


# --- the source -----------------------------------------------------------------------------------


def test_the_source_of_a_terminal(terminal: Terminal) -> None:
    """HERMES-4.10: once, with what waits."""
    terminal.do("milk", type="note")
    seen = terminal.turn("hello")
    assert f"**Source:** CLI (endpoint: {terminal.name})\n{HOW_TO_SEND}\n\n[wakebus]" in seen
    assert "**Source:**" not in terminal.turn("again")


def test_the_source_of_a_chat(bus: Bus) -> None:
    """HERMES-4.10: once in each session, again in a new one."""
    line = "**Source:** Mattermost (endpoint: hermes-bus-gateway, channel: mattermost:dm1)"
    line = f"{line}\n{HOW_TO_SEND}"
    assert begin(bus) == line
    end(bus, "t1")
    assert begin(bus, "t2") == "" and begin(bus, "t3", "a2") == line
    bus.fire("on_session_reset", session_id="a1", platform="mattermost", reason="new")
    assert begin(bus, "t4") == line
    bus.fire("on_session_finalize", session_id="a1", platform="mattermost", reason="x")
    assert begin(bus, "t5") == line


@pytest.mark.parametrize("told", [True, False])
def test_a_source_that_was_not_seen(bus: Bus, told: bool) -> None:
    """HERMES-4.10: a turn that was interrupted, or failed untold, has not shown it for good."""
    assert "**Source:**" in begin(bus, "t1")
    if told:
        end(bus, "t1", completed=False)
    assert "**Source:**" in begin(bus, "t2")
    end(bus, "t2")
    assert begin(bus, "t3") == ""


@pytest.mark.parametrize(
    ("channel", "line"),
    [
        ("dingtalk:c1", "**Source:** DingTalk (endpoint: e, channel: dingtalk:c1)"),
        ("", "**Source:** Gateway (endpoint: e)"),
    ],
)
def test_titles(bus: Bus, channel: str, line: str) -> None:
    """HERMES-4.10: a platform's name as it is written; none where the chat is not known."""
    bus.host, bus.endpoint = Gateway(channel), "e"
    assert begin(bus) == f"{line}\n{HOW_TO_SEND}"


def test_how_to_send_is_told_with_it() -> None:
    """HERMES-4.10: the tool's name and what it requires, in both generations, for few tokens."""
    required = ", ".join(schemas.SEND["parameters"]["required"])
    assert f"{schemas.SEND['name']}({required})" in HOW_TO_SEND and "tool_call" in HOW_TO_SEND
    assert len(HOW_TO_SEND) < 160


def test_not_on_the_bus_yet(bus: Bus) -> None:
    """HERMES-4.10: it is said when it is known."""
    bus.endpoint = ""
    assert begin(bus) == ""
    bus.endpoint = "e"
    assert "endpoint: e" in begin(bus, "t2")


def test_bounded(bus: Bus) -> None:
    """HERMES-4.11: sessions that never end are forgotten."""
    for number in range(MAX_SESSIONS + 50):
        begin(bus, f"t{number}", f"a{number}")
    assert len(_state_of(bus)._sources) == MAX_SESSIONS


# --- hooks ----------------------------------------------------------------------------------------


def test_registered_again(bus: Bus, make: MakeMessage) -> None:
    """HERMES-4.11: Hermes forgets hooks and registers anew (discover_plugins(force=True))."""
    bus.context.add("key:a1", PromptItem(make(), "milk"))
    assert "milk" in begin(bus)
    bus.registered()
    assert [len(callbacks) for callbacks in bus.callbacks.values()] == [1] * 7
    end(bus, "t1")
    assert begin(bus, "t2") == ""


def test_what_a_host_hears(bus: Bus) -> None:
    """HERMES-4.11: a person's message, who was let in, and an answer; Hermes goes its own way."""
    assert bus.fire("pre_gateway_dispatch", event="e", gateway="g", session_store=None) == []
    assert bus.host.events == ["e"]
    assert bus.fire("post_llm_call", assistant_response="done", session_id="a1") == []
    assert bus.host.events == ["e", ("a1", "done")]


def test_hooks_of_newer_hermes(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.2: who was let in is heard of where Hermes tells it; another Hermes would warn."""
    assert "post_gateway_admission" not in bus.callbacks
    newer = {"post_gateway_admission", "agent_loop_stopped"}
    monkeypatch.setitem(sys.modules, "hermes_cli.plugins", SimpleNamespace(VALID_HOOKS=newer))
    bus.registered()
    source = {"platform": "mattermost", "user_id": "u1"}
    assert bus.fire("post_gateway_admission", session_key="k", source=source, text="x") == []
    assert bus.host.events == [("k", "u1")]


def test_how_hermes_says_that_a_turn_failed(bus: Bus) -> None:
    """RULES-8.1, HERMES-3.17: `failed` and `turn_exit_reason`, which 0.19 does not tell."""
    order: Any = SimpleNamespace(marker="a" * 24, session="key:a1", jobs=())
    with bus.tracker.tracking(order) as turn:
        begin(bus, user_message=f"text {'a' * 24}")
        how = {"completed": True, "failed": True, "turn_exit_reason": "all_retries_exhausted"}
        bus.fire("on_session_end", session_id="a1", turn_id="t1", interrupted=False, **how)
    assert turn.ended.is_set() and turn.why_failed == "Hermes: all_retries_exhausted"


def test_a_person_stops_what_has_not_begun(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.18: `/stop` and `/new`, of the session that is meant, while the turn waits there."""
    newer = SimpleNamespace(VALID_HOOKS={"agent_loop_stopped"})
    monkeypatch.setitem(sys.modules, "hermes_cli.plugins", newer)
    bus.registered()
    order: Any = SimpleNamespace(marker="a" * 24, session="key:a1", jobs=())
    with bus.tracker.tracking(order) as turn:
        bus.fire("agent_loop_stopped", session_key="key:a2", reason="Stop requested")
        assert turn.stopped == ""
        bus.fire("agent_loop_stopped", session_key="key:a1", reason="Stop requested")
        assert turn.stopped == "a stop (Stop requested)"
        bus.fire("on_session_reset", session_id="a1", old_session_id="a0")
        assert turn.stopped == "a reset of its session"


def test_a_turn_that_was_given_up_begins(bus: Bus) -> None:
    """HERMES-3.18: it is recognised, once, and told in the log and by /bus."""
    message = SimpleNamespace(message=SimpleNamespace(id="m1"))
    jobs = (SimpleNamespace(delivery=message),)
    order: Any = SimpleNamespace(marker="a" * 24, session="key:a1", jobs=jobs)
    with bus.tracker.tracking(order) as turn:
        turn.handed_over = turn.doubt = True
    begin(bus, user_message=f"text {'a' * 24}")
    assert bus.errors == ["m1: told as uncertain, its turn has begun after all"]
    begin(bus, "t2", user_message=f"text {'a' * 24}")
    assert len(bus.errors) == 1


def test_a_person_redirects_the_turn() -> None:
    """HERMES-3.7: newer Hermes puts it behind what was answered so far; the answer is theirs."""
    redirected = {"role": "user", "content": "wait", "api_content": f"{REDIRECT}\n[…]\n\nwait"}
    assert steered([{"role": "user", "content": "ours"}, redirected, {"role": "assistant"}])
    assert not steered([{"role": "user", "content": "ours"}, {"role": "assistant"}])


def test_what_the_models_api_said(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-4.11, RULES-8.1: it is the reason of a turn that Hermes ends for it."""
    heard: list[tuple[str, str]] = []
    monkeypatch.setattr(
        bus.tracker, "on_trouble", lambda text, turn_id: heard.append((turn_id, text))
    )
    bus.fire("api_request_error", turn_id="t1", error={"type": "E", "message": "HTTP 429"})
    bus.fire("api_request_error", turn_id="t1", error=None)
    assert heard == [("t1", "HTTP 429"), ("t1", "no reason given")]


def test_nothing_is_raised(bus: Bus) -> None:
    """HERMES-4.11, peer failure 7: whatever is missing, broken or of another shape."""
    for name in bus.callbacks:
        assert bus.fire(name) == []
    bus.host = object()
    assert begin(bus) == ""
    assert bus.fire("post_llm_call", assistant_response=None, turn_id=None) == []


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("x", "x"),
        ([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}], "look"),
        (None, ""),
        ([None, {"text": 3}], ""),
    ],
)
def test_the_text_of_a_message(message: object, text: str) -> None:
    """HERMES-4.11: with a picture it is a list of parts."""
    assert message_text(message) == text


def test_hooks_are_of_this_module(bus: Bus) -> None:
    """HERMES-4.11: by that `register` knows that they are there already."""
    callbacks = [callback for several in bus.callbacks.values() for callback in several]
    assert {callback.__module__ for callback in callbacks} == {Hooks.__module__}


def test_a_turn_whose_end_was_not_told(bus: Bus, make: MakeMessage) -> None:
    """HERMES-4.6: it is over when its session's next turn begins, and who waits learns that."""
    marker = "0123456789abcdef01234567"
    message = make()
    job = Job(deliver(message), plan(Rules(), message, "gateway"), PromptItem(message, "x"))
    with bus.tracker.tracking(TurnRequest("a1", [job], marker, marker, "t", Cancel())) as turn:
        begin(bus, "t1", user_message=f"[wakebus] {marker}")
        assert turn.began.is_set() and not turn.ended.is_set()
        in_review(lambda: begin(bus, "t2"))
        assert not turn.ended.is_set()
        begin(bus, "t3")
        assert turn.ended.is_set() and not turn.completed


def test_a_persons_words_in_a_turn() -> None:
    """HERMES-3.7: Hermes appends them to a tool's result of this very turn."""
    told = {"role": "tool", "content": f"done\n{STEER} — …]\nmy pin\n[/…]"}
    user, said = {"role": "user", "content": STEER}, {"role": "assistant", "content": STEER}
    assert steered([user, said, told, said])
    assert steered([user, {"role": "tool", "content": [{"type": "text", "text": STEER}]}])
    assert not steered([told, user, said, {"role": "tool", "content": "done"}])
    assert not steered(None) and not steered([None]) and not steered([])


def test_each_host_is_told_who_was_heard(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.16: one bot may hear for several profiles; each host knows what is its own."""
    other = Bus()
    other.host = Gateway()
    monkeypatch.setattr(hooks, "all_runtimes", lambda: [other])
    bus.fire("pre_gateway_dispatch", event="an event")
    assert bus.host.events == ["an event"] == other.host.events
