"""Whose message of one session is next: pure, with a clock of numbers."""

from dataclasses import dataclass

import pytest

from wakebus.plugin.turns.flood_limit import FloodLimit
from wakebus.plugin.turns.session_line import SessionLine


@dataclass(eq=False)
class Waits:
    """A message that waits."""

    sender: str
    asked: bool = False
    interrupts: bool = False
    rank: int = 1


def in_turn(line: "SessionLine[Waits]", now: float) -> list[str]:
    """Let all that may have its turn at `now` have it; return the senders."""
    found = []
    while (job := line.front(now)) and (not line.rest(now) or line.need_not_rest(job)):
        line.begin(job, now)
        line.remove(job)
        found.append(f"{job.sender}{'?' * job.asked}")
    return found


def line_of(*jobs: Waits, turns: int = 5) -> "SessionLine[Waits]":
    line: SessionLine[Waits] = SessionLine(FloodLimit(turns, 60.0))
    for job in jobs:
        line.add(job)
    return line


def test_senders_take_turns() -> None:
    """RULES-3.13: one message of each before anybody's second; one's own in their order."""
    flood = [Waits("a") for _ in range(4)]
    line = line_of(*flood, Waits("b"), Waits("c"), Waits("b"), turns=99)
    assert line.in_order()[0] is flood[0]
    assert in_turn(line, 0.0) == ["a", "b", "c", "a", "b", "a", "a"]


def test_new_senders_without_end_starve_nobody() -> None:
    """RULES-3.13: who has waited for a round is before who comes in it."""
    line = line_of(Waits("a"), Waits("a"), turns=10_000)
    served = []
    for n in range(6):
        line.add(Waits(f"new{n}"))
        job = line.front(0.0)
        assert job is not None
        line.begin(job, 0.0)
        line.remove(job)
        served.append(job.sender)
    assert served.count("a") == 2 and served.index("new0") < 3


def test_a_higher_priority_is_first() -> None:
    """RULES-3.15: also of the same sender; in order within each; not before what interrupts."""
    high, low = Waits("h", rank=0), Waits("l", rank=2)
    line = line_of(low, Waits("a"), high, Waits("a"), Waits("b"), Waits("h", rank=0), turns=99)
    stop = Waits("s", interrupts=True)
    line.add(stop)
    assert in_turn(line, 0.0) == ["s", "h", "h", "a", "b", "a", "l"]


def test_a_flood_of_high_priority_costs_a_new_sender_no_round() -> None:
    """RULES-3.15, RULES-3.13: among the others it takes its turn as ever."""
    line = line_of(
        *(Waits("h", rank=0) for _ in range(20)), *(Waits("a") for _ in range(5)), turns=99
    )
    for _ in range(20):
        job = line.front(0.0)
        assert job is not None and job.sender == "h"
        line.begin(job, 0.0)
        line.remove(job)
    line.add(Waits("new"))
    assert in_turn(line, 0.0)[:3] == ["a", "a", "new"]


def test_who_waits_for_the_answer_need_not_rest() -> None:
    """RULES-3.7: nor what that sender sent before; both leave the others' limit alone."""
    flood = [Waits("a") for _ in range(7)]
    line = line_of(*flood)
    assert in_turn(line, 0.0) == ["a"] * 5 and line.rest(1.0) == 59.0
    line.add(Waits("b"))
    line.add(Waits("b", asked=True))
    line.add(Waits("b"))
    line.add(Waits("c", asked=True))
    assert in_turn(line, 1.0) == ["b", "c?", "b?"]
    assert line.rest(1.0) == 59.0 and len(line) == 3
    assert in_turn(line, 60.0) == ["a", "a", "b"], "the others had turns meanwhile"


def test_what_interrupts_is_first_but_rests_too() -> None:
    """RULES-3.7: a stop sign that comes six times a minute is a flood as well."""
    stop = Waits("a", interrupts=True)
    line = line_of(Waits("a"), Waits("b"), stop, turns=1)
    assert line.front(0.0) is stop
    assert in_turn(line, 0.0) == ["a"] and in_turn(line, 59.9) == []


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (FloodLimit(), "more than 5 turns a minute"),
        (FloodLimit(1, 60.0), "more than 1 turn a minute"),
        (FloodLimit(20, 3600.0), "more than 20 turns in 3600 s"),
    ],
)
def test_the_reason_is_the_limit(limit: FloodLimit, says: str) -> None:
    """RULES-3.12: as the settings say."""
    assert limit.reason == says
