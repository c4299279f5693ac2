"""
A trace in words: the broker's steps and the receiver's outcome, merged by time.

Rule 1: pure. Rule 2: every step has its time and process. Rule 3: what came of a message stands
below it, indented. Rule 4: an outcome is its receiver's own: whatever is in it, nothing raises.
Rule 5: what was put off again and again for one reason is one line.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from wakebus.broker.duration import seconds_text
from wakebus.plugin.cli.when import moment_text

Traced = dict[str, Any]

MAX_DEPTH: Final = 8  # levels of indentation; what is deeper stays at this one
_SAID: Final = ("started", "ended", "t", "at", "what")  # shown as the step itself
_MORE: Final = ("awaits", "skipped", "context_error", "together_with", "interrupted_by", "note")


class Step(NamedTuple):
    """One line: Unix seconds, what happened, where."""

    t: float
    what: str
    detail: str


def trace_lines(messages: Sequence[Traced], asked: str) -> list[str]:
    """Return the lines of a trace; `asked` is marked."""
    lines: list[str] = []
    for depth, message in _in_order(messages):
        pad = "    " * min(depth, MAX_DEPTH)
        lines.append(pad + _head(message, asked))
        for step in _without_repeats(steps(message)):
            lines.append(f"{pad}  {clock_text(step.t)}  {step.what:9} {step.detail}".rstrip())
        if message.get("behind"):
            lines.append(f"{pad}  {'now':12}  {'waits':9} {_behind(message)}")
        if message.get("why"):
            lines.append(f"{pad}  {'now':12}  {'waits':9} {_short(message['why'])}")
    return lines


def _in_order(messages: Sequence[Traced]) -> Iterator[tuple[int, Traced]]:
    """Yield each message once with its depth: below what caused it, or what it answers."""
    known = {str(message.get("id")): message for message in messages}
    below: dict[str, list[str]] = {}
    roots: list[str] = []
    for id, message in known.items():
        links = (str(message.get(key)) for key in ("cause", "reply_to"))
        parent = next((link for link in links if link in known and link != id), None)
        (roots if parent is None else below.setdefault(parent, [])).append(id)
    left = dict(known)
    while left:
        # Without a root in sight they are in a ring, which only a forger makes.
        stack = [(0, id) for id in reversed(roots)] or [(0, next(iter(left)))]
        roots = []
        while stack:
            depth, id = stack.pop()
            if (found := left.pop(id, None)) is not None:
                yield depth, found
                stack += [(depth + 1, child) for child in reversed(below.get(id, []))]


def _head(message: Traced, asked: str) -> str:
    mark = " ◀" if message.get("id") == asked else ""
    channel = f" [{_short(message['channel'])}]" if message.get("channel") else ""
    claimed = " (claimed)" if message.get("claimed") else ""
    type_ = _short(message.get("type") or "untyped")
    first = message.get("priority")
    type_ += f" ({_short(first)})" if first in ("high", "low") else ""
    lost = f" (unreadable: {_short(message['unreadable'])})" if message.get("unreadable") else ""
    id, sender, to, state = (_short(message.get(key)) for key in ("id", "from", "to", "state"))
    outcome = message.get("outcome")
    failed = " (failed)" if isinstance(outcome, dict) and outcome.get("failed") is True else ""
    return f"{id}  {sender}{claimed} → {to}  {type_}{channel}  {state}{failed}{lost}{mark}"


def steps(message: Traced) -> list[Step]:
    """Return a message's steps in their order: the broker's and, after `held`, its receiver's."""
    said = [step for step in _list(message.get("steps")) if isinstance(step, dict)]
    found = [_broker_step(step) for step in said]
    if message.get("state") == "handled" and found and found[-1].what == "queued":
        # It went to no mailbox: its receiver is no endpoint, and waited for it (or does).
        found[-1] = found[-1]._replace(what="kept", detail="broker, for who waits for it")
    outcome = message.get("outcome")
    if not isinstance(outcome, dict):
        return sorted(found, key=lambda step: step.t)
    # The broker writes `held` while the receiver is at work already, and its ack ends it all.
    held = max((step.t for step in found if step.what == "held"), default=0.0)
    ended = found[-1].t if found else 0.0
    ender: Traced = next((step for step in reversed(said) if step.get("pid")), {})
    theirs = _outcome_steps(outcome, ended, _process(ender) if ender else "receiver")
    order = [(step.t, 0, step) for step in found[:-1]]
    order += [(max(held, min(step.t, ended)), 1, step) for step in theirs]
    order += [(step.t, 2, step) for step in found[-1:]]
    return [step for _, _, step in sorted(order, key=lambda entry: entry[:2])]


