"""
One profile's part of a gateway that serves several (0.20 and later); the whole of any other one.

Rule 1: what is another profile's is not there: its adapters, platforms and sessions. Rule 2: what
Hermes does for a profile it does in that profile's scope, else it reads the configuration and the
credentials of whoever launched it. Rule 3: sources and line numbers are of hermes-agent 0.22.2.
"""

import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from wakebus.plugin.hermes.host_api.protocol import platform_name


class ProfilePart:
    """What `runner` has for the profile `name` at `home`; "": all that it has."""

    def __init__(self, runner: Any, name: str = "", home: Path | None = None) -> None:
        self._runner, self.name, self._home = runner, name, home

    @property
    def _is_primary(self) -> bool:
        """Whether `runner.adapters` and `runner.config` are its own (gateway/run.py:3623)."""
        return self.name == (getattr(self._runner, "_primary_profile_name", "") or "default")

    def adapters(self) -> dict[Any, Any]:
        """Return the live adapters by Hermes's Platform, its own alone."""
        if not self.name or self._is_primary:
            return dict(getattr(self._runner, "adapters", None) or {})
        return dict(self._of_profiles("_profile_adapters").get(self.name) or {})

    def platforms(self) -> dict[str, Any]:
        """Return Hermes's Platform members, enabled or connected, by name."""
        configs = [getattr(self._runner, "config", None)]
        adapters = [self.adapters()]
        if not self.name:
            adapters += self._of_profiles("_profile_adapters").values()
        elif not self._is_primary:
            configs = [self._of_profiles("_profile_configs").get(self.name)]
            # Without a bot of its own, those whose chats the owner leads to it (`profile_routes`,
            # gateway/authz_mixin.py:207): who was heard there is answered by the bot that heard.
            if callable(find := getattr(self._runner, "_adapters_for_profile", None)):
                adapters.append(find(self.name))
        enabled = dict(getattr(configs[0], "platforms", None) or {})
        found = [member for member, own in enabled.items() if getattr(own, "enabled", False)]
        for some in adapters:
            found.extend(dict(some or {}))
        return {platform_name(member): member for member in found}

    def _of_profiles(self, name: str) -> dict[str, Any]:
        return dict(getattr(self._runner, name, None) or {})

    def owns(self, key: str) -> bool:
        """Return whether a session key is of this profile (gateway/session.py:656)."""
        return not self.name or profile_of_key(key) == self.name

    def stored_source(self, entry: Any) -> Any:
        """Return a stored session's source, with the bot that heard it (authz_mixin.py:380)."""
        restore = getattr(self._runner, "_restored_source", None)
        return restore(entry) if callable(restore) else getattr(entry, "origin", None)

    def marked(self, source: Any) -> Any:
        """Return a source that we made, as one that this profile's bot has heard."""
        if self.name:
            source.profile = self.name
            adapter = self.adapters().get(getattr(source, "platform", None))
            # As build_source() does (gateway/session_identity.py:217): else the default's bot is
            # taken for the one that heard it.
            source._transport_adapter_ref = weakref.ref(adapter) if adapter is not None else None
        return source

    @property
    def busy_input_mode(self) -> str:
        """What a person's words do to a turn that runs (gateway/run_config_loaders.py:349)."""
        own = self._of_profiles("_busy_input_modes_by_profile").get(self.name)
        return str(own or getattr(self._runner, "_busy_input_mode", "") or "")

    @property
    def streaming(self) -> Any:
        """The gateway's own setting for answers that are shown while they are written."""
        config = self._of_profiles("_profile_configs").get(self.name) if self.name else None
        return getattr(config or getattr(self._runner, "config", None), "streaming", None)

    # --- Hermes's own functions, as in this profile ---------------------------------------------

    @contextmanager
    def at_home(self) -> Iterator[None]:
        """Inside, Hermes reads this profile's files (hermes_constants.py:26)."""
        constants = sys.modules.get("hermes_constants")
        enter = getattr(constants, "set_hermes_home_override", None)
        if not self.name or not callable(enter):
            yield
            return
        token = enter(self._home)
        try:
            yield
        finally:
            constants.reset_hermes_home_override(token)  # type: ignore[union-attr]

    def scope(self) -> AbstractAsyncContextManager[None]:
        """Inside, Hermes has this profile's files and credentials (gateway/run.py:1823)."""
        enter = getattr(sys.modules.get("gateway.run"), "_async_profile_runtime_scope", None)
        if not self.name or not callable(enter):
            return nullcontext()
        found: AbstractAsyncContextManager[None] = enter(self._home)
        return found


def profile_of_key(key: str, modules: Mapping[str, Any] = sys.modules) -> str:
    """Return the profile of a session key `agent:<namespace>:…`, "" for what is none."""
    agent, _, rest = key.partition(":")
    namespace = rest.partition(":")[0]
    if agent != "agent" or not namespace:
        return ""
    read = getattr(modules.get("gateway.session"), "profile_from_session_key_namespace", None)
    if callable(read):
        return str(read(namespace))
    return {"main": "default", "main~": "main"}.get(namespace, namespace)
