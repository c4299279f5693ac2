"""Formats become text."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.protocol.message import Message
from wakebus.plugin.rules.render import compile_format, doubtful_times, render, sgr, time_text

MESSAGE = Message(
    id="m1",
    ts=1764288000.5,
    sender="alpha",
    to="lead",
    body={"text": "hi {type} {{x}}", "type": "ack", "channel": "feishu:oc_1"},
    session="s1",
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{from}|{to}|{type}|{channel}|{session}|{id}", "alpha|lead|ack|feishu:oc_1|s1|m1"),
        ("{ts}", "1764288000"),
        ("{ts:}", "1764288000"),
        ("{text}", "hi {type} {{x}}"),
        ("{{text}}", "{text}"),
        ("{{{type}}}", "{ack}"),
        ('{"t": "{type}"}', '{"t": "ack"}'),
        ("{unknown} {from!r} {0} { } } {", "{unknown} {from!r} {0} { } } {"),
        ("{text:spec} {color} {color:pink}", "{text:spec} {color} {color:pink}"),
        ("{color:red}x{color:bold_red}{bold}y{reset}", "xy"),
        ("", ""),
    ],
)
def test_plain(source: str, expected: str) -> None:
    """RULES-4.1, RULES-4.2, RULES-4.3: one pass; unknown stays; colours are nothing in a chat."""
    assert render(source, MESSAGE, "plain") == expected


def test_terminal_has_colours() -> None:
    """RULES-4.3: the eight colours, bold variants, bold and reset; none if the terminal is dumb."""
    source = "{color:bold_green}✔ {from}{reset} {color:Cyan}[{type}]{reset}"
    expected = "\x1b[1;32m✔ alpha\x1b[0m \x1b[36m[ack]\x1b[0m"
    assert render(source, MESSAGE, "terminal") == expected
    assert render(source, MESSAGE, "terminal", color=False) == "✔ alpha [ack]"
    assert sgr("white") == "\x1b[37m" and sgr("gray") is None


def test_local_time() -> None:
    """The seed's own example."""
    expected = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1764288000))
    assert render("{ts:%Y-%m-%d %H:%M:%S}", MESSAGE, "plain") == expected


@pytest.mark.parametrize("spec", ["%", "%Q", "%99999999d", "%\ud800", "\x1b[31m%H", "%E", "é%H"])
@pytest.mark.parametrize("ts", [0.0, 1e12, 1764288000.5])
def test_no_time_format_crashes(spec: str, ts: float) -> None:
    """Whatever strftime thinks of it."""
    assert isinstance(time_text(ts, spec), str)
    assert "\x1b" not in render(f"{{ts:{spec}}}", MESSAGE._replace(ts=ts), "plain")


def test_text_brings_no_colours_of_its_own() -> None:
    """RULES-4.4: fields are cleaned before they go in."""
    message = MESSAGE._replace(body={"text": "\x1b[31mred\x1b]0;t\x07 \u202e", "type": "a\nb"})
    assert render("{type}: {text}", message, "terminal") == "a b: red "


def test_what_is_doubtful_is_known_at_load() -> None:
    """RULES-4.2: unknown placeholders and strftime directives can be warned of."""
    template = compile_format("{form} {ts:%H:%M %Q %-d} {color:pink} {{from}} {text}")
    assert template.unknown == ("{form}", "{color:pink}")
    assert doubtful_times(template) == ["%Q "] or doubtful_times(template) == ["%Q"]


@given(st.text(), st.text(st.characters(codec=None)))
def test_any_format_and_text_render(source: str, text: str) -> None:
    """Nothing raises, nothing unsafe comes out."""
    message = MESSAGE._replace(body={"text": text})
    out = render(source + "{text}" + source, message, "plain")
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", out)


@given(st.text(st.sampled_from("{}typex:{ ")))
def test_text_is_never_a_format(text: str) -> None:
    """RULES-4.1: what a message says is not read for placeholders."""
    assert render("[{text}]", MESSAGE._replace(body={"text": text}), "plain") == f"[{text}]"
