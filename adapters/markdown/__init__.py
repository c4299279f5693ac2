"""
Markdown, as agents write it, in each platform's own markup.

Rule 1: pure; str → str, the same text gives the same output, no text raises, time is linear.
Rule 2: the text's words survive, in order. Rule 3: nobody is notified: what a platform would read
as a mention is shown as text. Rule 4: links lead to http, https and mailto; an image is a link to
it; raw HTML is text. Rule 5: the parser is imported with the first text that is rendered.

    parser     Markdown into tokens             render   tokens, from the inside out
    dialect    what a dialect may say           html     Telegram, Matrix
    commonmark Discord, Mattermost, ntfy, WeCom mrkdwn   Slack
    outline    blocks, where a text is cut      spans    marks of a paragraph
    graphemes  characters as a reader sees them
    source     DingTalk, Feishu: as written literals globs, paths, LaTeX: no marks
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakebus.adapters.markdown.outline import Outline


def telegram_html(text: str) -> str:
    """
    Return `text` in the Bot API's HTML (parse_mode HTML): only its tags, all else escaped.

    The text that the tags leave (after entities parsing) is what Telegram's 4096 are counted of.
    """
    from wakebus.adapters.markdown import html, render

    return render.render(text, html.TelegramHtml())


def telegram_entities(markup: str) -> int:
    """Return how many entities Telegram makes of its HTML at most, links that it finds too."""
    from wakebus.adapters.markdown import html

    return html.entities(markup)


def telegram_plain(text: str) -> str:
    """Return `text` for the Bot API without a parse_mode: as `plain`, and `@name` names nobody."""
    from wakebus.adapters.markdown import html, render

    return render.render(text, html.TelegramPlain())


def telegram_as_written(text: str) -> str:
    """Return `text` with all its marks and not a sign longer; it names nobody."""
    from wakebus.adapters.markdown import html

    return html.without_names(text)


def slack(text: str) -> str:
    """Return `text` in Slack's mrkdwn; `& < >` are escaped, so that it mentions nobody."""
    from wakebus.adapters.markdown import mrkdwn, render

    return render.render(text, mrkdwn.SlackMrkdwn())


def discord(text: str) -> str:
    """Return `text` in Discord's Markdown; send it with `allowed_mentions: {"parse": []}`."""
    from wakebus.adapters.markdown import commonmark, render

    return render.render(text, commonmark.DiscordMarkdown())


def mattermost(text: str) -> str:
    """Return `text` in Mattermost's Markdown; `@all`, `@here`, `@name` notify nobody."""
    from wakebus.adapters.markdown import commonmark, render

    return render.render(text, commonmark.MattermostMarkdown())


def matrix_html(text: str) -> str:
    """
    Return `text` in Matrix's org.matrix.custom.html (formatted_body), without pills.

    Where `has_marks` is false, a body alone says the same.
    """
    from wakebus.adapters.markdown import html, render

    return render.render(text, html.MatrixHtml())


def wecom(text: str) -> str:
    """Return `text` in WeCom's markdown: headings, bold, links, quotes, code; no `<@user>`."""
    from wakebus.adapters.markdown import commonmark, render

    return render.render(text, commonmark.WeComMarkdown())


def plain(text: str) -> str:
    """Return `text` as people read it without any markup: `text (url)`, • items, aligned tables."""
    from wakebus.adapters.markdown import dialect, render

    return render.render(text, dialect.Dialect())


def ntfy(text: str) -> str:
    """Return `text` in the Markdown of ntfy's web app (`markdown: true`), images as links."""
    from wakebus.adapters.markdown import commonmark, render

    return render.render(text, commonmark.CommonMark())


def safe(text: str) -> str:
    """Return `text` with its own Markdown, without links to other schemes, and links for images."""
    from wakebus.adapters.markdown import source

    return source.safe(text)


def dingtalk(text: str) -> str:
    """Return what `safe` does, with the line breaks of DingTalk's Markdown, but in code."""
    from wakebus.adapters.markdown import source

    return source.with_breaks(text)


def quiet(text: str) -> str:
    """Return `text` with all its marks for a service that we do not know; it mentions nobody."""
    from wakebus.adapters.markdown import dialect

    return dialect.Quiet().words(text)


def feishu(text: str) -> str:
    """
    Return a safe text for the `md` of Feishu's post: its tables are blocks of code.

    Mentions are left to the caller: they are tags in the text, whatever its marks.
    """
    from wakebus.adapters.markdown import commonmark, render

    return render.with_coded_tables(text, commonmark.CommonMark())


def outline_of(text: str) -> "Outline":
    """Return the blocks of a text: where it may be cut, and what goes on behind a cut."""
    from wakebus.adapters.markdown import outline

    return outline.Outline(text)


def has_marks(text: str) -> bool:
    """Whether `text` has Markdown: formatting it says more than the bare text."""
    from wakebus.adapters.markdown import render

    return render.has_marks(text)


def size(
    text: str, render: Callable[[str], str], limit: int, count: Callable[[str], int] = len
) -> int:
    """
    Return what `text` takes of `limit`, for an adapter's `measure`: bare or rendered, the larger.

    A text that is over the limit as it stands is not rendered: splitting stays linear.
    """
    bare = count(text)
    return bare if bare > limit else max(bare, count(render(text)))
