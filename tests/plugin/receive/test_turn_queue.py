"""Turns: in their order, some at once; real threads, a clock that the test moves."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from fakes.broker import until
from fakes.host import Words, deliver
from wakebus.broker import Delivery
from wakebus.broker.errors import Fenced, NotRunning
from wakebus.broker.protocol.message import Message
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.receive.turn_queue import (
    AT_ONCE,
    GATHERS,
    MAX_TOGETHER,
    NO_PLACE,
    Job,
    TurnQueue,
)
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import Rule, Rules
from wakebus.plugin.turns.flood_limit import FloodLimit

LIMIT = FloodLimit()


def job(id: str, sender: str = "alpha", ahead: bool = False, **rule: Any) -> Job:
    """A job on message `id`; fields of its rule, `number` among them."""
    message = Message(id=id, ts=1.0, sender=sender, to="lead", body={"text": id})
    rules = Rules(callbacks=(Rule(match_type=("*",), context=True, **rule),))
    words: Words = []
    made = Job(deliver(message, words), plan(rules, message, "agent"), PromptItem(message, id))
    made.ahead = ahead
    made.words = words  # type: ignore[attr-defined]
    return made


def by(sender: str) -> Delivery:
    return job("m", sender).delivery


def asked_for_more(one: Job) -> bool:
    return ("got", {"more": True}) in one.words  # type: ignore[attr-defined]


class Stage:
    """Turns that last until they are told to end; `now` moves only by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.log: list[tuple[str, list[str]]] = []
        self.on: dict[str, Cancel] = {}
        self.may_end: dict[str, threading.Event] = {}
        self.most = 0
        self.hold = True
        self.turns = TurnQueue(
            self.run, now=lambda: self.now, wait=lambda lock, _: lock.wait(timeout=0.005)
        )
        self.pool = ThreadPoolExecutor(200)

    def run(self, session: str, jobs: Sequence[Job], cancel: Cancel) -> bool:
        assert session not in self.on, "two turns of one session at once"
        ids = [one.delivery.message.id for one in jobs]
        self.log.append((session, ids))
        self.may_end[session] = threading.Event()
        self.on[session] = cancel
        self.most = max(self.most, len(self.on))
        for one in jobs:
            one.outcome["turn"] = ids
        while self.hold and not self.may_end[session].wait(0.002) and not cancel.asked:
            pass
        del self.on[session]
        return cancel.asked

    def take(self, session: str, one: Job) -> "Future[dict[str, Any]]":
        """Hand a job over; returns once it stands in its queue."""
        future = self.pool.submit(self.turns.take_turn, session, one)
        until(lambda: one.arrived)
        return future

    def end(self, session: str) -> None:
        until(lambda: session in self.on)
        self.may_end[session].set()

    def ran(self, count: int) -> list[list[str]]:
        """Wait until so many turns have begun; return their ids."""
        until(lambda: len(self.log) >= count)
        return [ids for _, ids in self.log]


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.hold = False
    made.turns.stop(10)
    made.pool.shutdown(wait=True)


def results(futures: "list[Future[dict[str, Any]]]") -> list[dict[str, Any]]:
    return [future.result(20) for future in futures]


def test_one_turn_at_a_time_in_the_order_of_arrival(stage: Stage) -> None:
    """FIFO per session, whoever sent it."""
    futures = [stage.take("s", job(f"m{n}", sender=f"e{n % 2}")) for n in range(4)]
    for _ in range(4):
        stage.end("s")
        until(lambda: "s" not in stage.on or not stage.may_end["s"].is_set())
    assert [found["turn"] for found in results(futures)] == [["m0"], ["m1"], ["m2"], ["m3"]]
    assert stage.ran(4) == [["m0"], ["m1"], ["m2"], ["m3"]]


