"""Slips in YAML, each told in its line with the right way of writing it."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wakebus.plugin.rules.errors import RulesError
from wakebus.plugin.rules.schema import read_rules
from wakebus.plugin.rules.yaml_hints import quoted

RULE = "- match_type: a\n  print: true\n  "


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("match_from: *worker", "names an alias in YAML; write match_from: '*worker'"),
        ("match_from: *", "write match_from: '*'"),
        ("match_from: @x", "is reserved in YAML; write match_from: '@x'"),
        ("match_from: %x", "write match_from: '%x'"),
        ("match_from: !tag x", "write '!tag x'"),
        ("match_from: `x`", "write match_from: '`x`'"),
        ("print_format: !{from}", "write print_format: '!{from}'"),
        ("print_format: {text}", "`{` begins a map in YAML: for the text, write '{text}'"),
        ("print_format: {{x}}", "write '{{x}}'"),
        ("print_format: {from}: {text}", "write print_format: '{from}: {text}'"),
        ("print_format: {color:cyan}x", "write print_format: '{color:cyan}x'"),
        ("print_format: [{from}", "write print_format: '[{from}'"),
        ("print_format: [{from}] {text}", "write print_format: '[{from}] {text}'"),
        ('command: echo "a: b"', "write command: 'echo \"a: b\"'"),
        ("command: echo 'a: b'", "write command: 'echo ''a: b'''"),
        ("command: | grep x", "write command: '| grep x'"),
        ("command: > log", "write command: '> log'"),
        ("command: - x", "write command: '- x'"),
        ('command: "a" && b', "write command: '\"a\" && b'"),
        ("command: 'it's'", "write command: 'it''s'"),
        ('match_text: "\\d+"', "write match_text: '\\d+'"),
        ('command: "a', "the quote that opens here is never closed"),
        ("command:x", "write a blank behind the colon: command: x"),
        ("-command: x", "write a blank behind the dash: - command"),
        ("\tcommand: x", "a tab; YAML is indented with spaces"),
        (" command: x", "does not begin where the ones above it do"),
        ("command x", "a line without `key: value`"),
        ("match_from: yes", "for the text, write 'yes'"),
        ("match_from: on", "write 'on'"),
        ("match_from: 404", "write '404'"),
        ("print: false", "stands here twice (first on line 2)"),
    ],
)
def test_a9_slips(line: str, words: str) -> None:
    """RULES-1.11: file, line, and how it is written."""
    with pytest.raises(RulesError) as caught:
        read_rules(f"{RULE}{line}\n", "r.yaml")
    told = [str(problem) for problem in caught.value.problems]
    assert [one for one in told if one.startswith("r.yaml:3: ") and words in one], told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("callbacks:\n  -match_type: a\n    print: true", "2: write a blank behind the dash"),
        ("callbacks:\n  - match_type:a\n    print: true", "2: write a blank behind the colon"),
        ("callbacks:\n\t- match_type: a", "2: a tab"),
        ("- match_type: a\n---\n- match_type: b", "2: a second document"),
    ],
)
def test_a9_slips_elsewhere(text: str, words: str) -> None:
    """RULES-1.11: the line that is wrong, not the one where the parser gave up."""
    with pytest.raises(RulesError) as caught:
        read_rules(text, "r.yaml")
    assert f"r.yaml:{words}" in str(caught.value.problems[0])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("match_channel: #team", "for the text, write match_channel: '#team'"),
        ("print_format: new #7", "write print_format: 'new #7'"),
        ("command: &x y | z", "`&x` is an anchor in YAML and no part of the text"),
        ("match_from: a, b", "a list is written [a, b]"),
        ("match_from: “a”", "“ is no quote in YAML"),
    ],
)
def test_a9_doubts(line: str, words: str) -> None:
    """RULES-1.11: valid, and surely not meant: a warning with the line."""
    warned = [str(one) for one in read_rules(f"{RULE}{line}\n", "r.yaml").warnings]
    assert len(warned) == 1 and warned[0].startswith("r.yaml:3: ") and words in warned[0]


@pytest.mark.parametrize(
    "lines",
    [
        "command: echo x # a comment",
        "match_from:  # nobody",
        "command: echo http://x:80/#y",
        "match_text: '#7'",
        "command: 'a: b' # c",
        "match_from: &who [a, b]\n- match_channel: x:*\n  match_from: *who",
        "command: |\n    #!/bin/sh\n    echo &x",
    ],
)
def test_a9_what_is_meant(lines: str) -> None:
    """RULES-1.7, RULES-1.11: comments, anchors and blocks are no slips."""
    assert not read_rules(f"{RULE}{lines}\n", "r.yaml").warnings


@given(st.text(st.sampled_from("ab:#-*&!|>'\"%@`{}[], \n\t\\"), max_size=30))
def test_a9_any_text_is_told(text: str) -> None:
    """RULES-1.6: whatever it is, an error with a line or rules; and a hint's quoting is right."""
    try:
        read_rules(f"{RULE}command: {text}\n", "r.yaml")
    except RulesError as exc:
        assert exc.problems
    line = text.replace("\n", " ")
    if line.isprintable():
        assert yaml.safe_load(quoted(line)) == line
