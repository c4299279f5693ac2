"""
What counts as failed, and how that is said: in a line, for the sender, the owner and the trace.

Rule 1: pure. Rule 2: a failure is refused with its outcome, never `handled`. Rule 3: what our own
stop or a message that interrupts has cut off did not fail. Rule 4: what a program wrote is cleaned,
and only its last line that says something is repeated. Rule 5: what a chat is told is one line, and
nothing in it is markup. Rule 6: what may still be done did not fail either: it is in doubt.
"""

import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wakebus.adapters import channel as channels
from wakebus.adapters.errors import DeliveryError
from wakebus.broker import Delivery, Later, Refusal
from wakebus.broker.protocol.message import Message
from wakebus.plugin.receive.host import Told, TurnResult
from wakebus.plugin.receive.turn_queue import Job, OutcomeFields
from wakebus.plugin.rules.match import Plan, is_notice
from wakebus.plugin.rules.retry_time import delay_s
from wakebus.plugin.rules.sanitize import sanitize_line

MAX_SAID: Final = 200  # characters of what a program wrote last
MAX_LINE: Final = 300  # of the reason that a chat is told
_REASON: Final = re.compile(r"the (turn|command) failed: ")
_WORD: Final = re.compile(r"[\w.-]{1,40}\Z")
_MARKUP: Final = re.compile(r"[\[\]*_`~<>|#\\@]")
# A shell's word for the signal that ended its child: dash `Killed`, bash `x: line 1: 42 Killed  y`.
_SIGNALS: Final = "|".join(re.escape(signal.strsignal(n) or "-") for n in signal.valid_signals())
_SHELL_SAYS: Final = re.compile(
    rf"(?:\S+: line \d+:\s+\d+ )?(?:{_SIGNALS})(?: \(core dumped\))?(?:\s{{2,}}.*)?\Z"
)
# Below the line that says what is wrong: frames of a stack, what Node.js ends with, and the next
# step that our own commands name.
_NOT_SAID: Final = re.compile(
    r"\s+at \S|Node\.js v\d|(All of it|More|Look at it): (wakebus|notify-hermes) |\W*\Z"
)
_BY_SHELL: Final = 128  # a shell exits with this and the number of the signal that ended its child


def how_ended(status: int | None, ended_by: str) -> str:
    """Return in words how a program ended: `exit 1`, `ended by SIGKILL`. `ended_by`: a signal."""
    if ended_by or status is None:
        return f"ended by {ended_by or 'nobody knows what'}"
    try:
        return f"exit {status} ({signal.Signals(status - _BY_SHELL).name})"
    except ValueError:
        return f"exit {status}"


def last_line(*texts: str) -> str:
    """
    Return the last line that says something, of the first text that has one; "" for none.

    A shell's word for the signal that ended the program only where nothing else is said.
    """
    lines = (line for text in texts for line in reversed(text.split("\n")))
    said = [line for line in lines if not _NOT_SAID.match(line)]
    own = (line for line in said if not _SHELL_SAYS.match(line.strip()))
    return sanitize_line(next(own, said[0] if said else ""), MAX_SAID)


def is_due(jobs: Sequence[Job]) -> bool:
    """Whether a turn on these jobs owes an answer: to a chat, a sender, or somebody who waits."""
    return any(job.plan.reply != "none" or job.delivery.asks for job in jobs)


def failure_of_turn(turn: TurnResult, *, due: bool) -> str:
    """Return why a turn failed, "" where it did not. `due`: an answer was, and none was given."""
    error = turn.outcome.get("error")
    if not error or turn.cut_off or turn.doubt or (turn.mute and not due):
        return ""
    tails = (str(turn.outcome.get(name, "")) for name in ("stderr", "stdout"))
    return _reason("turn", str(error), last_line(*tails))


def outcome_of_silence(outcome: OutcomeFields, *, spoke: bool) -> OutcomeFields:
    """Return the outcome of a turn that said nothing, and has not failed by that."""
    rest = {name: value for name, value in outcome.items() if name != "error"}
    own = "; it sent messages of its own" if spoke else ""
    return {**rest, "note": f"{outcome['error']}{own}"}


def failure_of_answer(message: Message, told: Mapping[str, Any]) -> str:
    """Return why the answer is not on its way to the message's chat, "" where it is."""
    found = told.get("channel")
    if not message.channel or not isinstance(found, Mapping):
        return ""  # of one that is for nobody the beginning is kept
    if found.get("result") not in ("not_sent", "rejected"):
        return ""
    why = sanitize_line(str(found.get("reason", found["result"])), MAX_SAID)
    return f"the answer was not sent to {sanitize_line(message.channel, MAX_SAID)}: {why}"


def failure_of_actions(actions: Sequence[Mapping[str, Any]]) -> str:
    """Return why all that was to be done failed, "" where that is not so."""
    found = [failure_of_action(done) for done in actions]
    return "; ".join(found) if all(found) else ""


