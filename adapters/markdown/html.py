"""
Markup in tags: Telegram's few, Matrix's many.

Rule 1: pure. Rule 2: whatever is not a tag of ours is escaped; tags are closed in order.
Source: core.telegram.org/bots/api#html-style; spec.matrix.org, m.room.message msgtypes.
"""

import html
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from wakebus.adapters.markdown.dialect import ZWSP, Dialect

# Telegram finds `@name` in the text that the tags leave: it may begin in one part of a line and
# end in another.
_AT: Final = re.compile(r"(?<!\w)@(?=\w|\Z)")
# Of matrix.to, and of any client's own: app.element.io/#/user/@alice:b.c.
_PILL: Final = re.compile(
    r"matrix\.to(?=[/?#]|%2F|%23|\Z)|(?:#|%23)(?:/|%2F)(?=[@!#]|%40|%21|%23|user|room|\Z)",
    re.IGNORECASE,
)
_TAG: Final = re.compile(r"<(/?)([a-z]+)[^>]*>")
_SPLIT: Final = frozenset("bis")  # TDLib cuts these where another entity begins or ends in them
# What Telegram makes a link of by itself: addresses, #words, $CASH, commands, e-mails.
_FOUND: Final = re.compile(
    r"https?://[^\s<]+|[\w.+-]{1,64}@[\w.-]{1,190}|(?<![\w&#])[#$](?=\w*[^\W\d])\w{1,256}"
    r"|(?<![\w/<])/[A-Za-z0-9_]{1,64}(?![\w/])"
)
_INDENTED: Final = re.compile(r"\n( *)")


def without_names(text: str) -> str:
    """Return `text` with a sign that looks like it for the `@` of a name, in addresses too."""
    return _AT.sub("＠", text)


def entities(markup: str) -> int:
    """Return how many entities Telegram makes of its HTML, rather too many than too few."""
    count = at = 0
    opened: list[str] = []
    for tag in [*_TAG.finditer(markup), None]:
        words = markup[at : tag.start() if tag else len(markup)]
        if words.strip():
            count += sum(name in _SPLIT for name in opened)
            if not {"a", "code", "pre"} & set(opened):
                count += len(_FOUND.findall(words))
        if tag is None:
            return count
        at = tag.end()
        if tag[1]:
            opened.remove(tag[2])
        else:
            count += tag[2] not in _SPLIT and not (tag[2] == "code" and "pre" in opened)
            opened.append(tag[2])
    return count


class Html(Dialect):
    """What both write alike."""

    def text(self, words: str) -> str:
        """Return words with `& < >` escaped."""
        return html.escape(words, quote=False)

    def code(self, words: str) -> str:
        """Return code in its tag."""
        return f"<code>{html.escape(words, quote=False)}</code>"

    def fence(self, words: str, language: str) -> str:
        """Return `<pre>`, with the language where it is said."""
        code = html.escape(words, quote=False)
        if not language:
            return f"<pre>{code}</pre>"
        name = html.escape(language)
        return f'<pre><code class="language-{name}">{code}</code></pre>'

    def link(self, rendered: str, url: str) -> str:
        """Return `<a>`."""
        words = rendered if rendered.strip() else self.text(url)
        return f'<a href="{html.escape(url)}">{words}</a>'

    def bare(self, url: str) -> str:
        """Return the address; both make a link of it."""
        return self.text(url)

    def mark(self, kind: str, rendered: str, written: str) -> str:
        """Return emphasis in its tag."""
        tag = self.MARKS[kind]
        return f"<{tag}>{rendered}</{tag}>"


class TelegramHtml(Html):
    """Lines and a few tags; quotes are not nested, and code has no tags in it."""

    MARKS: ClassVar[Mapping[str, str]] = {"strong": "b", "em": "i", "s": "s"}

    def text(self, words: str) -> str:
        """Return words that name nobody."""
        return super().text(_AT.sub(f"@{ZWSP}", words))

    def bare(self, url: str) -> str:
        """Return the address; one with `@name` in it as a link, whose words are no name."""
        return self.link(self.text(url), url) if _AT.search(url) else super().bare(url)

    def quote(self, rendered: str, depth: int) -> str:
        """Return `<blockquote>`, in another one lines behind `>`."""
        if depth > 1:
            return "\n".join(f"&gt; {line}" for line in rendered.split("\n"))
        return f"<blockquote>{rendered}</blockquote>"


class TelegramPlain(Dialect):
    """The same without tags (no parse_mode), where Telegram finds a name in code, too."""

    def text(self, words: str) -> str:
        """Return words that name nobody."""
        return _AT.sub(f"@{ZWSP}", words)

    def bare(self, url: str) -> str:
        """Return the address, which leads to the same place without `@name` in it."""
        return _AT.sub("%40", url)

    def code(self, words: str) -> str:
        """Return code as words."""
        return self.text(words)

    def fence(self, words: str, language: str) -> str:
        """Return code as words."""
        return self.text(words)


class MatrixHtml(Html):
    """The subset of HTML that the specification lists."""

    MARKS: ClassVar[Mapping[str, str]] = {"strong": "strong", "em": "em", "s": "del"}
    NEWLINE: ClassVar = "<br>"
    CODED_TABLES: ClassVar = False

    def text(self, words: str) -> str:
        """Return words, their line ends as tags; what a client would make a pill is words."""
        escaped = super().text(_PILL.sub(rf"\g<0>{ZWSP}", words))
        return _INDENTED.sub(lambda match: "<br>" + "&nbsp;" * len(match[1]), escaped)

    def link(self, rendered: str, url: str) -> str:
        """Return `<a>`; a link to a user or a room would be a pill: it is shown."""
        if _PILL.search(url):
            return f"{rendered} (<code>{html.escape(url, quote=False)}</code>)"
        return super().link(rendered, url)

    def paragraph(self, rendered: str) -> str:
        """Return `<p>`."""
        return f"<p>{rendered}</p>"

    def heading(self, rendered: str, level: int) -> str:
        """Return `<h1>` to `<h6>`."""
        return f"<h{level}>{rendered}</h{level}>"

    def quote(self, rendered: str, depth: int) -> str:
        """Return `<blockquote>`."""
        return f"<blockquote>{rendered}</blockquote>"

    def items(self, items: Sequence[str], start: int | None, tight: bool) -> str:
        """Return `<ul>` or `<ol>`."""
        inner = "".join(f"<li>{item}</li>" for item in items)
        if start is None:
            return f"<ul>{inner}</ul>"
        return f'<ol start="{start}">{inner}</ol>' if start != 1 else f"<ol>{inner}</ol>"

    def rule(self) -> str:
        """Return `<hr>`."""
        return "<hr>"

    def table(self, rows: Sequence[Sequence[str]], aligns: Sequence[str]) -> str:
        """Return `<table>`; the specification allows no alignment."""
        head = "".join(f"<th>{cell}</th>" for cell in rows[0])
        body = "".join(
            f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows[1:]
        )
        tbody = f"<tbody>{body}</tbody>" if body else ""
        return f"<table><thead><tr>{head}</tr></thead>{tbody}</table>"

    def blocks(self, blocks: Sequence[str], close: Sequence[bool]) -> str:
        """Return blocks behind each other: their tags part them."""
        return "".join(blocks)
