"""The installed adapters, each with its card and its recorded answers (tests/adapters/answers)."""

import json
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from wakebus.adapters import registry
from wakebus.adapters.base import Adapter, Outgoing, Request, Response, Target

ANSWERS = Path(__file__).parents[1] / "adapters" / "answers"
NAMES = sorted({entry.name for entry in entry_points(group="wakebus.adapters")})
RECORDED = sorted(
    (file.parent.name, file.stem) for file in ANSWERS.glob("*/*.json") if file.stem != "card"
)
each = pytest.mark.parametrize("name", NAMES)


@cache
def card(name: str) -> dict[str, Any]:
    """Return `answers/NAME/card.json`."""
    found: dict[str, Any] = json.loads((ANSWERS / name / "card.json").read_text())
    return found


@cache
def record(name: str, file: str) -> dict[str, Any]:
    """Return one recorded answer."""
    found: dict[str, Any] = json.loads((ANSWERS / name / f"{file}.json").read_text())
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
