"""
The tools bus_send, bus_status, bus_info, bus_read.

Rule 1: a handler returns JSON and raises nothing; an error says the next step. Rule 2: what did
not happen is never told as done: each send ends in one state, with what it means. Rule 3: a process
that listens sends as its endpoint, through its own client; another one as notify-hermes would,
through a client for that call, which registers nothing and starts no broker. Rule 4: a send from a
turn that the bus started says so: cause, hops, path. Rule 5: what peers wrote is labelled, and only
read. Rule 6: the broker's word is waited for 5 s, its work as long as `wait_s` says.
"""

import json
import logging
import reprlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.errors import (
    BadToken,
    Loop,
    NotRunning,
    TimedOut,
    Undecided,
    UnknownTarget,
    WakebusError,
)
from wakebus.plugin.hermes.shared.host_calls import ask_host
from wakebus.plugin.hermes.status import status
from wakebus.plugin.hermes.tools import schemas
from wakebus.plugin.hermes.tools.broker_calls import SEND_S, tool_connection

if TYPE_CHECKING:
    from wakebus.broker import Client, Receipt
    from wakebus.plugin.hermes.runtime import Runtime
    from wakebus.plugin.hermes.shared.turn_tracker import TrackedTurn

log = logging.getLogger("wakebus")

TOOLSET: Final = "wakebus"
MAX_ENDPOINTS: Final = 100
MAX_ERROR: Final = 1000  # characters; an error may quote what was given

Args = Mapping[str, Any]
ToolResult = dict[str, Any]
Act = Callable[["Runtime", Args, Mapping[str, Any]], ToolResult]


class BadCall(WakebusError):
    """The model's arguments cannot be used as they are."""

    code = "usage"


def register(ctx: Any, runtime: "Runtime") -> None:
    """Register the tools with Hermes (hermes_cli/plugins.py:391 of hermes-agent 0.19.0)."""
    acts: tuple[Act, ...] = (bus_send, bus_status, bus_info, bus_read)
    for schema, act in zip(schemas.ALL, acts, strict=True):
        about = schema["description"]
        ctx.register_tool(
            schema["name"], TOOLSET, schema, handler(runtime, act), description=about, emoji="🚌"
        )


def handler(runtime: "Runtime", act: Act) -> Callable[..., str]:
    """Return `act` as Hermes calls it: handler(args, **facts) -> JSON (tools/registry.py:631)."""

    def handle(args: Args | None = None, **facts: Any) -> str:
        try:
            if args is not None and not isinstance(args, Mapping):
                raise BadCall("the arguments are no object", step="Give them by their names.")
            told = act(runtime, args or {}, facts)
        except WakebusError as exc:
            told = failed(exc)
        except Exception as exc:
            log.warning("a bus tool failed: %s: %s", type(exc).__name__, exc)
            told = {"error": f"{type(exc).__name__}: {exc}", "next": "Try bus_info; tell the user."}
        return json.dumps(told, ensure_ascii=False, default=str)

    return handle


# --- bus_send -------------------------------------------------------------------------------


def bus_send(runtime: "Runtime", args: Args, facts: Mapping[str, Any]) -> ToolResult:
    """Send one message; return its state, what that means, and its id."""
    target, type_, text = (_required(args, name) for name in ("target", "type", "text"))
    channel, wait = _channel(runtime, args, facts), _wait_seconds(args)
    given = {name: _optional(args, name) for name in ("session", "wake", "reply_to", "id")}
    fields: dict[str, Any] = {name: value for name, value in given.items() if value}
    with tool_connection(runtime) as (client, sender, token):
        fields |= {"type": type_, "channel": channel, "sender": sender}
        fields |= {"timeout": SEND_S, **_causality(runtime, sender, facts)}
        receipt = _send_proven(client, token, target, text, fields)
        _count_sent(runtime, receipt.id, facts)
        if wait and receipt.state not in ("handled", "dead"):
            receipt = _wait_for_outcome(client, receipt, wait)
    return _receipt_told(receipt, target, sender, channel)


def _send_proven(
    client: "Client", token: str | None, target: str, text: str, fields: ToolResult
) -> "Receipt":
    try:
        return client.send(target, text, token=token, **fields)
    except BadToken:  # the turn that started this process is over: unproven, but said
        return client.send(target, text, **fields)


