"""
Slack's mrkdwn.

Rule 1: pure. Rule 2: `& < >` are escaped, so that `<!channel>` and `<@U…>` are words.
Rule 3: Slack has no escape for `* _ ~` and the backtick, and pairs them more loosely than it says:
where two in a line may meet, words get the sign that looks like it (∗ ＿ ∼ ˋ); a lone one stays.
Source: docs.slack.dev/messaging/formatting-message-text; slackhq/slack-api-docs#34.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from wakebus.adapters.markdown.dialect import ZWSP, Dialect, without_emoji

_EDGE: Final = "\x00"  # of a mark: Slack sees it only beside what is no letter
_ALIKE: Final = {"*": "∗", "_": "＿", "~": "∼", "`": "ˋ"}
_LITERAL: Final = {"*": "\x01", "_": "\x02", "~": "\x03", "`": "\x04"}
_CHANCE: Final = re.compile(r"`|[*~](?!\s)|(?<!\s)[*~]|(?<![^\W_])_(?!\s)|(?<!\s)_(?![^\W_])")
_EDGES: Final = re.compile(r"(?<=[^\W_])\x00|\x00(?=[^\W_])")
_QUOTE: Final = re.compile(r"^&gt;", re.MULTILINE)


def escaped(words: str) -> str:
    """Return words with Slack's three escapes."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class SlackMrkdwn(Dialect):
    """Marks of one character, links in <>."""

    MARKS: ClassVar[Mapping[str, str]] = {"strong": "*", "em": "_", "s": "~"}

    def text(self, words: str) -> str:
        """Return words; signs that could be marks wait for the rest of their line."""
        return _CHANCE.sub(lambda match: _LITERAL[match[0]], escaped(without_emoji(words)))

    def code(self, words: str) -> str:
        """Return code; in it a backtick would end it."""
        inner = escaped(words).replace("`", _ALIKE["`"])
        return f"{_EDGE}`{inner}`{_EDGE}" if inner.strip() else inner

    def fence(self, words: str, language: str) -> str:
        """Return a block of code; Slack shows no language."""
        return f"```\n{escaped(words).replace('```', f'``{ZWSP}`')}\n```"

    def link(self, rendered: str, url: str) -> str:
        """Return `<url|words>`."""
        words = rendered.replace("\n", " ").strip()
        return f"<{escaped(url)}|{words}>" if words else self.bare(url)

    def bare(self, url: str) -> str:
        """Return `<url>`: its `_` are no marks."""
        return f"<{escaped(url)}>"

    def mark(self, kind: str, rendered: str, written: str) -> str:
        """Return emphasis; Slack takes none of white space, nor over a line's end."""
        mark = self.MARKS[kind]
        lines = [
            f"{_EDGE}{mark}{line}{mark}{_EDGE}" if line.strip(f" \t{_EDGE}") else line
            for line in rendered.split("\n")
        ]
        return "\n".join(lines)

    def line(self, rendered: str) -> str:
        """Return a line whose literal signs are settled, and whose marks stand free."""
        for sign, literal in _LITERAL.items():
            if literal in rendered:
                meets = rendered.count(sign) + rendered.count(literal) > 1
                rendered = rendered.replace(literal, _ALIKE[sign] if meets else sign)
        return _EDGES.sub(ZWSP, rendered).replace(_EDGE, "")

    def heading(self, rendered: str, level: int) -> str:
        """Return a bold line, in which nothing is bold once more."""
        even = rendered.count("*") % 2 == 0
        return self.line(self.mark("strong", rendered.replace("*", "" if even else "∗"), ""))

    def starts(self, rendered: str) -> str:
        """Return lines of which none is a quote by chance."""
        return _QUOTE.sub(f"{ZWSP}&gt;", rendered)
