"""Rules as values."""

import pytest

from wakebus.plugin.rules.model import Rule


@pytest.mark.parametrize(
    ("rule", "label"),
    [
        (Rule(match_type=("task_done",), number=3), "3: task_done"),
        (Rule(match_type=("a", "b"), number=1), "1: a, b"),
        (Rule(match_from=("worker-*",), number=2), "2: worker-*"),
    ],
)
def test_a_label_has_number_and_match(rule: Rule, label: str) -> None:
    """Outcomes name a rule by its place in the file and what it matches."""
    assert rule.label == label


def test_timeout_is_the_commands_where_there_is_one() -> None:
    """Five seconds for a sound do not end a turn; without a command they are the turn's."""
    both = Rule(match_type=("x",), command="play", context=True, timeout_s=5)
    assert (both.command_timeout_s, both.turn_timeout_s) == (5, None)
    turn = Rule(match_type=("x",), context=True, timeout_s=5)
    assert (turn.command_timeout_s, turn.turn_timeout_s) == (5, 5)
    assert Rule(match_type=("x",), command="play").command_timeout_s == 60
