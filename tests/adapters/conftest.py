"""What the courier's tests share: its notes, and the console as a platform with other cards."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from fakes.courier import Desk, MakeDesk
from wakebus.adapters.base import Capabilities
from wakebus.adapters.courier.delivery_log import DeliveryLog
from wakebus.adapters.platforms.console import Console


class Chat(Console):
    """The console as a platform on which no key helps."""

    capabilities: ClassVar = Capabilities(max_text=100)


@pytest.fixture
def delivery_log(tmp_path: Path) -> Iterator[DeliveryLog]:
    """The notes of a courier."""
    found = DeliveryLog(tmp_path / "courier.db")
    yield found
    found.close()


@pytest.fixture
def courier(delivery_log: DeliveryLog) -> MakeDesk:
    """Return a maker of couriers with these notes: `courier(wire, **env)`."""
    return partial(Desk, delivery_log)


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key helps."""
    monkeypatch.setattr(Console, "capabilities", Chat.capabilities)


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that helps for half a minute."""
    monkeypatch.setattr(Console, "capabilities", Capabilities(max_text=100, idempotent_s=30))
