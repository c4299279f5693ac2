"""Topics, patterns, and the prefixes that ZeroMQ filters by."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.errors import BadTopic
from wakebus.broker.protocol.topics import (
    MAX_SEGMENT,
    MAX_SEGMENTS,
    MAX_TOPIC,
    check_pattern,
    check_topic,
    filters,
    matcher,
    matcher_of_any,
    matches,
    shown_patterns,
)

GOOD = ["a", "a.b", "A-z_0:9@x", "-", "a" * 64, ".".join("a" * 16), "bus.message.dead"]
BAD: list[object] = [
    *("", ".", "a.", ".a", "a..b", "a b", "a\0b", "a\n", "ä", "a/b", "a" * 65),
    *(".".join("a" * 17), ".".join(["a" * 63] * 5), None, 1, b"a", ["a"], "\ud800"),
]

segments = st.sampled_from(["a", "b", "c"])
topics = st.lists(segments, min_size=1, max_size=6).map(".".join)
patterns = st.lists(segments | st.sampled_from(["*", "**"]), min_size=1, max_size=6).map(".".join)


@pytest.mark.parametrize("topic", GOOD)
def test_a_topic(topic: str) -> None:
    """EVENTS-2.1: it is returned as it is, and is a pattern too."""
    assert check_topic(topic) == check_pattern(topic) == topic


@pytest.mark.parametrize("topic", BAD)
def test_no_topic(topic: object) -> None:
    """EVENTS-2.1: `bad_topic`, and a text that names the field and shows what was given."""
    for check in (check_topic, check_pattern):
        with pytest.raises(BadTopic, match=r"^here ") as caught:
            check(topic, "here")
        assert caught.value.code == "bad_topic" and len(caught.value.text) < 500
        caught.value.text.encode()


def test_limits_are_exact() -> None:
    """EVENTS-2.1: 64 characters, 16 segments, 255 bytes."""
    assert (MAX_SEGMENT, MAX_SEGMENTS, MAX_TOPIC) == (64, 16, 255)
    longest = ".".join(["a" * 63] * 3 + ["a" * 63])
    assert len(check_topic(longest)) == 255
    with pytest.raises(BadTopic, match="256 characters; the limit is 255"):
        check_topic(longest + "a")


@pytest.mark.parametrize("pattern", ["*", "**", "a.*", "a.**", "**.a", "*.*", "a.**.b.*.**"])
def test_a_pattern(pattern: str) -> None:
    """EVENTS-2.2: whole segments are wildcards; a pattern is no topic, and that is said."""
    assert check_pattern(pattern) == pattern
    with pytest.raises(BadTopic, match="a pattern"):
        check_topic(pattern)


@pytest.mark.parametrize("pattern", ["a*", "***", "*a", "a.**b", "a.?"])
def test_no_pattern(pattern: str) -> None:
    """EVENTS-2.2: there are no wildcards inside a segment."""
    with pytest.raises(BadTopic, match=r"whole segments|characters"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "a.bb", "b.a"]),
        ("*", ["a", "bb"], ["a.b"]),
        ("a.*", ["a.b"], ["a", "a.b.c", "b.b"]),
        ("**", ["a", "a.b", "a.b.c"], []),
        ("a.**", ["a", "a.b", "a.b.c"], ["ab", "ab.c", "b.a"]),
        ("**.c", ["c", "a.c", "a.b.c"], ["a", "c.a", "ac"]),
        ("a.**.c", ["a.c", "a.b.c", "a.b.b.c", "a.c.c"], ["a", "c", "a.c.b", "b.a.c"]),
        ("*.**", ["a", "a.b"], []),
        ("**.*", ["a", "a.b"], []),
        ("**.*.**.b.*", ["a.b.c", "a.x.b.b.c"], ["b.c", "a.b"]),
    ],
)
def test_what_matches(pattern: str, yes: list[str], no: list[str]) -> None:
    """EVENTS-2.2: `*` is one segment, `**` any number and none."""
    assert [topic for topic in yes + no if matches(pattern, topic)] == yes


def _slowly(pattern: list[str], topic: list[str]) -> bool:
    """Try every way."""
    if not pattern:
        return not topic
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        return any(_slowly(rest, topic[n:]) for n in range(len(topic) + 1))
    return bool(topic) and first in ("*", topic[0]) and _slowly(rest, topic[1:])


@given(patterns, topics)
def test_against_every_way(pattern: str, topic: str) -> None:
    """EVENTS-2.2: the quick ways say what trying all of them says."""
    assert matcher(pattern)(topic) == _slowly(pattern.split("."), topic.split("."))


@given(patterns, topics)
def test_filters_let_all_matches_through(pattern: str, topic: str) -> None:
    """EVENTS-2.3: a frame that matches begins with one of the filters, and with one only."""
    frame = topic.encode() + b"\0..."
    found = [prefix for prefix in filters(pattern) if frame.startswith(prefix)]
    assert len(found) == 1 or (not found and not matches(pattern, topic))


@pytest.mark.parametrize(
    ("pattern", "prefixes"),
    [
        ("a.b", (b"a.b\0",)),
        ("a.b.**", (b"a.b\0", b"a.b.")),
        ("a.**.**", (b"a\0", b"a.")),
        ("a.*.c", (b"a.",)),
        ("a.**.c", (b"a.",)),
        ("a.*", (b"a.",)),
        ("**", (b"",)),
        ("*", (b"",)),
        ("*.done", (b"",)),
    ],
)
def test_the_filters_of_the_page(pattern: str, prefixes: tuple[bytes, ...]) -> None:
    """EVENTS-2.3: as its table says."""
    assert filters(pattern) == prefixes


def test_the_worst_pattern_takes_bounded_steps() -> None:
    """EVENTS-2.2: no pattern of ours or a peer's is tried in thousands of ways."""
    steps = 0

    class Counted(str):
        def __eq__(self, other: object) -> bool:
            nonlocal steps
            steps += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

        def split(self, *_: object, **__: object) -> list[str]:
            return [Counted(one) for one in str.split(self, ".")]

    pattern = ".".join(itertools.islice(itertools.cycle(("**", "a")), 15)) + ".b"
    assert not matcher(pattern)(Counted(".".join("a" * 16)))
    assert 0 < steps <= 4 * 16 * 16


@given(st.lists(patterns, max_size=8), topics)
def test_many_patterns_select_what_each_of_them_does(several: list[str], topic: str) -> None:
    """EVENTS-2.2: their number costs nothing, and changes nothing."""
    assert matcher_of_any(several)(topic) == any(matches(one, topic) for one in several)


def test_patterns_for_people() -> None:
    """However many there are."""
    assert shown_patterns(["a", "b", "c"]) == "a b c"
    assert shown_patterns([f"p{n}" for n in range(1_000)]) == "p0 p1 p2 and 997 more"
