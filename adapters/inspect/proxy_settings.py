"""
What is wrong with the proxies in the settings, for people who look before something is sent.

Rule 1: nothing is asked of a proxy. Rule 2: no credential of a value is shown.
"""

from collections.abc import Iterator, Mapping

from wakebus.adapters import registry
from wakebus.adapters.errors import Unavailable
from wakebus.adapters.transports.proxies import (
    EVERYWHERE,
    entry_fault,
    exempt_entries,
    parse_proxy,
    variable_of,
)


def proxy_faults(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables whose values are no proxies, or no NO_PROXY, each with its fault."""
    names = (*map(variable_of, registry.known()), *EVERYWHERE, *map(str.lower, EVERYWHERE))
    for name in names:
        try:
            if env.get(name, "").strip():
                parse_proxy(name, env[name])
        except Unavailable as exc:
            yield name, exc.text.removeprefix(f"{name}: ")
    for name, entry in exempt_entries(env):
        if fault := entry_fault(entry):
            yield name, fault
