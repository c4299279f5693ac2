"""What codes mean."""

import pytest

from wakebus.adapters.codes import DINGTALK, DINGTALK_WEBHOOK, FEISHU, Meaning, error
from wakebus.adapters.errors import Rejected, Throttled, TokenRefused, Uncertain, WayClosed


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("token", TokenRefused),
        ("rejected", Rejected),
        ("closed", WayClosed),
        ("uncertain", Uncertain),
    ],
)
def test_kinds(kind: str, expected: type[Exception]) -> None:
    """A kind is an error."""
    assert type(error(Meaning(kind), "x")) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("by_code", "by_answer", "wait"), [(None, None, None), (600.0, None, 600.0), (1.0, 3.0, 3.0)]
)
def test_waits(by_code: float | None, by_answer: float | None, wait: float | None) -> None:
    """The answer's hint goes before what the code says; without both there is none."""
    found = error(Meaning("throttled", wait_s=by_code), "x", by_answer)
    assert isinstance(found, Throttled) and found.retry_after == wait


def test_b18_what_looks_permanent_is_not() -> None:
    """B18: the codes that others took for final are throttles or refused tokens."""
    assert {FEISHU[code].kind for code in (99991400, 230020, 11232)} == {"throttled"}
    assert FEISHU[99991663].kind == "token"
    assert DINGTALK["Forbidden.AccessDenied.QpsLimitForAppkeyAndApi"].kind == "throttled"


def test_b20_what_looks_passing_is_not() -> None:
    """B20: what no later try mends is final: quotas of a month, ids, abilities."""
    assert FEISHU[230006].kind == FEISHU[230001].kind == "rejected"
    assert DINGTALK["Forbidden.AccessDenied.ApiCountLimitForOrg"].kind == "rejected"
    assert DINGTALK_WEBHOOK[90020].kind == DINGTALK_WEBHOOK[310000].kind == "rejected"


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    for table in (FEISHU, DINGTALK, DINGTALK_WEBHOOK):
        assert all(found.advice for found in table.values() if found.kind == "rejected")