def test_one_session_does_not_take_all_lanes(stage: Stage) -> None:
    """RULES-3.9: the ninth sender that waits comes later; who waits already, and others, do not."""
    assert not stage.turns.crowded("s", by("e9"))
    stage.take("s", job("m0"))
    stage.ran(1)
    for n in range(8):
        assert not stage.turns.crowded("s", by(f"e{n}"))
        stage.take("s", job(f"m{n + 1}", f"e{n}"))
    assert stage.turns.crowded("s", by("e9")) and not stage.turns.crowded("s", by("e7"))
    assert not stage.turns.crowded("t", by("e9"))


def test_four_sessions_at_once_the_others_in_their_order(stage: Stage) -> None:
    """A session with much to do does not pass one that waits for a place."""
    for n in range(AT_ONCE + 2):
        stage.take(f"s{n}", job(f"m{n}"))
        if n < AT_ONCE:
            stage.ran(n + 1)
    stage.take("s0", job("m9"))
    assert len(stage.ran(AT_ONCE)) == AT_ONCE
    stage.end("s0")
    assert stage.ran(AT_ONCE + 1)[-1] == ["m4"]
    stage.end("s1")
    assert stage.ran(AT_ONCE + 2)[-1] == ["m5"]
    stage.end("s2")
    assert stage.ran(AT_ONCE + 3)[-1] == ["m9"]
    assert stage.most == AT_ONCE


@pytest.mark.parametrize("seed", range(6))
def test_any_interleaving_keeps_order_and_sessions_apart(stage: Stage, seed: int) -> None:
    """Random senders, rules, coalescing and interrupts: each message once, in its own session."""
    rng, stage.hold = random.Random(seed), False
    futures, wanted = [], {}
    for n in range(60):
        session, sender = f"s{rng.randrange(6)}", f"e{rng.randrange(3)}"
        rule: dict[str, Any] = {"number": rng.randrange(2), "coalesce_ms": rng.choice([0, 0, 1])}
        wanted[f"m{n}"] = (session, sender)
        futures.append(stage.take(session, job(f"m{n}", sender, **rule)))
        stage.now += rng.choice([0, 0, 0.5, LIMIT.window_s])
    while not all(future.done() for future in futures):
        stage.now += LIMIT.window_s
        threading.Event().wait(0.005)
    for n, found in enumerate(results(futures)):
        assert f"m{n}" in found["turn"]
    done = [(session, id) for session, ids in stage.log for id in ids]
    assert sorted(id for _, id in done) == sorted(wanted)
    assert all(wanted[id][0] == session for session, id in done)
    for lane in set(wanted.values()):  # the order of one sender in one session
        numbers = [int(id[1:]) for _, id in done if wanted[id] == lane]
        assert numbers == sorted(numbers)
    assert stage.most <= AT_ONCE


# --- interrupting ---------------------------------------------------------------------------------


def test_an_interrupting_message_ends_the_running_turn_and_is_next(stage: Stage) -> None:
    """The outcome of what was ended says by whom; what waited before goes on afterwards."""
    running = stage.take("s", job("m0"))
    other = stage.take("t", job("t0"))
    stage.ran(2)
    waiting = stage.take("s", job("m1"))
    urgent = stage.take("s", job("m2", interrupt=True))
    assert running.result(10)["interrupted_by"] == "m2"
    assert stage.ran(3)[2] == ["m2"]
    stage.end("s")
    assert "interrupted_by" not in urgent.result(10)
    assert stage.ran(4)[3] == ["m1"]
    stage.end("s")
    assert "interrupted_by" not in waiting.result(10)
    assert not other.done() and not stage.on["t"].asked


def test_messages_that_interrupt_keep_their_order(stage: Stage) -> None:
    """The first is next; the second ends it, as it asks to; nothing else passes them."""
    stage.take("s", job("m0"))
    stage.ran(1)
    stage.turns._busy += AT_ONCE  # no place is free for a while
    futures = [stage.take("s", job(f"m{n}", interrupt=n != 1)) for n in (1, 2, 3)]
    with stage.turns._lock:
        stage.turns._busy -= AT_ONCE
    stage.hold = False
    results(futures)
    assert stage.ran(4) == [["m0"], ["m2"], ["m3"], ["m1"]]


