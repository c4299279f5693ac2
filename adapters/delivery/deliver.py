"""
One delivery: from what a message asks for to a channel result.

Rule 1: only here do delivery errors become channel results. Rule 2: a text is cleaned, then split
as the adapter measures it, then its parts go out one after the other (parts.py), and a file after
them; the first that does not ends the delivery, and the next one goes on there. Rule 3: an
adapter is somebody else's code: whatever it raises, the courier lives. Rule 4: neither such an
error's text nor a secret of the settings, nor a token or webhook that was used, is ever shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from wakebus.adapters import registry
from wakebus.adapters.base import ChannelResult, Outgoing, Target
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.attachments import megabytes
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.delivery.parts import PartSender, recorded
from wakebus.adapters.delivery.platform_client import PlatformClient
from wakebus.adapters.delivery.split_cache import SplitCache
from wakebus.adapters.errors import DeliveryError, Rejected, Uncertain, place_of
from wakebus.adapters.sanitize import is_blank, line, plain
from wakebus.adapters.settings.redact import redact

LONGEST_ID: Final = 200  # of a message, at a platform


def deliver(chat: GuardedAdapter, message: Outgoing, context: DeliveryContext) -> ChannelResult:
    """
    Send one message to one chat, in parts if it must be; return what became of it. Raises nothing.

    The message is as its sender wrote it: its text, which may be none where there is a file; its
    key (part K of several has `KEY.K`); a session webhook that came with it; its file, which goes
    out as the last part; reply_to, which the first part answers (where the platform cannot show
    that, the result says so).
    """
    sender: PartSender | None = None
    parts: Sequence[Outgoing] = ()
    try:
        parts = parts_of(chat, message, context.splits)
        known = recorded(context.record.parts)
        begun = recorded(context.record.chat_token) if known else ""
        sender = PartSender(PlatformClient(chat, context, begun), context, parts, known)
        id_ = sender.send_all()
    except DeliveryError as exc:
        return _failed(exc, chat.target, context, sender, len(parts))
    except Exception as exc:  # a bug of ours or of the host's: nobody knows how far it came
        doubt = Uncertain(f"the delivery failed: {place_of(exc)}")
        return _failed(doubt, chat.target, context, sender, len(parts))
    sent = ChannelResult("sent", chat.platform, str(chat.target), id=line(id_, 200))
    return replace(sent, reason=line(sender.remark), done=len(parts), parts=len(parts))


def parts_of(chat: GuardedAdapter, message: Outgoing, splits: SplitCache) -> list[Outgoing]:
    """Return what goes out of a message, part by part, each with its key. Raises Rejected."""
    file, key = message.file, message.key
    if file is not None:
        check_size(chat, len(file.data))
    whole = plain(message.text)
    if is_blank(whole) and file is None:
        raise Rejected("the message has no text")
    texts = splits.get(f"{chat.platform} {key}", whole, partial(chat.split, whole))
    part = replace(message, whole=whole, file=None, reply_to=None)
    parts = [replace(part, text=text) for text in texts]
    if file is not None:
        parts.append(replace(part, text="", file=file))
    parts[0] = replace(parts[0], reply_to=message.reply_to)
    if len(parts) == 1:
        return parts
    return [replace(part, key=f"{key}.{number}") for number, part in enumerate(parts, 1)]


def outgoing_of(text: str, key: str, body: Mapping[str, Any], now: float) -> Outgoing:
    """
    Return what a message asks to go out, still without its file. Raises Rejected.

    body: the message's, of which `reply_to` and `session_webhook` count. now: Unix seconds.
    """
    return Outgoing(text, key, webhook=session_webhook(body, now), reply_to=reply_to_of(body))


def reply_to_of(body: Mapping[str, Any]) -> str | None:
    """Return `body.reply_to`, the platform's id of what is answered, or raise Rejected."""
    held = body.get("reply_to")
    if held is None:
        return None
    if not isinstance(held, str) or not held or line(held, LONGEST_ID) != held:
        most = f"1 to {LONGEST_ID} characters on one line"
        raise Rejected(f"body.reply_to is no message's id; write the platform's own, {most}")
    return held


def session_webhook(body: Mapping[str, Any], now: float) -> str | None:
    """Return the URL of `body.session_webhook` {"url", "expires_at": Unix s} while it is good."""
    held = body.get("session_webhook")
    if not isinstance(held, Mapping):
        return None
    url, until = held.get("url"), held.get("expires_at")
    good = isinstance(until, int | float) and not isinstance(until, bool) and now < until
    return url if isinstance(url, str) and url and good else None


def check_size(chat: GuardedAdapter, size: int) -> None:
    """Raise Rejected for a file of so many bytes that this platform does not take."""
    platform, most = chat.platform, chat.card.max_file
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


def result_of(
    error: DeliveryError,
    target: Target | None = None,
    secrets: Iterable[str] = (),
    *,
    prefix: str = "",
) -> ChannelResult:
    """Return the channel result that a delivery error is; its reason shows none of `secrets`."""
    return ChannelResult(
        error.result,
        target.platform if target else "",
        str(target) if target else "",
        reason=line(prefix + redact(str(error.text), secrets)),
        retry_after=error.wait,
        again=error.result == "not_sent" or error.data.get("again") is True,
    )


def _failed(
    error: DeliveryError,
    target: Target,
    context: DeliveryContext,
    sender: PartSender | None,
    parts: int,
) -> ChannelResult:
    done = sender.done if sender else 0
    secrets = context.secrets() | (sender.secrets if sender else set())
    prefix = f"part {done + 1}: " if parts > 1 else ""
    result = result_of(error, target, secrets, prefix=prefix)
    return replace(result, done=done, parts=max(parts, 1))
