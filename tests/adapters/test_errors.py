"""The delivery errors' tree."""

import pkgutil
from importlib import import_module

import pytest

from wakebus import adapters
from wakebus.adapters import errors
from wakebus.broker.errors import Unavailable, WakebusError, from_wire


def leaves(kind: type[WakebusError]) -> set[type[WakebusError]]:
    return {kind}.union(*(leaves(sub) for sub in kind.__subclasses__()))


def test_the_tree_is_drawn() -> None:
    """Every delivery error stands in the module's docstring, which is its map."""
    for module in pkgutil.iter_modules(adapters.__path__):  # a kind exists once it is imported
        import_module(f"wakebus.adapters.{module.name}")
    assert errors.__doc__ is not None
    for kind in leaves(errors.DeliveryError):
        assert kind.__name__ in errors.__doc__


def test_the_broker_keeps_its_own_codes() -> None:
    """No delivery error takes over a code of the broker: `unavailable` stays the broker's."""
    assert type(from_wire({"code": "unavailable", "text": "disk full"})) is Unavailable
    assert all(kind.code.startswith("channel_") for kind in leaves(errors.DeliveryError))


@pytest.mark.parametrize("hint", [2.5, None])
def test_throttled_carries_the_wait(hint: float | None) -> None:
    """The platform's own wait travels as a number, or None where it does not say."""
    assert errors.Throttled("too fast", retry_after=hint).retry_after == hint


def test_retry_says_what_the_caller_may_do() -> None:
    """Only what was certainly not accepted may be sent again as it is."""
    assert errors.Unavailable("down").retry and errors.Throttled("fast").retry
    assert not errors.Rejected("no").retry and not errors.Uncertain("perhaps").retry