def test_nothing_else_interrupts(stage: Stage) -> None:
    """A turn that ended by itself is not called interrupted."""
    running = stage.take("s", job("m0"))
    stage.ran(1)
    stage.take("s", job("m1"))
    stage.take("t", job("t1", interrupt=True))
    stage.ran(2)
    assert not stage.on["s"].asked
    stage.end("s")
    assert "interrupted_by" not in running.result(10)


def test_the_lane_goes_on_where_a_rule_may_interrupt(stage: Stage) -> None:
    """One message per lane is in flight: the stop sign must get past the work it stops."""
    stage.take("s", job("m0"))
    stage.ran(1)
    plain, ahead = job("m1"), job("m2", ahead=True)
    stage.take("s", plain)
    stage.take("s", ahead)
    until(lambda: asked_for_more(ahead))
    assert not asked_for_more(plain)


# --- coalescing and the flood guard ---------------------------------------------------------------


def test_coalescing_waits_and_takes_only_its_own_kind(stage: Stage) -> None:
    """Same session, rule and sender; never past another message of that sender."""
    rule: dict[str, Any] = {"coalesce_ms": 500, "number": 1}
    mine = [job("m0", **rule), job("m1", **rule)]
    futures = [stage.take("s", one) for one in mine]
    futures.append(stage.take("s", job("b0", sender="beta", **rule)))
    futures.append(stage.take("s", job("m2", **rule)))
    futures.append(stage.take("s", job("m3", number=2)))
    futures.append(stage.take("s", job("m4", **rule)))
    futures.append(stage.take("t", job("t0", **rule)))
    until(lambda: all(asked_for_more(one) for one in mine))
    assert not stage.log
    stage.hold = False
    stage.now += 0.6
    results(futures)
    of_s = [ids for session, ids in stage.log if session == "s"]
    assert of_s == [["m0", "m1", "m2"], ["b0"], ["m3"], ["m4"]]
    assert ("t", ["t0"]) in stage.log


def test_so_many_at_once_and_no_more(stage: Stage) -> None:
    """What fits a prompt."""
    futures = [stage.take("s", job(f"m{n}", coalesce_ms=1000)) for n in range(MAX_TOGETHER + 5)]
    stage.hold = False
    stage.now += 2
    results(futures)
    assert [len(ids) for _, ids in stage.log] == [MAX_TOGETHER, 5]


def told(one: Job) -> list[tuple[str, float]]:
    """Why it was said to wait, and for how long."""
    words: Words = one.words  # type: ignore[attr-defined]
    said = (fields for verb, fields in words if verb == "got" and "why" in fields)
    return [(fields["why"], fields.get("for_s", 0.0)) for fields in said]


def test_an_ask_passes_what_rests_of_other_senders(stage: Stage) -> None:
    """RULES-3.7: seven directives, then a question: it was 56 s behind the two that rested."""
    stage.hold = False
    results([stage.take("s", job(f"m{n}", "ci")) for n in range(LIMIT.turns)])
    resting = [stage.take("s", job(f"n{n}", "ci")) for n in range(2)]
    assert stage.take("s", asked("q", "person")).result(10)["turn"] == ["q"]
    own = stage.take("s", job("before", "person"))
    assert stage.take("s", asked("q2", "person")).result(10)["turn"] == ["q2"]
    assert own.result(10)["turn"] == ["before"], "what the asker sent before is not passed"
    assert not any(future.done() for future in resting)
    stage.now += LIMIT.window_s
    assert results(resting)[0]["turn"] == ["n0", "n1"]


def test_what_each_sender_sent_while_it_rested_is_one_turn(stage: Stage) -> None:
    """RULES-3.7, RULES-3.13: of the second sender, too, and however long a question took."""
    stage.hold = False
    results([stage.take("s", job(f"m{n}", "ci")) for n in range(LIMIT.turns)])
    late = [stage.take("s", job(f"{s}{n}", s)) for n in range(3) for s in ("a", "b")]
    stage.hold = True
    question = stage.take("s", asked("q", "c"))
    until(lambda: "s" in stage.on)
    stage.now += LIMIT.window_s
    stage.hold = False
    stage.end("s")
    question.result(10)
    results(late)
    assert stage.ran(8)[-2:] == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]


