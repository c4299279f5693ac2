"""Hermes's config.yaml: what it says of wakebus, and how that is changed."""

import pytest

from wakebus.plugin.install.errors import CannotInstall
from wakebus.plugin.install.hermes_config import (
    PluginConfig,
    change_config,
    is_isolated,
    read_config,
)

ON = PluginConfig(enabled=True)
TEXT = """\
# my Hermes
model: {provider: custom, default: fake}   # cheap
plugins:
  enabled:
  - other   # keep

platforms:            # below
  ntfy: {enabled: yes}
"""


def test_read() -> None:
    """All three keys, and what is not there."""
    assert read_config("", "f") == PluginConfig()
    text = "plugins: {enabled: [wakebus], disabled: [a], entries: {wakebus: {x: 1}}}"
    assert read_config(text, "f") == ON
    granted = "plugins: {entries: {wakebus: {allow_gateway_injection: true}}}"
    assert read_config(granted, "f") == PluginConfig(grant=True)


@pytest.mark.parametrize(
    ("says", "isolated"),
    [("host", True), (" HOST ", True), ("in_process", False), ("null", False), ("[]", False)],
)
def test_plugins_in_a_process_of_their_own(says: str, isolated: bool) -> None:
    """HERMES-9.8: as Hermes reads it."""
    assert is_isolated(f"plugins: {{isolation: {says!r}}}", "f") is isolated
    assert not is_isolated("", "f") and not is_isolated("plugins: 5", "f")


def test_only_true_is_a_grant() -> None:
    """A text or a number is none."""
    for word in ("'true'", "1", "false"):
        text = f"plugins: {{entries: {{wakebus: {{allow_gateway_injection: {word}}}}}}}"
        assert read_config(text, "f").grant is False


def test_there_and_back() -> None:
    """Enabled, granted, and taken out again: every byte is as before."""
    on = change_config(TEXT, PluginConfig(True, False, True), "f")
    assert read_config(on, "f") == PluginConfig(True, False, True)
    assert [line for line in TEXT.splitlines() if line not in on.splitlines()] == []
    assert change_config(on, PluginConfig(), "f") == TEXT


def test_nothing_to_change() -> None:
    """The text itself."""
    assert change_config(TEXT, PluginConfig(), "f") == TEXT


def test_disabled_is_lifted() -> None:
    """Out of the one list, into the other."""
    text = "plugins:\n  enabled: []\n  disabled: [wakebus]\n"
    assert change_config(text, ON, "f") == "plugins:\n  enabled: [wakebus]\n  disabled: []\n"


def test_what_was_there_before_stays() -> None:
    """A comment on the way, an empty list or mapping, a last line without an end."""
    for text in (
        "plugins: {} # mine\n",
        "plugins:\n  enabled: []\n  x: 1\n",
        "plugins:\n  enabled: [] # mine\n",
        "plugins:\n  entries: {}\n  enabled: []\n",
        "x: 1",
        "x: 1\r\ny: 2",
        "a: |\n  text",
        "{x: 1}\n",
    ):
        on = change_config(text, PluginConfig(True, False, True), "f")
        assert change_config(on, PluginConfig(), "f") == text
    own = "plugins: # mine\n  # why\n  enabled: # this\n  - wakebus\n"
    assert (
        change_config(own, PluginConfig(), "f") == "plugins: # mine\n  # why\n  enabled: # this\n"
    )
    assert change_config("plugins: # m\n  enabled:\n  - wakebus\n", PluginConfig(), "f") == (
        "plugins: # m\n"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: [1\n", "f:3: no YAML"),
        ("a: 1\n\tb: 2\n", "f:2: no YAML"),
        ("- a\n", "f: the whole file: a mapping is needed, this is list"),
        ("plugins: [a]\n", "f: plugins: a mapping"),
        ("plugins: {enabled: all}\n", "f: plugins.enabled: a list is needed, this is str"),
        ("plugins: {enabled: 1}\n", "f: plugins.enabled: a list is needed, this is int"),
        ("a: 1\nb: \x00\n", "f:2: no YAML: unacceptable character #x0000"),
        ("a: 1\n---\nb: 1\n", "f:2: no YAML"),
        ("a: !!python/object:os.system 1\n", "f:1: no YAML"),
        ("a: !!bool maybe\n", "f: no YAML: a value is not what its type says"),
        ('a: !!int ""\n', "f: no YAML: a value is not what its type says"),
        ("a: 2026-99-99\n", "f: no YAML: month must be in 1..12"),
    ],
)
def test_what_cannot_be_read(text: str, words: str) -> None:
    """Is named with its line or key, and left alone."""
    with pytest.raises(CannotInstall) as caught:
        change_config(text, ON, "f")
    assert caught.value.text.startswith(words) and caught.value.data["step"]


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [b]\nplugins:\n  enabled: *x\n",  # the other place would change too
        "x: 1\n...\n",
    ],
)
def test_what_cannot_be_edited_alone(text: str) -> None:
    """Is refused, and the user is told what to write."""
    with pytest.raises(CannotInstall) as caught:
        change_config(text, ON, "f")
    assert "wakebus cannot edit it" in caught.value.text
    assert "plugins:" in caught.value.data["step"] and "wakebus" in caught.value.data["step"]


def test_the_text_to_write_is_all_that_was_asked_for() -> None:
    """With the grant, in one line, and with nothing of what other plugins keep there."""
    text = "a: &x [b]\nplugins:\n  enabled: *x\n  entries: {other: {api_key: hidden}}\n"
    with pytest.raises(CannotInstall) as caught:
        change_config(text, PluginConfig(True, False, True), "f")
    step = caught.value.data["step"]
    assert step.partition(": ")[2] == (
        "{plugins: {enabled: [wakebus, b], entries: {wakebus: {allow_gateway_injection: true}}}}"
    )


def test_a_key_that_stands_twice() -> None:
    """Both lines are named: Hermes reads the last one, people the first."""
    text = "plugins:\n  enabled: [a]\nplugins: {}\n"
    with pytest.raises(CannotInstall, match="f:3: plugins stands twice, lines 1 and 3"):
        change_config(text, ON, "f")


def test_a_list_that_is_a_text() -> None:
    """The line to write is shown."""
    with pytest.raises(CannotInstall) as caught:
        read_config("plugins: {enabled: 'a, b'}\n", "f")
    assert caught.value.data["step"] == "Write in its place: enabled: [wakebus, a, b]"
    with pytest.raises(CannotInstall) as caught:
        read_config("plugins: {disabled: a}\n", "f")
    assert caught.value.data["step"] == "Write in its place: disabled: [a]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x: 1\na: [1, [2],\nb: 2\nc: 3\n", "a bracket is open since line 2"),
        ("a: {x: [\n", "a bracket is open since line 1"),
        ("a: 'x\nb: 1\n", "while scanning a quoted scalar that begins in line 1"),
    ],
)
def test_where_it_began(text: str, words: str) -> None:
    """What is seen to be wrong far below names the line where it was opened."""
    with pytest.raises(CannotInstall) as caught:
        read_config(text, "f")
    assert words in caught.value.text
