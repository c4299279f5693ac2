"""Facts in words: no JSON where people read."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakes.desk import Desk
from wakebus.plugin.cli.facts_text import facts_text, outcome_text

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_facts_in_words() -> None:
    """Nested ones in brackets, lists behind commas, no empty ones, no times of an outcome."""
    turn = {"started": 1.5, "ended": 2.5, "exit": 0, "note": ""}
    actions = [{"what": "print", "t": 3.5, "to": "terminal"}]
    outcome = {"rule": "1: directive", "at": 9.5, "actions": actions, "turn": turn, "ok": True}
    said = "rule 1: directive, actions (what print, to terminal), turn (exit 0), ok yes"
    assert outcome_text(outcome) == said
    assert facts_text({"at": 1.5, "x": [1, None], "y": {}}) == "at 1.5, x 1, none, y ()"


@given(st.dictionaries(st.text(), JSON))
def test_any_facts(facts: dict[str, Any]) -> None:
    """Whatever it is, it is one line."""
    assert len(facts_text(facts).splitlines()) <= 1


def test_deep_and_long_ones() -> None:
    """What nobody would read is cut."""
    deep: dict[str, Any] = {}
    for _ in range(3000):
        deep = {"a": deep}
    assert "…" in facts_text(deep) and len(facts_text({"x": "y" * 9999})) < 300


def test_no_json_without_the_option(desk: Desk, name: str) -> None:
    """A receipt, a dead letter, an inbox, a trace; with --json each is JSON."""
    with desk.client() as bus:
        bus.register(name, lambda delivery: {"words": 2, "more": {"k": [1]}})
        done = desk.notify("--to", name, "--id", f"{name}-1", "--wait", "30", "a b")
        assert done.out == f"handled {name}-1: words 2, more (k 1)\n"
    desk.notify("--to", name, "--id", f"{name}-2", "--body", '{"text": "x", "more": {"k": 1}}')
    desk.wakebus("cancel", f"{name}-2")
    for verb in (
        "endpoints",
        f"inbox {name} --all",
        f"trace {name}-1",
        "dead list",
        f"dead show {name}-2",
        "status",
        "version",
        "doctor",
        "resume",
        "channels",
        "settings list",
        "rules check",
    ):
        done = desk.wakebus(*verb.split())
        assert not {"{", "}"} & set(done.out), (verb, done.out)
