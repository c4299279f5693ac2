"""
A gateway of hermes-agent 0.22.2, where it differs from the one of fakes/hermes.py.

`Injector` says yes before anything has happened; then comes one of four things.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from fakes import hermes
from fakes.hermes import Adapter, Platform, SessionSource, Town

log = logging.getLogger("gateway.run")


@dataclass
class NewerEvent(hermes.MessageEvent):
    """gateway/platforms/event.py."""

    allow_gateway_control: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)


class Injector:
    """
    `ctx.inject_message` of a live gateway (gateway/run_plugin_injection.py).

    `denies`: today's authorization says no, once it is asked after the yes. `loses`: nothing comes
    of it. `open`: whether the gateway's loop comes to it. `accepted`: the keys that it said yes to.
    """

    def __init__(self, town: Town) -> None:
        self._runner, self._loop = town.runner, town.loop
        self.denies = self.loses = False
        self.open = threading.Event()
        self.open.set()
        self.accepted: list[str] = []

    def __call__(
        self,
        content: str,
        role: str = "user",
        *,
        session_key: str | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> bool:
        """:45, from a thread of a plugin."""
        assert session_key and origin is None
        self.accepted.append(session_key)
        if not self.loses:
            dispatch = self._dispatch(content, session_key)
            asyncio.run_coroutine_threadsafe(dispatch, self._loop)
        return True

    async def _dispatch(self, content: str, key: str) -> None:
        """:106."""
        while not self.open.is_set():
            await asyncio.sleep(0.005)
        entry = self._runner.session_store.entries.get(key)
        if entry is None or self._runner._draining:
            log.warning("Plugin message injection was not routed: plugin=wakebus session=%s", key)
            return
        authorized = self._runner._is_user_authorized_for_source(  # type: ignore[attr-defined]
            entry.origin, allow_adapter_delegation=False
        )
        if self.denies or not authorized:
            log.warning(
                "Plugin message injection denied by current gateway authorization:"
                " plugin=wakebus session=%s",
                key,
            )
            return
        metadata = {"gateway_session_key": key, "gateway_session_id": entry.session_id}
        event = NewerEvent(
            content,
            source=entry.origin,
            internal=True,
            allow_gateway_control=False,
            metadata={**metadata, "gateway_session_strict": True},
        )
        await self._runner.adapters[Platform.MATTERMOST].handle_message(event)


def make_newer(town: Town, monkeypatch: pytest.MonkeyPatch) -> Injector:
    """Make the town one of 0.22.2; return its way in."""
    runner, handle = town.runner, town.runner.handle

    def authorized(source: SessionSource, *, allow_adapter_delegation: bool = True) -> bool:
        """gateway/run.py:4020."""
        return runner._is_user_authorized(source)

    async def strict(event: Any) -> str:
        """gateway/run_turn.py:433."""
        wanted = event.metadata.get("gateway_session_id") if event.internal else None
        entry = runner.session_store.entries.get(event.metadata.get("gateway_session_key"))
        if wanted and (entry is None or entry.session_id != wanted):
            log.warning("Dropping internally routed event: expected session id=%s is gone", wanted)
            return ""
        return await handle(event)

    monkeypatch.setattr(runner, "_is_user_authorized_for_source", authorized, raising=False)
    monkeypatch.setattr(runner, "handle", strict)
    monkeypatch.setattr(hermes, "MessageEvent", NewerEvent)
    monkeypatch.setattr(sys.modules["gateway.platforms.base"], "MessageEvent", NewerEvent)
    return Injector(town)


class Without:
    """A gateway or adapter of which `name` cannot be seen from outside."""

    def __init__(self, of: Any, name: str) -> None:
        self.__dict__.update(of=of, name=name)

    def __getattr__(self, name: str) -> Any:
        if name == self.name:
            raise AttributeError(name)
        return self._seen(getattr(self.of, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.of, name, value)

    def _seen(self, value: Any) -> Any:
        if isinstance(value, Adapter):
            return Without(value, self.name)
        if isinstance(value, dict) and all(isinstance(key, Platform) for key in value):
            return {key: self._seen(one) for key, one in value.items()}
        if callable(value):
            return lambda *args, **named: self._seen(value(*args, **named))
        return value
