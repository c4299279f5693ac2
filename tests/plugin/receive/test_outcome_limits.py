"""Outcomes that fit."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.broker.protocol.outcome import MAX_OUTCOME, bounded
from wakebus.plugin.receive.outcome_limits import fit_outcome


def size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def test_what_fits_is_as_it_was() -> None:
    """Nothing is cut that need not be."""
    outcome = {"rule": "1: ack", "at": 1.5, "actions": [{"what": "print", "to": "terminal"}]}
    assert fit_outcome(outcome) == outcome


@pytest.mark.parametrize("text", ["x", '"', "\n", "é", "😀", "\ufffd"])
def test_the_worst_that_a_message_can_do(text: str) -> None:
    """Long tails of everything, many ids: cut, and the words that matter are whole."""
    outcome = {
        "rule": "r" * 120,
        "at": 1.0,
        "actions": [
            {"what": "command", "status": 1, "tail": text * 4096, "error": text * 500},
            {"what": "print", "script_error": text * 1000, "channel": text * 1000},
        ],
        "turn": {"exit": 1, "error": "exit status 1", "stdout": text * 1500, "stderr": text * 1500},
        "answer": {"result": "not_sent", "reason": text * 1000, "text": text * 1500},
        "channel": {"result": "not_sent", "reason": text * 1000, "text": text * 1500},
        "context": ["i" * 64] * 100,
        "answered": False,
    }
    found = fit_outcome(outcome)
    assert size(found) <= MAX_OUTCOME
    assert found["answered"] is False and found["rule"] == "r" * 120
    assert found["turn"]["exit"] == 1 and found["actions"][0]["status"] == 1
    assert found["turn"]["stderr"].startswith("…") and found["turn"]["stderr"].endswith(text)
    assert bounded(found) == found


def test_long_lists_lose_their_middle() -> None:
    """First and last stay, and how many went."""
    found = fit_outcome({"context": [f"{n}" * 30 for n in range(1000)]}, limit=2000)["context"]
    assert found[0] == "0" * 30 and found[-1] == "999" * 30
    assert "more" in found[len(found) // 2]


def test_what_cannot_be_cut_is_said() -> None:
    """`answered` and `awaits` are kept, whatever else there is."""
    many = {f"k{n}": n for n in range(9000)}
    found = fit_outcome({**many, "rule": "none", "answered": False, "awaits": "reply"})
    assert found == {
        "rule": "none",
        "answered": False,
        "awaits": "reply",
        "note": f"the rest of the outcome was over {MAX_OUTCOME} bytes",
    }


def test_names_of_files_that_are_no_text() -> None:
    """A lone surrogate in an error is no reason to lose the outcome."""
    assert bounded(fit_outcome({"error": "no such file: \udcff"})) == {"error": "no such file: ?"}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(["rule", "answered", "turn", "x"]), JSON))
def test_anything_fits(outcome: dict[str, object]) -> None:
    """And is JSON."""
    assert size(fit_outcome(outcome, 600)) <= 600
