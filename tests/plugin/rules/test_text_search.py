"""Patterns of `match_text`: none can stop a listener."""

import threading
import time

import pytest

from wakebus.broker.protocol.message import Message
from wakebus.plugin.rules.errors import RulesError
from wakebus.plugin.rules.match import first_match, plan
from wakebus.plugin.rules.model import Rules
from wakebus.plugin.rules.schema import read_rules
from wakebus.plugin.rules.text_search import TooSlow, fault_of, finds

EVIL = [
    (r"(a+)+$", "a" * 5000 + "b"),
    (r"(a*)*$", "a" * 5000 + "b"),
    (r"(\w+\s?)*$", "aaaa " * 2000 + "!"),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 5000),
    (r"((a{1,1000}){1,1000}){1,1000}b", "a" * 5000),
    (r"(x+x+)+y", "x" * 5000),
    (r"(.*?,){25}P", "1," * 2000),
]


def rules(*patterns: str) -> Rules:
    """Return rules that print what has one of these."""
    return read_rules("".join(f"- match_text: '{one}'\n  print: true\n" for one in patterns), "r")


def message(text: str) -> Message:
    return Message("m1", 0.0, "ci", "here", {"text": text})


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("deploy", "please deploy now", True),
        ("deploy", "Deploy", False),
        ("(?i)deploy", "DEPLOY", True),
        (r"\bred\b", "tests are red.", True),
        (r"\bred\b", "redo", False),
        ("^b", "a\nb", False),
        ("(?m)^b", "a\nb", True),
        ("重点|紧急", "这是紧急的", True),
        ("a.c", "a\nc", False),
        ("x", "", False),
        ("^$", "", True),
    ],
)
def test_a9_match_text(pattern: str, text: str, found: bool) -> None:
    """RULES-2.9: anywhere in the text, as `re` would find it."""
    assert finds((pattern,), text) is found and finds(("nothing", pattern), text) is found
    assert (first_match(rules(pattern), message(text)) is not None) is found


@pytest.mark.parametrize(("pattern", "text"), EVIL)
def test_a9_a_pattern_without_end(pattern: str, text: str) -> None:
    """RULES-2.9: it is bounded, and other threads go on meanwhile."""
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.wait(0.001):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    try:
        finds((pattern,), text)
    except TooSlow:
        assert counted[0] > 5
    finally:
        stop.set()
        thread.join()
    assert time.monotonic() - began < 10


def test_a9_too_slow_is_no_match_and_is_told() -> None:
    """RULES-2.9: the rules behind it are tried; after five that are too slow none is."""
    text = EVIL[0][1]
    chosen = plan(rules(EVIL[0][0], "b"), message(text), "agent")
    assert chosen.rule_label == "2: b"
    assert chosen.note == "rule 1: match_text took too long for this text, and counts as no match"
    chosen = plan(rules(*(f"(a+)+${'|never' * n}" for n in range(6)), "b"), message(text), "agent")
    assert chosen.rule is None and chosen.note.endswith("no other rule was tried")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a(", "is no pattern: missing )"),
        ("[z-a]", "is no pattern"),
        ("*a", "is no pattern"),
        ("", "empty pattern"),
        ("\bx\b".replace("\\b", "\b"), "in double quotes \\b is a backspace"),
        ("a" * 1001, "at most 1000"),
    ],
)
def test_a9_what_is_no_pattern(pattern: str, words: str) -> None:
    """RULES-1.6: an error of the file, with what is wrong."""
    assert words in fault_of(pattern)
    if pattern.isprintable() and pattern:
        with pytest.raises(RulesError, match="match_text"):
            rules(pattern)


def test_a9_the_label_of_such_a_rule() -> None:
    """RULES-1.1: by its number and pattern."""
    (rule,) = rules("deploy").callbacks
    assert rule.label == "1: deploy" and rule.match_text == ("deploy",)
