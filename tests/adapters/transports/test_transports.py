"""The table of transports."""

from pathlib import Path

from wakebus.adapters.transports import transports


def test_transports(tmp_path: Path) -> None:
    """The schemes that this step speaks."""
    assert set(transports(tmp_path)) == {"apprise", "console", "https", "http"}
