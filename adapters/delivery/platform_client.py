"""
What one delivery asks of a platform: where the chat is, tokens, uploads, and the message itself.

Rule 1: the gate is asked before a part begins, or before its upload, told when the part itself
begins after one, and how every request ended that was performed. (Of the requests beside the
message only their errors: its place at the gate is not used up by them. Who waited for a request
of another delivery that got no answer tells it too: he got none either.) Rule 2: a chat that has
moved is followed once, and the result says its new id. Rule 3: what an upload brought there is
kept for the tries of its part, by the way that it went. Rule 4: an adapter's bug in reading an
answer is Uncertain. Rule 5: a message stays in the chat in which a part of it was begun.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from wakebus.adapters.abilities import HasToken, Uploads
from wakebus.adapters.base import (
    Adapter,
    File,
    Outgoing,
    Request,
    Response,
    Sent,
    Target,
    Token,
    Transport,
)
from wakebus.adapters.delivery import adapter_calls as calls
from wakebus.adapters.delivery import aside
from wakebus.adapters.delivery.chat_lookup import lookup
from wakebus.adapters.delivery.context import Tools
from wakebus.adapters.errors import (
    BrokenAdapter,
    DeliveryError,
    Moved,
    Rejected,
    Unavailable,
    Uncertain,
    place_of,
)
from wakebus.adapters.settings.redact import redact

log = logging.getLogger(__name__)
T = TypeVar("T")

UPLOADS: Final = 4  # requests; Slack's takes two, Matrix's two


class Errands:
    """Those of one delivery to one chat. Not thread-safe. `target`: where requests go."""

    def __init__(
        self,
        adapter: Adapter,
        target: Target,
        tools: Tools,
        key: str,
        webhook: str | None,
        found: str = "",
    ) -> None:
        self._adapter, self._asked, self._tools = adapter, target, tools
        self.target = self._home = target
        self._found = found
        self._key = key
        self._hidden = {webhook or ""}
        self._moved = self._told = False

    @property
    def note(self) -> str:
        """What a sender should know of a message that is sent."""
        if self._home == self._asked:
            return ""
        return f"the chat has another id now, write {self._home}"

    def hide(self, text: str) -> str:
        """Return `text` without the tokens and the webhook that were used."""
        return redact(text, self._hidden)

    def find(self) -> None:
        """Set `target` to the chat as the platform knows it."""
        self._home = self._tools.lookups.home(self._asked)
        there = self._home
        if self._found and self._home == self._asked:
            there = self._begun(partial(calls.again, self._adapter, self._found))
        ask = partial(self._ask, without="the chat was not looked up")
        find = partial(self._tools.lookups.find, self._adapter, there, ask)
        self.target = self._shared(find)

    def _begun(self, parse: Callable[[], Target]) -> Target:
        """Return the chat in which parts were begun, wherever its name leads now."""
        there = calls.guarded(self._asked.platform, parse)
        if lookup(self._adapter, self._asked) is None:
            self._home = there  # it moved there
        return there

    @property
    def place(self) -> str:
        """The token of the chat where requests go."""
        return calls.token_of(self._adapter, self.target)

    def follow(self, moved: Moved) -> None:
        """Take the chat's new id for this and all that follows; raise Rejected the second time."""
        if self._moved:
            raise Rejected(f"{moved.text}; and it moved before") from moved
        parse = partial(calls.parsed, self._adapter, moved.chat_id, self._asked.thread)
        there = calls.guarded(self._asked.platform, parse)
        if there.kind != self._asked.kind:  # a group becomes a group, a person never one
            raise Rejected(f"{moved.text}; and {there} is a chat of another kind") from moved
        self._tools.lookups.move(self._asked, there)
        self.find()
        self._moved = True  # not before: a look-up that fails is tried again

    def forget(self) -> None:
        """Forget what was looked up: the platform rejected a message to it."""
        if self.target != self._home:
            self._tools.lookups.forget(self._adapter, self._home, self.target)

    def token(self, asked: Request) -> str:
        """Return the access token that `asked` gets, kept or fetched."""
        token = self._shared(partial(self._tools.tokens.get, asked, self._fetch))
        self._hidden.add(token)
        return token

    def refuse(self, asked: Request, token: str) -> None:
        """Forget this token."""
        self._tools.tokens.refuse(asked, token)

    def enter(self, left: int) -> None:
        """Return when the next of `left` parts may go out; raise Held when that is not now."""
        self._tools.permit.enter(left)

    def begin(self) -> None:
        """Tell the gate that the request it let pass begins only now."""
        self._tools.permit.begin()

    def brought(self, outgoing: Outgoing) -> File:
        """Return the outgoing file as the platform has it; raise a DeliveryError for a doubt."""
        file = outgoing.file
        assert file is not None
        for _ in range(UPLOADS):
            request = calls.upload(self._adapter, self.target, replace(outgoing, file=file))
            if request is None:
                return file
            read = partial(self._read_upload, file)
            file = self._ask(request, read, without="the file was not brought there")
        if calls.upload(self._adapter, self.target, replace(outgoing, file=file)) is None:
            return file
        raise BrokenAdapter(f"the adapter {self.target.platform!r} uploads a file without end")

    def send(self, perform: Transport, request: Request) -> Sent:
        """Perform the request of a message and return what the platform says, or raise it."""
        try:
            sent = self._sent(perform, request)
        except DeliveryError as exc:
            self._leave(exc)
            raise
        self._leave(None)
        return sent

    def _sent(self, perform: Transport, request: Request) -> Sent:
        try:
            sent = self._adapter.parse_response(perform(request))
            if isinstance(sent, Sent) and isinstance(sent.id, str):
                return sent
            raise TypeError
        except DeliveryError:
            raise
        except Exception as exc:
            raise Uncertain.of_bug(self.target.platform, exc) from exc

    def _fetch(self, request: Request) -> Token:
        adapter = self._adapter
        assert isinstance(adapter, HasToken)
        return self._ask(
            request,
            lambda answer: calls.checked(adapter.parse_token(answer)),
            without="no access token",
        )

    def _read_upload(self, file: File, answer: Response) -> File:
        adapter = self._adapter
        assert isinstance(adapter, Uploads)
        found = adapter.parse_upload(file, answer)
        if isinstance(found, File):
            return found
        raise TypeError

    def _shared(self, step: Callable[[], T]) -> T:
        """Return what a flight brings; tell the gate of its silence, whoever asked."""
        self._told = False
        try:
            return step()
        except Unavailable as exc:
            if not self._told:
                self._leave(exc)
            raise

    def _ask(self, request: Request, parse: Callable[[Response], T], without: str) -> T:
        platform = self.target.platform
        try:
            return aside.ask(self._tools.performers, platform, request, parse, without)
        except DeliveryError as exc:
            self._leave(exc)
            raise

    def _leave(self, error: DeliveryError | None) -> None:
        self._told = True
        try:
            self._tools.permit.report(error)
        except Exception as exc:  # what became of the message is known all the same
            log.warning("%s: the gate was not told: %s", self.target, place_of(exc))
