"""
`/bus` in a terminal and in chats: how this session stands with the bus, and sending by hand.

Rule 1: a few lines of plain text; nothing is raised. Rule 2: a gateway calls it on its event loop,
so the work is done in a thread (gateway/run.py:11195 of hermes-agent 0.19.0 awaits what is a
coroutine, and so does the CLI). Rule 3: a chat is shown
no text of which Hermes would make an upload (safe_chat_text.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.errors import NotRunning, Undecided, UnknownTarget, WakebusError
from wakebus.plugin.hermes.shared.host_calls import ask_host
from wakebus.plugin.hermes.shared.safe_chat_text import without_uploads
from wakebus.plugin.hermes.status import endpoints_page, status, status_page
from wakebus.plugin.hermes.tools.broker_calls import tool_connection
from wakebus.plugin.hermes.tools.bus_tools import OUTCOME_SAYS, bus_send
from wakebus.plugin.rules.sanitize import sanitize

if TYPE_CHECKING:
    from wakebus.plugin.hermes.runtime import Runtime

HELP: Final = """\
/bus                  how this session stands with the bus
/bus who              the endpoints that can be sent to
/bus send NAME TEXT   send a text to an endpoint
/bus help             this"""
WAIT_S: Final = 5  # for the receiver's work; in a thread
MAX_SAID: Final = 300  # characters
ABOUT: Final = "The message bus: status, who is there, send"


def register(ctx: Any, runtime: "Runtime") -> None:
    """Register `/bus` (hermes_cli/plugins.py:529 of hermes-agent 0.19.0)."""
    ctx.register_command(
        "bus", handler(runtime), description=ABOUT, args_hint="[who | send NAME TEXT | help]"
    )


def handler(runtime: "Runtime") -> Callable[[str], Awaitable[str]]:
    """Return `/bus` as Hermes calls it: with what stands behind the command."""

    async def handle(words: str = "") -> str:
        said = await asyncio.to_thread(run, runtime, words)
        return said if runtime.mode == "cli" else without_uploads(said)

    return handle


def run(runtime: "Runtime", words: str) -> str:
    """Do what `words` say; return what to show."""
    verb, _, rest = words.strip().partition(" ")
    try:
        if verb == "who":
            return _who(runtime)
        if verb == "send":
            return _send(runtime, rest.strip(), words)
        if not verb:
            return status_page(status(runtime))
        return HELP if verb == "help" else f"unknown: {verb:.40}\n{HELP}"
    except WakebusError as exc:
        return failed(exc)
    except Exception as exc:
        return f"/bus failed: {type(exc).__name__}: {exc}"


def failed(error: WakebusError) -> str:
    """Return an error as a person is told of it: what, and what to do."""
    if isinstance(error, NotRunning):
        step = error.data.get("step") or "Start it: hermes-busd start"
    elif isinstance(error, UnknownTarget):  # its text names those that are near
        step = "/bus who lists them."
    elif isinstance(error, Undecided):
        step = f"It may be stored. To see: wakebus trace {error.id}"
    else:
        step = error.data.get("step") or ("Try again in a while." if error.retry else "")
    return f"{error.text}\n{step}".rstrip()


def _who(runtime: "Runtime") -> str:
    with tool_connection(runtime) as (client, _, _):
        return endpoints_page(client.list())


def _send(runtime: "Runtime", rest: str, words: str) -> str:
    target, _, text = rest.partition(" ")
    if not target or not text.strip():
        return "Write: /bus send NAME TEXT"
    args = {"target": target, "type": "directive", "text": text.strip(), "wait_s": WAIT_S}
    # A person types this: it is no part of a turn, so nothing caused it.
    with _here(runtime, words):
        told = bus_send(runtime, args, {})
    return "\n".join([f"{told['state']}: {_means(told)} ({told['id']})", *_outcome(told)])


def _here(runtime: "Runtime", words: str) -> AbstractContextManager[None]:
    """Inside, the host's session is the one of the chat in which the command was typed."""
    return ask_host(runtime.host, "commanding", words) or nullcontext()


def _means(told: Mapping[str, Any]) -> str:
    means = str(told["means"]).replace(OUTCOME_SAYS, "")
    comes = told.get("channel") and told["state"] in ("queued", "delivered")
    return f"{means}; the answer is to come to this chat" if comes else means


def _outcome(told: Mapping[str, Any]) -> list[str]:
    """Return what a receiver says beyond that it is done, a line each."""
    outcome = told.get("outcome") or {}
    found = ((name, outcome.get(name)) for name in ("note", "error", "context_error"))
    return [
        f"{name}: {sanitize(value)[:MAX_SAID]}" for name, value in found if isinstance(value, str)
    ]
