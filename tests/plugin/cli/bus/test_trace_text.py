"""Traces in words."""

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.plugin.cli.bus.trace_text import Traced, steps, trace_lines


def traced(id: str = "m1", outcome: Any = None, **fields: Any) -> Traced:
    said = [
        {"t": 10.0, "what": "accepted", "by": "ci", "pid": 7, "claimed": True},
        {"t": 10.1, "what": "queued", "live": False, "ahead": 2},
        {"t": 10.5, "what": "held", "by": "lead", "pid": 8, "attempt": 2},
        {"t": 10.6, "what": "started", "by": "lead", "pid": 8},
        {"t": 12.0, "what": "handled", "by": "lead", "pid": 8},
    ]
    known = {"id": id, "from": "ci", "to": "lead", "type": "directive", "state": "handled"}
    return {**known, "channel": "feishu:1", "steps": said, "outcome": outcome, **fields}


OUTCOME = {
    "rule": "1: directive",
    "at": 10.4,  # the broker writes `held` when the receiver is at work already
    "wake": "immediate",
    "actions": [{"what": "print", "t": 10.45, "to": "terminal"}],
    "turn": {"started": 10.7, "ended": 11.5, "exit": 0, "characters": 5},
    "context": ["m8", "m9"],
    "answer": {"result": "queued", "id": "m2", "at": 11.6},
    "channel": {"result": "queued", "to": "courier", "id": "m3", "at": 11.7},
    "answered": True,
}


def test_every_step_in_its_order_with_time_and_process() -> None:
    """Issue 2 G: accepted, queued, held, started, rule, actions, turn, answer, channel result."""
    lines = trace_lines([traced(outcome=OUTCOME)], "m1")
    assert lines[0] == "m1  ci → lead  directive [feishu:1]  handled ◀"
    words = [line.split()[1] for line in lines[1:]]
    assert words == [
        *("accepted", "queued", "held", "rule", "print", "started", "turn", "context", "turn"),
        *("answer", "channel", "handled"),
    ]
    for line in lines[1:]:
        assert re.match(r"  \d\d:\d\d:\d\d\.\d{3}  ", line)
        assert re.search(r"\bpid \d|\bbroker\b", line), line
    text = "\n".join(lines)
    assert "queued    broker, receiver is away, 2 ahead" in text
    assert "held      lead, pid 8, attempt 2" in text
    assert "rule      1: directive, wake immediate (lead, pid 8)" in text
    assert "context   shown: m8, m9 (lead, pid 8)" in text


def test_what_the_chat_was_told_of_a_failure() -> None:
    """RULES-8.5: how the line went, or why not."""
    told = {"result": "not_sent", "reason": "no such chat", "at": 11.7}
    text = "\n".join(trace_lines([traced(outcome={**OUTCOME, "failure_told": told})], "m1"))
    assert re.search(r"told +result not_sent, reason no such chat \(lead, pid 8\)", text), text


def test_a_chat_that_knew_and_a_turn_without_an_exit() -> None:
    """RULES-8.5: it was not told again; what has no value is not shown."""
    turn = {"started": 1.0, "ended": 2.0, "exit": None, "error": "ended after its time limit"}
    known = {"result": "queued", "id": "m2", "at": 3.0, "again": True}
    lines = trace_lines([traced(outcome={"turn": turn, "failure_told": known})], "m1")
    text = "\n".join(lines)
    assert "told      the chat knew" in text and "None" not in text and "again" not in text


def test_what_came_of_it_stands_below() -> None:
    """Following cause, then reply_to; a message whose parent is unknown is a root."""
    found = [
        traced("m1"),
        traced("m2", cause="m1"),
        traced("m3", cause="m2", reply_to="m1"),
        traced("m4", reply_to="m1"),
        traced("m5", cause="gone"),
    ]
    heads = [line for line in trace_lines(found, "m4") if "→" in line]
    assert [(len(h) - len(h.lstrip()), h.split()[0]) for h in heads] == [
        (0, "m1"),
        (4, "m2"),
        (8, "m3"),
        (4, "m4"),
        (0, "m5"),
    ]
    assert [h for h in heads if h.endswith("◀")] == [heads[3]]


