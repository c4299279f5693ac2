"""Which turns of Hermes's are ours."""

import threading

import pytest

from fakes.host import deliver
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.shared import turn_tracker
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.receive.host import TurnRequest
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import Rules


def order(marker: str) -> TurnRequest:
    """An order with this marker in its text."""
    message = Message("m1", 1.0, "alpha", "gw", {"text": "x"})
    job = Job(deliver(message), plan(Rules(), message, "gateway"), PromptItem(message, "x"))
    return TurnRequest("key", [job], f"a text with {marker} in it", marker, "t" * 24, Cancel())


A, B, C = "a" * 24, "b" * 24, "c" * 24


def test_a_turn_is_ours_by_its_marker() -> None:
    """HERMES-3.1: its begin, answer and end are those of the turn that holds it."""
    tracker = TurnTracker()
    with tracker.tracking(order(A)) as ours:
        assert tracker.on_begin("no marker", session_id="s", task_id="t", turn_id="1") == []
        assert tracker.on_begin(B, session_id="s", task_id="t", turn_id="2") == []
        assert tracker.on_begin(f"[u1] {A}", session_id="s", task_id="t", turn_id="3") == [ours]
        tracker.on_answer("of another", turn_id="2")
        tracker.on_end(turn_id="2", completed=True, interrupted=False)
        assert not ours.ended.is_set() and ours.answer == ""
        tracker.on_answer("of ours", turn_id="3")
        tracker.on_end(turn_id="3", completed=True, interrupted=False)
        assert ours.ended.is_set() and ours.answer == "of ours" and ours.completed
        tracker.on_trouble("HTTP 500", turn_id="3")
        assert ours.trouble == "HTTP 500"
        tracker.on_answer("at last", turn_id="3")
        assert ours.trouble == ""


def test_a_history_that_is_seen_again_is_no_turn() -> None:
    """HERMES-3.1: a marker begins one turn; later ones that quote it are others."""
    tracker = TurnTracker()
    with tracker.tracking(order(A)) as ours:
        tracker.on_begin(A, session_id="s", task_id="t", turn_id="1")
        assert tracker.on_begin(A, session_id="s", task_id="t", turn_id="2") == []
        assert ours.turn_id == "1"


def test_two_in_one_turn() -> None:
    """HERMES-3.1: should Hermes merge two, both are in it."""
    tracker = TurnTracker()
    with tracker.tracking(order(A)) as one, tracker.tracking(order(B)) as two:
        found = tracker.on_begin(f"{A}\n{B} {A}", session_id="s", task_id="t", turn_id="1")
        assert found == [one, two] and tracker.count() == 2


def test_what_runs_is_found_by_task_or_session() -> None:
    """HERMES-3.7: only between its begin and its end."""
    tracker = TurnTracker()
    with tracker.tracking(order(A)) as ours:
        assert tracker.running(session_id="s") is None
        tracker.on_begin(A, session_id="s", task_id="t", turn_id="1")
        assert tracker.running(session_id="s") is ours and tracker.running(task_id="t") is ours
        assert tracker.running(session_id="other") is None and tracker.running() is None
        tracker.on_end(turn_id="1", completed=True, interrupted=False)
        assert tracker.running(session_id="s") is None


def test_it_is_forgotten_by_who_waited() -> None:
    """HERMES-3.10: whatever Hermes says afterwards is of no turn of ours."""
    tracker = TurnTracker()
    with tracker.tracking(order(A)):
        pass
    assert (
        tracker.on_begin(A, session_id="s", task_id="t", turn_id="1") == [] and tracker.count() == 0
    )


def test_waiting_for_it_in_another_thread() -> None:
    """HERMES-3.1: hooks tell from Hermes's threads."""
    tracker = TurnTracker()
    with tracker.tracking(order(A)) as ours:
        thread = threading.Thread(
            target=lambda: tracker.on_begin(A, session_id="s", task_id="t", turn_id="1")
        )
        thread.start()
        assert ours.began.wait(30)
        thread.join(30)


def test_a_turn_that_goes_on_is_ours_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.7: also one that begins late; what Hermes never had is not, and there is a bound."""
    monkeypatch.setattr(turn_tracker, "MAX_LEFT", 2)
    tracker = TurnTracker()
    for marker in (A, B, C):
        with tracker.tracking(order(marker)) as turn:
            turn.handed_over = marker != A
    assert tracker.on_begin(A, session_id="s", task_id="t", turn_id="0") == []
    (late,) = tracker.on_begin(B, session_id="s", task_id="t", turn_id="1")
    assert tracker.running(session_id="s") is late and tracker.count() == 0
    tracker.on_end(turn_id="1", completed=True, interrupted=False)
    assert tracker.running(session_id="s") is None
    for marker in (A, B):
        with tracker.tracking(order(marker)) as turn:
            turn.handed_over = True
    begun = tracker.on_begin(f"{A} {B} {C}", session_id="s", task_id="t", turn_id="2")
    assert [turn.order.marker for turn in begun] == [A, B]
