"""How problems in rules are said."""

from wakebus.broker.errors import WakebusError
from wakebus.plugin.rules.errors import Problem, RulesError, ScriptError


def test_a_problem_reads_file_line_key_text() -> None:
    """`FILE:LINE: KEY: TEXT`; without a line or key these are left out."""
    assert str(Problem("r.yaml", 3, "wake", "no")) == "r.yaml:3: wake: no"
    assert str(Problem("r.yaml", 0, "", "no such file")) == "r.yaml: no such file"


def test_an_error_tells_the_first_problem_and_counts_the_rest() -> None:
    """`.problems` has all of them."""
    error = RulesError([Problem("r", 1, "a", "x"), Problem("r", 2, "b", "y")])
    assert str(error) == "r:1: a: x (and 1 more)"
    assert (error.file, error.line, error.key) == ("r", 1, "a")
    assert [p.key for p in error.problems] == ["a", "b"]


def test_they_are_wakebus_errors() -> None:
    """One `except` at the command line catches them."""
    assert issubclass(RulesError, WakebusError) and issubclass(ScriptError, WakebusError)
