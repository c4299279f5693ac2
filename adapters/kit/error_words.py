"""
What a refusal says in words where its code says too little: too fast, or the clock is wrong.

Rule 1: pure. Rule 2: a code that a platform's table lists comes first. Rule 3: no word of a refusal
makes it a success, or a doubt.
Source: Feishu's 9499 is a bad request and "too many request" alike; custom-robot-access of DingTalk
(310000: 签名过期, 410100: 限流); Standard Webhooks ("Message timestamp too old"), AWS
(RequestTimeTooSkewed, "Signature expired"), Alibaba Cloud (Throttling, InvalidTimeStamp.Expired).
"""

import re
from typing import Final

from wakebus.adapters.base import Response
from wakebus.adapters.sanitize import line

_GAP: Final = r"[\s_.-]{0,3}"
_TOO_FAST: Final = re.compile(
    rf"too{_GAP}(?:many{_GAP}(?:request|message|call|attempt)|frequent|fast\b)"
    rf"|(?:rate|frequency|freq|qps|flow){_GAP}(?:is{_GAP})?(?:out{_GAP}of{_GAP})?(?:limit|control|exceed)"
    rf"|flood{_GAP}(?:wait|control|limit)|requests?{_GAP}limit{_GAP}(?:exceed|reached)"
    rf"|throttl|slow{_GAP}(?:er|down)"
    r"|过于频繁|太频繁|频率(?:过|超|限|受)|速度(?:太|过)快|限流|流控|请求过多|调用(?:过多|超限)",
    re.IGNORECASE,
)
_AGAIN: Final = re.compile(
    rf"(?:retry|again){_GAP}(?:after|in){_GAP}(\d{{1,6}}(?:\.\d{{1,3}})?)\s*(ms|milli)?"
    r"|flood_?wait_?(\d{1,6})",
    re.IGNORECASE,
)
_CLOCK: Final = re.compile(
    rf"time{_GAP}stamp|time{_GAP}too{_GAP}skewed|\bclock|sign(?:ature)?{_GAP}(?:has{_GAP}|is{_GAP})?expired"
    rf"|expired{_GAP}sign|签名.{{0,6}}(?:过期|超时)|时间戳",
    re.IGNORECASE,
)
CLOCK: Final = "set this machine's clock (`date -u`), by which the signature is made"


def says_too_fast(*said: object) -> bool:
    """Whether code or message are those of a throttle."""
    return any(_TOO_FAST.search(str(one)) for one in said)


def wait_in(said: object) -> float | None:
    """Return the seconds of "retry after 7", None where no number stands there."""
    if not (found := _AGAIN.search(str(said))):
        return None
    return float(found[1] or found[3]) * (0.001 if found[2] else 1.0)


def clock_advice(response: Response, *said: object) -> str:
    """Return what to do where a signature is too old or too new, "" where that is not said."""
    if not any(_CLOCK.search(str(one)) for one in said):
        return ""
    dates = (value for name, value in response.headers.items() if name.lower() == "date")
    there = line(next(dates, ""), 40)
    return f"{CLOCK}; there it is {there}" if there else CLOCK
