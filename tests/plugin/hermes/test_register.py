"""What `register` does in each process of Hermes (HERMES-2.1, HERMES-2.2)."""

import json
import logging
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fakes.hermes_ctx import Ctx, Manager
from wakebus.plugin import hermes
from wakebus.plugin.hermes import runtime as runtimes
from wakebus.plugin.hermes.host_api.choose import gateway_api
from wakebus.plugin.hermes.host_api.public_gateway import PublicGateway
from wakebus.plugin.hermes.runtime import Runtime, runtime_of

ROOT = Path(__file__).parents[3]
ALL = {"bus_send", "bus_status", "bus_info", "bus_read"}

ONE_SHOT = """
import json, sys, threading
from fakes.hermes_ctx import Ctx
before = set(sys.modules)
import wakebus.plugin.hermes
ctx = Ctx()
wakebus.plugin.hermes.register(ctx)
heavy = [m for m in ("zmq", "msgspec", "httpx", "yaml", "psutil", "rich") if m in sys.modules]
threads = [t.name for t in threading.enumerate() if t.name == "wakebus"]
daemons = all(t.daemon for t in threading.enumerate() if t is not threading.main_thread())
facts = {"heavy": heavy, "threads": threads, "daemons": daemons, "tools": list(ctx.tools)}
print(json.dumps(facts))
"""


@pytest.fixture(autouse=True)
def _no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a process of its own, as far as wakebus knows."""
    monkeypatch.setattr(runtimes, "_runtimes", {})


def one_shot(folder: Path) -> dict[str, Any]:
    """Register in a process that ends; return what it saw of itself."""
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-P", "-c", ONE_SHOT],
        env={"PYTHONPATH": tests, "HERMES_BUS_ROOT": str(folder), "HERMES_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_entry_point_is_this_module() -> None:
    """`plugins.enabled: [wakebus]` loads an object with `register`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["hermes_agent.plugins"]
    assert points == {"wakebus": hermes.__name__} and callable(hermes.register)


def test_a_process_that_ends_pays_and_opens_nothing(bus_root: Path) -> None:
    """HERMES-2.1, HERMES-2.3, peer failure 9: no broker, no endpoint, no library of weight."""
    found = one_shot(bus_root)
    assert found == {
        "heavy": [],
        "threads": ["wakebus"],
        "daemons": True,
        "tools": [*found["tools"]],
    }
    assert set(found["tools"]) == ALL
    assert list(bus_root.iterdir()) == []


def test_all_parts_are_registered() -> None:
    """HERMES-5.1: four tools in toolset wakebus, /bus, the skill, hooks."""
    ctx = Ctx()
    hermes.register(ctx)
    assert set(ctx.tools) == ALL
    assert {toolset for toolset, _, _ in ctx.tools.values()} == {"wakebus"}
    assert set(ctx.commands) == {"bus"}
    assert "pre_llm_call" in ctx._manager._hooks
    runtime_of(None).stop()


def test_registered_twice_is_registered_once() -> None:
    """HERMES-2.2: entry point and directory plugin are both enabled: one thread, hooks once."""
    manager = Manager()
    hermes.register(Ctx(manager))
    first = runtime_of(None)
    thread = first._thread
    hooks = {name: len(several) for name, several in manager._hooks.items()}
    second = Ctx(manager)
    hermes.register(second)
    assert runtime_of(None) is first and first._thread is thread
    assert {name: len(several) for name, several in manager._hooks.items()} == hooks
    assert set(second.tools) == ALL
    first.stop()


def test_discovered_anew_all_is_there_again() -> None:
    """HERMES-2.2: discover_plugins(force=True) clears hooks and commands and registers again."""
    manager = Manager()
    hermes.register(Ctx(manager))
    names = set(manager._hooks)
    manager._hooks.clear()  # hermes_cli/plugins.py:1295
    hermes.register(Ctx(manager))
    assert set(manager._hooks) == names
    runtime_of(None).stop()


class Broken:
    """A PluginContext that another Hermes may have: everything raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


def test_hermes_never_suffers(caplog: pytest.LogCaptureFixture) -> None:
    """HERMES-2.1: what fails is a line in Hermes's log, and the rest is registered."""
    with caplog.at_level(logging.WARNING, "wakebus"):
        hermes.register(Broken())
    lines = [record.getMessage() for record in caplog.records if record.name == "wakebus"]
    assert lines and all(line.startswith("wakebus: no ") for line in lines)
    runtime_of(None).stop()


def test_one_part_that_fails_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-2.1: a Hermes without skills has tools."""
    ctx = Ctx()
    monkeypatch.setattr(Ctx, "register_skill", None)
    hermes.register(ctx)
    assert set(ctx.tools) == ALL
    runtime_of(None).stop()


def test_a_newer_hermes_lends_its_own_injection() -> None:
    """HERMES-2.1: `inject_message` is used where it takes a session, else it is not."""
    hermes.register(Ctx())
    assert not isinstance(gateway_api(object(), runtime_of(None).inject), PublicGateway)

    class Newer(Ctx):
        """Main after August 2026."""

        def inject_message(
            self, content: str, role: str = "user", *, session_key: str | None = None
        ) -> bool:
            """Into the session of a gateway."""
            return True

    hermes.register(Newer())
    assert isinstance(gateway_api(object(), runtime_of(None).inject), PublicGateway)
    runtime_of(None).stop()


def test_a_process_has_one_runtime() -> None:
    """HERMES-2.2: whoever asks."""
    assert isinstance(runtime_of(None), Runtime)
    assert runtime_of(None) is runtime_of(None)
