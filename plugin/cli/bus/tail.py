"""
`wakebus tail [PATTERN…]`: events and the states of messages, one line each, as they happen.

Rule 1: nothing is made up or hidden: what was missed is told where it is missing. Rule 2: the main
thread alone writes, past Python's buffers, so that a reader that stands still holds up neither the
end nor anybody else. Rule 3: a peer's text is one clean line. Rule 4: a broker that goes is waited
for.
"""

import argparse
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Final

from wakebus.broker import Client, Event, Gap
from wakebus.broker.protocol.topics import shown_patterns
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.bus.broker_presence import BrokerPresence
from wakebus.plugin.cli.bus.trace_text import clock_text
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.facts_text import facts_text
from wakebus.plugin.cli.output import OK, Parser, colored, echo
from wakebus.plugin.rules.sanitize import sanitize_line

LONGEST: Final = 2_000  # characters of one event's fields; --json has them all
WAITING: Final = 1_000  # events between the two threads
LOOK_S: Final = 0.25

DIM, BOLD, RED, YELLOW, GREEN, BLUE = "2", "1", "31", "33", "32", "34"
STATES: Final = {"queued": YELLOW, "delivered": BLUE, "handled": GREEN, "dead": RED}

EXAMPLES: Final = """\
examples:
  wakebus tail                            all that happens on the bus
  wakebus tail 'ci.**' 'agent.*.done'     some topics: * is one segment, ** zero or more
  wakebus tail bus.message.dead           only what was given up
  wakebus tail --json --count 1 ci.done   wait for one event, for scripts

exit status: 0 ended by Ctrl-C, --count or the reader; 1 the bus is not running; 2 usage"""


def _options(parser: Parser) -> None:
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="topics (default **: all)")
    parser.add_argument("--count", type=_count, metavar="N", help="end after N events")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text[:10]) > 0:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number from 1")
    return int(text[:10])


def run(args: argparse.Namespace) -> int:
    """Show until Ctrl-C, SIGTERM, `--count`, or until nobody reads any more."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    line = as_json if args.json else LineFormat(color=colored())
    ended = threading.Event()
    try:
        with notify.connect(None) as client:
            try:
                _follow(client, args.patterns or ["**"], args.count, line, ended)
            finally:
                ended.set()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return OK


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _follow(
    client: Client,
    patterns: list[str],
    count: int | None,
    line: "Callable[[Event | Gap], str]",
    ended: threading.Event,
) -> None:
    items: queue.Queue[Event | Gap] = queue.Queue(WAITING)

    def enqueue(item: Event | Gap) -> None:
        # A reader that stands still fills this queue, then the subscription, which tells the gap.
        while not ended.is_set():
            try:
                items.put(item, timeout=LOOK_S)
                return
            except queue.Full:
                pass

    client.subscribe(patterns, enqueue, on_gap=enqueue)
    echo(f"following {shown_patterns(patterns)}; Ctrl-C ends", error=True)
    shown = 0
    for item in _arriving(client, items):
        write(line(item))
        shown += isinstance(item, Event)
        if shown == count:
            return


def _arriving(client: Client, items: "queue.Queue[Event | Gap]") -> Iterator[Event | Gap]:
    presence = BrokerPresence(client, partial(echo, error=True))
    while True:
        try:
            yield items.get(timeout=LOOK_S)
        except queue.Empty:
            presence.check()


def write(text: str) -> None:
    """Write a line to standard output. Raises BrokenPipeError when nobody reads it."""
    if sys.stdout is None:
        raise BrokenPipeError
    data = f"{text}\n".encode(sys.stdout.encoding or "utf-8", "replace")
    try:
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
    except OSError as exc:  # a terminal that went away: EIO
        raise BrokenPipeError from exc


def as_json(item: Event | Gap) -> str:
    """Return an event or a gap as JSON, in ASCII."""
    if isinstance(item, Gap):
        return json.dumps({"gap": item._asdict()})
    event = {"topic": item.topic, "pub": item.pub, "n": item.n, "event": item.envelope}
    return json.dumps(event)


class LineFormat:
    """Events and gaps as lines for people; `color`: with colours."""

    def __init__(self, *, color: bool) -> None:
        self._color = color

    def __call__(self, item: Event | Gap) -> str:
        """Return the line."""
        if isinstance(item, Gap):
            some = "1 event" if item.missed == 1 else f"{item.missed} events"
            return self._in(f"{'':12}  missed {some} of {item.topic} here ({item.pub})", RED)
        clock = self._in(clock_text(item.ts or time.time()), DIM)
        return f"{clock}  {self._topic(item.topic)}  {sanitize_line(_rest(item), LONGEST)}".rstrip()

    def _topic(self, topic: str) -> str:
        root, _, state = topic.rpartition(".")
        return self._in(topic, STATES.get(state, BOLD) if root == "bus.message" else BOLD)

    def _in(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._color else text


def _rest(event: Event) -> str:
    """Return what an event says beside its topic and time."""
    fields = dict(event.envelope)
    if event.topic.startswith("bus.message."):
        return _message(fields)
    if event.topic == "bus.loop.paused":
        until = fields.get("until")
        clock = clock_text(until if isinstance(until, int | float) else -1.0)[:8]
        pair = f"{fields.get('from')} → {fields.get('to')}"
        return f"{fields.get('id')} {pair} until {clock}: {fields.get('reason')}"
    stamps = {"type": event.topic, "src": event.topic.partition(".")[0]}
    rest = {k: v for k, v in fields.items() if k != "ts" and (k not in stamps or stamps[k] != v)}
    return facts_text(rest)


def _message(fields: dict[str, Any]) -> str:
    """Return the fields of `bus.message.*` (EVENTS.md section 6) in words."""
    said = f"{fields.get('id')} {fields.get('from')} → {fields.get('to')}"
    claimed = " (claimed)" if fields.get("claimed") else ""
    # The broker writes the message's type where other events have their topic's name.
    kind = fields.get("type")
    more = f" {kind}" if kind and not str(kind).startswith("bus.message.") else ""
    reason = f": {fields['reason']}" if fields.get("reason") else ""
    return f"{said}{claimed}{more}{reason}"


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Show events and the states of messages (bus.message.*) as they happen, one "
    "line each, and what was missed.",
    epilog=EXAMPLES,
    json="one JSON object per line",
)
