"""
Which of a gateway's profiles a plugin speaks for.

Since 0.20 one gateway serves several profiles, and each has a PluginManager of its own; in 0.19 one
manager is everybody's. Rule 1: pure looks at what Hermes keeps in step itself; no file is read.
"""

import os
from pathlib import Path
from typing import Any, Final

ALL: Final = ""


def served_profile(runner: Any, home: Path | None) -> str | None:
    """
    Return the name of the profile that the gateway serves at `home`, None where it serves none.

    ALL where it knows no profiles apart, so that whatever it has is this plugin's.
    """
    find = getattr(runner, "_served_profile_for_home", None)  # gateway/run_plugin_injection.py:161
    if home is None or not callable(find):
        return ALL
    if getattr(getattr(runner, "config", None), "multiplex_profiles", False) is not True:
        return None if find(home) is None else ALL
    # Of gateway/run_profile_reconcile.py:52; None until every profile's adapters had their start.
    served: dict[str, Path] = dict(getattr(runner, "_served_profile_homes", None) or {})
    key = os.path.realpath(home)
    return next((name for name, at in served.items() if os.path.realpath(at) == key), None)
