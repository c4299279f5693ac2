"""
The parts of one text on their way to one chat: ways, tokens, keys, retries and what is remembered.

Rule 1: a part that may have been accepted is in doubt from then on, whatever a later try says. It
goes out again only under the same key, while that key makes it safe. Rule 2: a message takes one
way. The next one is taken for the part at hand and all that follow, when the way before certainly
took nothing: at once if it is closed, else after its retries and if it leads elsewhere. Rule 3: a
refused token is renewed once per part. A new one that is refused too is `not_sent`: the mistake
is in a setting or at the platform, and the text is still good when it is mended. Rule 4: an
adapter's bug is `rejected` before a request is performed (calls.py), `uncertain` after it.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from wakebus.adapters import calls
from wakebus.adapters.abilities import HasToken
from wakebus.adapters.base import (
    Adapter,
    Outgoing,
    Part,
    Progress,
    Request,
    Sent,
    Target,
    Token,
    Transport,
    Word,
)
from wakebus.adapters.errors import (
    BrokenAdapter,
    DeliveryError,
    NotSent,
    Rejected,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
    WayClosed,
)
from wakebus.adapters.mask import hidden
from wakebus.adapters.retry import Patience, Stopped
from wakebus.adapters.tokens import Tokens

log = logging.getLogger(__name__)


def pause(seconds: float) -> bool:
    """Wait; a host that never stops."""
    time.sleep(seconds)
    return False


@dataclass(frozen=True, slots=True)
class Tools:
    """
    What a delivery works with.

    performers: by the request's scheme. now: Unix seconds. sleep: waits, and returns True as soon
    as the host stops; then nothing more is begun.
    """

    performers: Mapping[str, Transport]
    tokens: Tokens = field(default_factory=Tokens)
    now: Callable[[], float] = time.time
    sleep: Callable[[float], bool] = pause


class Memory:
    """Progress that lasts for one delivery."""

    def __init__(self) -> None:
        self._parts: dict[int, Part] = {}

    def parts(self) -> Mapping[int, Part]:
        """Return a copy of what is known."""
        return dict(self._parts)

    def begin(self, number: int, now: float) -> None:
        """Remember the part, by its first try."""
        self._parts.setdefault(number, Part("begun", first=now))

    def end(self, number: int, word: Word, id: str = "") -> None:
        """Remember how it ended."""
        if word == "sent":
            self._parts[number] = Part("sent", id)
        elif word != "uncertain":
            self._parts.pop(number, None)


@dataclass(slots=True)
class _Try:
    """A part while it is tried. `doubt`: since when (Unix seconds) it may have been accepted."""

    number: int
    outgoing: Outgoing
    doubt: float | None = None
    renewed: bool = False
    ways: tuple[str, ...] = ()  # by which it may have been accepted


class Sending:
    """One delivery. Raises DeliveryErrors only. Not thread-safe."""

    def __init__(
        self, adapter: Adapter, target: Target, tools: Tools, progress: Progress, message: Outgoing
    ) -> None:
        self._adapter, self._target, self._tools = adapter, target, tools
        self._progress = progress
        self._known = calls.kept(progress.parts)
        self._patience = Patience(tools.sleep)
        self._ways = calls.ways_of(adapter, target, message)
        self._begun = False
        self._hidden = {message.webhook or ""}

    def part(self, number: int, outgoing: Outgoing) -> str:
        """Return the platform's id of this part, which is sent now or was before; or raise."""
        earlier = self._known.get(number)
        if earlier and earlier.word == "sent":
            return earlier.id
        if self._begun and self._tools.sleep(0.0):
            raise Stopped("the courier stops; the rest is sent when it runs again")
        self._begun = True
        part = _Try(number, outgoing)
        if earlier:  # by which way, nobody remembers
            part.doubt, part.ways = earlier.first, tuple(self._ways)
        try:
            self._check(part)
            return self._by_some_way(part)
        except DeliveryError as exc:
            if part.doubt is None:
                raise
            raise self._in_doubt(part, exc) from exc

    def hide(self, text: str) -> str:
        """Return `text` without the tokens and the webhook that were used."""
        return hidden(text, self._hidden)

    def _by_some_way(self, part: _Try) -> str:
        failed: list[NotSent] = []
        while True:
            step = partial(self._by_way, part, self._ways[0])
            try:
                return self._patience.call(step, partial(self._safe, part))
            except Stopped:
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
        try:
            asked = calls.token_request(self._adapter, self._target, way)
            outgoing = replace(part.outgoing, way=way, token="-" if asked else "")
            request = calls.built(self._adapter, self._target, outgoing)
        except DeliveryError:
            return None
        return asked.url if asked else "", request.url.partition("?")[0]

    def _by_way(self, part: _Try, way: str) -> str:
        asked = calls.token_request(self._adapter, self._target, way)
        while True:
            token = self._token(asked) if asked else ""
            try:
                return self._once(part, way, token)
            except TokenRefused:
                if asked is None:
                    raise
                self._tools.tokens.refuse(asked, token)
                if part.renewed:
                    raise
                part.renewed = True

    def _once(self, part: _Try, way: str, token: str) -> str:
        self._check(part)
        now = self._tools.now()
        outgoing = replace(part.outgoing, token=token, way=way, at=now)
        request = calls.built(self._adapter, self._target, outgoing)
        perform = calls.performer(self._tools.performers, request)
        calls.kept(partial(self._progress.begin, part.number, now))
        try:
            sent = self._ask(perform, request)
        except DeliveryError as exc:
            if isinstance(exc, Uncertain) and part.doubt is None:
                part.doubt, part.ways = now, (way,)
            self._end(part.number, calls.word_of(exc) if part.doubt is None else "uncertain")
            raise
        self._end(part.number, "sent", sent.id)
        return sent.id

    def _ask(self, perform: Transport, request: Request) -> Sent:
        try:
            sent = self._adapter.parse_response(perform(request))
            if isinstance(sent, Sent) and isinstance(sent.id, str):
                return sent
            raise TypeError
        except DeliveryError:
            raise
        except Exception as exc:
            raise Uncertain(calls.bug(self._target.platform, exc)) from exc

    def _end(self, number: int, word: Word, id: str = "") -> None:
        try:
            self._progress.end(number, word, id)
        except Exception as exc:  # the part stays begun, which is the careful reading
            log.warning(
                "part %d: %s, and it cannot be noted: %s", number + 1, word, calls.place(exc)
            )

    def _check(self, part: _Try) -> None:
        if part.doubt is not None and not self._safe(part):
            raise Uncertain("an earlier try may have been accepted; not sent again")

    def _safe(self, part: _Try) -> bool:
        """Whether a resend makes no second message, as far as it is known."""
        now = self._tools.now()
        # A clock that was set back by hours says nothing about how long ago it was.
        age = abs(now - (now if part.doubt is None else part.doubt))
        return all(age < calls.key_time(self._adapter, self._target, way) for way in part.ways)

    def _in_doubt(self, part: _Try, error: DeliveryError) -> Uncertain:
        """Return what the last error of a part means that may have been accepted before it."""
        text = error.text
        if not isinstance(error, Uncertain):
            text = f"an earlier try may have been accepted; the last one: {text}"
        again = isinstance(error, NotSent | Uncertain) and self._safe(part)
        return Uncertain(text, again=again, retry_after=calls.wait_of(error))

    def _token(self, asked: Request) -> str:
        token = self._tools.tokens.get(asked, self._fetch)
        self._hidden.add(token)
        return token

    def _fetch(self, request: Request) -> Token:
        adapter = self._adapter
        assert isinstance(adapter, HasToken)
        try:
            perform = calls.performer(self._tools.performers, request)
            return calls.checked(adapter.parse_token(perform(request)))
        except Uncertain as exc:  # about the token; the text is still here
            raise Unavailable(f"no access token: {exc.text}") from exc
        except DeliveryError:
            raise
        except Exception as exc:
            raise BrokenAdapter(calls.bug(self._target.platform, exc)) from exc


def _worst(failed: list[NotSent]) -> DeliveryError:
    """Return what it means that every way failed: never, or later, after the shortest wait."""
    if len(failed) == 1 and not isinstance(failed[0], WayClosed):
        return failed[0]
    if all(isinstance(error, WayClosed) for error in failed):
        return Rejected("; ".join(error.text for error in failed))
    text = "; ".join(dict.fromkeys(error.text for error in failed))
    waits = [calls.wait_of(error) for error in failed if not isinstance(error, WayClosed)]
    known = [wait for wait in waits if isinstance(wait, int | float)]
    return Throttled(text, retry_after=min(known) if len(known) == len(waits) else None)
