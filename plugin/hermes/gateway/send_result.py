"""
What came of a text that Hermes's adapter sent: its SendResult as a channel result.

Rule 1: pure. Rule 2: the fields are read; the object is true also when it failed
(gateway/platforms/base.py:1898 of hermes-agent 0.19.0, 1700 of 0.22.2). Rule 3: where the adapter
does not say what kind of failure it was, its words are read, those of its log last. Rule 4:
`not_sent` is only what surely did not arrive: no connection, nothing tried, too many (429), not
served now (503). A word that leaves it open, in whatever was said, makes it `uncertain`; so does
silence.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from wakebus.plugin.receive.host import Told

Verdict = Literal["not_sent", "rejected", "uncertain", ""]

_KINDS: Final[dict[str, Verdict]] = {
    "too_long": "rejected",
    "bad_format": "rejected",
    "forbidden": "rejected",
    "not_found": "rejected",
    "rate_limited": "not_sent",
}
# Telegram's did not try (4015); Discord's says so of a connection that broke as well (3374 of
# 0.22.2), whose fault stands in its log alone.
_DEGRADED: Final = "send_path_degraded"
# How adapters say that they have not even tried.
_UNTRIED: Final = (
    "not connected",
    "line adapter not connected",
    "wecom websocket is not connected",
    "photon adapter not connected",
    "whatsapp bridge process exited",
    "no transport",
    "http client not initialized",
    "teams app not initialized",
    _DEGRADED,
)
# … and that trying again is of no use: an answer of somebody is needed first.
_HOPELESS: Final = (
    "no valid session_webhook",
    "no req_id available",
    "ilink sendmessage session not ready",
)
# Where a status stands: ntfy, DingTalk, Mattermost's log, Twilio, LINE, Slack, WhatsApp,
# discord.py, Google, QQ, httpx.
_STATUS: Final = re.compile(
    r"\bHTTP (\d{3})\b|→ (\d{3})\b|^(?:Twilio|LINE \w+) (\d{3})\b|\bstatus(?:: |=)(\d{3})\b"
    r"|(?:^|Discord message: )(\d{3}) [A-Z]|\bHttpError (\d{3})\b"
    r"|\berror \[(\d{3})\]|\berror '(\d{3}) "
)
_UNSERVED: Final = frozenset({429, 503})
_REFUSED: Final = frozenset({400, 401, 403, 404, 405, 410, 413, 414, 415, 422})
_UNCONNECTED: Final = re.compile(
    r"connection refused|connect call failed|cannot connect to (?:host|proxy)"
    r"|all connection attempts failed|failed to establish a new connection|clientconnectorerror"
    r"|(?<!dis)connecterror|connect ?timeout|connection timeout to host"
    r"|name or service not known|nodename nor servname|temporary failure in name resolution"
    r"|no address associated|getaddrinfo failed|network is unreachable|no route to host"
    r"|pool timeout|\bwas \*?not\*? sent\b|certificate.verify.failed"
)
_DOUBT: Final = re.compile(
    r"timed? ?out|reset by peer|connection ?reset|disconnected|remote end closed|broken ?pipe"
    r"|readerror|writeerror|remoteprotocolerror|connection (?:lost|closed)|incomplete|\beof\b"
)
_TOO_MANY: Final = re.compile(
    r"too many requests|rate.?limit|m_limit_exceeded|flood.control|\[(?:99991400|11232|230020)\]"
    r"|errcode'?:? (?:45009|846607|846609)\b"  # WeCom; the last: not subscribed, it is soon again
)
_NEVER: Final = re.compile(
    r"invalid literal for int|errcode'?:? [1-9]|m_forbidden|m_not_found|ignored_channel"
    r"|\b(?:channel|chat|target|thread|topic)\b.{0,60}\bnot found|unknown chat type"
    r"|requires a reply anchor"
)
_SLACK: Final = re.compile(r"'ok': false, 'error': '(\w+)'")
_SLACK_LATER: Final = frozenset({"ratelimited", "service_unavailable"})
_SLACK_OPEN: Final = frozenset({"fatal_error", "internal_error", "request_timeout"})
_WAIT: Final = re.compile(r"retry (?:in|after) (\d{1,5}(?:\.\d+)?)")


def verdict(text: str) -> Verdict:
    """Return what one word of an adapter says of the text that it sent, "" for nothing."""
    if found := _STATUS.search(text):
        status = int(next(one for one in found.groups() if one))
        if status in _UNSERVED:
            return "not_sent"
        if status in _REFUSED:
            return "rejected"
        if status >= 300:
            return "uncertain"
    said = text.lower()
    if found := _SLACK.search(said):
        return _of_slack(found[1])
    if _UNCONNECTED.search(said) or said.startswith((*_UNTRIED, *_HOPELESS)):
        return "not_sent"
    if _DOUBT.search(said):
        return "uncertain"
    if _TOO_MANY.search(said):
        return "not_sent"
    return "rejected" if _NEVER.search(said) else ""


def _of_slack(code: str) -> Verdict:
    if code in _SLACK_LATER:
        return "not_sent"
    return "uncertain" if code in _SLACK_OPEN else "rejected"


def channel_result(result: Any, now: float, heard: Sequence[str] = ()) -> Told:
    """
    Return the channel result of a SendResult; `heard`: what the adapter logged meanwhile.

    success → sent; too_long, bad_format, forbidden, not_found → rejected; rate_limited → not_sent;
    else what the words say, or uncertain. `hopeless`: sending it again would change nothing.
    """
    raw = getattr(result, "raw_response", None)
    raw = raw if isinstance(raw, dict) else {}
    if raw.get("partial_overflow"):  # it is there in part (base.py:3773 of 0.22.2)
        done, parts = (raw.get(name) or "?" for name in ("delivered_chunks", "total_chunks"))
        error = getattr(result, "error", None) or "the adapter does not say why"
        reason = f"{done} of {parts} parts are there, then: {error}"
        return {"result": "uncertain", "at": now, "reason": reason}
    if getattr(result, "success", None) is True:
        id = getattr(result, "message_id", None)
        told: Told = {"result": "sent", "at": now, **({"id": str(id)} if id is not None else {})}
        if raw.get("thread_fallback"):  # telegram:4190
            beside = "Hermes posted it beside its thread, which is gone"
            told |= {"result": "uncertain", "reason": beside}
        return told
    error = str(getattr(result, "error", None) or "")
    kind = str(getattr(result, "error_kind", None) or "")
    return _failure(kind, error, heard, now, getattr(result, "retry_after", None), result)


def failure_result(error: BaseException, now: float, heard: Sequence[str] = ()) -> Told:
    """Return the channel result of a `send` that raised."""
    chain: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 5:
        chain.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__
    return _failure("", chain[0], (*chain[1:], *heard), now, None, None)


def _failure(
    kind: str, error: str, heard: Sequence[str], now: float, after: Any, result: Any
) -> Told:
    found = _KINDS.get(kind) or _of_words(error, heard)
    if kind == "rate_limited" and "uncertain" in map(verdict, heard):  # an earlier try
        found = "uncertain"
    # A time-out that Telegram's adapter would have retried is one of connecting (telegram:4239).
    retryable = getattr(result, "retryable", None) is True
    if found == "uncertain" and retryable and error.strip().lower() == "timed out":
        found = "not_sent"
    said = error if _own_word(error, heard) or not heard else f"{error}: {heard[-1]}"
    reason = ": ".join(part for part in (kind, said[:300]) if part)
    told: Told = {"result": found, "at": now, "reason": reason or "the adapter does not say"}
    if found != "not_sent":
        return told
    if isinstance(after, int | float) and after >= 0:
        told["retry_after"] = float(after)
    elif wait := _WAIT.search(said.lower()):
        told["retry_after"] = float(wait[1])
    if error.lower().startswith(_HOPELESS):
        told["hopeless"] = True
    return told


def _of_words(error: str, heard: Sequence[str]) -> Verdict:
    """Return what all words together say: a doubt counts most, then the error's own word."""
    own, others = _own_word(error, heard), {verdict(text) for text in heard} - {""}
    if "uncertain" in (own, *others):
        return "uncertain"
    if own:
        return own
    return others.pop() if len(others) == 1 else "uncertain"


def _own_word(error: str, heard: Sequence[str]) -> Verdict:
    return "" if error == _DEGRADED and heard else verdict(error)
