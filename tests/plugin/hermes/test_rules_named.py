"""HERMES.md and its tests cannot drift apart."""

import re
from pathlib import Path

from wakebus.plugin import hermes

HERMES_MD = (Path(hermes.__file__).parents[1] / "HERMES.md").read_text(encoding="utf-8")
TESTS = Path(__file__).parents[2]


def test_every_numbered_rule_is_named_by_a_test() -> None:
    """And no test names one that is gone."""
    stated = set(re.findall(r"\*\*(HERMES-\d+\.\d+)\*\*", HERMES_MD))
    files = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    named = {name for path in files for name in re.findall(r"HERMES-\d+\.\d+", path.read_text())}
    assert stated == named
