"""
A trace in words: the broker's steps and the receiver's outcome, merged by time.

Rule 1: pure. Rule 2: every step has its time and process. Rule 3: what came of a message stands
below it, indented.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Traced = dict[str, Any]


class Step(NamedTuple):
    """One line: Unix seconds, what happened, where."""

    t: float
    what: str
    detail: str


def tell(messages: Sequence[Traced], asked: str) -> list[str]:
    """Return the lines of a trace; `asked` is marked."""
    known = {m["id"]: m for m in messages}
    children: dict[str | None, list[Traced]] = {}
    for message in messages:
        parent = next(
            (message.get(k) for k in ("cause", "reply_to") if message.get(k) in known), None
        )
        children.setdefault(parent if parent != message["id"] else None, []).append(message)
    lines: list[str] = []
    for root in children.get(None, []):
        lines += _tree(root, children, asked, 0)
    return lines


def _tree(
    message: Traced, children: dict[str | None, list[Traced]], asked: str, depth: int
) -> Iterator[str]:
    pad = "    " * min(depth, 8)
    yield pad + _head(message, asked)
    for step in steps(message):
        yield f"{pad}  {_clock(step.t)}  {step.what:9} {step.detail}".rstrip()
    for child in children.get(message["id"], []):
        yield from _tree(child, children, asked, depth + 1)


def _head(message: Traced, asked: str) -> str:
    mark = " ◀" if message["id"] == asked else ""
    channel = f" [{message['channel']}]" if message.get("channel") else ""
    claimed = " (claimed)" if message.get("claimed") else ""
    type_ = message.get("type") or "untyped"
    who = f"{message['from']}{claimed} → {message['to']}"
    return f"{message['id']}  {who}  {type_}{channel}  {message['state']}{mark}"


def steps(message: Traced) -> list[Step]:
    """Return a message's steps, oldest first."""
    found = [_broker_step(step) for step in message.get("steps", [])]
    outcome = message.get("outcome")
    if isinstance(outcome, dict):
        ended = message["steps"][-1]["t"] if message.get("steps") else 0.0
        found += _outcome_steps(outcome, ended)
    return sorted(found, key=lambda step: step.t)


def _broker_step(step: dict[str, Any]) -> Step:
    what = str(step.get("what"))
    parts = [str(step["by"])] if "by" in step else []
    if step.get("pid"):
        parts.append(f"pid {step['pid']}")
    if what == "queued":
        parts.append("receiver is there" if step.get("live") else "receiver is away")
        if step.get("ahead"):
            parts.append(f"{step['ahead']} ahead")
    if step.get("attempt", 1) > 1:
        parts.append(f"attempt {step['attempt']}")
    parts += [str(step[key]) for key in ("reason", "why") if step.get(key)]
    return Step(float(step.get("t", 0)), what, ", ".join(parts))


def _outcome_steps(outcome: dict[str, Any], ended: float) -> Iterator[Step]:
    if "rule" in outcome:
        wake = f", wake {outcome['wake']}" if outcome.get("wake") else ""
        yield Step(float(outcome.get("at", ended)), "rule", f"{outcome['rule']}{wake}")
    for action in outcome.get("actions", []):
        yield Step(
            float(action.get("t", ended)), str(action.get("what")), _facts(action, "t", "what")
        )
    turn = outcome.get("turn")
    if isinstance(turn, dict):
        yield Step(float(turn.get("started", ended)), "turn", "began")
        yield Step(float(turn.get("ended", ended)), "turn", _facts(turn, "started", "ended"))
    if isinstance(outcome.get("answer"), dict):
        yield Step(ended, "answer", _facts(outcome["answer"]))
    channel = outcome.get("channel")
    if isinstance(channel, dict):
        yield Step(float(channel.get("at", ended)), "channel", _facts(channel, "at"))
    for key in ("skipped", "together_with", "interrupted_by", "note"):
        if key in outcome:
            yield Step(ended, key, str(outcome[key]))


def _facts(data: dict[str, Any], *without: str) -> str:
    shown = {k: v for k, v in data.items() if k not in (*without, "started", "ended") and v != ""}
    return ", ".join(f"{key} {_short(value)}" for key, value in shown.items())


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]}…"


def _clock(t: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(t)) + f".{int(t * 1000) % 1000:03d}"
