"""The names of platforms that are known without loading anything."""

from importlib.metadata import entry_points

from wakebus.adapters import registry
from wakebus.adapters.platform_names import HERMES, ONLY_HERMES, OURS


def test_ours_are_the_installed_ones() -> None:
    """ADP-7.8: a new platform stands here, or its own senders would not know it."""
    installed = entry_points(group=registry.GROUP)
    assert {one.name for one in installed if one.value.startswith("wakebus.")} == OURS


def test_hermes_shares_all_but_two() -> None:
    """ADP-7.8: what only a gateway can send is told apart from what the courier can."""
    assert not ONLY_HERMES & OURS and OURS - {"apprise", "console"} == HERMES - ONLY_HERMES
    assert all(name == name.lower() for name in HERMES)
