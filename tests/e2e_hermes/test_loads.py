"""The installed wheel is what runs, and Hermes loads its plugin."""

from importlib.resources import files

from e2e_hermes.conftest import MakeWorld


def test_the_wheel_is_tested() -> None:
    """Never the source tree."""
    assert "site-packages" in str(files("wakebus.broker"))


def test_the_plugin_loads(make_world: MakeWorld) -> None:
    """`hermes plugins list` shows it as enabled, from an entry point, without an error."""
    done = make_world().hermes("plugins", "list", "--plain", "--no-bundled")
    line = next(line for line in done.out.splitlines() if "wakebus" in line)
    assert "entrypoint" in line, done
    assert "enabled" in line, done
    assert "not enabled" not in line, done
    assert "error" not in done.both.lower(), done
