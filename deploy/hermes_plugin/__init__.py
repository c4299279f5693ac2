"""
wakebus as a folder plugin of Hermes (`hermes plugins install`); the code is the package `wakebus`.

Rule: without the package it says once how to install it into this very Python, and Hermes runs on.
It is installed from a clone, by path: nobody vouches for who has the name elsewhere.
"""

import logging
import shlex
import sys
from typing import Any

try:
    from wakebus.plugin.hermes import register
except ImportError as missing:
    reason = str(missing)

    def register(ctx: Any) -> None:
        """Say what is missing."""
        logging.getLogger(__name__).warning(
            "the plugin wakebus needs the package wakebus (%s): %s -m pip install "
            "PATH_OF_THE_CHECKOUT (a clone of the project)",
            reason,
            shlex.quote(sys.executable),
        )


__all__ = ["register"]