def _causality(runtime: "Runtime", sender: str, facts: Mapping[str, Any]) -> ToolResult:
    """Return cause, hops and path, where the bus started the turn that calls, else that none."""
    turn = _running_turn(runtime, facts)
    if turn is None:  # a person's, though one of ours may run in another session
        return {"outside_turn": True}
    from wakebus.broker.protocol.message import MAX_PATH

    message = turn.order.delivery.message
    path = (*message.path, sender)[-MAX_PATH:]
    return {"cause": message.id, "hops": message.hops + 1, "path": path}


def _running_turn(runtime: "Runtime", facts: Mapping[str, Any]) -> "TrackedTurn | None":
    """Return the turn of ours that calls, None where another one does."""
    task = str(facts.get("task_id") or "")
    return runtime.tracker.running(task_id=task, session_id=_session_id(facts))


def _wait_for_outcome(client: "Client", receipt: "Receipt", wait: float) -> "Receipt":
    try:
        return client.wait(receipt.id, wait)
    except TimedOut as exc:
        state = exc.data.get("state")
        return receipt._replace(state=state) if state in _MEANS else receipt
    except WakebusError:  # the broker went away; the message is stored
        return receipt


OUTCOME_SAYS: Final = "; outcome says what was done there, not how well"
_MEANS: Final = {
    "queued": "stored; {to} gets it as soon as it can",
    "delivered": "{to} has it and is not done with it",
    "handled": f"it ended at {{to}}{OUTCOME_SAYS}",
    "dead": "given up, nobody gets it: {reason}",
}
_FAILED: Final = "{to} worked on it and failed: {reason}"
_IN_DOUBT: Final = "given up; work on it had begun, and may be done in part or whole: {reason}"


def _receipt_told(receipt: "Receipt", target: str, sender: str, channel: str | None) -> ToolResult:
    from wakebus.broker.protocol.outcome import left_open

    means = _MEANS.get(receipt.state, "the broker says no more")
    if receipt.failed or receipt.in_doubt:
        means = _FAILED if receipt.failed else _IN_DOUBT
    told: ToolResult = {"state": receipt.state, "id": receipt.id, "to": target, "from": sender}
    told["means"] = means.format(to=target, reason=receipt.reason or "no reason was told")
    if receipt.state == "queued" and not receipt.live:
        told["means"] += "; it is not connected now"
    if words := left_open(receipt.outcome):
        told["means"] += f"; {words}"
    if channel:
        told["channel"] = channel
    if receipt.outcome is not None:
        told["outcome"] = dict(receipt.outcome)
    if receipt.duplicate:
        told["note"] = "this id was stored before; it was not sent twice"
    return told


def _count_sent(runtime: "Runtime", id: str, facts: Mapping[str, Any]) -> None:
    runtime.sent += 1
    ask_host(runtime.host, "remember_sent", id, _session_id(facts))


def _session_id(facts: Mapping[str, Any]) -> str:
    """Return Hermes's own name of the session that calls, "" where it is not told."""
    return str(facts.get("session_id") or "")


def _channel(runtime: "Runtime", args: Args, facts: Mapping[str, Any]) -> str | None:
    """Return the channel: as stated ("" for none), else the chat of the session that calls."""
    if args.get("channel") is None:
        return ask_host(runtime.host, "channel", _session_id(facts)) or None
    token = _optional(args, "channel")
    if token and token not in _own_channels(runtime, facts):
        from wakebus.adapters.courier.channel_check import check_channel

        try:
            check_channel(token, "", runtime.home.path)
        except WakebusError as exc:
            raise BadCall(exc.text, step=exc.data.get("step", _NO_CHANNEL)) from exc
    return token or None


def _own_channels(runtime: "Runtime", facts: Mapping[str, Any]) -> set[str]:
    """Return the channels that the caller has not made up: of its chat, and of its turn's text."""
    turn = _running_turn(runtime, facts)
    of_turn = turn.order.delivery.message.channel if turn else ""
    return {ask_host(runtime.host, "channel", _session_id(facts)) or "", of_turn}


