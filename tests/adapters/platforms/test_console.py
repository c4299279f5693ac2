"""The platform `console`."""

from pathlib import Path

import pytest

from wakebus.adapters.base import Outgoing, Response, Target
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.delivery.deliver import deliver
from wakebus.adapters.errors import BadTarget
from wakebus.adapters.platforms.console import Console
from wakebus.adapters.transports import transports

CONSOLE = Console({})


def test_the_request() -> None:
    """ADP-8.1: the chat is in the URL, the key in a header, the text is the body."""
    request = CONSOLE.build_request(Target("console", "alice"), Outgoing("hi 中", "k1"))
    assert (request.url, request.body) == ("console:alice", "hi 中".encode())
    assert request.headers == {"key": "k1"}


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "a\0b", "", "x" * 65, ".", "a.log"])
def test_names_are_no_paths(name: str) -> None:
    """ADP-8.1: what is not a plain name is refused by name, before any file is touched."""
    with pytest.raises(BadTarget, match="64"):
        CONSOLE.parse_target(name, None)


def test_the_id_is_the_key() -> None:
    """ADP-8.2: the id of an entry is its message's key, for the first and for a second append."""
    assert CONSOLE.parse_response(Response(200, b'{"id":"k1","again":true}')).id == "k1"


def test_end_to_end(tmp_path: Path) -> None:
    """ADP-8.2: sent twice under one key it stands there once, and both times it is `sent`."""
    chat = GuardedAdapter(CONSOLE, CONSOLE.parse_target("alice", None))
    context = DeliveryContext(transports(tmp_path))
    results = [
        deliver(chat, Outgoing("build \x1b[32mdone\x1b[0m", "k1"), context) for _ in range(2)
    ]
    assert [(r.result, r.chat, r.id) for r in results] == [("sent", "console:alice", "k1")] * 2
    assert (tmp_path / "console-alice.log").read_text().splitlines()[1:] == ["build done"]
