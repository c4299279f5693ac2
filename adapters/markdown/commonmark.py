"""
Markdown again, for platforms that read it: the text's marks in one form that all of them read.

Rule 1: pure. Rule 2: literal signs are escaped where they could be marks, and only there.
Rule 3: code is fenced so that nothing in it ends it: what a platform takes for words we did too.
"""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from wakebus.adapters.markdown.dialect import ZWSP, Dialect, without_emoji

_SIGNS: Final = re.compile(
    r"\\(?![^\W_])|`|\*(?!\s)|(?<!\s)\*|(?<![^\W_])_|_(?![^\W_])|~~|\|\||\]\(|(?<=\]):|!\Z"
    r"|<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)"
)
_STARTS: Final = re.compile(
    r"^([ \t]*)(#{1,6}(?=\s|$)|>|[-+*](?=\s|$|#)|=+[ \t]*$|-+[ \t]*$|~{3})", re.MULTILINE
)
_NUMBERED: Final = re.compile(r"\A([ \t]*\d{1,9})([.)])(?=[ \t])")
_ENTITY: Final = re.compile(r"&(?=#?\w{1,32};)")
_TICKS: Final = re.compile(r"`+")
_UNPAIRED: Final = 1000  # deeper than any platform reads
_BESIDE: Final = re.compile(r"(?<=`)(?=`)")
_THIRD: Final = re.compile(r"(?<=``)`")
_CLOSING: Final = re.compile(r"(?:(?<=\s)|\A)(?=#+\Z)")
_BRACKET: Final = re.compile(r"(?<!\\)[\[\]]")
# server/channels/app/mention_parser_standard.go: words of letters, digits and `:.-_@` are looked
# up; a sign of format class parts them.
_AT: Final = re.compile(r"(?<![A-Za-z0-9])@(?=\S|\Z)")
_NAME_IN_URL: Final = re.compile(r"(?<![A-Za-z0-9])@|&#?\w{1,32};")
# docs.discord.com/developers/reference#message-formatting, and @everyone.
_ALL: Final = re.compile(r"@(?=everyone|here)")
_DISCORD: Final = re.compile(r"<(?=[@#/:]|a:|t:|id:|sound:|\Z)|@(?=everyone|here|\Z)")
_WECOM: Final = re.compile(r"<(?=[@A-Za-z/!?]|\Z)")
_WECOM_IN_CODE: Final = re.compile(r"<(?=@|/?font|\Z)", re.IGNORECASE)
_WECOM_LINK: Final = re.compile(r"\](?=\(|\Z)")
_WECOM_START: Final = re.compile(r"^(?=#{1,6} |>)", re.MULTILINE)


class CommonMark(Dialect):
    """CommonMark; ntfy's web app reads no more (react-remark without extensions)."""

    MARKS: ClassVar[Mapping[str, str]] = {"strong": "**", "em": "*", "s": "~~"}
    NESTING: ClassVar = 32  # of parentheses in a link's address
    NEWLINE: ClassVar = "\\\n"
    BULLET: ClassVar = "- "
    FLAT: ClassVar = False

    def text(self, words: str) -> str:
        """Return words, escaped where a sign could be a mark."""
        return _SIGNS.sub(lambda match: "".join(f"\\{sign}" for sign in match[0]), words)

    def code(self, words: str) -> str:
        """Return code between more backticks than are in it."""
        mark = "`" * (_most_ticks(words) + 1)
        room = " " * (words.startswith("`") or words.endswith("`"))
        return f"{mark}{room}{words}{room}{mark}"

    def fence(self, words: str, language: str) -> str:
        """Return a block of code, its fence longer than those in it."""
        fence = "`" * max(3, _most_ticks(words) + 1)
        return f"{fence}{language}\n{words}\n{fence}"

    def link(self, rendered: str, url: str) -> str:
        """Return `[words](url)`; an address that would end too early in it stands in <>."""
        if not (words := rendered.replace("\n", " ").strip()):
            return f"<{url}>"
        if _nesting(url) > self.NESTING:
            return f"{words} (<{url}>)"
        if words.count("[") != words.count("]"):
            words = _BRACKET.sub(r"\\\g<0>", words)
        return f"[{words}]({_destination(url)})"

    def bare(self, url: str) -> str:
        """Return `<url>`: without an extension a bare address is no link."""
        return f"<{url}>"

    def mark(self, kind: str, rendered: str, written: str) -> str:
        """Return emphasis in the text's own marks."""
        mark = written if kind == "em" and written else self.MARKS[kind]
        return f"{mark}{rendered}{mark}"

    def starts(self, rendered: str) -> str:
        """Return lines of which none begins a heading, a list, a quote or a fence by chance."""
        return _NUMBERED.sub(r"\1\\\2", _STARTS.sub(r"\1\\\2", rendered))

    def heading(self, rendered: str, level: int) -> str:
        """Return `#` and a line."""
        line = rendered.replace("\n", " ")
        return f"{'#' * level} {_CLOSING.sub(lambda _: chr(92), line)}"

    def rule(self) -> str:
        """Return a line across; `---` could make a heading of the text above."""
        return "***"


