"""A Hermes in which one of the private names that we look at is gone: what is told then."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.gateway import Gateway
from fakes.hermes import Town, dm
from fakes.hermes_newer import Without, make_newer
from fakes.private_names import private_names
from wakebus.plugin.hermes import host_api
from wakebus.plugin.hermes.gateway.turn_end import Intervals

MakeGateway = Callable[..., Gateway]

CI = {"match_type": "ci", "context": True}
DM1 = "mattermost:dm1"
BRIEF = Intervals(look=0.01, settle=5.0, accepted=10.0, unseen=10.0, delivery=10.0)

ROOM = Path(host_api.__file__).parent
FILES = ("private_gateway.py", "session_state.py", "profile_part.py")
NAMES = sorted(
    {name for file in FILES for name in private_names(ast.parse((ROOM / file).read_text()))}
)
NOBODY = "nobody who may talk to this agent has written"
# Of others nothing is seen of their absence: what is told is `answered`.
TOLD = {
    "_gateway_loop": "the gateway is stopping",
    "_running": "the gateway is starting",
    "_session_key_for_source": NOBODY,
}
OLDER = {"_is_user_authorized": NOBODY}  # no hook tells who was let in


def told(gateway: Gateway, id: str) -> str:
    """Return what is told of a message: how its answer's delivery ended, or why there is none."""

    def said() -> str:
        row = next(row for row in gateway.sender.trace(id) if row["id"] == id)
        outcome = row.get("outcome") or {}
        delays = [step for step in row["steps"] if step["what"] == "later"]
        if row["state"] in ("handled", "dead"):
            return str(outcome.get("channel", {}).get("result") or row.get("reason"))
        return str(delays[-1]) if delays else ""

    until(said, 20)
    return said()


@pytest.mark.parametrize("newer", [False, True], ids=["0.19", "0.22"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_gone(
    town: Town,
    make_gateway: MakeGateway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    newer: bool,
) -> None:
    """HERMES-3.20, HERMES-2.15: words, no traceback, and no waiting for ever."""
    inject = make_newer(town, monkeypatch) if newer else None
    town.ask("hello", dm())
    gateway = make_gateway(CI, inject=inject, intervals=BRIEF, runner=Without(town.runner, name))
    found = told(gateway, gateway.send("do it", channel=DM1))
    older = "" if newer else OLDER.get(name)
    assert (older or TOLD.get(name, "answered")) in found, found
    assert not [record for record in caplog.records if record.exc_info]