def test_a_crowd_keeps_no_question_out(stage: Stage) -> None:
    """RULES-3.13: eight senders rest; the ninth comes later, who asks does not."""
    stage.hold = False
    results([stage.take("s", job(f"m{n}", "ci")) for n in range(LIMIT.turns)])
    for n in range(8):
        stage.take("s", job(f"n{n}", f"e{n}"))
    assert stage.turns.crowded("s", by("e9"))
    assert not stage.turns.crowded("s", asked("q", "e9").delivery)
    assert stage.take("s", asked("q", "e9")).result(10)["turn"] == ["q"]


def test_the_broker_is_told_why_a_message_waits(stage: Stage) -> None:
    """RULES-3.12: once for each reason; with the last turn before a rest for who sends then."""
    stage.hold = False
    first = [job(f"m{n}") for n in range(LIMIT.turns)]
    results([stage.take("s", one) for one in first])
    assert [told(one) for one in first] == [[]] * 4 + [[(LIMIT.reason, LIMIT.window_s)]]
    stage.now += 10
    rests, gathers = job("n0"), job("t0", coalesce_ms=500)
    futures = [stage.take("s", rests), stage.take("t", gathers)]
    until(lambda: told(rests) and told(gathers))
    assert told(rests) == [(LIMIT.reason, 50.0)]
    assert told(gathers) == [(GATHERS, 0.5)]
    stage.now += LIMIT.window_s
    results(futures)


def test_who_waits_for_a_place_is_told(stage: Stage) -> None:
    """RULES-3.12: as many sessions as may have a turn have one."""
    for n in range(AT_ONCE):
        stage.take(f"s{n}", job(f"m{n}"))
    stage.ran(AT_ONCE)
    late = job("late")
    future = stage.take("t", late)
    until(lambda: told(late))
    assert told(late) == [(NO_PLACE.format(AT_ONCE), 0.0)]
    stage.end("s0")
    stage.ran(AT_ONCE + 1)
    stage.end("t")
    assert future.result(10)["turn"] == ["late"]


def test_five_turns_a_minute_then_the_rest_together(stage: Stage) -> None:
    """The flood guard: the session rests, its lanes go on, other sessions do not notice."""
    stage.hold = False
    results([stage.take("s", job(f"m{n}")) for n in range(LIMIT.turns)])
    late = [job(f"n{n}") for n in range(10)] + [job("b0", sender="beta")]
    futures = [stage.take("s", one) for one in late]
    until(lambda: all(asked_for_more(one) for one in late))
    assert stage.take("t", job("t0")).result(10)["turn"] == ["t0"]
    assert len([1 for session, _ in stage.log if session == "s"]) == LIMIT.turns
    stage.now += LIMIT.window_s - 1
    threading.Event().wait(0.05)
    assert not any(future.done() for future in futures)
    stage.now += 1
    found = results(futures)
    assert found[0]["turn"] == [f"n{n}" for n in range(10)]
    assert found[-1]["turn"] == ["b0"]


def asked(id: str, sender: str = "alpha", **rule: Any) -> Job:
    """A job whose sender waits for the answer."""
    made = job(id, sender, **rule)
    made.delivery.asks = True
    return made


def test_who_waits_for_an_answer_is_no_flood(stage: Stage) -> None:
    """RULES-3.7: twenty questions get twenty turns, and leave the others' guard alone."""
    stage.hold = False
    results([stage.take("s", asked(f"q{n}")) for n in range(20)])
    results([stage.take("s", job(f"m{n}")) for n in range(LIMIT.turns)])
    assert stage.turns.rest("s") == LIMIT.window_s and stage.turns.rest("t") == 0
    assert stage.take("s", asked("q20")).result(10)["turn"] == ["q20"]


