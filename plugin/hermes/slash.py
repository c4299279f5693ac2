"""
`/bus` in a terminal and in chats: how this session stands with the bus, and sending by hand.

Rule 1: a few lines of plain text; nothing is raised. Rule 2: a gateway calls it on its event loop,
so the work is done in a thread (gateway/run.py:11195 of hermes-agent 0.19.0 awaits what is a
coroutine, and so does the CLI).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.errors import WakebusError
from wakebus.plugin.hermes import calling, report, tools

if TYPE_CHECKING:
    from wakebus.plugin.hermes.runtime import Runtime

HELP: Final = """\
/bus                  how this session stands with the bus
/bus who              the endpoints that can be sent to
/bus send NAME TEXT   send a text to an endpoint
/bus help             this"""
ABOUT: Final = "The message bus: status, who is there, send"


def register(ctx: Any, runtime: "Runtime") -> None:
    """Register `/bus` (hermes_cli/plugins.py:529 of hermes-agent 0.19.0)."""
    ctx.register_command(
        "bus", handler(runtime), description=ABOUT, args_hint="[who | send NAME TEXT | help]"
    )


def handler(runtime: "Runtime") -> Callable[[str], Awaitable[str]]:
    """Return `/bus` as Hermes calls it: with what stands behind the command."""

    async def handle(words: str = "") -> str:
        return await asyncio.to_thread(run, runtime, words)

    return handle


def run(runtime: "Runtime", words: str) -> str:
    """Do what `words` say; return what to show."""
    verb, _, rest = words.strip().partition(" ")
    try:
        if verb == "who":
            return _who(runtime)
        if verb == "send":
            return _send(runtime, rest.strip())
        return HELP if verb else report.page(runtime.status())
    except WakebusError as exc:
        told = tools.failed(exc)
        return f"{told['error']}\n{told['next']}"
    except Exception as exc:
        return f"/bus failed: {type(exc).__name__}: {exc}"


def _who(runtime: "Runtime") -> str:
    with calling.line(runtime) as (client, _, _):
        return report.endpoints_page(client.list())


def _send(runtime: "Runtime", rest: str) -> str:
    target, _, text = rest.partition(" ")
    if not target or not text.strip():
        return "Write: /bus send NAME TEXT"
    # A person types this: it is no part of a turn, so nothing caused it.
    told = tools.send(runtime, {"target": target, "type": "directive", "text": text.strip()}, {})
    return f"{told['state']}: {told['means']} ({told['id']})"
