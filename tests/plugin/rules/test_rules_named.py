"""RULES.md and its tests cannot drift apart."""

import re
from dataclasses import fields
from pathlib import Path

from wakebus.plugin.rules import model
from wakebus.plugin.rules.model import Rule
from wakebus.plugin.rules.render import COLORS

RULES_MD = (Path(model.__file__).parents[1] / "RULES.md").read_text(encoding="utf-8")
TESTS = Path(__file__).parents[1]


def test_every_numbered_rule_is_named_by_a_test() -> None:
    """And no test names one that is gone."""
    stated = set(re.findall(r"\*\*(RULES-\d+\.\d+)\*\*", RULES_MD))
    files = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    named = {name for path in files for name in re.findall(r"RULES-\d+\.\d+", path.read_text())}
    assert stated == named


def test_rules_are_numbered_in_order_and_once() -> None:
    """1, 2, 3 … in every section."""
    found: dict[str, list[int]] = {}
    for section, number in re.findall(r"\*\*RULES-(\d+)\.(\d+)\*\*", RULES_MD):
        found.setdefault(section, []).append(int(number))
    for section, numbers in found.items():
        assert numbers == [*range(1, len(numbers) + 1)], section


def test_every_field_and_colour_is_documented() -> None:
    """Each key of a rule stands in a table."""
    for name in {field.name for field in fields(Rule)} - {"where", "number"}:
        assert f"| `{name}` |" in RULES_MD, name
    assert " ".join(COLORS) in RULES_MD
