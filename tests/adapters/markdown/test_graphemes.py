"""What a reader sees as one character."""

import pytest

from wakebus.adapters.delivery.split import split
from wakebus.adapters.markdown.graphemes import boundary
from wakebus.adapters.sanitize import plain


def tagged(name: str) -> str:
    """A flag of a region: a black flag, its code in tag characters, and their end."""
    return "🏴" + "".join(chr(0xE0000 + ord(char)) for char in name) + "\U000e007f"


CLUSTERS = [
    *("क्षि", "স্ত্র", "ക്ഷ", "நி", "க்ஷ", "ಕ್ಷ", "ខ្មែ", "น้ำ", "ກຳ", "각", "깍", "한"),
    *("👨‍👩‍👧‍👦", "👩🏽‍🚀", "🏳️‍🌈", "🇩🇪", "👍🏽", "1️⃣", "❤️", "e\u0301", "Z\u0351\u036b\u0343"),
    *(tagged("gbeng"), tagged("gbsct"), tagged("gbwls"), "🧑🏻‍❤️‍💋‍🧑🏿"),
]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_b3_a_character_is_whole(cluster: str) -> None:
    """ADP-5.30: wherever the limit falls, and in a text of Markdown as well; cleaning keeps it."""
    assert plain(cluster) == cluster
    for before in range(len(cluster) + 2):
        for limit in (60, 420):
            text = "a" * before + cluster * 900
            parts = split(text[: 40 * limit], len, limit)[:-1]  # its end may be none of ours
            assert {part.replace("a", "").replace(cluster, "") for part in parts} == {""}


@pytest.mark.parametrize("name", ["gbeng ", "gbxyz", "ustx", "gben", "gbenglish", ""])
def test_other_tags_are_words_that_nobody_sees(name: str) -> None:
    """ADP-5.1: but for Unicode's three flags of regions they go."""
    assert plain(f"a{tagged(name)}b") == "a🏴b"


def test_boundaries() -> None:
    """ADP-5.30: at the ends of a text, between plain letters, and where decoration has no end."""
    assert boundary("", 0) == 0 and boundary("ab", 1) == 1 and boundary("ab", 2) == 2
    assert boundary("e\u0301x", 1) == 1 and boundary("xe\u0301x", 2) == 1
    assert boundary("a" + "\u0301" * 5000, 3000) == 3000
    assert boundary("🇩🇪" * 9000, 8001) == 8000
