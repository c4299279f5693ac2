"""
What performs a Request, by its URL's scheme; the only place that imports httpx and Apprise.

    https         the network                        proxies       which way out of this network
    apprise_call  services by Apprise's library      console_log   files, for people who watch
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from wakebus.adapters.base import Transport


def transports(
    folder: Path,
    echo: TextIO | None = None,
    env: Callable[[], Mapping[str, str]] = lambda: os.environ,
) -> dict[str, Transport]:
    """Return what performs requests, by scheme; `folder` is the bus's own; env: the settings."""
    from wakebus.adapters.transports.apprise_call import AppriseCalls
    from wakebus.adapters.transports.console_log import ConsoleLogs
    from wakebus.adapters.transports.https import Https  # 0.1 s: not where nothing is sent

    https, console = Https(env=env), ConsoleLogs(folder, echo=echo)
    return {"console": console, "https": https, "http": https, "apprise": AppriseCalls()}
