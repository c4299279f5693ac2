"""How long one delivery waits."""

import pytest

from fakes.probe import Host, raises
from wakebus.adapters.errors import (
    DeliveryError,
    NotSent,
    Rejected,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
    WayClosed,
)
from wakebus.adapters.retry import Patience, Stopped


class Steps:
    """Raises one error after the other, then returns 7."""

    def __init__(self, *errors: DeliveryError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return 7


def no() -> bool:
    return False


def yes() -> bool:
    return True


@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_waits_without_a_hint(jitter: float) -> None:
    """ADP-5.13: at most three tries, after 0.5 to 1 s and 1 to 2 s."""
    host, steps = Host(), Steps(*[Unavailable("down")] * 9)
    with pytest.raises(Unavailable, match="down"):
        Patience(host.sleep, lambda: jitter).call(steps, no)
    assert steps.calls == 3
    assert host.waits == [0.5 + jitter / 2, 1.0 + jitter]


def test_the_platforms_hint() -> None:
    """ADP-5.13: B18, B19: its wait exactly; beyond what is left of ten seconds, none at all."""
    host, steps = Host(), Steps(Throttled("slow", retry_after=2), Throttled("slow", retry_after=0))
    assert Patience(host.sleep).call(steps, no) == 7
    assert host.waits == [2.0]
    host = Host()
    with pytest.raises(Throttled):
        Patience(host.sleep).call(Steps(Throttled("slow", retry_after=11)), no)
    assert host.waits == []


def test_the_budget_is_the_deliverys() -> None:
    """ADP-5.13: what one part waited, the next cannot wait again."""
    host = Host()
    patience = Patience(host.sleep)
    assert patience.call(Steps(Throttled("slow", retry_after=7)), no) == 7
    with pytest.raises(Throttled):
        patience.call(Steps(Throttled("slow", retry_after=7)), no)
    assert patience.call(Steps(Throttled("slow", retry_after=3)), no) == 7


@pytest.mark.parametrize("error", [Rejected("no"), TokenRefused("old"), WayClosed("gone")])
def test_what_no_wait_mends(error: DeliveryError) -> None:
    """ADP-5.13: B20: rejected, a refused token, a closed way: one try."""
    host, steps = Host(), Steps(error, error)
    with pytest.raises(type(error)):
        Patience(host.sleep).call(steps, yes)
    assert (steps.calls, host.waits) == (1, [])


def test_uncertain() -> None:
    """ADP-5.10: once, while the key makes that safe; never without."""
    lost = Uncertain("lost")
    steps = Steps(lost, lost, lost)
    with pytest.raises(Uncertain):
        Patience(Host().sleep).call(steps, yes)
    assert steps.calls == 2
    steps = Steps(lost)
    with pytest.raises(Uncertain):
        Patience(Host().sleep).call(steps, no)
    assert steps.calls == 1


def test_a_bug_is_not_retried() -> None:
    """ADP-5.13: only delivery errors are."""
    with pytest.raises(KeyError):
        Patience(Host().sleep).call(raises(KeyError("x")), yes)


def test_a_stop() -> None:
    """ADP-5.13: the host's stop ends the wait; it is `not_sent`."""
    host, steps = Host(), Steps(Unavailable("down"))
    host.stops_after = 1
    with pytest.raises(Stopped) as caught:
        Patience(host.sleep).call(steps, no)
    assert isinstance(caught.value, NotSent) and steps.calls == 1
