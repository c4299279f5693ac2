"""The installed wheel is what runs, and Hermes loads its plugin."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from e2e_hermes.conftest import MakeWorld


def test_the_wheel_is_tested() -> None:
    """Never the source tree."""
    assert "site-packages" in str(files("wakebus.broker"))


NAMES = """
from gateway.config import Platform
from wakebus.adapters.platform_names import HERMES
known = {one.value for one in Platform} | Platform._scan_bundled_plugin_platforms()
print(sorted(known - {"local"} - HERMES), sorted(HERMES - known))
"""


def test_senders_know_the_platforms_of_hermes(tmp_path: Path) -> None:
    """ADP-7.8: all that it has without a plugin of others; `a2a` is of 0.22."""
    env = {**os.environ, "HERMES_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", NAMES], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[] ['a2a']\n", done


def test_the_plugin_loads(make_world: MakeWorld) -> None:
    """`hermes plugins list` shows it as enabled, from an entry point, without an error."""
    done = make_world().hermes("plugins", "list", "--plain", "--no-bundled")
    line = next(line for line in done.out.splitlines() if "wakebus" in line)
    assert "entrypoint" in line, done
    assert "enabled" in line, done
    assert "not enabled" not in line, done
    assert "error" not in done.both.lower(), done
