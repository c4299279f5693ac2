"""Texts as agents, people and adversaries write them: words between all marks there are."""

import re

from hypothesis import strategies as st

WORDS = ("waq", "wbq", "wcq", "中文")
_MARKS = (
    *("*", "**", "_", "__", "~~", "`", "``", "[", "](", "]", "(", ")", "<", ">", "&", "\\", "!"),
    *("- ", "> ", "1. ", "# ", "\n- ", "\n> ", "\n1. ", "\n# ", "\n---\n", "\n===\n", "+ ", "2) "),
    *("\n", "\n\n", " ", "  ", "    ", "\t", "\n```\n", "\n~~~\n", "|", "||", "\n|-|\n", "[x] "),
    *("[wlinkq](https://1.2/3)", "![wimgq](https://1.2/3)", "https://1.2/3", "<https://1.2>"),
    *("@", "@all", "@waq", "<@1>", "<!here>", "&#64;", "&lt;", "<b>", "</code>", "@everyone", "。"),
)
# A word on the line of a fence may be a language, which is shown where there is a place for it.
_FENCED_WORD = re.compile(r"(?:`{3}|~{3})[^\n]*\w")


def texts() -> st.SearchStrategy[str]:
    """Return texts of up to 16 words and marks, in any order."""
    parts = st.lists(st.sampled_from(WORDS + _MARKS), max_size=16)
    return parts.map("".join).filter(lambda text: not _FENCED_WORD.search(text))


def words(text: str) -> list[str]:
    """Return the words of such a text."""
    return re.findall(r"w[a-z]+q|中文", text)


def in_order(wanted: list[str], text: str) -> bool:
    """Whether `text` has these words, in this order."""
    at = 0
    for word in wanted:
        at = text.find(word, at) + 1
        if not at:
            return False
    return True
