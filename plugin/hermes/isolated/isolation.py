"""
Whether Hermes runs plugins in a process of their own (`plugins.isolation: host`, since 0.22).

Rule 1: loaded in every process of Hermes: no weight. Rule 2: what works there and what does not is
said in these words.
"""

import os
from collections.abc import Mapping
from typing import Final

SETTING: Final = "plugins.isolation: host"
NO_ENDPOINT: Final = (
    f"plugins run in a process of their own here ({SETTING}): from there wakebus listens for a"
    " gateway (once it answers), not for a terminal: whether that is busy cannot be seen, and a"
    " message would abort its turn; the tools and /bus work. For terminals:"
    " plugins.isolation: in_process"
)
LISTENS: Final = (
    f"plugins run in a process of their own ({SETTING}): turns begin by Hermes's queue, and whether"
    " an answer was delivered cannot be seen (uncertain); prints are the courier's; cancelling a"
    " message ends no turn"
)


def is_isolated(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether Hermes runs nothing but plugins in this process."""
    return environ.get("HERMES_PLUGIN_HOST_PROCESS") == "1"  # hermes_cli/plugin_isolation.py:98
