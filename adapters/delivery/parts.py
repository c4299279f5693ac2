"""
The parts of one text on their way to one chat: ways, tokens, keys, retries and what is remembered.

Rule 1: a part that may have been accepted is in doubt from then on, whatever a later try says. It
goes out again only under the same key, while that key makes it safe. Rule 2: a message takes one
way. The next one is taken for the part at hand and all that follow, when the way before certainly
took nothing: at once if it is closed, else after its retries and if it leads elsewhere. Rule 3: a
refused token is renewed once per part. A new one that is refused too is `not_sent`: the mistake
is in a setting or at the platform, and the text is still good when it is mended. Rule 4: the permit
is asked before a part begins, or before its upload. Rule 5: nothing is asked of the platform before
a part that is not sent needs it. Rule 6: a key's time is looked at last before a request begins:
all that goes before it may take longer than a key is good. Rule 7: what an upload brought there is
kept for the tries of its part, by the way that it went.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from wakebus.adapters.base import File, Outgoing, Part, Sent
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.delivery.platform_client import PlatformClient
from wakebus.adapters.delivery.retry import STOPS, RetryBudget, Stopped
from wakebus.adapters.errors import (
    DeliveryError,
    Held,
    Moved,
    NotSent,
    Rejected,
    Result,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
    WayClosed,
    place_of,
)

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(slots=True)
class Attempt:
    """A part while it is tried. `doubt`: since when (Unix seconds) it may have been accepted."""

    number: int
    outgoing: Outgoing
    doubt: float | None = None
    renewed: bool = False
    ways: tuple[str, ...] = ()  # by which it may have been accepted
    brought: tuple[str, File] | None = None  # its file as the platform has it, by this way


class PartSender:
    """
    One delivery of `parts`, at least one; `known`: of earlier ones. `secrets`: what was used of
    them, never to be shown.

    Raises DeliveryErrors only. Not thread-safe.
    """

    def __init__(
        self,
        client: PlatformClient,
        context: DeliveryContext,
        parts: Sequence[Outgoing],
        known: Mapping[int, Part],
    ) -> None:
        self._client, self._context = client, context
        self._parts, self._known = parts, known
        self._budget = RetryBudget(context.sleep)
        self._ways: list[str] = []  # until the first part needs them
        self._unlinked = ""
        self.secrets = {parts[0].webhook or ""}
        self.done = 0

    @property
    def remark(self) -> str:
        """What the sender should know of a message that is sent."""
        return "; ".join(filter(None, (self._client.remark, self._unlinked)))

    def send_all(self) -> str:
        """Send what is not sent; return the platform's id of the first part, or raise."""
        ids: list[str] = []
        for number, outgoing in enumerate(self._parts):
            ids.append(self._part(number, outgoing))
            self.done = len(ids)
        return ids[0]

    def _part(self, number: int, outgoing: Outgoing) -> str:
        """Return the platform's id of this part, which is sent now or was before; or raise."""
        earlier = self._known.get(number)
        if earlier and earlier.state == "sent":
            return earlier.id
        part = Attempt(number, outgoing)
        if earlier:
            part.doubt, part.ways = earlier.first, ("",)
        try:
            self._make_ready()
            if earlier:  # by which way, nobody remembers
                part.ways = tuple(self._ways)
            self._check(part)
            return self._by_some_way(part)
        except DeliveryError as exc:
            if part.doubt is None:
                raise
            raise self._in_doubt(part, exc) from exc

    def _make_ready(self) -> None:
        """Find the chat and the ways to it, before the first part; stop between parts if asked."""
        if self._ways:
            if self._context.sleep(0.0):
                raise Stopped(STOPS)
            return
        self._budget.retry(self._client.find_chat, lambda: False)
        chat, first = self._client.chat, self._parts[0]
        self._ways = chat.ways(first)
        for outgoing in self._parts:
            if outgoing.file is not None:  # what is wrong with it is said before the text goes out
                chat.rehearse(outgoing, self._ways[0])
        if first.reply_to is not None and not chat.shows_reply(first, self._ways[0]):
            self._unlinked = (
                f"not as a reply to {first.reply_to}: {chat.platform} cannot show that here"
            )

    def _by_some_way(self, part: Attempt) -> str:
        failed: list[NotSent] = []
        while True:
            way, *rest = self._ways
            try:
                return self._budget.retry(
                    partial(self._by_way, part, way), partial(self._is_safe, part)
                )
            except (Stopped, Held):
                raise
            except NotSent as exc:
                failed.append(exc)
                if rest and not isinstance(exc, WayClosed):
                    rest = self._client.chat.ways_elsewhere(part.outgoing, way, rest)
                if part.doubt is not None or not rest:
                    raise _worst(failed) from exc
            self._ways = rest

    def _by_way(self, part: Attempt, way: str) -> str:
        asked = self._client.chat.token_request(way)
        while True:
            token = self._client.get_token(asked) if asked else ""
            self.secrets.add(token)
            try:
                return self._once(part, way, token)
            except TokenRefused:
                if asked is None:
                    raise
                self._context.tokens.refuse(asked, token)
                if part.renewed:
                    raise
                part.renewed = True
            except Moved as exc:
                if part.doubt is not None:
                    raise
                self._client.follow(exc)
                part.brought = None

    def _once(self, part: Attempt, way: str, token: str) -> str:
        self._check(part)
        send = self._ready(part, way, token)
        self._check(part)  # an upload may take longer than a key is good
        now, record = self._context.now(), self._context.record
        recorded(partial(record.begin_part, part.number, now, self._client.place))
        try:
            sent = send()
        except DeliveryError as exc:
            if isinstance(exc, Uncertain) and part.doubt is None:
                part.doubt, part.ways = now, (way,)
            self._end_part(part.number, exc.result if part.doubt is None else "uncertain")
            raise
        self._end_part(part.number, "sent", sent.id)
        return sent.id

    def _ready(self, part: Attempt, way: str, token: str) -> Callable[[], Sent]:
        """Return what sends the part, once it may go out; its file is there then."""
        outgoing = replace(part.outgoing, token=token, way=way, at=self._context.now())
        if outgoing.file is None or not self._client.chat.needs_upload(outgoing):
            send = self._client.prepare(outgoing)  # what cannot be built takes no permit
            self._await_permit(part)
            return send
        self._await_permit(part)
        if part.brought is None or part.brought[0] != way:
            part.brought = way, self._client.upload_file(outgoing)
            self._context.permit.begin()
        return self._client.prepare(replace(outgoing, file=part.brought[1], at=self._context.now()))

    def _await_permit(self, part: Attempt) -> None:
        left = len(self._parts) - part.number
        self._budget.await_permit(partial(self._context.permit.enter, left))

    def _end_part(self, number: int, result: Result, id: str = "") -> None:
        try:
            self._context.record.end_part(number, result, id)
        except Exception as exc:  # the part stays begun, which is the careful reading
            log.warning(
                "part %d: %s, and it cannot be noted: %s", number + 1, result, place_of(exc)
            )

    def _check(self, part: Attempt) -> None:
        if part.doubt is not None and not self._is_safe(part):
            raise Uncertain("an earlier try may have been accepted; not sent again")

    def _is_safe(self, part: Attempt) -> bool:
        """Whether a resend makes no second message, as far as it is known."""
        now = self._context.now()
        # A clock that was set back by hours says nothing about how long ago it was.
        age = abs(now - (now if part.doubt is None else part.doubt))
        return all(age < self._client.chat.key_time(way) for way in part.ways)

    def _in_doubt(self, part: Attempt, error: DeliveryError) -> Uncertain:
        """Return what the last error of a part means that may have been accepted before it."""
        text = error.text
        if not isinstance(error, Uncertain):
            text = f"an earlier try may have been accepted; the last one: {text}"
        again = isinstance(error, NotSent | Uncertain) and self._is_safe(part)
        return Uncertain(text, again=again, retry_after=error.wait)


def recorded(step: Callable[[], T]) -> T:
    """Return what the record of parts returns, or raise Unavailable: without it nothing begins."""
    try:
        return step()
    except DeliveryError:
        raise
    except Exception as exc:
        raise Unavailable(f"the record of its parts cannot be kept: {place_of(exc)}") from exc


def _worst(failed: list[NotSent]) -> DeliveryError:
    """Return what it means that every way failed: never, or later, after the shortest wait."""
    if len(failed) == 1 and not isinstance(failed[0], WayClosed):
        return failed[0]
    text = "; ".join(dict.fromkeys(error.text for error in failed))
    if all(isinstance(error, WayClosed) for error in failed):
        return Rejected(text)
    waits = [error.wait for error in failed if not isinstance(error, WayClosed)]
    known = [wait for wait in waits if wait is not None]
    return Throttled(text, retry_after=min(known) if len(known) == len(waits) else None)
