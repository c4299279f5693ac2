"""Hermes's config.yaml: what it says of wakebus, and how that is changed."""

import pytest
import yaml

from wakebus.plugin.install import config
from wakebus.plugin.install.config import State
from wakebus.plugin.install.errors import CannotInstall

ON = State(enabled=True)
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
    assert config.read("", "f") == State()
    text = "plugins: {enabled: [wakebus], disabled: [a], entries: {wakebus: {x: 1}}}"
    assert config.read(text, "f") == ON
    granted = "plugins: {entries: {wakebus: {allow_gateway_injection: true}}}"
    assert config.read(granted, "f") == State(grant=True)


def test_only_true_is_a_grant() -> None:
    """A text or a number is none."""
    for word in ("'true'", "1", "false"):
        text = f"plugins: {{entries: {{wakebus: {{allow_gateway_injection: {word}}}}}}}"
        assert config.read(text, "f").grant is False


def test_there_and_back() -> None:
    """Enabled, granted, and taken out again: every byte is as before."""
    on = config.change(TEXT, State(True, False, True), "f")
    assert config.read(on, "f") == State(True, False, True)
    assert [line for line in TEXT.splitlines() if line not in on.splitlines()] == []
    assert config.change(on, State(), "f") == TEXT


def test_nothing_to_change() -> None:
    """The text itself."""
    assert config.change(TEXT, State(), "f") == TEXT


def test_disabled_is_lifted() -> None:
    """Out of the one list, into the other."""
    text = "plugins:\n  enabled: []\n  disabled: [wakebus]\n"
    assert yaml.safe_load(config.change(text, ON, "f")) == {"plugins": {"enabled": ["wakebus"]}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: [1\n", "f:3: no YAML"),
        ("a: 1\n\tb: 2\n", "f:2: no YAML"),
        ("- a\n", "f: the whole file: a mapping is needed, this is list"),
        ("plugins: [a]\n", "f: plugins: a mapping"),
        ("plugins: {enabled: all}\n", "f: plugins.enabled: a list is needed, this is str"),
        ("a: 1\n---\nb: 1\n", "f:2: no YAML"),
        ("a: !!python/object:os.system 1\n", "f:1: no YAML"),
    ],
)
def test_what_cannot_be_read(text: str, words: str) -> None:
    """Is named with its line or key, and left alone."""
    with pytest.raises(CannotInstall) as caught:
        config.change(text, ON, "f")
    assert caught.value.text.startswith(words) and caught.value.data["step"]


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [b]\nplugins:\n  enabled: *x\n",  # the other place would change too
        "x: 1\n...\n",
        "a: |\n  text",  # its last line has no end, and a new one would give it one
    ],
)
def test_what_cannot_be_edited_alone(text: str) -> None:
    """Is refused, and the user is told what to write."""
    with pytest.raises(CannotInstall) as caught:
        config.change(text, ON, "f")
    assert "wakebus cannot edit it" in caught.value.text
    assert "plugins:" in caught.value.data["step"] and "wakebus" in caught.value.data["step"]
