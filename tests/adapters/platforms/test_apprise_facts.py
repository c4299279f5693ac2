"""What Apprise is asked and answers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters import registry
from wakebus.adapters.base import Response
from wakebus.adapters.errors import DeliveryError
from wakebus.adapters.platforms import apprise_facts as facts


@given(st.sampled_from([0, 200, 400, 500]), st.sampled_from([True, False, None, 1, "true"]))
@settings(max_examples=40, deadline=None)
def test_a_yes_is_exactly_that(status: int, said: object) -> None:
    """Nothing but a 200 with a true is one."""
    try:
        facts.read(Response(status, json.dumps({"sent": said}).encode()))
    except DeliveryError:
        return
    assert status == 200 and said is True


@pytest.mark.parametrize(
    "scheme",
    [
        *("wecombot", "feishu", "lark", "dingtalk", "tgram", "slack", "discord", "mmost"),
        *("mmosts", "matrix", "matrixs", "ntfy", "ntfys"),
    ],
)
def test_b11_who_is_ours(scheme: str) -> None:
    """B11: the platform that is named instead is one that is there."""
    said = facts.ours(["x", scheme])
    platform = said.partition("use ")[2].partition(":")[0]
    assert platform in registry.found()


def test_anybody_else() -> None:
    """Everything that no adapter of ours reaches."""
    assert facts.ours(["mailto", "pover", "msteams"]) == ""
