"""
Adapters, each with its card and its recorded answers.

Ours have theirs in tests/adapters/answers. Another package's are run too where `WAKEBUS_ANSWERS`
names a folder with a folder of theirs in it.
"""

import json
import os
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from wakebus.adapters import registry
from wakebus.adapters.base import Adapter, Outgoing, Request, Response, Target

ANSWERS = Path(__file__).parents[1] / "adapters" / "answers"


def folders(entries: Iterable[EntryPoint], theirs: str) -> dict[str, Path]:
    """Return where the answers of each adapter lie that is to be run; `theirs`: "" for none."""
    found = {}
    for entry in entries:
        folder = Path(theirs, entry.name) if theirs else None
        if folder and folder.is_dir():
            found[entry.name] = folder
        elif entry.value.startswith("wakebus."):
            found[entry.name] = ANSWERS / entry.name
    return dict(sorted(found.items()))


FOLDERS = folders(
    entry_points(group="wakebus.adapters"), os.environ.get("WAKEBUS_ANSWERS", "").strip()
)
NAMES = list(FOLDERS)
RECORDED = sorted(
    (name, file.stem)
    for name, folder in FOLDERS.items()
    for file in folder.glob("*.json")
    if file.stem != "card"
)
each = pytest.mark.parametrize("name", NAMES)


@cache
def card(name: str) -> dict[str, Any]:
    """Return `answers/NAME/card.json`."""
    found: dict[str, Any] = json.loads((FOLDERS[name] / "card.json").read_text())
    return found


@cache
def record(name: str, file: str) -> dict[str, Any]:
    """Return one recorded answer."""
    found: dict[str, Any] = json.loads((FOLDERS[name] / f"{file}.json").read_text())
    return found


@cache
def build(name: str) -> Adapter:
    """Return the adapter, made of its card's settings; it is pure, so one will do."""
    return registry.load(name)(card(name)["env"])


def targets(name: str) -> list[Target]:
    """Return the chats of the card."""
    return [build(name).parse_target(*target) for target in card(name)["targets"]]


def response(recorded: dict[str, Any]) -> Response:
    """Return a recorded answer as it came."""
    body = recorded["body"]
    data = body if isinstance(body, str) else json.dumps(body)
    return Response(recorded["status"], data.encode(), recorded.get("headers", {}))


def secrets_in(name: str, shown: str) -> list[str]:
    """Return the card's secrets that stand in `shown`."""
    return [secret for secret in card(name)["secrets"] if secret in shown]


def build_by(
    adapter: Adapter, target: Target, way: str, text: str = "probe-7f3a", key: str = "k1"
) -> Request:
    """Return the request of one way, with a token and a time."""
    return adapter.build_request(target, Outgoing(text, key, token="t-1", way=way, at=1.5e9))
