"""`.env` as Hermes reads it: what is ours around python-dotenv."""

import io
import subprocess
import sys
import time

import pytest
from dotenv.main import resolve_variables
from dotenv.parser import parse_stream
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.settings.dotenv import MAX_BLANKS, MAX_VALUES, MAX_VARIABLES, parse

PROCESS = {"P": "proc", "A": "procA", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("export K=v # comment", {"K": "v"}),
        ("K=#ops:localhost # ours", {"K": "#ops:localhost"}),
        ('K=""', {"K": ""}),
        ('K="a\\tb\\\\n\\nc\\$d"', {"K": "a\tb\\n\nc\\$d"}),
        ("K=$HOME/`id`", {"K": "$HOME/`id`"}),
        ("K=${P}/x", {"K": "proc/x"}),
        ("K='${P}'", {"K": "proc"}),
        ("K=${NONE}x", {"K": "x"}),
        ("K=${NONE:-d}", {"K": "d"}),
        ("K=${EMPTY:-d}", {"K": ""}),
        ("A=1\nK=${A}${A}", {"A": "1", "K": "11"}),
        ("K=${K}x", {"K": "x"}),
        ("K=1\nK=${K}2", {"K": "12"}),
        ("A=${P}\nP=2\nK=${A}${P}", {"A": "proc", "P": "2", "K": "proc2"}),
        ("D=${P\nK=$D}", {"D": "${P", "K": "$D}"}),
        ("A=x\nA", {}),
        ("B\nA=${B:-x}", {"A": ""}),
        ("\ufeffK=v", {"K": "v"}),
        ("K=a\rL=b\r\n", {"K": "a", "L": "b"}),
        ('K="open\nL=1', {"L": "1"}),
        ("K=v\x00w", {"K": "vw"}),
        ("K: v\nL=1", {"L": "1"}),
    ],
)
def test_values(text: str, values: dict[str, str]) -> None:
    """ADP-1.3: `${…}` of the file, then of the process; lines that are none set nothing."""
    assert parse(text, PROCESS).values == values


def test_lines_that_are_none() -> None:
    """Each is counted by the number of the line where it begins; comments are no such lines."""
    text = '# c\n\nK=v\nnonsense\n=3\n\n\nL="a\nb" c\nM=1\nN="open\n  two words\n'
    assert parse(text, {}) == ({"K": "v", "M": "1"}, [4, 5, 8, 11, 12])
    assert parse(text.replace("\n", "\r\n"), {}).bad_lines == [4, 5, 8, 11, 12]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A=" + "x" * 16 + "\n" + "A=${A}${A}\n" * 40, "grow without end"),
        ("A=1\nK=" + "${" * (MAX_VARIABLES + 1), f"over {MAX_VARIABLES}"),
        ("A=1\nK=a" + " " * MAX_BLANKS + "b", "line 2 has"),
    ],
)
def test_text_without_bound(text: str, says: str) -> None:
    """It is refused as a whole: what grows without end, and what would be read for minutes."""
    with pytest.raises(OSError) as caught:
        parse(text, {})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "K=" + "${" * MAX_VARIABLES + "x" * 100_000,
        ("K=a" + " " * (MAX_BLANKS - 1) + "b\n") * 400,
        'K="' + '\\"' * 50_000,
        "K='\n" * 25_000,
        "K=a" + " #" * 50_000,
    ],
)
def test_text_that_is_slow_to_read(text: str) -> None:
    """Text made to be searched again and again ends in seconds, on a busy machine, too."""
    before = time.process_time()
    assert set(parse(text, {}).values) <= {"K"}
    assert time.process_time() - before < 10


TEXTS = st.text(max_size=200) | st.text("AB='\"\\#${}:- \n\r", max_size=60)


@given(TEXTS)
def test_any_text(text: str) -> None:
    """It says what python-dotenv says, whose own function reads the process's environment."""
    values = [(b.key, b.value) for b in parse_stream(io.StringIO(text)) if b.key is not None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.environ", {"A": "procA"})
        theirs = resolve_variables(values, override=True)
    if "\0" not in text and "\r" not in text and not text.startswith("\ufeff"):
        found = parse(text, {"A": "procA"}).values
        assert found == {name: value for name, value in theirs.items() if value is not None}
        assert sum(map(len, found.values())) <= MAX_VALUES


def test_the_parser_is_loaded_where_a_file_is_read() -> None:
    """A command that reads none does not pay for it."""
    code = "import sys, wakebus.adapters.settings.environment; print('dotenv' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, timeout=60)
    assert done.stdout.strip() == b"False", done.stderr
