"""The skill: what Hermes reads of it, and that every command and tool call in it exists."""

import argparse
import ast
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from wakebus.broker.protocol import message
from wakebus.broker.server import cli as busd
from wakebus.plugin.cli import main, message_body, notify, notify_agent
from wakebus.plugin.cli.output import Parser
from wakebus.plugin.hermes.tools import schemas
from wakebus.plugin.prompt.label import PromptItem, label
from wakebus.plugin.rules.load import default_rules

NAME = "notification-protocol"
FILE = Path(schemas.__file__).parents[1] / "skills" / NAME / "SKILL.md"
TEXT = FILE.read_text(encoding="utf-8")
COMMAND = re.compile(r"^(?:notify-hermes|notify-agent|wakebus|hermes-busd) .*")


def code() -> list[str]:
    """Return what stands in backticks and in code blocks."""
    prose, *blocks = re.split(r"^```\n", TEXT, flags=re.M)
    for index, block in enumerate(blocks):
        if index % 2:
            prose += block
    inline = re.findall(r"`([^`\n]+)`", prose)
    return inline + [line for block in blocks[::2] for line in block.splitlines()]


COMMANDS = [line for line in code() if COMMAND.match(line)]
CALLS = [line for line in code() if re.fullmatch(r"bus_\w+\(.*\)", line)]


def test_it_is_one_page() -> None:
    """Hermes looks for the front matter in the first 4000 characters; a model reads it all."""
    assert len(TEXT) < 6500 and TEXT.startswith("---\n") and TEXT.index("\n---\n", 4) < 1000


def test_front_matter() -> None:
    """As tools/skills_tool.py of hermes-agent 0.19.0 reads it: name ≤ 64, description ≤ 1024."""
    found = yaml.safe_load(TEXT.split("---\n")[1])
    assert found["name"] == NAME == FILE.parent.name
    assert 40 < len(found["description"]) <= 1024
    assert {"linux", "macos"} == set(found["platforms"])


def test_there_are_commands_and_calls() -> None:
    """The two tests below look at something."""
    assert len(COMMANDS) >= 10 and len(CALLS) >= 4


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_a_real_one(line: str) -> None:
    """Its own parser takes it."""
    program, *words = shlex.split(line)
    if program == "wakebus":
        parser: argparse.ArgumentParser = Parser()
        verb = parser.add_subparsers().add_parser(words[0])
        import_module(f"wakebus.plugin.cli.{main.VERBS[words[0]][0]}").COMMAND.set_up(verb)
    elif program == "hermes-busd":
        parser = busd._parser()
    else:
        parser = notify.parser() if program == "notify-hermes" else notify_agent.parser()
    parser.parse_args(words)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_message_could_be_sent(line: str) -> None:
    """Type, channel and text make a body that the broker takes."""
    program, *words = shlex.split(line)
    if program == "notify-hermes":
        args = notify.parser().parse_args(words)
        body = message_body.body_of(args)
        (to,) = args.to
        wire = {"id": "m1", "ts": 1.0, "from": "me", "to": to, "body": body}
        assert message.from_wire(wire).text


@pytest.mark.parametrize("line", CALLS)
def test_every_call_is_a_real_one(line: str) -> None:
    """The tool has these parameters, and those that it requires are there."""
    call = ast.parse(line, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args
    tool = next(one for one in schemas.ALL if one["name"] == call.func.id)
    given = {one.arg for one in call.keywords}
    assert set(tool["parameters"]["required"]) <= given <= set(tool["parameters"]["properties"])


def test_it_tells_the_way_through_the_bridge() -> None:
    """HERMES-5.13: every tool is named, and that of Hermes by which it is called."""
    for name in (*(one["name"] for one in schemas.ALL), "tool_call", "tool_describe"):
        assert f"`{name}" in TEXT, name


def test_every_type_of_the_default_rules_is_taught() -> None:
    """But those that only the bus and the agents' hosts send."""
    types = {name for rule in default_rules().callbacks for name in rule.match_type or ()}
    assert types, "no types found"
    for name in types - {"answer", "notice", "*"}:
        assert f"`{name}`" in TEXT, name


def test_it_describes_the_label_as_it_is() -> None:
    """The words by which an agent knows a text from the bus are those of label.py."""
    sent = message.from_wire(
        {"id": "m1", "ts": 1.0, "from": "me", "to": "you", "body": {"text": "x", "channel": "a:b"}}
    )
    shown = label(PromptItem(sent, "x", 2, True, True, True), "f" * 16)
    for words in ("[wakebus]", "from", "type", "id", "channel", "claimed", "Delivered again"):
        assert words in shown and words in TEXT
    assert "had started" in shown and "had started" in TEXT
