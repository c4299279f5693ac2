"""
What Hermes's setting `tools.tool_search` makes of our tools.

Rule 1: pure; the setting is read as both generations read it (ToolSearchConfig in
tools/tool_search.py of 0.19.0 and 0.22.2), to whom a word that they do not know is `auto`.
Rule 2: no setting is wrong: our tools are found in each way.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from wakebus.plugin.install.hermes_config import load_config

_WORDS: Final = {"true": "on", "1": "on", "yes": "on", "false": "off", "0": "off", "no": "off"}
_BRIDGE: Final = "the model finds the bus's tools by their names and calls them through tool_call"
_DIRECT: Final = "the model has the bus's tools themselves in its list"
_MEANS: Final = {
    "on": _BRIDGE,
    "off": _DIRECT,
    "auto": f"in Hermes 0.20 and later {_BRIDGE}; in 0.19 {_DIRECT}, as long as those of all "
    "plugins fill less than a tenth of its context",
}


class ToolSearch(NamedTuple):
    """`setting`: `auto`, `on` or `off`. `stated`: by the config, else it is a default."""

    setting: str
    stated: bool

    @property
    def meaning(self) -> str:
        """What it means, in one line."""
        default = "" if self.stated else ", Hermes's default"
        return f"{self.setting}{default}: {_MEANS[self.setting]}"


def read_tool_search(text: str, name: str) -> ToolSearch:
    """Return what the config `text` says; `name` is the file's. Raises CannotInstall: no YAML."""
    tools = load_config(text, name).get("tools")
    raw = tools.get("tool_search") if isinstance(tools, Mapping) else None
    return ToolSearch(_setting(raw), raw is not None)


def _setting(raw: Any) -> str:
    if not isinstance(raw, Mapping):  # `tools.tool_search: false` is an older way to say it
        return "off" if raw is False else "auto"
    word = str(raw.get("enabled", "auto")).strip().lower()
    word = _WORDS.get(word, word)
    return word if word in _MEANS else "auto"