def _behind(message: Traced) -> str:
    why = f": {_short(message['behind_why'])}" if message.get("behind_why") else ""
    return f"behind {_short(message['behind'])}, which comes first in its lane{why}"


def _without_repeats(found: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps; those of `held, later, held, later …` for one reason as the first two."""
    kept: list[list[Step]] = []  # each with its repetitions
    for step in found:
        if step.what == "later" and _words(kept[-3:]) == _words([*kept[-1:], [step], *kept[-1:]]):
            kept.pop()
            kept[-1].append(step)
        else:
            kept.append([step])
    for first, *more in kept:
        # Of very many the store keeps the first ones: these are steps, not how often it happened.
        times = f", {len(more) + 1} such steps, last {clock_text(more[-1].t)}" if more else ""
        yield first._replace(detail=first.detail + times)


def _words(entries: Sequence[Sequence[Step]]) -> list[tuple[str, str]]:
    return [entry[0][1:] for entry in entries]


def _broker_step(step: dict[str, Any]) -> Step:
    what = _short(step.get("what"))
    parts = [_process(step)]
    if what == "queued" and step.get("not_before"):
        then = _time(step["not_before"], 0.0)
        parts.append(f"goes out at {moment_text(then, _time(step.get('t'), 0.0))}")
    if what == "queued":
        parts.append("receiver is there" if step.get("live") else "receiver is away")
        if step.get("ahead"):
            parts.append(f"{_short(step['ahead'])} ahead")
    if step.get("attempt", 1) != 1:
        parts.append(f"attempt {_short(step['attempt'])}")
    if step.get("failures"):
        after = f", again in {seconds_text(_time(step.get('after_s'), 0.0))}"
        parts.append(f"failure {_short(step['failures'])}{after}")
    parts += [_short(step[key]) for key in ("reason", "why") if step.get(key)]
    return Step(_time(step.get("t"), 0.0), what, ", ".join(parts))


def _process(step: Mapping[str, Any]) -> str:
    """Return who took a step; only the broker does not say so."""
    name = _short(step["by"]) if step.get("by") else "broker"
    return f"{name}, pid {_short(step['pid'])}" if step.get("pid") else name


def _outcome_steps(outcome: dict[str, Any], ended: float, process: str) -> Iterator[Step]:
    def step(what: object, t: object, detail: str) -> Step:
        parts = [detail, f"({process})"]
        return Step(_time(t, ended), _short(what), " ".join(part for part in parts if part))

    if "rule" in outcome:
        wake = f", wake {_short(outcome['wake'])}" if outcome.get("wake") else ""
        yield step("rule", outcome.get("at"), _short(outcome["rule"]) + wake)
    for action in _list(outcome.get("actions")):
        if isinstance(action, dict):
            yield step(action.get("what", "action"), action.get("t"), _facts(action))
    turn = outcome.get("turn")
    if isinstance(turn, dict):
        yield step("turn", turn.get("started"), "began")
        if outcome.get("context"):
            yield step("context", turn.get("started"), f"shown: {_short(outcome['context'])}")
        yield step("turn", turn.get("ended"), _facts(turn))
    for key, what in (("answer", "answer"), ("channel", "channel"), ("failure_told", "told")):
        if isinstance(told := outcome.get(key), dict):
            knew = key == "failure_told" and told.get("again") is True  # nothing was sent anew
            facts = "the chat knew" if knew else _facts(told)
            yield step(what, told.get("at"), facts)
    for what in _MORE:
        if what in outcome:
            yield step(what, None, _short(outcome[what]))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _time(value: Any, otherwise: float) -> float:
    usable = isinstance(value, int | float) and 0 <= value < 1e11  # not NaN, not beyond year 5138
    return float(value) if usable else otherwise


def _facts(data: Mapping[Any, Any]) -> str:
    said = ((key, value) for key, value in data.items() if value not in ("", None))
    shown = {key: value for key, value in said if key not in _SAID}
    return ", ".join(f"{_short(key)} {_short(value)}" for key, value in shown.items())


def _short(value: Any) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value[:100]))
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]}…"


def clock_text(t: float) -> str:
    """Return Unix seconds as a local time of day, to the millisecond."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(t)) + f".{int(t % 1 * 1000):03}"
    except (OverflowError, ValueError, OSError):
        return "--:--:--.---"
