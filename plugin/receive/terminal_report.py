"""
What the terminal of a receiver is told of the work on messages, a line each.

Rule 1: every end of work that the owner would want to know of: a turn, a command or a refusal.
Rule 2: how it ended is told only in a listener's: who sits at an agent's own terminal sees its
turns, and a gateway's is a log that nobody reads. What is not seen there, that it is tried again or
that a note is given up, is told in each. Rule 3: one line, cleaned; only an answer that reaches
nobody stands below.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wakebus.broker.duration import seconds_text
from wakebus.broker.protocol.message import Message
from wakebus.plugin.prompt.pending_context import MAX_FAILED
from wakebus.plugin.receive.answers import describe_route
from wakebus.plugin.receive.failure import failure_of_action
from wakebus.plugin.receive.host import TurnResult
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules.match import Plan
from wakebus.plugin.rules.model import HostKind
from wakebus.plugin.rules.sanitize import sanitize_line

MAX_LINE: Final = 400  # characters


def reply_command(id: str) -> str:
    """Return the command that answers question `id`, as it can be pasted: it asks for the text."""
    return f"wakebus reply {'-- ' * id.startswith('-')}{id}"


class TerminalReport:
    """Tells `terminal` what became of messages; `kind`: of the host."""

    def __init__(self, terminal: TerminalOutput, kind: HostKind) -> None:
        self._terminal, self._kind = terminal, kind
        self._told = kind in ("agent", "terminal")

    def report_turn(self, job: Job, turn: TurnResult, told: Mapping[str, Any]) -> None:
        """Tell how a turn ended, and what of its answer reached nobody."""
        message = job.delivery.message
        lost = [part for part in told.values() if isinstance(part, dict) and "text" in part]
        ended = turn.outcome.get("error") or turn.outcome.get("note")
        how = job.failed or str(ended or describe_route(message, told))
        if lost and "reason" in lost[0]:
            how = f"its answer was not sent: {lost[0]['reason']}"
        if anew := turn.outcome.get("began_anew"):
            how = f"{how} ({anew})"
        # What reaches nobody is at least read here.
        self._show("turn on", message, how, f"\n{turn.answer}" if lost else "")

    def report_begin(self, job: Job) -> None:
        """Tell that a turn begins."""
        self._show("turn on", job.delivery.message, "begins")

    def report_question(
        self, message: Message, chosen: Plan, actions: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """
        Tell how a person answers a message for whose answer somebody waits and no turn begins.

        Return what its outcome tells of that answer: shown is not answered (PROTOCOL.md section 9).
        """
        if self._kind != "terminal":
            return {"answered": False}
        if why := why_unseen(chosen, actions):
            return {"answered": False, "note": f"no person here was shown it: {why}"}
        line = f"· {message.sender} waits for an answer: {reply_command(message.id)}"
        self._terminal.show(sanitize_line(line, MAX_LINE))
        return {"awaits": "reply"}

    def report_unanswered(self, shown: Mapping[str, Any]) -> None:
        """Tell of a question that was shown before; `shown`: its row of the inbox."""
        text = sanitize_line(f"· not answered yet: {shown['from']}: {shown['text']}", MAX_LINE)
        self._terminal.show(f"{text} · {reply_command(shown['id'])}")

    def report_commands(self, message: Message, actions: Sequence[Mapping[str, Any]]) -> None:
        """Tell which command failed."""
        for done in actions:
            if done["what"] == "command" and (why := failure_of_action(done)):
                self._show("command on", message, why)

    def report_refusal(self, message: Message, reason: str) -> None:
        """Tell why nothing of what the rule says was done."""
        self._show("refused", message, reason)

    def report_retry(self, message: Message, after_s: float) -> None:
        """Tell when failed work is tried again."""
        self._terminal.show(f"· {message.id} failed; again in {seconds_text(after_s)}")

    def report_given_up(self, ids: Sequence[str]) -> str:
        """Tell which waiting notes are shown to no turn any more; return it for the outcome."""
        if not ids:
            return ""
        told = f"shown to {MAX_FAILED} turns that failed, not shown again: {', '.join(ids)}"
        read = f"`wakebus trace {ids[0]} --text` shows what it says"
        self._terminal.show(f"· {sanitize_line(f'what waited was {told}', MAX_LINE)}; {read}")
        return told

    def _show(self, what: str, message: Message, how: str, below: str = "") -> None:
        if not self._told:
            return
        type_ = sanitize_line(message.type or "message", 40)
        line = f"· {what} {type_} from {message.sender} ({message.id}): {how}"
        self._terminal.show(f"{sanitize_line(line, MAX_LINE)}{below}")


def why_unseen(chosen: Plan, actions: Sequence[Mapping[str, Any]]) -> str:
    """Return why nobody at this terminal has seen the text, "" where it was printed."""
    prints = [done for done in actions if done["what"] == "print"]
    if not prints:
        return f"its rule ({chosen.rule_label}) prints nothing"
    if prints[0].get("to") != "terminal":
        return f"it was printed for {prints[0].get('to')}"
    return str(prints[0].get("error", ""))
