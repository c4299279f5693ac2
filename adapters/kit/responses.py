"""
What platforms answer, read the same way by every adapter that speaks JSON over HTTPS.

Rule 1: pure. Rule 2: the platform's own code decides before the status: Feishu and DingTalk write
errors into 200, and throttle with 400, 403 and 429. A code that no table lists is permanent: who
says no in words of its own took nothing in (openclaw #35312: 230001, for 12 minutes). Only the
words of a throttle are one. Rule 3: what is not the platform's own answer is never a success: a 4xx
or a redirect of a proxy took nothing in, a 2xx or 5xx may have. Rule 4: a reason shows what the
platform says without what looks like a credential.
"""

import json
import re
import sys
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

from wakebus.adapters.base import Response, Token
from wakebus.adapters.errors import (
    DeliveryError,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from wakebus.adapters.kit.error_codes import THROTTLED, Kind, Meaning, error_for
from wakebus.adapters.kit.error_words import clock_advice, says_too_fast, wait_in
from wakebus.adapters.kit.gateways import refusal_before
from wakebus.adapters.sanitize import line

# Tokens, signatures and keys are long runs without a space and seldom without a digit.
_OPAQUE: Final = re.compile(r"(?=[A-Za-z_\-+/=%]*\d)[\w\-+/=%]{20,}|[\w\-+/=%]{40,}", re.ASCII)
_CUT: Final = re.compile(r"(?<![\w.~+/=%-])[\w.~+/=%-]*\Z", re.ASCII)
LONGEST: Final = 400  # of what a platform says; who shows it hides what he knows, and cuts then
_HEADER: Final = re.compile(r"[!-~]{1,4096}\Z")
_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_LOST: Final = frozenset({404, 405, 410})  # a wrong base URL: no later try will find it
_LONGEST_S: Final = 366 * 86_400.0
_SOME: Final = re.compile(".+", re.DOTALL)

Code = TypeVar("Code", bound=Hashable)


def json_answer(response: Response) -> dict[str, Any]:
    """Return the JSON object in the answer, or raise what a stranger's answer means."""
    if 300 <= response.status < 400:  # no platform writes into one, whatever stands there
        raise unexpected(response)
    try:
        return json_object(response)
    except Uncertain as exc:
        raise unexpected(response, exc.text) from exc


def json_object(response: Response) -> dict[str, Any]:
    """Return the JSON object in the answer, or raise Uncertain: HTML, half an answer, nothing."""
    try:
        value = json.loads(response.body)
    except (ValueError, RecursionError) as exc:
        raise Uncertain(f"status {response.status}, and the answer is not JSON") from exc
    if not isinstance(value, dict):
        raise Uncertain(f"status {response.status}, and the answer is no JSON object")
    return value


def succeeded(response: Response) -> bool:
    return 200 <= response.status < 300


def unexpected(response: Response, text: str = "") -> DeliveryError:
    """Return the error that an answer is which the platform itself did not write."""
    if before := refusal_before(response):
        return before
    status = response.status
    text = text or f"status {status}, and nothing of the platform in the answer"
    if status == 429:
        return Throttled(text, retry_after=retry_after(response, "retry-after"))
    if status in _LOST:
        return Rejected(f"{text}; is the base URL right?")
    # 408 is a server that got tired of reading: it may have read enough.
    if 400 <= status < 500 and status != 408:
        return Unavailable(text)
    return Uncertain(text)


def refusal(
    table: Mapping[Code, Meaning],
    code: Code,
    message: object,
    response: Response,
    wait_s: float | None = None,
) -> DeliveryError:
    """Return the error that a code of the platform is; `wait_s`: what the answer asks for."""
    meaning = table.get(code) or meaning_of(code, message, response)
    wait_s = wait_in(message) if wait_s is None and meaning.kind == "throttled" else wait_s
    return error_for(meaning, reason(code, message, meaning.advice), wait_s)


def meaning_of(code: object, message: object, response: Response) -> Meaning:
    """Return what a code that no table lists means: by its words, then by its status."""
    if response.status == 429 or says_too_fast(code, message):
        return THROTTLED
    kind: Kind = "uncertain" if response.status >= 500 else "rejected"
    return Meaning(kind, clock_advice(response, code, message))


def text_field(
    found: Mapping[str, Any], name: str, response: Response, shape: re.Pattern[str] = _SOME
) -> str:
    """Return a text that the platform's own answer has; raise what one without it means."""
    if isinstance(value := found.get(name), str) and shape.fullmatch(value):
        return value
    raise unexpected(response)


def header(response: Response, name: str) -> str:
    """Return a header without the spaces around it, "" where there is none; names have no case."""
    found = (value for held, value in response.headers.items() if held.lower() == name.lower())
    return next(found, "").strip()


def retry_after(response: Response, *names: str) -> float | None:
    """
    Return the wait in the first of these headers that holds one, None without.

    It is seconds, or a date, which counts from the answer's own `Date` (RFC 9110, 10.2.3).
    """
    for value in (header(response, name) for name in names):
        if _SECONDS.fullmatch(value):
            return float(value)
        if (wait := _until(value, header(response, "date"))) is not None:
            return wait
    return None


def seconds_of(value: object, unit: float = 1.0) -> float | None:
    """Return the seconds of a number in an answer, None for what is none; `unit`: of one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return value * unit


def _until(date: str, now: str) -> float | None:
    try:
        until, since = parsedate_to_datetime(date), parsedate_to_datetime(now)
        return max(0.0, until.timestamp() - since.timestamp())
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def reason(code: object, message: object, advice: str = "") -> str:
    """Return one line: the code, what the platform says, and what to do about it."""
    said = _redacted(message, LONGEST) if message else "no reason given"
    return f"{_redacted(code, 80)}: {said}{'; ' if advice else ''}{advice}"


def _redacted(said: object, limit: int) -> str:
    """Return a line without what looks like a credential, of which a cut leaves no beginning."""
    whole = _OPAQUE.sub("***", line(str(said), sys.maxsize))
    return whole if len(whole) <= limit else _CUT.sub("", whole[: limit - 1]) + "…"


def access_token(value: object, expires_s: object) -> Token:
    """Return the token of an answer, or raise Unavailable: it goes into a header as it is."""
    if not isinstance(value, str) or not _HEADER.match(value):
        raise Unavailable("the platform gave no usable access token")
    if not isinstance(expires_s, int | float) or not 0 < expires_s <= _LONGEST_S:
        return Token(value)
    return Token(value, float(expires_s))


@contextmanager
def fetching_token() -> Iterator[None]:
    """Turn a doubt about a token into Unavailable: of the text nothing went out yet."""
    try:
        yield
    except Uncertain as exc:
        raise Unavailable(f"no access token: {exc.text}") from exc