class MattermostMarkdown(CommonMark):
    """Markdown with tables and bare links; it shows line ends as they are."""

    BOXES: ClassVar = ("[ ] ", "[x] ")
    NESTING: ClassVar = 2  # mattermost/marked, lib/marked.js, inline._href
    NEWLINE: ClassVar = "\n"
    CODED_TABLES: ClassVar = False

    def text(self, words: str) -> str:
        """Return words that name nobody: `@` and what is behind it are two words."""
        return _AT.sub(f"@{ZWSP}", super().text(without_emoji(words)))

    def bare(self, url: str) -> str:
        """Return the address; one with `@` in it as a link, whose words are no mention."""
        return self.link(self.text(url), url) if _NAME_IN_URL.search(url) else url

    def table(self, rows: Sequence[Sequence[str]], aligns: Sequence[str]) -> str:
        """Return the table in pipes; cells beyond its head would not be shown."""
        more = [""] * (max(map(len, rows)) - len(rows[0]))
        lines = {"": "---", "left": ":--", "right": "--:", "center": ":-:"}
        shown = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        shown[:1] = [shown[0] + more, [lines[align] for align in (*aligns, *more)]]
        return "\n".join(f"| {' | '.join(row)} |" for row in shown)


class DiscordMarkdown(CommonMark):
    """Headings to level 3, no tables, links to the web only; no `@` and `<…>` of its own."""

    NESTING: ClassVar = 1  # simple-markdown, LINK_HREF_AND_TITLE
    NEWLINE: ClassVar = "\n"

    def text(self, words: str) -> str:
        """Return words that look like no mention."""
        return _DISCORD.sub(rf"\g<0>{ZWSP}", super().text(without_emoji(words)).replace("\\<", "<"))

    def code(self, words: str) -> str:
        """Return code; three backticks would begin a block."""
        return super().code(_BESIDE.sub(ZWSP, words))

    def fence(self, words: str, language: str) -> str:
        """Return a block of code; there is one fence only."""
        return f"```{language}\n{_THIRD.sub(f'{ZWSP}`', words)}\n```"

    def link(self, rendered: str, url: str) -> str:
        """Return `[words](url)`; words that look like an address are none (Discord's rule)."""
        if not url.lower().startswith("http") or "://" in rendered:
            return f"{rendered} ({self.bare(url.removeprefix('mailto:'))})"
        return super().link(rendered, self.bare(url))

    def bare(self, url: str) -> str:
        """Return the address, which leads to the same place without `@everyone` in it."""
        return _ALL.sub("%40", url)

    def heading(self, rendered: str, level: int) -> str:
        """Return `#` to `###`, below them bold."""
        return super().heading(rendered, level) if level < 4 else f"**{rendered}**"

    def rule(self) -> str:
        """Return a line of signs: there is none across."""
        return "———"


class WeComMarkdown(Dialect):
    """
    Headings, bold, links, quotes and code in a line; no escape.

    Source: developer.work.weixin.qq.com/document/path/90236.
    """

    MARKS: ClassVar[Mapping[str, str]] = {"strong": "**", "s": "~~"}

    def text(self, words: str) -> str:
        """Return words in which no tag, mention or link is read."""
        return _WECOM_LINK.sub(f"]{ZWSP}", _WECOM.sub("＜", words))

    def code(self, words: str) -> str:
        """Return code; a backtick would end it, a mention is read in it, too."""
        inner = _WECOM_IN_CODE.sub("＜", words).replace("`", "ˋ")
        return f"`{inner}`" if inner.strip() else inner

    def fence(self, words: str, language: str) -> str:
        """Return lines of code: there are no blocks, and a `#` would be a heading."""
        return "\n".join(self.code(line) for line in words.split("\n"))

    def link(self, rendered: str, url: str) -> str:
        """Return `[words](url)`; an address with parentheses stands behind the words."""
        if not rendered.strip() or _nesting(url):
            return super().link(rendered, url)
        return f"[{rendered}]({_destination(url)})"

    def starts(self, rendered: str) -> str:
        """Return lines of which none is a heading or a quote by chance."""
        return _WECOM_START.sub(ZWSP, rendered)

    def heading(self, rendered: str, level: int) -> str:
        """Return `#` and a line."""
        return f"{'#' * level} {rendered}"


def _destination(url: str) -> str:
    """Return an address in which no entity is read."""
    return _ENTITY.sub("&amp;", url)


def _nesting(url: str) -> int:
    """Return how deep parentheses stand in each other; where they are no pairs, very deep."""
    depth = deepest = 0
    for sign in url:
        depth += (sign == "(") - (sign == ")")
        deepest = max(deepest, depth if depth >= 0 else _UNPAIRED)
    return _UNPAIRED if depth else deepest


def _most_ticks(words: str) -> int:
    return max((len(run) for run in _TICKS.findall(words)), default=0)
