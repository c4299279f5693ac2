"""
What the model answers: words in the last user message decide. No IO.

`SLOW:8` after 8 s · `HOLD:name` when the test says `model.release("name")` · `FAIL500` ·
`CALL:bus_send {json}` a tool call (also several; by the bridge where the model is shown only that),
then text · `SAY:text` exactly that line · else `answer to <the whole last user message on one
line>`, so that a test sees what a turn saw (Hermes and its plugins add notes of their own behind
the text).
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

REVIEW = "Review the conversation above"  # agent/background_review.py:171
ECHO = 2000  # characters; below the length at which Hermes splits a post (4,000)
# agent/title_generator.py: 29 of 0.19.0, 97 of 0.22.2
TITLES = ("Generate a short, descriptive title", "You name chat sessions.")
SEARCH, DESCRIBE, BRIDGE = "tool_search", "tool_describe", "tool_call"  # tools/tool_search.py


@dataclass
class Request:
    """One request for a completion. `at`, `ended`: monotonic seconds, 0.0 while it runs."""

    messages: list[dict[str, Any]]
    tools: list[str]
    stream: bool
    at: float
    shown_tools: str = ""  # as the model is shown them: names, descriptions, schemas
    ended: float = 0.0
    aborted: bool = False
    answer: str = ""

    @property
    def users(self) -> list[str]:
        """The texts of all user messages, oldest first."""
        return [text_of(m) for m in self.messages if m.get("role") == "user"]

    @property
    def last(self) -> str:
        """The last user message."""
        return (self.users or [""])[-1]

    @property
    def system(self) -> str:
        """The system prompt."""
        return "\n".join(text_of(m) for m in self.messages if m.get("role") == "system")

    @property
    def results(self) -> list[str]:
        """What tools returned in this turn, since the last user message."""
        found: list[str] = []
        for message in reversed(self.messages):
            if message.get("role") == "user":
                break
            if message.get("role") == "tool":
                found.insert(0, text_of(message))
        return found

    @property
    def kind(self) -> str:
        """`turn`, `tool` (a turn goes on after a tool), `title`, `review` or `other`."""
        if any(title in text_of(m) for m in self.messages for title in TITLES):
            return "title"
        if any(text.startswith(REVIEW) for text in self.users):
            return "review"
        if not self.tools:
            return "other"
        return "tool" if self.messages[-1].get("role") == "tool" else "turn"

    def __contains__(self, text: str) -> bool:
        return any(text in text_of(m) for m in self.messages)


@dataclass(frozen=True)
class Answer:
    """`calls`: (tool, arguments as JSON). `hold`: wait for `release` of that name."""

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    after_s: float = 0.0
    hold: str = ""
    status: int = 200


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message whose content is a string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


def answer_to(request: Request) -> Answer:
    """Return what the words of the last user message ask for."""
    text = request.last
    if request.kind in ("title", "review", "other"):
        return Answer("A title" if request.kind == "title" else "Nothing to save.")
    if "FAIL500" in text:
        return Answer(status=500)
    if request.kind == "tool":
        return Answer("called: " + " | ".join(request.results)[-300:])
    slow = re.search(r"SLOW:(\d+(?:\.\d+)?)", text)
    hold = re.search(r"HOLD:(\w+)", text)
    return Answer(
        text=_text(text),
        calls=[through_bridge(request, call) for call in _calls(text)],
        after_s=float(slow[1]) if slow else 0.0,
        hold=hold[1] if hold else "",
    )


def _text(text: str) -> str:
    said = re.search(r"SAY:(.*)", text)
    return said[1].strip() if said else f"answer to {flat(text)[:ECHO]}"


def flat(text: str) -> str:
    """Return the text on one line, as the default answer repeats it."""
    return " ".join(text.split())


def _calls(text: str) -> list[tuple[str, str]]:
    found = []
    for match in re.finditer(r"CALL:(\w+) ?(?=\{)", text):
        value, _ = json.JSONDecoder().raw_decode(text, match.end())
        found.append((match[1], json.dumps(value)))
    return found


def through_bridge(request: Request, call: tuple[str, str]) -> tuple[str, str]:
    """Return the call as a model makes it that was shown the bridge in place of the tool."""
    name, arguments = call
    if name in request.tools or BRIDGE not in request.tools:
        return call
    entry = {"name": name, "arguments": json.loads(arguments)}
    # 0.22 takes several in a list, 0.19 one.
    several = '"calls"' in request.shown_tools
    return BRIDGE, json.dumps({"calls": [entry]} if several else entry)
