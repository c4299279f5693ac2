"""The error tree and its codes on the wire."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus import broker
from wakebus.broker import errors
from wakebus.broker.errors import UnknownTarget, WakebusError

assert broker.__file__
PAGE = (Path(broker.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| .* \| (yes|no) \|.*\|$", PAGE, re.M))
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, WakebusError)
]
# A base class that is never raised, and the client's own.
NOT_SENT = {"not_running", "unknown", "not_now"}


def test_every_code_is_documented_with_its_retry() -> None:
    """PROTOCOL-3.2: the page's table and the classes agree on codes and `retry`."""
    sent = {kind.code: kind.retry for kind in KINDS if kind.code not in NOT_SENT}
    assert {code: word == "yes" for code, word in ROWS.items()} == sent
    assert all(f"`{code}`" in PAGE for code in NOT_SENT)


@pytest.mark.parametrize("kind", [k for k in KINDS if k is not errors.Undecided])
def test_an_error_comes_back_as_its_class(kind: type[WakebusError]) -> None:
    """PROTOCOL-3.2: code, text and data survive the wire."""
    again = errors.from_wire(kind("why", extra=[1]).to_wire())
    assert (again.code, again.text, again.data) == (kind.code, "why", {"extra": [1]})
    # Abstract classes share the base's code.
    assert type(again) is kind or kind.code == "error"


@pytest.mark.parametrize(
    ("retry", "kind"), [(False, errors.Refused), (True, errors.NotNow), (None, WakebusError)]
)
def test_a_code_of_a_newer_broker(retry: bool | None, kind: type[WakebusError]) -> None:
    """PROTOCOL-3.2: it is caught by who catches what is refused, or comes later."""
    error = errors.from_wire(
        {"code": "brand_new", "text": "paused", "retry": retry, "pair": ["a", "b"]}
    )
    assert type(error) is kind and (error.text, error.data) == ("paused", {"pair": ["a", "b"]})


def test_undecided_keeps_its_id() -> None:
    """The id to resend is an attribute."""
    again = errors.from_wire(errors.Undecided("no receipt", id="m1").to_wire())
    assert isinstance(again, errors.Undecided) and again.id == "m1"


def test_data_is_beside_the_text() -> None:
    """Errors carry data, not only text."""
    error = UnknownTarget("nobody", near=["a"])
    assert str(error) == "nobody" and error.data["near"] == ["a"]


@given(
    st.dictionaries(
        st.text(max_size=6) | st.sampled_from(["code", "text", "self", "id"]),
        st.none() | st.integers() | st.text(),
    )
)
def test_any_payload_is_some_error(payload: dict[str, Any]) -> None:
    """What a newer broker sends becomes a WakebusError, never a crash."""
    assert isinstance(errors.from_wire(payload), WakebusError)


def test_the_old_name_of_an_error_is_still_its_class() -> None:
    """`except errors.Unavailable` goes on; other names are unknown as in any module."""
    old: object = errors.Unavailable
    assert old is errors.BrokerUnavailable
    assert not hasattr(errors, "NoSuchError")
