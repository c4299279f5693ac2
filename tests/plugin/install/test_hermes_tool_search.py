"""`tools.tool_search` as both generations of Hermes read it."""

import pytest

from wakebus.plugin.install.errors import CannotInstall
from wakebus.plugin.install.hermes_tool_search import ToolSearch, read_tool_search

SAID = [
    ("", "auto", False),
    ("tools:\n", "auto", False),
    ("tools: [a]\n", "auto", False),
    ("tools: {tool_search: true}\n", "auto", True),
    ("tools: {tool_search: false}\n", "off", True),
    ("tools: {tool_search: off}\n", "off", True),
    ("tools: {tool_search: 'off'}\n", "auto", True),
    ("tools: {tool_search: {}}\n", "auto", True),
    ("tools: {tool_search: {enabled: off}}\n", "off", True),
    ("tools: {tool_search: {enabled: ' No '}}\n", "off", True),
    ("tools: {tool_search: {enabled: 1}}\n", "on", True),
    ("tools: {tool_search: {enabled: sometimes}}\n", "auto", True),
    ("tools: {tool_search: {enabled: [on]}}\n", "auto", True),
    ("tools: {tool_search: {enabled: }}\n", "auto", True),
]


@pytest.mark.parametrize(("text", "setting", "stated"), SAID)
def test_read(text: str, setting: str, stated: bool) -> None:
    """HERMES-5.14: nothing that stands there is an error."""
    found = read_tool_search(text, "config.yaml")
    assert found == ToolSearch(setting, stated)
    assert found.meaning.startswith(setting) and "\n" not in found.meaning


def test_no_yaml() -> None:
    """As everywhere: file and line."""
    with pytest.raises(CannotInstall, match="no YAML"):
        read_tool_search("a: 1\nb: [\n", "config.yaml")
