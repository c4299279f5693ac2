"""
The installed wheel, used as a user would: every package, the documents, the commands.

Run by `make wheel` with the interpreter of a clean environment, never from the source tree.
"""

import os
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.metadata import distribution, entry_points
from importlib.resources import files
from pathlib import Path

BIN = Path(sys.executable).parent


def main() -> None:
    """Fail with an assertion or a command's own words."""
    root = Path(str(files("wakebus.broker"))).parent
    assert "site-packages" in root.parts, f"{root} is not the installed wheel"
    assert not (root / "left_behind.py").exists(), "what an earlier build left is in the wheel"
    modules = [p for p in root.rglob("*.py") if p.name not in ("__main__.py",)]
    for path in modules:
        import_module("wakebus." + ".".join(path.relative_to(root).with_suffix("").parts))
    for package, document in (
        ("broker", "PROTOCOL.md"),
        ("adapters", "ADAPTERS.md"),
        ("adapters", "WRITING_AN_ADAPTER.md"),
        ("plugin", "RULES.md"),
        ("plugin", "HERMES.md"),
        ("plugin/hermes", "plugin.yaml"),
        ("plugin/hermes/gateway_hook", "HOOK.yaml"),
        ("plugin/hermes/skills/notification-protocol", "SKILL.md"),
        ("plugin/rules", "default.yaml"),
        ("plugin", "py.typed"),
    ):
        assert (root / package / document).is_file(), f"{package}/{document} is not in the wheel"
    adapters = entry_points(group="wakebus.adapters")
    assert len(adapters) >= 13 and all(entry.load() for entry in adapters)
    with tempfile.TemporaryDirectory(prefix="wb") as folder:
        use(folder)
    version = distribution("wakebus").version
    print(f"wheel {version}: {len(modules)} modules import, the commands work")


def use(folder: str) -> None:
    """Start, send to the console chat, stop."""
    environ = {**os.environ, "HERMES_BUS_ROOT": folder, "HERMES_HOME": folder}

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            env=environ,
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}"
        return done.stdout

    run("hermes-busd", "start")
    try:
        assert "sent" in run("wakebus", "send", "console:smoke", "hello")
        assert "courier" in run("hermes-busd", "status")
        assert "queued" in run("notify-hermes", "--to", "nobody", "--queue", "hello")
    finally:
        run("hermes-busd", "stop")


if __name__ == "__main__":
    main()
