"""
The parts of one text on their way to one chat: ways, tokens, keys, retries and what is remembered.

Rule 1: a part that may have been accepted is in doubt from then on, whatever a later try says. It
goes out again only under the same key, while that key makes it safe. Rule 2: a message takes one
way. The next one is taken for the part at hand and all that follow, when the way before certainly
took nothing: at once if it is closed, else after its retries and if it leads elsewhere. Rule 3: a
refused token is renewed once per part. A new one that is refused too is `not_sent`: the mistake
is in a setting or at the platform, and the text is still good when it is mended. Rule 4: an
adapter's bug is `rejected` before a request is performed (calls.py), `uncertain` after it. Rule 5:
nothing is asked of the platform before a part that is not sent needs it. Rule 6: a key's time is
looked at last before a request begins: all that goes before it may take longer than a key is good.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from wakebus.adapters.base import (
    Adapter,
    File,
    Outgoing,
    Progress,
    Request,
    Target,
    Transport,
)
from wakebus.adapters.delivery import adapter_calls as calls
from wakebus.adapters.delivery.context import Tools
from wakebus.adapters.delivery.platform_client import Errands
from wakebus.adapters.delivery.retry import STOPS, Patience, Stopped
from wakebus.adapters.errors import (
    DeliveryError,
    Held,
    Moved,
    NotSent,
    Rejected,
    Result,
    Throttled,
    TokenRefused,
    Uncertain,
    WayClosed,
    place_of,
)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Try:
    """A part while it is tried. `doubt`: since when (Unix seconds) it may have been accepted."""

    number: int
    outgoing: Outgoing
    doubt: float | None = None
    renewed: bool = False
    ways: tuple[str, ...] = ()  # by which it may have been accepted
    brought: tuple[str, File] | None = None  # its file as the platform has it, by this way


class Sending:
    """
    One delivery of `parts`, at least one, under the message's `key`.

    Raises DeliveryErrors only. Not thread-safe.
    """

    def __init__(
        self,
        adapter: Adapter,
        target: Target,
        tools: Tools,
        progress: Progress,
        parts: Sequence[Outgoing],
        key: str,
    ) -> None:
        self._adapter, self._tools, self._progress = adapter, tools, progress
        self._parts = parts
        self._known = calls.kept(progress.parts)
        self._patience = Patience(tools.sleep)
        self._errands = Errands(adapter, target, tools, key, parts[0].webhook, self._stay())
        self._ways: list[str] = []  # until the first part needs them
        self._unlinked = ""
        self.done = 0

    @property
    def note(self) -> str:
        """What the sender should know of a message that is sent."""
        return "; ".join(filter(None, (self._errands.note, self._unlinked)))

    def hide(self, text: str) -> str:
        """Return `text` without the tokens and the webhook that were used."""
        return self._errands.hide(text)

    def run(self) -> str:
        """Send what is not sent; return the platform's id of the first part, or raise."""
        ids: list[str] = []
        for number, outgoing in enumerate(self._parts):
            ids.append(self._part(number, outgoing))
            self.done = len(ids)
        return ids[0]

    def _stay(self) -> str:
        """Return the chat of the parts that are begun or sent."""
        return calls.kept(self._progress.found) if self._known else ""

    def _part(self, number: int, outgoing: Outgoing) -> str:
        """Return the platform's id of this part, which is sent now or was before; or raise."""
        earlier = self._known.get(number)
        if earlier and earlier.state == "sent":
            return earlier.id
        part = _Try(number, outgoing)
        if earlier:
            part.doubt, part.ways = earlier.first, ("",)
        try:
            self._make_ready()
            if earlier:  # by which way, nobody remembers
                part.ways = tuple(self._ways)
            self._check(part)
            return self._by_some_way(part)
        except DeliveryError as exc:
            if isinstance(exc, Rejected):
                self._errands.forget()
            if part.doubt is None:
                raise
            raise self._in_doubt(part, exc) from exc

    def _make_ready(self) -> None:
        """Find the chat and the ways to it, before the first part; stop between parts if asked."""
        if self._ways:
            if self._tools.sleep(0.0):
                raise Stopped(STOPS)
            return
        self._patience.call(self._errands.find, lambda: False)
        self._ways = calls.ways_of(self._adapter, self._errands.target, self._parts[0])
        for outgoing in self._parts:
            if outgoing.file is not None:
                self._check_file(outgoing)
        if self._parts[0].reply_to is not None:
            self._check_reply(self._parts[0])

    def _check_file(self, outgoing: Outgoing) -> None:
        """Raise what is wrong with a file before the text of its message goes out."""
        adapter, target = self._adapter, self._errands.target
        outgoing = self._tried(outgoing, self._ways[0])
        if calls.upload(adapter, target, outgoing) is None:
            calls.built(adapter, target, outgoing)

    def _check_reply(self, outgoing: Outgoing) -> None:
        target = self._errands.target
        if not calls.answers_to(self._adapter, target, self._tried(outgoing, self._ways[0])):
            self._unlinked = (
                f"not as a reply to {outgoing.reply_to}: {target.platform} cannot show that here"
            )

    def _tried(self, outgoing: Outgoing, way: str) -> Outgoing:
        """Return it as this way would send it, without a real token, to see what is made of it."""
        asked = calls.token_request(self._adapter, self._errands.target, way)
        return replace(_light(outgoing), way=way, token="-" if asked else "")

    def _by_some_way(self, part: _Try) -> str:
        failed: list[NotSent] = []
        while True:
            step = partial(self._by_way, part, self._ways[0])
            try:
                return self._patience.call(step, partial(self._safe, part))
            except (Stopped, Held):
                raise
            except NotSent as exc:
                failed.append(exc)
                rest = self._others(part, closed=isinstance(exc, WayClosed))
                if part.doubt is not None or not rest:
                    raise _worst(failed) from exc
            self._ways = rest

    def _others(self, part: _Try, *, closed: bool) -> list[str]:
        """Return the ways left: a busy or dead host is no better reached in another format."""
        rest = self._ways[1:]
        if closed or not rest:
            return rest
        here = self._where(part, self._ways[0])
        return [way for way in rest if self._where(part, way) not in (here, None)]

    def _where(self, part: _Try, way: str) -> tuple[str, str] | None:
        """Return where a way leads, None where it cannot carry this part."""
        target = self._errands.target
        try:
            asked = calls.token_request(self._adapter, target, way)
            outgoing = self._tried(part.outgoing, way)
            request = calls.upload(self._adapter, target, outgoing)
            request = request or calls.built(self._adapter, target, outgoing)
        except DeliveryError:
            return None
        return asked.url if asked else "", request.url.partition("?")[0]

    def _by_way(self, part: _Try, way: str) -> str:
        asked = calls.token_request(self._adapter, self._errands.target, way)
        while True:
            token = self._errands.token(asked) if asked else ""
            try:
                return self._once(part, way, token)
            except TokenRefused:
                if asked is None:
                    raise
                self._errands.refuse(asked, token)
                if part.renewed:
                    raise
                part.renewed = True
            except Moved as exc:
                if part.doubt is not None:
                    raise
                self._errands.follow(exc)
                part.brought = None

    def _once(self, part: _Try, way: str, token: str) -> str:
        self._check(part)
        perform, request = self._ready(part, way, token)
        self._check(part)  # an upload may take longer than a key is good
        now = self._tools.now()
        calls.kept(partial(self._progress.begin_part, part.number, now, self._errands.place))
        try:
            sent = self._errands.send(perform, request)
        except DeliveryError as exc:
            if isinstance(exc, Uncertain) and part.doubt is None:
                part.doubt, part.ways = now, (way,)
            self._end(part.number, exc.result if part.doubt is None else "uncertain")
            raise
        self._end(part.number, "sent", sent.id)
        return sent.id

    def _ready(self, part: _Try, way: str, token: str) -> tuple[Transport, Request]:
        """Return the request and what performs it, once the gate lets it pass."""
        outgoing = replace(part.outgoing, token=token, way=way, at=self._tools.now())
        if calls.upload(self._adapter, self._errands.target, _light(outgoing)) is None:
            made = self._built(outgoing)  # what cannot be built takes no place at the gate
            self._enter(part)
            return made
        self._enter(part)
        if part.brought is None or part.brought[0] != way:
            part.brought = way, self._errands.brought(outgoing)
            self._errands.begin()
        return self._built(replace(outgoing, file=part.brought[1], at=self._tools.now()))

    def _enter(self, part: _Try) -> None:
        left = len(self._parts) - part.number
        self._patience.enter(partial(self._errands.enter, left))

    def _built(self, outgoing: Outgoing) -> tuple[Transport, Request]:
        request = calls.built(self._adapter, self._errands.target, outgoing)
        return calls.performer(self._tools.performers, request), request

    def _end(self, number: int, result: Result, id: str = "") -> None:
        try:
            self._progress.end_part(number, result, id)
        except Exception as exc:  # the part stays begun, which is the careful reading
            log.warning(
                "part %d: %s, and it cannot be noted: %s", number + 1, result, place_of(exc)
            )

    def _check(self, part: _Try) -> None:
        if part.doubt is not None and not self._safe(part):
            raise Uncertain("an earlier try may have been accepted; not sent again")

    def _safe(self, part: _Try) -> bool:
        """Whether a resend makes no second message, as far as it is known."""
        now, target = self._tools.now(), self._errands.target
        # A clock that was set back by hours says nothing about how long ago it was.
        age = abs(now - (now if part.doubt is None else part.doubt))
        return all(age < calls.key_time(self._adapter, target, way) for way in part.ways)

    def _in_doubt(self, part: _Try, error: DeliveryError) -> Uncertain:
        """Return what the last error of a part means that may have been accepted before it."""
        text = error.text
        if not isinstance(error, Uncertain):
            text = f"an earlier try may have been accepted; the last one: {text}"
        again = isinstance(error, NotSent | Uncertain) and self._safe(part)
        return Uncertain(text, again=again, retry_after=error.wait)


def _light(outgoing: Outgoing) -> Outgoing:
    """Return it with one byte of its file: what is only asked need not make a form of 20 MiB."""
    file = outgoing.file
    return outgoing if file is None else replace(outgoing, file=replace(file, data=file.data[:1]))


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
