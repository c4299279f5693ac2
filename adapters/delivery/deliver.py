"""
One delivery: from a channel token to a channel result.

Rule 1: only here do delivery errors become channel results. Rule 2: a text is cleaned, then split
as the adapter measures it, then its parts go out one after the other (parts.py), and a file after
them; the first that does not ends the delivery, and the next one goes on there. Rule 3: an
adapter is somebody else's code: whatever it raises, the courier lives. Rule 4: neither such an
error's text nor a token or webhook that was used is ever shown.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from wakebus.adapters import channel, registry
from wakebus.adapters.base import (
    Adapter,
    ChannelResult,
    File,
    Outgoing,
    Progress,
    Target,
    length,
)
from wakebus.adapters.delivery.adapter_calls import (
    guarded,
    measure_of,
    parsed,
)
from wakebus.adapters.delivery.attachments import megabytes
from wakebus.adapters.delivery.context import Memory, Tools
from wakebus.adapters.delivery.parts import Sending
from wakebus.adapters.delivery.split import split
from wakebus.adapters.delivery.split_cache import Splits
from wakebus.adapters.errors import BrokenAdapter, DeliveryError, Rejected, Uncertain, place_of
from wakebus.adapters.sanitize import line, plain
from wakebus.adapters.settings.home_channel import resolve

__all__ = ["Tools", "address", "deliver", "outgoing_of", "result_of"]

LONGEST_ID: Final = 200  # of a message, at a platform

Load = Callable[[str], type[Adapter]]


def address(
    token: str, env: Mapping[str, str], load: Load = registry.load
) -> tuple[Adapter, Target]:
    """Return adapter and chat of a channel token, or raise Rejected; no IO on any platform."""
    asked = channel.parse(token)
    kind = load(asked.platform)
    found = resolve(asked, env)
    try:
        adapter = kind(env)
        return adapter, parsed(adapter, found.chat_id or "", found.thread)
    except DeliveryError:
        raise
    except Exception as exc:
        raise BrokenAdapter.of_bug(asked.platform, exc) from exc


def deliver(
    adapter: Adapter,
    target: Target,
    text: str,
    key: str,
    tools: Tools,
    *,
    progress: Progress | None = None,
    webhook: str | None = None,
    file: File | None = None,
    reply_to: str | None = None,
) -> ChannelResult:
    """
    Send one text to one chat, in parts if it must be, and return what became of it; raises nothing.

    key: of the message; part K of several has `KEY.K`. progress: what earlier deliveries of this
    text left, and where this one writes. webhook: a session webhook that came with the message.
    file: goes out as the last part; with one, there may be no text. reply_to: the platform's id of
    the message that the first part answers; where it cannot show that, the result says so.
    """
    sending: Sending | None = None
    outgoing: list[Outgoing] = []
    try:
        outgoing = outgoing_of(adapter, target, text, key, webhook, file, tools.splits, reply_to)
        progress = Memory() if progress is None else progress
        sending = Sending(adapter, target, tools, progress, outgoing, key)
        id_ = sending.run()
    except DeliveryError as exc:
        return _failed(exc, target, sending, len(outgoing))
    except Exception as exc:  # a bug of ours or of the host's: nobody knows how far it came
        doubt = Uncertain(f"the delivery failed: {place_of(exc)}")
        return _failed(doubt, target, sending, len(outgoing))
    sent = ChannelResult("sent", target.platform, str(target), id=line(id_, 200))
    return replace(sent, reason=line(sending.note), done=len(outgoing), parts=len(outgoing))


def outgoing_of(
    adapter: Adapter,
    target: Target,
    text: str,
    key: str,
    webhook: str | None = None,
    file: File | None = None,
    splits: Splits | None = None,
    reply_to: str | None = None,
) -> list[Outgoing]:
    """Return what goes out, part by part, each with its key. Raises Rejected."""
    clean = plain(text)
    if not clean.strip() and file is None:
        raise Rejected("the message has no text")
    if file is not None:
        check_size(adapter, target.platform, len(file.data))
    card = adapter.capabilities
    cut = partial(split, clean, measure_of(adapter), card.max_text, partial(length, unit=card.unit))
    find = partial((splits or Splits()).get, f"{target.platform} {key}", clean, cut)
    texts = guarded(target.platform, find)
    count = len(texts) + (file is not None)
    keys = [key] if count == 1 else [f"{key}.{number + 1}" for number in range(count)]
    one = Outgoing("", key, webhook=webhook, whole=clean)
    parts = [replace(one, text=part) for part in texts]
    parts += [replace(one, file=file)] if file is not None else []
    parts[0] = replace(parts[0], reply_to=reply_to)
    return [replace(part, key=key) for part, key in zip(parts, keys, strict=True)]


def replied(body: Mapping[str, Any]) -> str | None:
    """Return `body.reply_to`, the platform's id of what is answered, or raise Rejected."""
    held = body.get("reply_to")
    if held is None:
        return None
    if not isinstance(held, str) or not held or line(held, LONGEST_ID) != held:
        most = f"1 to {LONGEST_ID} characters on one line"
        raise Rejected(f"body.reply_to is no message's id; write the platform's own, {most}")
    return held


def check_size(adapter: Adapter, platform: str, size: int) -> None:
    """Raise Rejected for a file of so many bytes that this platform does not take."""
    most = adapter.capabilities.max_file
    if not most:
        others = ", ".join(_takers()) or "none is installed"
        raise Rejected(f"{platform} takes no files; send a link, or use one that does ({others})")
    if size > most:
        raise Rejected(
            f"the file has {megabytes(size)}, and {platform} takes at most {megabytes(most)};"
            " send a link to it"
        )


def _takers() -> list[str]:
    found: list[str] = []
    for name in registry.known():
        with suppress(Exception):  # one that cannot be loaded says so when it is wanted
            found += [name] * (registry.load(name).capabilities.max_file > 0)
    return found


def result_of(error: DeliveryError, target: Target | None = None) -> ChannelResult:
    """Return the channel result that a delivery error is."""
    return ChannelResult(
        error.result,
        target.platform if target else "",
        str(target) if target else "",
        reason=line(str(error.text)),
        retry_after=error.wait,
        again=error.result == "not_sent" or error.data.get("again") is True,
    )


def _failed(
    error: DeliveryError, target: Target, sending: Sending | None, parts: int
) -> ChannelResult:
    done = sending.done if sending else 0
    reason = sending.hide(error.text) if sending else error.text
    if parts > 1:
        reason = f"part {done + 1}: {reason}"
    result = replace(result_of(error, target), reason=line(reason))
    return replace(result, done=done, parts=max(parts, 1))
