"""
One delivery: from a channel token to a channel result.

Rule 1: only here do delivery errors become channel results. Rule 2: only here are transports
chosen (by the request's scheme). Rule 3: an adapter is somebody else's code: whatever it raises,
the courier lives; before the request was performed that is `rejected`, after it `uncertain`.
Rule 4: such an error is shown by its type and place, never its text: that may hold a credential.
"""

import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from wakebus.adapters import base, channel, registry
from wakebus.adapters.base import (
    Adapter,
    Capabilities,
    ChannelResult,
    Outgoing,
    Sent,
    Target,
    Transport,
)
from wakebus.adapters.chatlog import ChatLogs
from wakebus.adapters.errors import (
    BrokenAdapter,
    DeliveryError,
    NotSent,
    Rejected,
    Throttled,
    Uncertain,
)
from wakebus.adapters.markup import line, plain

MAX_WAIT_S = 3600.0  # a platform's hint beyond this is a mistake or a ban; look again then

Load = Callable[[str], type[Adapter]]


def transports(folder: Path, echo: TextIO | None = None) -> dict[str, Transport]:
    """Return what performs requests, by scheme; `folder` is the bus's own."""
    return {"console": ChatLogs(folder, echo=echo)}


def address(
    token: str, env: Mapping[str, str], load: Load = registry.load
) -> tuple[Adapter, Target]:
    """Return adapter and chat of a channel token, or raise Rejected; no IO on any platform."""
    asked = channel.parse(token)
    kind = load(asked.platform)
    found = channel.resolve(asked, env)
    try:
        adapter = kind(env)
        target = adapter.parse_target(found.chat_id or "", found.thread)
        if isinstance(target, Target) and isinstance(adapter.capabilities, Capabilities):
            return adapter, target
        raise TypeError
    except DeliveryError:
        raise
    except Exception as exc:
        raise BrokenAdapter(f"the adapter {asked.platform!r} failed: {place(exc)}") from exc


def deliver(
    adapter: Adapter,
    target: Target,
    outgoing: Outgoing,
    transports: Mapping[str, Transport],
) -> ChannelResult:
    """Send one text to one chat and return what became of it; raises nothing."""
    performed = False
    try:
        clean = replace(outgoing, text=plain(outgoing.text))
        if not clean.text.strip():
            raise Rejected("the message has no text")
        base.check_length(clean.text, adapter.capabilities)
        request = adapter.build_request(target, clean)
        if request.scheme not in transports:
            raise Rejected(f"nothing here speaks {request.scheme!r}")
        performed = True
        return _sent(adapter.parse_response(transports[request.scheme](request)), target)
    except DeliveryError as exc:
        return result_of(exc, target)
    except Exception as exc:
        bug = f"the adapter {target.platform!r} failed: {place(exc)}"
        return result_of(Uncertain(bug) if performed else BrokenAdapter(bug), target)


def result_of(error: DeliveryError, target: Target | None = None) -> ChannelResult:
    """Return the channel result that a delivery error is."""
    word: base.Word = "uncertain"
    if isinstance(error, Rejected):
        word = "rejected"
    elif isinstance(error, NotSent):
        word = "not_sent"
    return ChannelResult(
        word,
        target.platform if target else "",
        str(target) if target else "",
        reason=line(str(error.text)),
        retry_after=_wait(error),
    )


def place(error: Exception) -> str:
    """Return type and place of an error, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


def _sent(sent: Sent, target: Target) -> ChannelResult:
    # The wrong type is a bug of the adapter; asking for .id raises, and deliver names it.
    return ChannelResult("sent", target.platform, str(target), id=line(sent.id, 200))


def _wait(error: DeliveryError) -> float | None:
    wait = error.retry_after if isinstance(error, Throttled) else None
    # An adapter may have passed on what the platform wrote: any type, NaN, a year.
    usable = isinstance(wait, int | float) and 0 <= wait < math.inf
    return min(float(wait), MAX_WAIT_S) if usable and wait is not None else None