def test_a_question_from_inside_a_turn_is_held_by_the_guard(stage: Stage) -> None:
    """Agents that ask each other without end are what the guard is for."""
    stage.hold = False
    results([stage.take("s", job(f"m{n}")) for n in range(LIMIT.turns)])
    looping = asked("q")
    looping.delivery.message = looping.delivery.message._replace(hops=3)
    future = stage.take("s", looping)
    until(lambda: asked_for_more(looping))
    assert not future.done()
    stage.now += LIMIT.window_s
    assert future.result(10)["turn"] == ["q"]


def test_questions_are_never_done_together(stage: Stage) -> None:
    """RULES-3.8: each asker gets an answer of its own, also under `coalesce_ms`."""
    rule: dict[str, Any] = {"coalesce_ms": 500, "number": 1}
    jobs = [asked("q0", **rule), asked("q1", **rule), job("m0", **rule), asked("q2", **rule)]
    futures = [stage.take("s", one) for one in jobs]
    stage.hold = False
    stage.now += 0.6
    results(futures)
    assert [ids for _, ids in stage.log] == [["q0"], ["q1"], ["m0"], ["q2"]]


def test_without_a_flood_nothing_is_coalesced(stage: Stage) -> None:
    """Slow or fast: up to five turns each message has its own."""
    futures = [stage.take("s", job(f"m{n}")) for n in range(LIMIT.turns)]
    stage.hold = False
    assert [found["turn"] for found in results(futures)] == [[f"m{n}"] for n in range(LIMIT.turns)]


# --- the end --------------------------------------------------------------------------------------


def test_stop_ends_what_runs_and_what_waits(stage: Stage) -> None:
    """Neither may be acknowledged; nothing starts afterwards."""
    futures = [stage.take("s", job("m0")), stage.take("s", job("m1"))]
    stage.ran(1)
    stage.turns.stop(10)
    assert not stage.on
    futures.append(stage.pool.submit(stage.turns.take_turn, "s", job("m2")))
    for future in futures:
        with pytest.raises(NotRunning, match="stopping"):
            future.result(10)
    assert len(stage.log) == 1


def test_what_was_done_before_the_stop_is_acknowledged() -> None:
    """A turn that ended by itself counts, although the host stops."""
    begun, stopping = threading.Event(), threading.Event()

    def run(session: str, jobs: Sequence[Job], cancel: Cancel) -> bool:
        begun.set()
        stopping.wait(10)
        jobs[0].outcome["turn"] = "done"
        return False

    turns = TurnQueue(run)
    with ThreadPoolExecutor(2) as pool:
        future = pool.submit(turns.take_turn, "s", job("m0"))
        begun.wait(10)
        ending = pool.submit(turns.stop, 10)
        until(lambda: turns._stopping)
        assert not ending.done()
        stopping.set()
        assert future.result(10) == {"turn": "done"}


@pytest.mark.parametrize(
    ("error", "raised"), [(NotRunning("closed"), NotRunning), (Fenced("taken"), Fenced)]
)
def test_what_must_come_again_raises(error: Exception, raised: type[Exception]) -> None:
    """And the session goes on."""
    fail: list[Exception] = [error]

    def run(session: str, jobs: Sequence[Job], cancel: Cancel) -> bool:
        if fail:
            raise fail.pop()
        return False

    turns = TurnQueue(run)
    with pytest.raises(raised):
        turns.take_turn("s", job("m0"))
    assert turns.take_turn("s", job("m1")) == {}


def test_one_of_several_is_no_longer_ours() -> None:
    """Only that one raises."""
    late = job("m1", coalesce_ms=1)

    def run(session: str, jobs: Sequence[Job], cancel: Cancel) -> bool:
        late.error = Fenced("taken over")
        return False

    with pytest.raises(Fenced):
        TurnQueue(run).take_turn("s", late)


@pytest.mark.parametrize("error", [OSError("no memory"), KeyError("slip"), RuntimeError("thread")])
def test_a_slip_in_a_turn_blocks_no_session(error: Exception) -> None:
    """It is an outcome, for an asker too; the place is free again."""

    def run(session: str, jobs: Sequence[Job], cancel: Cancel) -> bool:
        raise error

    turns = TurnQueue(run)
    for _ in range(AT_ONCE + 1):
        found = turns.take_turn("s", job("m0"))
        assert type(error).__name__ in found["turn"]["error"] and found["answered"] is False


