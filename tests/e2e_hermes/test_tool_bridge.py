"""
A model that sees the bus's tools only through Hermes's bridge (`tools.tool_search`), and one that
has them itself: it finds them, reads what they take, and its message arrives (HERMES-5.13).
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from e2e_hermes.conftest import MakeWorld
from e2e_hermes.script import BRIDGE, DESCRIBE, SEARCH, Answer, Request, answer_to, through_bridge
from e2e_hermes.world import GATEWAY, World
from wakebus.plugin.install.hermes_tool_search import read_tool_search

# What a model would look for, and what it has to find.
WANTED = {
    "send message": "bus_send",
    "notify": "bus_send",
    "reply": "bus_send",
    "ask another agent": "bus_send",
    "agent": "bus_send",
    "bus": "bus_read",
    "who is online": "bus_status",
}
ASKED, SAID = "where does the deploy stand", "step 3 of 5"
Calls = list[tuple[str, str]]


SETTINGS = """
import sys
import yaml
from tools.tool_search import ToolSearchConfig
for text in yaml.safe_load(sys.stdin.read()):
    tools = (yaml.safe_load(text) or {}).get("tools")
    raw = tools.get("tool_search") if isinstance(tools, dict) else None
    print(ToolSearchConfig.from_raw(raw).enabled)
"""
STATED = (
    "",
    *("tools:", "tools: [a]"),
    *(
        f"tools: {{tool_search: {value}}}"
        for value in ("true", "false", "off", "'off'", "{}", "[]")
    ),
    *(
        f"tools: {{tool_search: {{enabled: {value}}}}}"
        for value in (
            "auto",
            "on",
            "off",
            "yes",
            "' No '",
            "1",
            "0",
            "sometimes",
            "[on]",
            "",
            "OFF",
        )
    ),
)


class Finder:
    """A model that looks for a tool, reads about it and calls it, where there is a bridge."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self._reply = reply  # arguments of bus_send
        self.rounds: list[list[str]] = []  # results of the calls of each

    def __call__(self, request: Request) -> Answer:
        """Answer as a script does."""
        if ASKED not in request.last or request.kind not in ("turn", "tool"):
            return answer_to(request)
        steps = [self._send]
        if BRIDGE in request.tools:
            steps = [self._search, self._describe, self._send]
        if request.results:
            known = sum(map(len, self.rounds))
            self.rounds.append(request.results[known:])
        done = len(self.rounds)
        return Answer(calls=steps[done](request)) if done < len(steps) else Answer("told them")

    def _search(self, request: Request) -> Calls:
        if '"queries"' in request.shown_tools:
            return [(SEARCH, json.dumps({"queries": list(WANTED)}))]
        return [(SEARCH, json.dumps({"query": words})) for words in WANTED]

    def _describe(self, request: Request) -> Calls:
        several = '"names"' in request.shown_tools
        return [
            (DESCRIBE, json.dumps({"names": ["bus_send"]} if several else {"name": "bus_send"}))
        ]

    def _send(self, request: Request) -> Calls:
        return [through_bridge(request, ("bus_send", json.dumps(self._reply)))]


def found(results: list[str]) -> dict[str, list[str]]:
    """Return the tools' names that each search found, best first, in both generations' answers."""
    told = [json.loads(one) for one in results]
    groups = [group for one in told for group in one.get("results", [one])]
    return {
        group["query"]: [hit if isinstance(hit, str) else hit["name"] for hit in group["matches"]]
        for group in groups
    }


def asked(world: World, setting: str) -> tuple[Finder, str]:
    """Have another agent ask in a chat's session; return the model that answers, and its id."""
    world.configure(tools={"tool_search": {"enabled": setting}})
    world.start_all()
    world.ask("dm1", "u1", "hello")
    world.declare("lead-agent")
    reply = {"target": "lead-agent", "type": "progress", "text": SAID}
    world.model.script = finder = Finder(reply)
    with world.client() as bus:
        how = {"type": "directive", "sender": "lead-agent", "channel": "mattermost:dm1"}
        id = bus.send(GATEWAY, ASKED, **how).id  # type: ignore[arg-type]
    assert world.handled(id)["state"] == "handled"
    return finder, id


def check_arrived(world: World, id: str) -> None:
    """What the turn sent is at the one who asked, as a message of this very turn."""
    with world.client() as bus:
        sent = [bus.read(row["id"]) for row in bus.inbox("lead-agent")]
    (message,) = (one for one in sent if one.text == SAID)
    assert message.sender == GATEWAY and message.channel == "mattermost:dm1"
    assert message.cause == id and message.hops == 1, message


def check_wrong_call(world: World) -> None:
    """An error comes through the bridge, too; our line in the first turn names this very call."""
    wrong = {"name": "bus_send", "arguments": {"target": "lead-agnt", "type": "x", "text": "y"}}
    request = world.begin("dm2", "u2", f"CALL:{BRIDGE} {json.dumps(wrong)}")
    assert "bus_send(target, type, text)" in request.last and BRIDGE in request.last
    world.answered("dm2", "called: ")
    after = next(one for one in world.model.requests if "lead-agnt" in one and one.kind == "tool")
    told = json.loads(after.results[0])
    assert "lead-agent" in told["next"] and "state" not in told, told


def test_a_model_finds_the_tools(make_world: MakeWorld) -> None:
    """HERMES-5.13, HERMES-5.5, HERMES-5.6: search, describe, call: the answer arrives."""
    world = make_world()
    finder, id = asked(world, "on")
    searched, described, sent = finder.rounds
    named = found(searched)
    assert set(named) == set(WANTED)
    for words, name in WANTED.items():
        assert name in named[words], (words, named[words])
    assert named["ask another agent"][0] == named["notify"][0] == "bus_send"
    assert '"required": ["target", "type", "text"]' in described[0]
    assert json.loads(sent[0])["state"] in ("queued", "delivered", "handled"), sent
    check_arrived(world, id)
    check_wrong_call(world)


def test_a_model_that_has_the_tools_itself(make_world: MakeWorld) -> None:
    """HERMES-5.13: `tools.tool_search` is off: no bridge, the same message."""
    world = make_world()
    finder, id = asked(world, "off")
    ((sent,),) = finder.rounds
    assert json.loads(sent)["state"] in ("queued", "delivered", "handled"), sent
    check_arrived(world, id)


def test_the_setting_is_read_as_hermes_reads_it(tmp_path: Path) -> None:
    """HERMES-5.14: whatever stands there, in each generation."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", SETTINGS],
        env={"HERMES_HOME": str(tmp_path)},
        input=json.dumps(STATED),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    ours = [read_tool_search(text, "config.yaml").setting for text in STATED]
    assert dict(zip(STATED, ours, strict=True)) == dict(
        zip(STATED, done.stdout.split(), strict=True)
    )
