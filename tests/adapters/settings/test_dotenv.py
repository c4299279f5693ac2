"""`.env` as Hermes reads it; the values are what python-dotenv 1.2 answered, run once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.settings.dotenv import ROOM, parse

PROCESS = {"P": "proc", "A": "procA", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("K=v", {"K": "v"}),
        ("  export K = v  ", {"K": "v"}),
        ("export\tK=v", {"K": "v"}),
        ("K=#ops", {"K": "#ops"}),
        ("K=#ops:localhost # ours", {"K": "#ops:localhost"}),
        ("K=#", {"K": "#"}),
        ("K= # c", {"K": "# c"}),
        ("K=v # comment", {"K": "v"}),
        ("K=v\t#c", {"K": "v"}),
        ("K=v#no-comment", {"K": "v#no-comment"}),
        ("K=a b  ", {"K": "a b"}),
        ("K=", {"K": ""}),
        ('K=""', {"K": ""}),
        ("K='a # b'", {"K": "a # b"}),
        ('K="a b" # c', {"K": "a b"}),
        ('K="a"#c', {"K": "a"}),
        ('K="a\\"b"', {"K": 'a"b'}),
        ("K='a\\'b'", {"K": "a'b"}),
        ('K="it\'s"', {"K": "it's"}),
        ('K="a\\tb\\\\n\\nc\\$d"', {"K": "a\tb\\n\nc\\$d"}),
        ("K='a\\tb\\\\n'", {"K": "a\\tb\\n"}),
        ("K=a\\tb", {"K": "a\\tb"}),
        ('K="one\ntwo" # c', {"K": "one\ntwo"}),
        ("K='one\n\ntwo'", {"K": "one\n\ntwo"}),
        ("K=a=b==", {"K": "a=b=="}),
        ("K=$HOME/`id`", {"K": "$HOME/`id`"}),
        ("K=${P}/x", {"K": "proc/x"}),
        ("K='${P}'", {"K": "proc"}),
        ("K=${NONE}x", {"K": "x"}),
        ("K=${NONE:-d}", {"K": "d"}),
        ("K=${EMPTY:-d}", {"K": ""}),
        ("A=1\nK=${A}${A}", {"A": "1", "K": "11"}),
        ("K=${K}x", {"K": "x"}),
        ("K=1\nK=${K}2", {"K": "12"}),
        ("K=${A\nL=}", {"K": "${A", "L": "}"}),
        ("A=${P}\nP=2\nK=${A}${P}", {"A": "proc", "P": "2", "K": "proc2"}),
        ("A='${P}'\nK=${A}", {"A": "proc", "K": "proc"}),
        ("D=${P\nK=$D}", {"D": "${P", "K": "$D}"}),
        ("K=1\nK=2", {"K": "2"}),
        ("\ufeffK=v", {"K": "v"}),
        ("K=v\r\n", {"K": "v"}),
        ("K=a\rL=b", {"K": "a", "L": "b"}),
        ("'K'=v", {"K": "v"}),
        ('K="a" b\nL=1', {"L": "1"}),
        ('K="open\nL=1', {"L": "1"}),
        ("K='open\nL=1", {"L": "1"}),
        ('K = "v"', {"K": "v"}),
        ("K.x-1=v\nK=1", {"K.x-1": "v", "K": "1"}),
        ("1X=2", {"1X": "2"}),
        ("# K=1\n\n  # c\nK=2", {"K": "2"}),
        ("K=v\x00w", {"K": "vw"}),
        ("K: v\nL=1", {"L": "1"}),
        ("=3\nK=1", {"K": "1"}),
        ("K=café\xa0# c", {"K": "café"}),
    ],
)
def test_as_python_dotenv(text: str, values: dict[str, str]) -> None:
    """ADP-1.3: quotes, escapes, comments, `${…}`, lines that are none: the same values."""
    assert parse(text, PROCESS).values == values


def test_lines_that_are_none() -> None:
    """Each is counted by the number of the line where it begins; comments are no such lines."""
    text = '# c\n\nK=v\nnonsense\n=3\n\n\nL="a\nb" c\nM=1\nN="open\n  two words\n'
    assert parse(text, {}) == ({"K": "v", "M": "1"}, [4, 5, 8, 11, 12])
    assert parse(text.replace("\n", "\r\n"), {}).bad_lines == [4, 5, 8, 11, 12]


def test_a_value_that_grows_without_end() -> None:
    """Expansion is bounded over the whole file: what would grow beyond is a bad line."""
    found = parse("A=" + "x" * 16 + "\n" + "A=${A}${A}\n" * 60 + "B=b\n", {})
    assert sum(map(len, found.values.values())) <= 2 * ROOM and found.values["B"] == "b"
    assert found.bad_lines[0] < 20 and found.bad_lines[-1] == 61


@pytest.mark.parametrize(
    "text", ["K=" + "${" * 50_000, "K=a" + " " * 100_000 + "b", 'K="' + '\\"' * 50_000]
)
def test_text_that_is_slow_to_read(text: str) -> None:
    """Text made to be searched again and again is read once."""
    assert set(parse(text, {}).values) == {"K"}


@given(st.text(max_size=200) | st.text("K='\"\\#${}:- \n\r", max_size=60))
def test_any_text(text: str) -> None:
    """Any text is parsed; nothing is raised."""
    assert all("=" in text for _ in parse(text, {}).values)
