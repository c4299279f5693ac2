"""ADAPTERS.md and the tests cannot drift apart."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import wakebus.adapters.base

HERE = Path(__file__).parent
PAGE = (Path(wakebus.adapters.base.__file__).parent / "ADAPTERS.md").read_text()
RULE = re.compile(r"ADP-\d+\.\d+")


def test_every_rule_names_a_test() -> None:
    """Each numbered rule stands in a test's docstring, and no test names a rule there is not."""
    tests = "".join(file.read_text() for file in HERE.parent.rglob("test_*.py"))
    assert set(RULE.findall(PAGE)) == set(RULE.findall(tests))


def test_no_rule_twice() -> None:
    """A rule's number heads one line of the page."""
    heads = re.findall(r"^\* (ADP-\d+\.\d+)", PAGE, re.MULTILINE)
    assert len(heads) == len(set(heads)) > 20


def test_the_table_lists_what_is_installed() -> None:
    """Every adapter of this package has its line in the table of platforms."""
    ours = [e for e in entry_points(group="wakebus.adapters") if e.value.startswith("wakebus.")]
    table = PAGE.partition("## Platforms")[2].partition("\n## ")[0]
    assert {e.name for e in ours} == set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
