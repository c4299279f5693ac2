"""Addresses keep every byte, in every dialect."""

import html
import time
from collections.abc import Callable

import pytest

from wakebus.adapters import markdown
from wakebus.adapters.markdown.parser import parse

DIALECTS = {
    "telegram": markdown.telegram_html,
    "telegram-plain": markdown.telegram_plain,
    "slack": markdown.slack,
    "discord": markdown.discord,
    "mattermost": markdown.mattermost,
    "matrix": markdown.matrix_html,
    "wecom": markdown.wecom,
    "plain": markdown.plain,
    "ntfy": markdown.ntfy,
    "feishu": lambda text: markdown.feishu(markdown.safe(text)),
    "dingtalk": markdown.dingtalk,
    "quiet": markdown.quiet,
}
KIBANA = "https://k.example/?_g=(time:(from:a,to:b))&q='*'"
URLS = (
    KIBANA,
    "https://k.example/a_(b)_(c)",
    "https://k.example/((((deep))))",
    "https://k.example/?q=[a]&r={b}&s=x^",
    "http://[2a14:6f42::1]:8080/x_y_z",
    "https://k.example:8443/a*b*c?d=_e_&f=*.py",
    "https://k.example/src/**/x_test.py",
    "https://k.example/x:smile:y",
    "https://k.example/?name='a'",
)
AROUND = ("{}", "see {} and *x*", "({})", "**{}**", "*{}*", "~~{}~~", '"{}"', "'{}'", "- {}\n- b")
IN_A_LINK = ("[d]({})", "*see* [d]({}), _x_", "**[d]({})**", "([d]({}))", "> [d]({})")
every_dialect = pytest.mark.parametrize("render", DIALECTS.values(), ids=DIALECTS)


@every_dialect
@pytest.mark.parametrize("around", (*AROUND, *IN_A_LINK))
@pytest.mark.parametrize("url", URLS)
def test_an_address_keeps_every_byte(render: Callable[[str], str], around: str, url: str) -> None:
    """ADP-11.12: as a link and in the text, with any brackets in it and any marks beside it."""
    assert url in html.unescape(render(around.format(url)))


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("around", ["see {} *x*", "**{}**", "*{}*", "([d]({}))", "[d]({})"])
def test_all_of_it_is_the_link(url: str, around: str) -> None:
    """ADP-11.12: not a part of it with words behind."""
    found = [c for t in parse(around.format(url)) for c in t.children or ()]
    assert url in {c.content for c in found if c.type == "bare"} | {
        str(c.attrs.get("href")) for c in found
    }


@every_dialect
@pytest.mark.parametrize(
    "url",
    ["s3://bucket/*_x/*_y", "ssh://git@host:22/~user/_x_", "file:///C:/_a_/x", "redis://h/_0_"],
)
def test_an_address_that_is_no_link_keeps_its_signs(render: Callable[[str], str], url: str) -> None:
    """ADP-11.12: whatever its scheme; Slack's signs are those that look like them (ADP-11.7)."""
    alike = str.maketrans("∗＿∼", "*_~")
    shown = html.unescape(render(f"see {url} **b**")).replace("\u200b", "").translate(alike)
    assert url in shown.replace("\\", "")


def test_an_address_in_a_links_words_keeps_its_signs() -> None:
    """ADP-11.12: where it is no link of its own."""
    text = "[https://k.example/_a_/*b*](https://k.example/c)"
    assert markdown.plain(text) == "https://k.example/_a_/*b* (https://k.example/c)"


@pytest.mark.parametrize(
    ("render", "shown"),
    [
        (markdown.discord, f"d (<{KIBANA}>)"),
        (markdown.mattermost, f"[d]({KIBANA})"),
        (markdown.ntfy, f"[d]({KIBANA})"),
        (markdown.wecom, f"d ({KIBANA})"),
        (markdown.slack, f"<{KIBANA.replace('&', '&amp;')}|d>"),
    ],
)
def test_a_link_that_the_platform_would_cut(render: Callable[[str], str], shown: str) -> None:
    """ADP-11.12: Discord reads one level of parentheses, Mattermost two, CommonMark 32."""
    assert render(f"[d]({KIBANA})") == shown


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["[a](", "[a](" + "(x" * 31, "http://a[b", "a://b{", "[a](\\("])
def test_many_brackets_cost_no_more(unit: str) -> None:
    """ADP-11.1: time is linear."""
    began = time.process_time()
    parse(unit * 4000)
    assert time.process_time() - began < 10
