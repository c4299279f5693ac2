"""
How a process of Hermes stands with the bus, for bus_info, bus_status and /bus.

Rule 1: facts that were looked at now; what is not known is not there. Rule 2: no text of a message.
Rule 3: what is missing names the line that turns it on, or the next step.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.address import read_address
from wakebus.broker.errors import WakebusError
from wakebus.broker.other_version import version_note
from wakebus.broker.paths import bus_dir, stop_mark
from wakebus.plugin.hermes.host_api.choose import absence
from wakebus.plugin.hermes.isolated.isolation import LISTENS, is_isolated
from wakebus.plugin.hermes.isolated.isolation import NO_ENDPOINT as NONE_HERE
from wakebus.plugin.hermes.shared.host_calls import ask_host

if TYPE_CHECKING:  # loaded once the process is known to listen
    from wakebus.plugin.hermes.membership import Membership
    from wakebus.plugin.hermes.runtime import Runtime

MAX_SESSIONS: Final = 20  # whose waiting texts are told one by one
START: Final = "hermes-busd start"
NO_ENDPOINT: Final = "this process of Hermes does not listen; it can send, and has no inbox"

StatusFacts = dict[str, Any]


def status(runtime: "Runtime") -> StatusFacts:
    """Return the facts of this process."""
    member = runtime.membership
    facts: StatusFacts = {"endpoint": runtime.endpoint, "mode": runtime.mode}
    facts["receiving"] = runtime.receiving
    facts["broker"] = broker_facts()
    if member is None:
        why = NONE_HERE if is_isolated() else absence(home=runtime.home.key)
        facts["note"] = "; ".join(filter(None, (NO_ENDPOINT, why)))
    else:
        facts |= _listening(runtime, member)
        if is_isolated():
            facts["isolation"] = LISTENS
    facts["sent"] = runtime.sent
    if runtime.error:
        facts["error"] = runtime.error
    return facts


def broker_facts() -> StatusFacts:
    """Return where the broker is and whether its process holds the bus."""
    from wakebus.broker.system.lock_file import lock_holder

    holder = lock_holder(bus_dir())
    if holder is None:
        by_hand = {"why": "it was stopped by hand"} if stop_mark(bus_dir()).exists() else {}
        return {"running": False, "next": START, **by_hand}
    try:
        address = read_address(bus_dir())
    except WakebusError as exc:
        return {"running": True, "pid": holder, "next": exc.text}
    note = version_note(address)
    return {
        "running": True,
        "pid": holder,
        "address": address["router"],
        "version": address.get("version", ""),
        **({"next": note} if note else {}),
    }


def _listening(runtime: "Runtime", member: "Membership") -> StatusFacts:
    facts: StatusFacts = {"rules": _rules_facts(member)}
    if member.client is not None:
        facts["connected"] = member.client.connected(0)
    if member.live.mode != "cli":
        facts["gateway_turns"] = _grant_facts(runtime.home.path)
    if (sessions := ask_host(member.host, "sessions")) is not None:
        facts["sessions"] = sessions
    if member.context is not None:
        facts["waiting_context"] = _waiting(member)
    facts |= {"in_hand": member.in_hand, "turns_open": runtime.tracker.count()}
    if member.lost:
        facts["lost"] = member.lost
    return facts


def _rules_facts(member: "Membership") -> StatusFacts:
    if member.rules is None:
        return {"source": ""}
    rules, error = member.rules.current(), member.rules.error
    told: StatusFacts = {"source": rules.source, "callbacks": len(rules.callbacks)}
    told |= {"warnings": [str(warning) for warning in rules.warnings]} if rules.warnings else {}
    return told | (
        {"error": str(error), "note": "the last good rules are in force"} if error else {}
    )


def _grant_facts(home: Path) -> StatusFacts:
    from wakebus.plugin.hermes.shared.turn_grant import TurnGrant

    granted = TurnGrant(home)
    return {"on": True} if granted() else {"on": False, "turn_on": granted.how}


def _waiting(member: "Membership") -> Mapping[str, int] | str:
    assert member.context is not None
    try:
        counts = member.context.counts()
    except OSError as exc:
        return f"cannot be read: {exc}"
    most = sorted(counts.items(), key=lambda pair: -pair[1])
    shown = {session or "(default)": count for session, count in most[:MAX_SESSIONS]}
    more = sum(count for _, count in most[MAX_SESSIONS:])
    return shown | ({"(others)": more} if more else {})


def status_page(facts: StatusFacts) -> str:
    """Return the facts in a few lines, for people."""
    name = facts["endpoint"] or "not on the bus"
    how = f" ({facts['mode']})" if facts["mode"] else ""
    lost = "" if facts["receiving"] or not facts["endpoint"] else ", receives nothing"
    lines = [f"endpoint: {name}{how}{lost}", f"broker: {_broker_line(facts['broker'])}"]
    if rules := facts.get("rules"):
        lines.append(f"rules: {rules['source'] or 'not read yet'}")
        lines += [f"  warning: {text}" for text in rules.get("warnings", ())]
        lines += [f"  error: {rules['error']}; {rules['note']}"] if "error" in rules else []
    if grant := facts.get("gateway_turns"):
        where = "the TUI" if facts["mode"] == "tui" else "chats"
        lines.append(f"turns in {where}: " + ("on" if grant["on"] else f"off; {grant['turn_on']}"))
    told = facts.get("sessions", ())
    lines += [f"session {one['session']}: {one['state']}" for one in told[:MAX_SESSIONS]]
    lines += [f"and {len(told) - MAX_SESSIONS} more sessions"] if len(told) > MAX_SESSIONS else []
    lines += _work_lines(facts)
    lines += [f"{key}: {facts[key]}" for key in ("note", "isolation", "error") if key in facts]
    return "\n".join(lines)


def _broker_line(found: StatusFacts) -> str:
    if not found["running"]:
        why = f" ({found['why']})" if "why" in found else ""
        return f"not running{why}; start it: {found['next']}"
    return f"running, pid {found['pid']}" + (f"; {found['next']}" if "next" in found else "")


def _work_lines(facts: StatusFacts) -> list[str]:
    waiting = facts.get("waiting_context")
    lines = []
    if waiting:
        told = waiting if isinstance(waiting, str) else f"{sum(waiting.values())} texts"
        lines.append(f"context that waits: {told}")
    if facts.get("in_hand") or facts.get("turns_open"):
        lines.append(f"in hand: {facts['in_hand']} messages, {facts['turns_open']} turns")
    return lines


def endpoints_page(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the endpoints of the bus, one a line."""
    lines = [
        f"{one['name']}  {one['state']}" + (f"  {one['queued']} queued" if one["queued"] else "")
        for one in found
    ]
    return "\n".join(lines) or "no endpoint yet"
