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
bundled = Platform._scan_bundled_plugin_platforms()
folders = bundled[0] if isinstance(bundled, tuple) else bundled  # 0.22 adds other names for them
known = {one.value for one in Platform} - {"local"} | folders
print(*sorted(known - HERMES), "/", *sorted(HERMES - known))
"""
OF_THE_OTHER_GENERATION = ("a2a buzz", "homeassistant")  # of 0.22, of 0.19


def test_senders_know_the_platforms_of_hermes(tmp_path: Path) -> None:
    """ADP-7.8: all that it has without a plugin of others, and what another generation has."""
    env = {**os.environ, "HERMES_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", NAMES], env=env, capture_output=True, text=True, timeout=60
    )
    unknown, _, absent = done.stdout.strip(" \n").partition("/")
    assert not unknown and absent.strip() in OF_THE_OTHER_GENERATION, done


def test_the_plugin_loads(make_world: MakeWorld) -> None:
    """`hermes plugins list` shows it as enabled, from an entry point, without an error."""
    done = make_world().hermes("plugins", "list", "--plain", "--no-bundled")
    line = next(line for line in done.out.splitlines() if "wakebus" in line)
    assert "entrypoint" in line, done
    assert "enabled" in line, done
    assert "not enabled" not in line, done
    assert "error" not in done.both.lower(), done