_NO_CHANNEL: Final = "Give platform:chat_id, or omit channel for the chat of this session."


def _required(args: Args, name: str) -> str:
    value = _optional(args, name)
    if not value:
        raise BadCall(f"bus_send needs {name}", step=f"Call it again with {name}, a text.")
    return value


def _optional(args: Args, name: str) -> str:
    value = args.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadCall(f"{name} is no text: {reprlib.repr(value)}", step=f"Give {name} as a string.")
    return value if name == "text" and value.strip() else value.strip()


def _wait_seconds(args: Args) -> float:
    value = args.get("wait_s")
    real = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    if value is not None and not real:
        raise BadCall("wait_s is no number", step=f"Give seconds, 0 to {schemas.MAX_WAIT_S}.")
    return float(min(max(0, value or 0), schemas.MAX_WAIT_S))


# --- bus_status, bus_info, bus_read ---------------------------------------------------------


def bus_status(runtime: "Runtime", args: Args, facts: Mapping[str, Any]) -> ToolResult:
    """Return the broker's state and the endpoints."""
    with tool_connection(runtime) as (client, _, _):
        found = client.status()
    wanted = ("version", "pid", "uptime_s", "accepted", "dead_letters")
    broker = {"running": True, **{name: found[name] for name in wanted if name in found}}
    shown = ("name", "state", "queued", "in_hand")
    rows = [{name: one.get(name) for name in shown} for one in found["endpoints"]]
    # Away for long and nothing waiting: the least worth knowing, where there are too many.
    rows.sort(key=lambda one: (one["state"] != "live", not one["queued"]))
    told: ToolResult = {
        "broker": broker,
        "endpoints": rows[:MAX_ENDPOINTS],
        "you": runtime.endpoint,
    }
    return told | ({"more": len(rows) - MAX_ENDPOINTS} if len(rows) > MAX_ENDPOINTS else {})


def bus_info(runtime: "Runtime", args: Args, facts: Mapping[str, Any]) -> ToolResult:
    """Return how this session stands with the bus; also where there is no broker."""
    return {**status(runtime), "channel": _channel(runtime, {}, facts) or ""}


def bus_read(runtime: "Runtime", args: Args, facts: Mapping[str, Any]) -> ToolResult:
    """Return the endpoint's inbox, or one message whole."""
    from wakebus.plugin.hermes.tools.bus_read import read_inbox, read_message, show_all

    id = _optional(args, "id")
    may_show = ask_host(runtime.host, "may_show", _session_id(facts)) or show_all
    with tool_connection(runtime) as (client, name, _):
        if id:
            return read_message(client, name, id, may_show)
        return read_inbox(client, name, _limit(args), may_show)


def _limit(args: Args) -> int:
    value = args.get("limit")
    if value is None:
        return schemas.LIMIT
    if type(value) is not int or value < 1:
        raise BadCall("limit is no whole number from 1", step=f"Give 1 to {schemas.MAX_LIMIT}.")
    return min(value, schemas.MAX_LIMIT)


# --- errors ---------------------------------------------------------------------------------


def failed(error: WakebusError) -> ToolResult:
    """Return an error as the model is told of it: what, and what to do next."""
    told: ToolResult = {
        "error": error.text[:MAX_ERROR],
        "code": error.code,
        "next": _next_step(error),
    }
    if isinstance(error, Undecided):
        told |= {"state": "unknown", "id": error.id}
    return told


def _next_step(error: WakebusError) -> str:
    if step := error.data.get("step"):
        return str(step)
    if isinstance(error, UnknownTarget):
        near = ", ".join(error.data.get("near", ()))
        return f"Did you mean: {near}?" if near else "bus_status lists the endpoints there are."
    if isinstance(error, Undecided):
        return (
            f"It may be stored. To settle it, call bus_send again with the same and id {error.id}."
        )
    if isinstance(error, Loop):
        return "Do not send it again, nor in other words; end your turn, and tell the user."
    if isinstance(error, NotRunning):
        return "Nothing was sent. Ask the user to run: hermes-busd start"
    if error.retry:
        return "Nothing was stored. Try again in a while."
    return "Change the call; the same one would fail again."
