"""How long one delivery waits."""

import math
from typing import Any

import pytest

from fakes.probe import Host, raises
from wakebus.adapters.delivery.retry import RetryBudget, Stopped
from wakebus.adapters.errors import (
    DeliveryError,
    Held,
    Moved,
    NotSent,
    Rejected,
    Silent,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
    WayClosed,
)


class Steps:
    """Raises one error after the other, then returns 7."""

    def __init__(self, *errors: DeliveryError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return 7


def no() -> bool:
    return False


def yes() -> bool:
    return True


@pytest.mark.parametrize(("jitter", "waits"), [(0.0, [0.5, 1.0]), (1.0, [0.65, 1.3])])
def test_waits_without_a_hint(jitter: float, waits: list[float]) -> None:
    """ADP-5.13: at most three tries, after 0.5 to 0.65 s and 1 to 1.3 s."""
    host, steps = Host(), Steps(*[Unavailable("down")] * 9)
    with pytest.raises(Unavailable, match="down"):
        RetryBudget(host.sleep, lambda: jitter).retry(steps, no)
    assert steps.calls == 3
    assert host.waits == waits


def test_the_platforms_hint() -> None:
    """ADP-5.13: B18, B19: its wait exactly; beyond what is left of two seconds, none at all."""
    host, steps = Host(), Steps(Throttled("slow", retry_after=1.5), Throttled("s", retry_after=0.4))
    assert RetryBudget(host.sleep).retry(steps, no) == 7
    assert host.waits == [1.5, 0.4]
    host = Host()
    with pytest.raises(Throttled):
        RetryBudget(host.sleep).retry(Steps(Throttled("slow", retry_after=2.1)), no)
    assert host.waits == []


@pytest.mark.parametrize("hint", [0, 0.0, 0.001, -1, None, math.nan, math.inf, "1"])
def test_a_hint_of_no_time(hint: Any) -> None:
    """ADP-5.13: "again after 0 s" is no wait that was asked for, and no flood."""
    host, steps = Host(), Steps(*[Throttled("slow", retry_after=hint)] * 9)
    with pytest.raises(Throttled):
        RetryBudget(host.sleep, lambda: 0.0).retry(steps, no)
    assert steps.calls == 3 and host.waits == [0.5, 1.0]


def test_the_budget_is_the_deliverys() -> None:
    """ADP-5.13: what one part waited, the next cannot wait again."""
    host = Host()
    budget = RetryBudget(host.sleep)
    assert budget.retry(Steps(Throttled("slow", retry_after=1.5)), no) == 7
    with pytest.raises(Throttled):
        budget.retry(Steps(Throttled("slow", retry_after=1.5)), no)
    assert budget.retry(Steps(Throttled("slow", retry_after=0.5)), no) == 7


@pytest.mark.parametrize(
    "error",
    [
        *(Rejected("no"), TokenRefused("old"), WayClosed("gone"), Moved("m", "-1001")),
        *(Held("h"), Silent("no access token")),
    ],
)
def test_what_no_wait_mends(error: DeliveryError) -> None:
    """ADP-5.13: B20: rejected, a refused token, a closed way, silence beside it: one try."""
    host, steps = Host(), Steps(error, error)
    with pytest.raises(type(error)):
        RetryBudget(host.sleep).retry(steps, yes)
    assert (steps.calls, host.waits) == (1, [])


def test_uncertain() -> None:
    """ADP-5.10: once, while the key makes that safe; never without."""
    lost = Uncertain("lost")
    steps = Steps(lost, lost, lost)
    with pytest.raises(Uncertain):
        RetryBudget(Host().sleep).retry(steps, yes)
    assert steps.calls == 2
    steps = Steps(lost)
    with pytest.raises(Uncertain):
        RetryBudget(Host().sleep).retry(steps, no)
    assert steps.calls == 1


def test_a_bug_is_not_retried() -> None:
    """ADP-5.13: only delivery errors are."""
    with pytest.raises(KeyError):
        RetryBudget(Host().sleep).retry(raises(KeyError("x")), yes)


def held(*waits: float | None) -> Steps:
    return Steps(*(Held("our own pace", retry_after=wait) for wait in waits))


def test_a_permit_that_holds_for_a_moment() -> None:
    """ADP-5.22: a wait of at most 0.25 s is slept here, as often as it takes, within the 2 s."""
    host, permit = Host(), held(0.2, 0.25, 0.0)
    RetryBudget(host.sleep).await_permit(permit)
    assert (permit.calls, host.waits) == (4, [0.2, 0.25, 0.01])
    host, permit = Host(), held(*[0.25] * 99)
    with pytest.raises(Held):
        RetryBudget(host.sleep).await_permit(permit)
    assert host.waits == [0.25] * 8


@pytest.mark.parametrize("wait", [0.3, 60.0, math.nan, None])
def test_a_permit_that_holds_for_longer(wait: float | None) -> None:
    """ADP-5.22: that is the courier's, at once."""
    host, permit = Host(), held(wait)
    with pytest.raises(Held):
        RetryBudget(host.sleep).await_permit(permit)
    assert (permit.calls, host.waits) == (1, [])


def test_a_stop_while_the_permit_holds() -> None:
    """ADP-5.13: the host's stop ends this wait as well."""
    host = Host()
    host.stops_after = 1
    with pytest.raises(Stopped):
        RetryBudget(host.sleep).await_permit(held(0.2, 0.2))


def test_a_stop() -> None:
    """ADP-5.13: the host's stop ends the wait; it is `not_sent`."""
    host, steps = Host(), Steps(Unavailable("down"))
    host.stops_after = 1
    with pytest.raises(Stopped) as caught:
        RetryBudget(host.sleep).retry(steps, no)
    assert isinstance(caught.value, NotSent) and steps.calls == 1