def failure_of_action(done: Mapping[str, Any]) -> str:
    """Return why a print or a command failed, "" where it did not."""
    if done["what"] == "print" and "result" in done:
        return _not_shown(done)
    if done["what"] != "command" or done.get("cancelled"):
        return ""
    tail = last_line(str(done.get("tail", "")))
    if error := done.get("error"):
        return _reason("command", str(error), tail)
    if done.get("status") == 0:
        return ""
    return _reason("command", how_ended(done.get("status"), done.get("signal", "")), tail)


def _not_shown(done: Mapping[str, Any]) -> str:
    """Return why a print is not in its chat, or not whole, "" where it is, or may be."""
    missing = done.get("done", 0) < done.get("parts", 0)
    if done["result"] not in ("not_sent", "rejected") and not missing:
        return ""
    where = f" in {done['to']}" if "to" in done else ""
    return f"not shown{where}: {done.get('reason', done['result'])}"


def was_failure(reason: str) -> bool:
    """Whether this is the reason of a turn or a command that failed."""
    return bool(_REASON.search(reason))


def mark_failed(jobs: Sequence[Job], reason: str, shown: Told | None) -> None:
    """
    Note on each job why the turn failed, and where its chat knows of it otherwise.

    shown: what the host has shown there itself. Of those with one channel the newest tells it.
    """
    newest = {job.delivery.message.channel: job for job in jobs}
    for job in jobs:
        job.failed, channel = reason, job.delivery.message.channel
        if shown and shown["result"] == "answered" and _same_chat(channel, str(shown["to"])):
            job.failure_told = shown
        elif newest[channel] is not job:
            job.failure_told = {"together_with": newest[channel].delivery.message.id}


def mark_in_doubt(jobs: Sequence[Job], turn: TurnResult) -> None:
    """Note on each job that its turn may still be run: nobody is to run it again by himself."""
    for job in jobs:
        job.failed, job.doubt = f"in doubt: {turn.outcome['error']}", True
        job.outcome["channel"] = turn.shown


def tells_chat(message: Message, chosen: Plan) -> bool:
    """Whether a failure is told where the message's channel says: in a chat that it names."""
    # A notice of what could not be said in this chat would be followed by the next one.
    return chosen.on_failure.chat and not is_notice(message) and bool(_chat(message.channel))


def _chat(channel: str) -> tuple[str, str] | None:
    """Return platform and chat of a channel, None of one that names no chat, or is none."""
    try:
        found = channels.parse(channel)
    except DeliveryError:
        return None
    return None if found.chat_id is None else (found.platform.lower(), found.chat_id)


def _same_chat(channel: str, other: str) -> bool:
    """Whether a channel leads to the chat of `other`, or to a topic of it."""
    one, two = _chat(channel), _chat(other)
    if one is None or two is None or one[0] != two[0]:
        return False
    return one[1] == two[1] or one[1].startswith(f"{two[1]}:")


def failure_line(message: Message, endpoint: str, reason: str) -> str:
    """Return what the chat is told: who could not do what of whom, why, and where to see more."""
    what = f'"{message.type}"' if _WORD.match(message.type) else "a message"
    why = sanitize_line(_REASON.sub("", reason), MAX_LINE)
    if _MARKUP.search(why):  # in a code span nothing is markup, but what ends it
        why = f"`{why.replace('`', chr(39))}`"
    return (
        f"{endpoint} could not do {what} from {message.sender}: {why} (wakebus trace {message.id})"
    )


def _reason(what: str, error: str, said: str) -> str:
    return f"the {what} failed: {sanitize_line(error, MAX_SAID)}{f': {said}' if said else ''}"


def attempts(plan: Plan) -> int:
    """Return how often work on a message may be begun that fails each time."""
    return 1 + (plan.rule.retries if plan.rule else 0)


def may_try_again(outcome: Mapping[str, Any], plan: Plan, delivery: Delivery) -> bool:
    """
    Whether failed work is tried again; where its rule does not, or no more, it is not.

    Nor is what a person stopped, nor a turn that went well and whose answer found no way.
    """
    turn = outcome.get("turn", {})
    well = "turn" in outcome and "error" not in turn
    return delivery.failures < attempts(plan) - 1 and not (well or turn.get("interrupted"))


def retry_later(
    reason: str, outcome: OutcomeFields, plan: Plan, delivery: Delivery, now: float
) -> Later | None:
    """
    Return the word that has failed work tried again, None where it is not. `now`: Unix seconds.
    """
    rule, turn = plan.rule, outcome.get("turn", {})
    if rule is None or not may_try_again(outcome, plan, delivery):
        return None
    ends = (turn.get("stderr"), turn.get("stdout"), *(a.get("tail") for a in outcome["actions"]))
    said = "\n".join([reason, *(str(end) for end in ends if end)])
    return Later(delay_s(rule.retry_after, delivery.failures, said, now), failed=reason)


def refusal(
    reason: str, outcome: OutcomeFields, *, failed: bool = True, notice: bool = True
) -> Refusal:
    """
    Return the word that ends a message whose work failed, or else is in doubt; `notice`: its
    sender is told.
    """
    return Refusal(reason, {**outcome, "failed": True} if failed else outcome, notice)
