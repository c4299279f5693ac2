"""One chat of each platform, what its adapter promises there, and texts that take parts."""

from collections.abc import Iterable
from typing import NamedTuple

import pytest


class Case(NamedTuple):
    """
    channel: a chat; other: another one. keyed: whether a resend makes no second message there.
    thread: a thread's id, "" where there are none.
    """

    channel: str
    other: str
    keyed: bool = False
    thread: str = ""

    @property
    def platform(self) -> str:
        """Its name."""
        return self.channel.partition(":")[0]

    @property
    def chat(self) -> str:
        """The chat, as the platform sees it."""
        return self.channel.partition(":")[2].removeprefix("user:")


CASES = (
    Case("feishu:oc_1", "feishu:oc_2", True, "om_1"),
    Case("dingtalk:cidA==", "dingtalk:cidB=="),
    Case("wecom:user:ann", "wecom:user:ben"),
    Case("weixin:ann1@im.wechat", "weixin:ben1@im.wechat"),
    Case("telegram:12345", "telegram:-100678", False, "77"),
    Case("slack:C0123456789", "slack:C0123456780", False, "1764288000.000100"),
    Case("discord:1234567890123456789", "discord:1234567890123456780", True),
    Case("mattermost:" + "a1" * 13, "mattermost:" + "b2" * 13, True, "c3" * 13),
    Case("matrix:!one:localhost", "matrix:!two:localhost", True, "$root"),
    Case("ntfy:alerts", "ntfy:news"),
    Case("webhook:w1", "webhook:w2", True),
)
BY_NAME = {case.platform: case for case in CASES}
# A webhook's receiver takes a MiB at once.
LONG = [case for case in CASES if case.platform != "webhook"]


def each(cases: Iterable[Case] = CASES) -> pytest.MarkDecorator:
    """Return the mark that runs a test once per platform."""
    found = list(cases)
    return pytest.mark.parametrize("case", found, ids=[case.platform for case in found])


def long_text() -> str:
    """Return what takes at least two messages everywhere but at a webhook."""
    return "\n\n".join([f"paragraph {number} " + "x中" * 600 for number in range(14)] * 2)
