"""What codes mean."""

import pytest

from wakebus.adapters.errors import (
    Rejected,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
    WayClosed,
)
from wakebus.adapters.kit.error_codes import Meaning, error_for


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("token", TokenRefused),
        ("unavailable", Unavailable),
        ("rejected", Rejected),
        ("closed", WayClosed),
        ("uncertain", Uncertain),
    ],
)
def test_kinds(kind: str, expected: type[Exception]) -> None:
    """A kind is an error."""
    assert type(error_for(Meaning(kind), "x")) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("by_code", "by_answer", "wait"), [(None, None, None), (600.0, None, 600.0), (1.0, 3.0, 3.0)]
)
def test_waits(by_code: float | None, by_answer: float | None, wait: float | None) -> None:
    """The answer's hint goes before what the code says; without both there is none."""
    found = error_for(Meaning("throttled", wait_s=by_code), "x", by_answer)
    assert isinstance(found, Throttled) and found.retry_after == wait
