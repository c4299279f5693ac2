"""
A process of hermes-agent 0.22.2 whose gateway serves several profiles: one PluginManager for each
home, as far as wakebus looks. Each class names the lines of its original.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fakes.hermes_ctx import Ctx, Manager
from fakes.hermes_process import Loop, Station
from wakebus.plugin import hermes
from wakebus.plugin.hermes.runtime import Runtime, runtime_of


class ProfileManager(Manager):
    """hermes_cli/plugins.py:1152: of one home."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home_path = home.resolve()


class ProfileCtx(Ctx):
    """hermes_cli/plugins.py:330: of one plugin in one manager."""

    def __init__(self, manager: ProfileManager, name: str) -> None:
        super().__init__(manager)
        self.profile_name = name
        self.unloading: list[Callable[[], Any]] = []

    def on_unload(self, callback: Callable[[], Any]) -> None:  # :409
        """Keep it; plugins_ledger.py:222 calls the last first."""
        self.unloading.append(callback)


class Multiplexer:
    """A gateway that serves `default` and `names`; their homes are below `folder`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *names: str) -> None:
        self._folder, self._ctx = folder, dict[str, ProfileCtx]()
        self.managers: dict[Path, ProfileManager] = {}
        self.runner = SimpleNamespace(
            _gateway_loop=Loop(),
            _shutdown_event=asyncio.Event(),
            _primary_profile_name="default",
            _served_profile_for_home=lambda home: None,
            _served_profile_homes={},
            config=SimpleNamespace(multiplex_profiles=True, platforms={}),
        )
        run: Any = ModuleType("gateway.run")
        run._gateway_runner_ref = lambda: self.runner
        plugins: Any = ModuleType("hermes_cli.plugins")
        plugins._plugin_managers_by_home = self.managers
        for module in (run, plugins):
            patch.setitem(sys.modules, module.__name__, module)
        for name in ("default", *names):
            self.home(name).mkdir(parents=True, exist_ok=True)
            self.home(name).chmod(0o700)
            self.serve(name)

    def home(self, name: str) -> Path:
        """Return a profile's home."""
        return self._folder if name == "default" else self._folder / "profiles" / name

    def rules(self, name: str, text: str) -> None:
        """Write a profile's rules."""
        path = self.home(name) / "bus-rules.yaml"
        path.write_text(text)
        path.chmod(0o600)

    def serve(self, name: str) -> None:
        """The gateway's next look finds the profile (run_profile_reconcile.py:71)."""
        served = self.runner._served_profile_homes or {}
        self.runner._served_profile_homes = {**served, name: self.home(name)}

    def park(self, name: str) -> None:
        """`hermes -p NAME gateway stop`: it is served no more (run_profile_reconcile.py:274)."""
        self.runner._served_profile_homes.pop(name)

    def load(self, name: str) -> ProfileCtx:
        """Discover the profile's plugins: wakebus registers."""
        home = self.home(name).resolve()
        manager = self.managers.setdefault(home, ProfileManager(home))
        runtime = self.runtime(name)
        runtime._make_host = runtime._make_host or Station()._make_host
        self._ctx[name] = ProfileCtx(manager, name)
        hermes.register(self._ctx[name])
        return self._ctx[name]

    def unload(self, name: str) -> None:
        """Dispose what its plugin registered (plugins_ledger.py:222)."""
        ctx = self._ctx.pop(name)
        for callback in reversed(ctx.unloading):
            callback()
        ctx._manager._hooks.clear()

    def reload(self, name: str) -> None:
        """Forced rediscovery (plugins.py:1289)."""
        self.unload(name)
        self.load(name)

    def runtime(self, name: str) -> Runtime:
        """Return the profile's part of wakebus."""
        return runtime_of(self.home(name))

    def threads(self, name: str = "") -> list[threading.Thread]:
        """Return the threads of these Runtimes, or of one."""
        runtimes = map(self.runtime, [name] if name else self._ctx)
        found = [one._thread for one in runtimes]
        return [thread for thread in found if thread is not None]

    def close(self) -> None:
        """End."""
        for name in self._ctx:
            self.runtime(name).stop()
