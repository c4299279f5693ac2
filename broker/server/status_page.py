"""
What `hermes-busd status` and `wakebus status` print.

Rule 1: pure but for the terminal's width. Rule 2: each number that is not good has a line with the
next command. Rule 3: what an older broker does not tell is left out.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from wakebus.broker.system.text_table import Column, text_table, wrapped_text

COURIER: Final = "courier"
STARTING_S: Final = 15.0  # a courier is there within 2 s of its broker, 6 s under load (measured)
NEARLY_FULL: Final = 0.9  # from here on ended messages are deleted early (PROTOCOL-8.7)

_COLUMNS: Final = (
    Column("ENDPOINT", whole=True),
    Column("STATE", colors={"live": "32", "silent": "33"}),
    Column("PID", right=True),
    Column("EPOCH", right=True),
    Column("BEAT", right=True),
    Column("QUEUED", right=True),
    Column("IN HAND", right=True),
)


def status_page(data: dict[str, Any]) -> str:
    """Return what people read of `data`: the broker's `status`, its address, the `folder`."""
    lines = [
        f"broker running: pid {data['pid']}, version {data['version']}, "
        f"protocol {data['protocol']}, up {_age(data['uptime_s'])}",
        f"address:  {data['router']}",
        f"store:    {data['messages']} messages, {data['store_bytes'] / 1024:,.0f} KiB, "
        f"{data['dead_letters']} dead letters",
        f"accepted: {data['accepted']} messages since it started",
        *(_events(one) for one in [data.get("events")] if one),  # an older broker has none
        *_of_store(data),
        *(_paused(one) for one in data.get("paused", ())),
        *(_held_up(one) for one in data["endpoints"] if one.get("held_up")),
        *(line for one in data["endpoints"] for line in _of_endpoint(one, data)),
        *(_set_aside(name, data["folder"]) for name in data["set_aside"]),
        "",
    ]
    lines = [wrapped_text(line, sys.stdout) for line in lines]
    if data["endpoints"]:
        lines.append(text_table(_COLUMNS, map(_row, data["endpoints"]), sys.stdout))
    else:
        lines.append("no endpoint yet: `wakebus listen NAME` registers one")
    return "\n".join(lines)


def _of_store(data: Mapping[str, Any]) -> Iterator[str]:
    if data["dead_letters"]:
        yield f"DEAD:     {data['dead_letters']} given up: wakebus dead list"
    early, limit = data.get("purged_early", 0), data.get("store_limit") or 0
    if early or data["store_bytes"] >= NEARLY_FULL * limit > 0:
        more = "a larger store_bytes: wakebus settings list; what is dead: wakebus dead purge --all"
        yield f"FULL:     {early} ended ones deleted early; {more}"
    if lost := data.get("notices_lost"):
        yield f"LOST:     {lost} notices: their mailboxes are full (QUEUED): wakebus inbox NAME"


def _of_endpoint(one: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    name, state, pid, queued = one["name"], one["state"], one.get("pid"), one["queued"]
    if state == "silent":
        cure = f"if it is stopped: kill -CONT {pid}" if pid else f"wakebus listen {name}"
        yield f"SILENT:   {name}, not heard for {one.get('beat_age_s', 0):.0f} s; {cure}"
    elif state == "away" and name == COURIER:
        if data["uptime_s"] >= STARTING_S:
            log = f"{data['folder']}/courier.log"
            yield f"AWAY:     the courier, see {log}; to go on: hermes-busd restart"
    elif state == "away" and queued:
        yield f"AWAY:     {name}, {queued} waiting: wakebus listen {name}, or start its Hermes"


def _set_aside(name: str, folder: str) -> str:
    cure = f"wakebus restore FILE, from a backup, or rm {folder}/{name}"
    return f"DAMAGED:  the store was set aside as {name}: {cure}"


def _row(one: dict[str, Any]) -> list[str]:
    beat = f"{one['beat_age_s']:g}s" if "beat_age_s" in one else ""
    numbers = (one.get("pid", ""), one["epoch"], beat, one["queued"], one["in_hand"])
    return [one["name"], one["state"], *map(str, numbers)]


def _paused(one: dict[str, Any]) -> str:
    until = time.strftime("%H:%M", time.localtime(one["until"]))
    pair = f"{one['from']} → {one['to']}"
    lift = f"wakebus resume {one['from']} {one['to']}"
    return f"PAUSED:   {pair} until {until}: {one['reason']}; to go on: {lift}"


def _held_up(one: dict[str, Any]) -> str:
    told = one["held_up"]
    more = f" ({told['lanes'] - 1} more lanes, too)" if told["lanes"] > 1 else ""
    behind = f"{told['waiting']} for {one['name']} behind {told['behind']}{more}"
    why = "".join(char if char.isprintable() else " " for char in told["why"])  # a receiver's words
    return f"WAITING:  {behind}: {why}; wakebus trace {told['behind']}"


def _events(data: dict[str, int]) -> str:
    lost = f", {data['missed']} missed by slow subscribers" if data["missed"] else ""
    lost += f", {data['dropped']} of the broker's own dropped" if data.get("dropped") else ""
    lost += "; for larger queues (events_…_hwm): wakebus settings list" if lost else ""
    return f"events:   {data['in']} passed on, {data['bytes_in'] / 1024:,.0f} KiB{lost}"


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
