"""PROTOCOL.md and the tests name the same rules."""

import re
from functools import cache
from pathlib import Path

import pytest

from wakebus import broker
from wakebus.broker.protocol import wire
from wakebus.broker.verbs import VERBS

assert broker.__file__
PAGE = (Path(broker.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
TESTS = Path(__file__).parents[1]
NUMBER = r"PROTOCOL-\d+\.\d+"
RULES = re.findall(rf"^\*\*({NUMBER})\*\*", PAGE, re.M)


@cache
def named() -> dict[str, set[str]]:
    """Return the rules that the tests name, with the files that do."""
    found: dict[str, set[str]] = {}
    for file in TESTS.rglob("test_*.py"):
        if file != Path(__file__):
            for rule in re.findall(NUMBER, file.read_text(encoding="utf-8")):
                found.setdefault(rule, set()).add(file.name)
    return found


def test_the_page_is_of_this_version() -> None:
    """The page and the code speak the same protocol."""
    assert f"protocol version {wire.VERSION}" in PAGE


def test_every_rule_has_a_test() -> None:
    """A rule that nothing checks is a wish."""
    assert [rule for rule in RULES if rule not in named()] == []


def test_every_named_rule_stands_on_the_page() -> None:
    """A test that names a rule which is not there names nothing."""
    assert {rule: files for rule, files in named().items() if rule not in RULES} == {}


def test_rules_are_numbered_in_order_and_once() -> None:
    """1, 2, 3 … in every section, under their section's heading."""
    section, number = 0, 0
    for line in PAGE.splitlines():
        if heading := re.match(r"## (\d+) ", line):
            assert int(heading[1]) == section + 1
            section, number = int(heading[1]), 0
        if rule := re.match(rf"\*\*({NUMBER})\*\*", line):
            number += 1
            assert rule[1] == f"PROTOCOL-{section}.{number}"


def test_the_codes_docstrings_cite_sections_that_exist() -> None:
    """`PROTOCOL.md section 7` in the code is a section of the page."""
    assert broker.__file__
    for file in Path(broker.__file__).parent.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for words in re.findall(r"PROTOCOL\.md\s+sections?\s+([\d, and]+)", text):
            for section in re.findall(r"\d+", words):
                assert f"\n## {section} " in PAGE, file.name


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_stands_on_the_page(verb: str) -> None:
    """What the broker takes is said: a client in another language has only the page."""
    assert re.search(rf'`{verb}`|"{verb}"', PAGE)


def test_the_frames_on_the_page_are_frames() -> None:
    """Every literal frame decodes."""
    lines = re.findall(r"^    [<>]? ?(\[.*\])$", PAGE, re.M)
    assert len(lines) > 10
    for line in lines:
        wire.decode(line.replace("{…}", "{}").encode())
