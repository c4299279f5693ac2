"""
Turns of `listen --agent CMD` whose CMD has `{session_id}`: each session has one conversation.

Rule 1: a conversation has one turn at a time, also where a listener was killed and its agent still
ends. Rule 2: what the program has forgotten begins anew, in the same turn, and is told; only where
the program said that it did nothing. Rule 3: an id is on disk before its turn begins, or, where the
program makes it, when its first turn has ended.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

from wakebus.broker.errors import NotNow
from wakebus.broker.system.processes import Process, has_ended, process_of
from wakebus.plugin.harness.agent_command import AgentCommand, AgentConversation
from wakebus.plugin.harness.conversations import ConversationFile, KeptConversation
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.processes.run import KILL_AFTER_S, Finished
from wakebus.plugin.receive.host import TurnResult

STILL: Final = "the agent of an earlier turn of this conversation still runs (process {})"
FORGOTTEN: Final = "{} no longer knew conversation {}"
LOOK_S: Final = 0.05
PATIENCE_S: Final = KILL_AFTER_S + 3.0  # what a killed listener leaves is ended by then

# (command line, its pid is told to, how it ended is told to): run it once.
RunLine = Callable[[str, Callable[[int], object], Callable[[Finished], object]], TurnResult]


class AgentConversations:
    """The conversations of one `command`."""

    def __init__(self, command: AgentCommand, kept: ConversationFile) -> None:
        self._command, self._kept = command, kept

    def until_free(self, session: str, cancel: Cancel, waits: Callable[[str], object]) -> None:
        """Return when nothing runs in it any more. Raises NotNow where something goes on to."""
        kept = self._kept.conversation_of(session)
        if kept is None or kept.process is None or not _runs(kept.process):
            return
        why = STILL.format(kept.process.pid)
        waits(why)
        until = time.monotonic() + PATIENCE_S
        while _runs(kept.process) and not cancel.asked:
            if time.monotonic() > until:
                if has_ended(kept.process):
                    return  # what it left in the background may stay
                raise NotNow(why)
            threading.Event().wait(LOOK_S)

    def run(self, session: str, run_line: RunLine) -> TurnResult:
        """Run a turn of `session` in its conversation."""
        kept = self._kept.conversation_of(session)
        new = AgentConversation.new(self._command.harness, str(uuid.uuid4()))
        conversation = kept.conversation if kept else new
        turn, stderr = self._once(session, conversation, run_line)
        told: dict[str, str] = {}
        # Hermes may exit with 0, and has said nothing then.
        silent = not turn.answer and not turn.cut_off
        other = self._command.instead(conversation, stderr) if silent else None
        if other is not None:
            if conversation.begun:
                name, id = self._command.harness.name, conversation.id
                told["began_anew"] = FORGOTTEN.format(name, id)
            conversation = other
            turn, stderr = self._once(session, conversation, run_line)
        conversation = self._command.after(conversation, stderr, well=turn.well)
        told |= {"conversation": conversation.id} if conversation.id else {}
        if trouble := self._kept.save(session, KeptConversation(conversation)):
            told["conversation_error"] = f"kept in memory only: {trouble}"
        return turn._replace(outcome={**turn.outcome, **told})

    def _once(
        self, session: str, conversation: AgentConversation, run_line: RunLine
    ) -> tuple[TurnResult, str]:
        said: list[str] = []

        def on_start(pid: int) -> None:
            self._kept.save(session, KeptConversation(conversation, process_of(pid)))

        def on_end(done: Finished) -> None:
            both = (done.stderr_start, done.stderr)
            said.append("\n".join(part.decode(errors="replace") for part in both))

        turn = run_line(self._command.line(conversation), on_start, on_end)
        return turn, "".join(said)


def _runs(process: Process) -> bool:
    """Whether it, or anything of its group, still runs."""
    if not has_ended(process):
        return True
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
