"""ADAPTERS.md and the tests cannot drift apart."""

import re
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

import wakebus.adapters
from fakes import cards

HERE = Path(__file__).parent
CODE = Path(wakebus.adapters.__file__).parent
PAGE = (CODE / "ADAPTERS.md").read_text()
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


@pytest.mark.parametrize(("page", "title"), [("README.md", "Chats"), ("README.zh-CN.md", "聊天")])
def test_the_readmes_list_what_is_installed(page: str, title: str) -> None:
    """Every adapter of this package has its line in the table of chats, in both languages."""
    ours = [e for e in entry_points(group="wakebus.adapters") if e.value.startswith("wakebus.")]
    text = (HERE.parents[1] / page).read_text(encoding="utf-8")
    table = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert {e.name for e in ours} == set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))


def test_whose_contract_is_run(tmp_path: Path) -> None:
    """Ours; another package's adapter is passed over, or run with the answers of its folder."""
    group = "wakebus.adapters"
    ours = EntryPoint("ntfy", "wakebus.adapters.platforms.ntfy:Ntfy", group)
    entries = [EntryPoint("own", "own_package:Own", group), ours]
    assert cards.folders(entries, "") == {"ntfy": cards.ANSWERS / "ntfy"}
    (tmp_path / "own").mkdir()
    assert cards.folders(entries, str(tmp_path)) == {
        "ntfy": cards.ANSWERS / "ntfy",
        "own": tmp_path / "own",
    }
