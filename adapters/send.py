"""
One delivery: from a channel token to a channel result.

Rule 1: only here do delivery errors become channel results. Rule 2: a text is cleaned, then split
as the adapter measures it, then its parts go out one after the other (parts.py); the first that
does not ends the delivery, and the next one goes on there. Rule 3: an adapter is somebody else's
code: whatever it raises, the courier lives. Rule 4: neither such an error's text nor a token or
webhook that was used is ever shown.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from wakebus.adapters import channel, registry
from wakebus.adapters.base import (
    Adapter,
    Capabilities,
    ChannelResult,
    Outgoing,
    Progress,
    Target,
    Transport,
)
from wakebus.adapters.calls import bug, guarded, measure_of, place, wait_of, word_of
from wakebus.adapters.chatlog import ChatLogs
from wakebus.adapters.errors import BrokenAdapter, DeliveryError, Rejected, Uncertain
from wakebus.adapters.markup import line, plain
from wakebus.adapters.parts import Memory, Sending, Tools
from wakebus.adapters.split import split

__all__ = ["Tools", "address", "deliver", "outgoing_of", "result_of", "transports"]

MAX_WAIT_S = 3600.0  # a platform's hint beyond this is a mistake or a ban; look again then

Load = Callable[[str], type[Adapter]]


def transports(folder: Path, echo: TextIO | None = None) -> dict[str, Transport]:
    """Return what performs requests, by scheme; `folder` is the bus's own."""
    from wakebus.adapters.http import Https  # 0.1 s, which a command that only asks need not pay

    https = Https()
    return {"console": ChatLogs(folder, echo=echo), "https": https, "http": https}


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
        raise BrokenAdapter(bug(asked.platform, exc)) from exc


def deliver(
    adapter: Adapter,
    target: Target,
    text: str,
    key: str,
    tools: Tools,
    *,
    progress: Progress | None = None,
    webhook: str | None = None,
) -> ChannelResult:
    """
    Send one text to one chat, in parts if it must be, and return what became of it; raises nothing.

    key: of the message; part K of several has `KEY.K`. progress: what earlier deliveries of this
    text left, and where this one writes. webhook: a session webhook that came with the message.
    """
    ids: list[str] = []
    outgoing: list[Outgoing] = []
    sending: Sending | None = None
    try:
        outgoing = outgoing_of(adapter, target, text, key, webhook)
        progress = Memory() if progress is None else progress
        sending = Sending(adapter, target, tools, progress, outgoing[0])
        for number, part in enumerate(outgoing):
            ids.append(sending.part(number, part))
    except DeliveryError as exc:
        return _failed(exc, target, sending, len(ids), len(outgoing))
    except Exception as exc:  # a bug of ours or of the host's: nobody knows how far it came
        doubt = Uncertain(f"the delivery failed: {place(exc)}")
        return _failed(doubt, target, sending, len(ids), len(outgoing))
    sent = ChannelResult("sent", target.platform, str(target), id=line(ids[0], 200))
    return replace(sent, done=len(ids), parts=len(ids))


def outgoing_of(
    adapter: Adapter, target: Target, text: str, key: str, webhook: str | None = None
) -> list[Outgoing]:
    """Return what goes out, part by part, each with its key. Raises Rejected."""
    clean = plain(text)
    if not clean.strip():
        raise Rejected("the message has no text")
    limit = adapter.capabilities.max_text
    texts = guarded(target.platform, lambda: split(clean, measure_of(adapter), limit))
    keys = [key] if len(texts) == 1 else [f"{key}.{number + 1}" for number in range(len(texts))]
    return [
        Outgoing(part, part_key, webhook=webhook, whole=clean)
        for part, part_key in zip(texts, keys, strict=True)
    ]


def result_of(error: DeliveryError, target: Target | None = None) -> ChannelResult:
    """Return the channel result that a delivery error is."""
    word = word_of(error)
    return ChannelResult(
        word,
        target.platform if target else "",
        str(target) if target else "",
        reason=line(str(error.text)),
        retry_after=_wait(wait_of(error)),
        again=word == "not_sent" or error.data.get("again") is True,
    )


def _failed(
    error: DeliveryError, target: Target, sending: Sending | None, done: int, parts: int
) -> ChannelResult:
    reason = sending.hide(error.text) if sending else error.text
    if parts > 1:
        reason = f"part {done + 1}: {reason}"
    result = replace(result_of(error, target), reason=line(reason))
    return replace(result, done=done, parts=max(parts, 1))


def _wait(wait: object) -> float | None:
    # An adapter may have passed on what the platform wrote: any type, NaN, a year.
    usable = isinstance(wait, int | float) and 0 <= wait < math.inf
    return min(float(wait), MAX_WAIT_S) if usable and isinstance(wait, int | float) else None
