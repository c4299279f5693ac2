"""
What one delivery asks of a platform: where the chat is, tokens, uploads, and the message itself.

Rule 1: the permit is told how every request ended that was performed. (Of the requests beside the
message only their errors: its place is not used up by them. Who waited for a request of another
delivery that got no answer tells it too: he got none either.) Rule 2: requests beside the message
show nothing to anybody, and may be made again: a doubt about one is Silent, for of the text nothing
went out, and who said nothing for as long as the transport waits (https.py) is not asked again by
the same delivery. Rule 3: a chat that has moved is followed once, and the result says its new id.
Rule 4: a message stays in the chat in which a part of it was begun.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from wakebus.adapters.base import File, Outgoing, Request, Response, Sent, Token, Transport
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.errors import (
    BrokenAdapter,
    DeliveryError,
    Moved,
    Rejected,
    Silent,
    Unavailable,
    Uncertain,
    place_of,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

UPLOADS: Final = 4  # requests; Slack's takes two, Matrix's two


def performer(
    performers: Mapping[str, Transport], platform: str, request: Request
) -> Callable[[], Response]:
    """Return what performs this request, or raise Rejected."""
    scheme = request.scheme
    if scheme not in performers:
        raise Rejected(f"nothing here speaks {scheme!r}")
    return partial(performers[scheme], replace(request, platform=platform))


def ask_platform(
    performers: Mapping[str, Transport],
    platform: str,
    request: Request,
    parse: Callable[[Response], T],
    without: str,
) -> T:
    """
    Return what the answer to `request` says, or raise a DeliveryError that is not Uncertain.

    without: what there is none of then, "no access token".
    """
    try:
        return parse(performer(performers, platform, request)())
    except Uncertain as exc:
        raise Silent(f"{without}: {exc.text}") from exc
    except DeliveryError:
        raise
    except Exception as exc:
        raise BrokenAdapter.of_bug(platform, exc) from exc


class PlatformClient:
    """
    That of one delivery. Not thread-safe. `chat`: where requests go; `place`: its token.

    begun: the token of the chat in which parts were begun, "" for nowhere.
    """

    def __init__(self, chat: GuardedAdapter, context: DeliveryContext, begun: str) -> None:
        self._performers, self._permit = context.performers, context.permit
        self._tokens, self._lookups = context.tokens, context.lookups
        self.chat = self._home = self._asked = chat
        self.place = ""
        self._begun = begun
        self._moved = self._told = False

    # --- where the chat is ----------------------------------------------------------------

    @property
    def remark(self) -> str:
        """What a sender should know of a message that is sent."""
        if self._home == self._asked:
            return ""
        return f"the chat has another id now, write {self._home.target}"

    def find_chat(self) -> None:
        """Set `chat` to the chat as the platform knows it."""
        self._home = self._asked.at(self._lookups.home_of(self._asked.target))
        there = self._home
        if self._begun and self._home == self._asked:
            there = self._asked.at_token(self._begun)
            if self._asked.lookup() is None:
                self._home = there  # it moved there
        ask = partial(self._ask, without="the chat was not looked up")
        self.chat = self._shared(partial(self._lookups.find, there, ask))
        self.place = self.chat.token

    def follow(self, moved: Moved) -> None:
        """Take the chat's new id for this and all that follows; raise Rejected the second time."""
        if self._moved:
            raise Rejected(f"{moved.text}; and it moved before") from moved
        there = self._asked.at_id(moved.chat_id).target
        if there.kind != self._asked.target.kind:  # a group becomes a group, a person never one
            raise Rejected(f"{moved.text}; and {there} is a chat of another kind") from moved
        self._lookups.remember_move(self._asked.target, there)
        self.find_chat()
        self._moved = True  # not before: a look-up that fails is tried again

    # --- requests -------------------------------------------------------------------------

    def get_token(self, asked: Request) -> str:
        """Return the access token that `asked` gets, cached or fetched."""
        return self._shared(partial(self._tokens.get, asked, self._fetch_token))

    def _fetch_token(self, request: Request) -> Token:
        return self._ask(request, self.chat.parse_token, without="no access token")

    def upload_file(self, outgoing: Outgoing) -> File:
        """Return the outgoing file as the platform has it; raise a DeliveryError for a doubt."""
        file = outgoing.file
        assert file is not None
        for _ in range(UPLOADS):
            request = self.chat.upload(replace(outgoing, file=file))
            if request is None:
                return file
            read = partial(self.chat.parse_upload, file)
            file = self._ask(request, read, without="the file was not brought there")
        if self.chat.upload(replace(outgoing, file=file)) is None:
            return file
        raise BrokenAdapter(f"the adapter {self.chat.platform!r} uploads a file without end")

    def prepare(self, outgoing: Outgoing) -> Callable[[], Sent]:
        """Build a message's request; return what performs it, or raise Rejected."""
        request = self.chat.build(outgoing)
        return partial(self._send, performer(self._performers, self.chat.platform, request))

    def _send(self, perform: Callable[[], Response]) -> Sent:
        """Return what the platform says of a message, or raise it; a bug now is Uncertain."""
        try:
            sent = self.chat.parse_sent(perform())
        except DeliveryError as exc:
            self._report(exc)
            raise
        except Exception as exc:
            doubt = Uncertain.of_bug(self.chat.platform, exc)
            self._report(doubt)
            raise doubt from exc
        self._report(None)
        return sent

    def _shared(self, step: Callable[[], T]) -> T:
        """Return what one request brings to all who wait; tell the permit of its silence."""
        self._told = False
        try:
            return step()
        except Unavailable as exc:
            if not self._told:
                self._report(exc)
            raise

    def _ask(self, request: Request, parse: Callable[[Response], T], without: str) -> T:
        try:
            return ask_platform(self._performers, self.chat.platform, request, parse, without)
        except DeliveryError as exc:
            self._report(exc)
            raise

    def _report(self, error: DeliveryError | None) -> None:
        self._told = True
        if isinstance(error, Rejected) and self.chat != self._home:
            self._lookups.forget(self._home, self.chat)  # what was looked up may be wrong by now
        try:
            self._permit.report(error)
        except Exception as exc:  # what became of the message is known all the same
            log.warning("%s: the permit was not told: %s", self.chat.target, place_of(exc))