def test_a_long_chain_and_a_ring() -> None:
    """Five hundred hops, and messages that name each other as their cause: each once."""
    chain = [traced(f"m{n}", cause=f"m{n - 1}") for n in range(2000)]
    assert sum("→" in line for line in trace_lines(chain, "m0")) == 2000
    ring = [traced("a", cause="b"), traced("b", cause="a"), traced("c", cause="c")]
    assert [line.split()[0] for line in trace_lines(ring, "a") if "→" in line] == ["c", "a", "b"]


def test_a_message_on_its_way() -> None:
    """No outcome yet, or none at all."""
    assert [step.what for step in steps(traced())][-1] == "handled"
    assert steps(traced(steps=[])) == []
    assert trace_lines([], "m1") == []


def test_one_line_stays_one_line() -> None:
    """Whatever text an outcome holds."""
    outcome = {"actions": [{"what": "command\n9", "tail": "a\nb\n\n" + "c" * 500, "t": 10.9}]}
    lines = trace_lines([traced(outcome=outcome)], "m1")
    assert len(lines) == 7 and all("\n" not in line and len(line) < 300 for line in lines)


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, -1.0, 1e300, float("nan"), True, "", "x", [], {}, [1], {"t": {}}]
)
JSON = st.recursive(
    ODD | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
OUTCOMES = st.dictionaries(
    st.sampled_from([*OUTCOME, "skipped", "together_with", "interrupted_by", "note", "x"]),
    JSON
    | st.lists(st.dictionaries(st.sampled_from(["what", "t", "x"]), JSON), max_size=2)
    | st.dictionaries(st.sampled_from(["started", "ended", "at", "result"]), JSON),
)


@settings(max_examples=60, deadline=None)
@given(JSON | OUTCOMES, st.lists(JSON | OUTCOMES, max_size=3), st.dictionaries(st.text(), JSON))
def test_no_outcome_raises(outcome: Any, said: list[Any], fields: dict[str, Any]) -> None:
    """Receivers of other makes, other versions, and bad luck."""
    for message in (traced(outcome=outcome), traced(outcome=outcome, steps=said), fields):
        for line in trace_lines([message], "m1"):
            assert "\n" not in line
    json.dumps(trace_lines([traced(outcome=outcome)], "m1"))


def test_a_failure_and_its_attempts() -> None:
    """RULES-8.1, RULES-8.9: told as failed, by the process that worked on it."""
    failed = traced(outcome={"rule": "1: x", "failed": True}, state="dead")
    later = {"t": 11.0, "what": "later", "by": "lead", "pid": 8, "after_s": 30, "failures": 1}
    noticed = {"t": 12.1, "what": "noticed", "to": "ci"}
    failed["steps"] = [*failed["steps"][:-1], later, noticed]
    lines = trace_lines([failed], "m1")
    assert lines[0].endswith("dead (failed) ◀")
    assert any("failure 1, again in 30 s" in line for line in lines)
    assert any("1: x (lead, pid 8)" in line for line in lines)


def put_off(*reasons: str) -> Traced:
    """A message that was held and put off for each of these reasons, then begun."""
    said: list[Any] = [{"t": 10.0, "what": "accepted", "by": "ci", "pid": 7}]
    for number, why in enumerate(reasons, 11):
        said.append({"t": number, "what": "held", "by": "lead", "pid": 8, "attempt": 1})
        said.append({"t": number + 0.5, "what": "later", "by": "lead", "pid": 8, "reason": why})
    held = {"t": 90.0, "what": "held", "by": "lead", "pid": 8, "attempt": 1}
    return traced(steps=[*said, held, {"t": 90.5, "what": "started", "by": "lead", "pid": 8}])


def test_what_is_put_off_again_and_again_is_one_line() -> None:
    """A pause of an hour does not fill the screen; the last time and how often are told."""
    lines = trace_lines([put_off("paused", "paused", "paused", "busy", "paused")], "m1")
    words = [line.split()[1] for line in lines[1:]]
    assert words == ["accepted", *("held", "later") * 3, "held", "started"]
    first, second, third = (line for line in lines if "later" in line)
    assert re.search(
        r":11\.500  later     lead, pid 8, paused, 3 such steps, last .*:13\.500$", first
    )
    assert second.endswith("pid 8, busy") and third.endswith("pid 8, paused")


def test_a_later_without_a_held_before_it() -> None:
    """Steps of any order: nothing raises, nothing is lost."""
    later = {"t": 1.0, "what": "later", "by": "lead", "reason": "paused"}
    lines = trace_lines([traced(steps=[later, later, later])], "m1")
    assert len(lines) == 4