def test_idle_sessions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand chats later memory is what it was; busy ones stay."""
    monkeypatch.setattr("wakebus.plugin.receive.turn_queue.MAX_IDLE", 10)
    run: Callable[..., bool] = lambda *_: False  # noqa: E731
    turns = TurnQueue(run)
    for n in range(50):
        turns.take_turn(f"s{n}", job("m"))
    assert len(turns._sessions) <= 11


# --- what is cancelled ----------------------------------------------------------------------


def test_a_job_that_waits_is_cancelled(stage: Stage) -> None:
    """It is over at once, and has no turn; the one in front goes on."""
    running, waiting = stage.take("s", job("m1")), job("m2")
    until(lambda: "s" in stage.on)
    future = stage.take("s", waiting)
    stage.turns.cancel("s", waiting)
    assert future.result(10) == {} and not stage.on["s"].asked
    stage.end("s")
    assert running.result(10) == {"turn": ["m1"]} and stage.log == [("s", ["m1"])]


def test_a_turn_is_cancelled(stage: Stage) -> None:
    """It is cut off, its outcome is told, and the next one begins."""
    one = job("m1")
    running, later = stage.take("s", one), stage.take("s", job("m2"))
    until(lambda: "s" in stage.on)
    stage.turns.cancel("s", one)
    assert running.result(10) == {"turn": ["m1"]}
    stage.end("s")
    assert later.result(10) == {"turn": ["m2"]}


def test_one_of_several_in_a_turn_is_cancelled(stage: Stage) -> None:
    """The turn goes on for the others, which is told; once all are, it ends."""
    jobs = [job(f"m{n}", coalesce_ms=1000) for n in range(2)]
    futures = [stage.take("s", one) for one in jobs]
    stage.now += 5
    until(lambda: "s" in stage.on)
    stage.turns.cancel("s", jobs[0])
    assert not stage.on["s"].asked and "their turn went on" in jobs[0].outcome["note"]
    stage.turns.cancel("s", jobs[1])
    assert [f.result(10)["turn"] for f in futures] == [["m0", "m1"]] * 2


def test_a_job_is_cancelled_before_it_is_there(stage: Stage) -> None:
    """Or after it was done: nothing happens."""
    one = job("m1")
    stage.turns.cancel("s", one)
    assert stage.turns.take_turn("s", one) == {} and stage.log == []
    done = job("m2")
    future = stage.take("s", done)
    stage.end("s")
    future.result(10)
    stage.turns.cancel("s", done)


# --- who waits for whom ---------------------------------------------------------------------


def told_behind(one: Job) -> list[str]:
    words: Words = one.words  # type: ignore[attr-defined]
    return [fields["behind"] for verb, fields in words if verb == "got" and "behind" in fields]


def test_the_broker_is_told_whose_turn_comes_first(stage: Stage) -> None:
    """PROTOCOL-7.6: once for each turn that runs meanwhile, and not of another session's."""
    jobs = [job(f"m{n}", sender=f"s{n}") for n in range(3)]
    futures = [stage.take("s", one) for one in jobs]
    futures.append(stage.take("other", other := job("m9")))
    until(lambda: told_behind(jobs[2]) == ["m0"])
    stage.end("s")
    futures[0].result(10)
    until(lambda: told_behind(jobs[2]) == ["m0", "m1"])
    for session, future in zip(("s", "s", "other"), futures[1:], strict=True):
        stage.end(session)
        future.result(10)
    assert told_behind(jobs[1]) == ["m0"] and told_behind(jobs[0]) == told_behind(other) == []


def test_what_interrupts_waits_for_nobody(stage: Stage) -> None:
    """PROTOCOL-7.6: it ends the turn that runs."""
    running = stage.take("s", job("m1"))
    until(lambda: "s" in stage.on)
    loud = job("m2", interrupt=True)
    future = stage.take("s", loud)
    running.result(10)
    stage.end("s")
    future.result(10)
    assert told_behind(loud) == []
