"""The delivery errors' tree."""

import math
import pkgutil
import re
from importlib import import_module

import pytest

from wakebus import adapters
from wakebus.adapters import errors
from wakebus.broker.errors import Unavailable, WakebusError, from_wire


def leaves(kind: type[WakebusError]) -> set[type[WakebusError]]:
    return {kind}.union(*(leaves(sub) for sub in kind.__subclasses__()))


def test_the_tree_is_drawn() -> None:
    """Every delivery error stands in the module's docstring, which is its map."""
    for module in pkgutil.walk_packages(adapters.__path__, "wakebus.adapters."):
        import_module(module.name)  # a kind exists once it is imported
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


@pytest.mark.parametrize(
    ("error", "result", "wait"),
    [
        (errors.Throttled("x", retry_after=3), "not_sent", 3),
        (errors.Throttled("x", retry_after=10**9), "not_sent", errors.MAX_WAIT_S),
        (errors.Throttled("x", retry_after=math.nan), "not_sent", None),
        (errors.Throttled("x", retry_after="5"), "not_sent", None),  # type: ignore[arg-type]
        (errors.Throttled("x", retry_after=0), "not_sent", None),
        (errors.Held("x", retry_after=0), "not_sent", errors.LEAST_WAIT_S),
        (errors.Held("x"), "not_sent", errors.LEAST_WAIT_S),
        (errors.WayClosed("x"), "not_sent", None),
        (errors.Uncertain("x", retry_after=4), "uncertain", 4),
        (errors.Rejected("x"), "rejected", None),
    ],
)
def test_results_and_waits(error: errors.DeliveryError, result: str, wait: float | None) -> None:
    """ADP-5.4: one result for each error, and a wait that somebody can wait for."""
    assert (error.result, error.wait) == (result, wait)


def test_a_bug_is_named_by_its_place() -> None:
    """ADP-5.5: type, file and line; never the text of the error."""
    assert errors.place_of(KeyError("hush")) == "KeyError"
    try:
        dict[str, str]()["hush"]
    except KeyError as exc:
        found = errors.Uncertain.of_bug("probe", exc)
    assert re.fullmatch(r"the adapter 'probe' failed: KeyError at test_errors\.py:\d+", found.text)
