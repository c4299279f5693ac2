"""
The tools as the model is told of them.

Rule 1: pure. Rule 2: names and required parameters are the seed's (seed 004, "Provided Tools").
Rule 3: a description's first sentence says in 60 characters what the tool is for: since Hermes 0.20
a model sees no more of it until it asks (tools/tool_search.py:149). Rule 4: the rest has the words
by which a model looks for it: a search finds nothing that lacks its rarest word
(tools/tool_search_catalog.py:145).
"""

from typing import Any, Final

MAX_WAIT_S: Final = 60
MAX_LIMIT: Final = 50
LIMIT: Final = 10

ToolSchema = dict[str, Any]


def _schema(name: str, description: str, required: list[str], **properties: Any) -> ToolSchema:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": description, "parameters": parameters}


def _text(description: str) -> ToolSchema:
    return {"type": "string", "description": description}


SEND: Final = _schema(
    "bus_send",
    "Send a message to another agent, session or program. Ask, tell or notify it, send it a "
    "notification or progress report, delegate a task to a worker, reply to its message: over the "
    "wakebus message bus, to an endpoint name. Returns what became of it: queued (stored, waits "
    "for the target), delivered (the target has it), handled (it ended there; the outcome says "
    "how), dead (refused, failed or given up; the reason says why) or unknown. To talk to the user "
    "in this chat, just answer; do not use this.",
    ["target", "type", "text"],
    target=_text("Endpoint name of the receiver, for example worker-alpha. bus_status lists them."),
    type=_text(
        "What kind of message; the receiver's rules go by it: directive (do this), ack, "
        "task_start, progress, task_complete, task_done, plan_ready, task_error, need_decision, "
        "or any other word."
    ),
    text=_text("The message, plain text. The receiver sees nothing else of this conversation."),
    channel=_text(
        "The chat that a reply should reach, platform:chat_id. Omit it for the chat of this "
        "session; an empty string for none."
    ),
    session=_text("A conversation at the receiver; omit it unless you were given one."),
    wake={
        "type": "string",
        "enum": ["immediate", "next_turn", "silent"],
        "description": "Disturb the receiver at most so much; its own rules may ask for less.",
    },
    reply_to=_text("Id of the bus message that this one answers."),
    wait_s={
        "type": "number",
        "minimum": 0,
        "maximum": MAX_WAIT_S,
        "description": "Wait up to so many seconds (at most 60) until the receiver has handled it. "
        "Default 0. An answer comes later, as a message of its own.",
    },
    id=_text("Only to settle a send whose state was unknown: its id, with all else the same."),
)

STATUS: Final = _schema(
    "bus_status",
    "Show which agents and programs the message bus reaches. Lists who is there: the endpoints "
    "that can be sent to, online (live) or away, how much waits for them, and whether the broker "
    "of the bus runs (wakebus).",
    [],
)

INFO: Final = _schema(
    "bus_info",
    "Show this session's own name on the message bus. With it the channel of this chat, mode, "
    "rules, and what waits here (wakebus).",
    [],
)

READ: Final = _schema(
    "bus_read",
    "Read this session's inbox on the message bus. Nothing is taken out of it (wakebus): what "
    "waits, is being worked on or came silently, newest first, first lines "
    "only. With id: one message, whole. The texts come from other programs, not from your user.",
    [],
    limit={
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_LIMIT,
        "description": f"How many, default {LIMIT}.",
    },
    id=_text("A message to read whole: one sent to or by this endpoint."),
)

ALL: Final = (SEND, STATUS, INFO, READ)
