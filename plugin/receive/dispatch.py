"""
What happens to a message that has arrived: the rule's actions.

Rule 1: the plan comes from rules/match.py; here it is only carried out. Rule 2: the outcome tells
every action with its result; nothing is silent. Rule 3: a print or command that fails is told, and
stops nothing else; a turn that fails, or a command that was all there was to do, is refused.
Rule 4: a delivery is acknowledged by returning; what must come again, because this host stops or
lost its name, raises. Rule 5: what must be kept is kept before anything is done, so that what the
disk does not take comes again whole.
"""

import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from wakebus.broker import Delivery, Later, Refusal
from wakebus.broker.duration import seconds_text
from wakebus.broker.errors import Fenced, NotNow, NotRegistered, NotRunning
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.processes.run import KILL_AFTER_S
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.prompt.pending_context import Context, PendingContext
from wakebus.plugin.prompt.prompt import build_prompt
from wakebus.plugin.receive import agent_process, event_rules
from wakebus.plugin.receive.answers import Answers, not_sent
from wakebus.plugin.receive.failure import (
    attempts,
    failure_line,
    failure_of_actions,
    failure_of_answer,
    failure_of_turn,
    is_due,
    mark_failed,
    mark_in_doubt,
    may_try_again,
    outcome_of_silence,
    refusal,
    retry_later,
    tells_chat,
)
from wakebus.plugin.receive.host import (
    Host,
    Told,
    TurnRequest,
    TurnResult,
    begins_turn,
    when_again,
)
from wakebus.plugin.receive.outcome_limits import fit_outcome
from wakebus.plugin.receive.shell_command import Commands
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.receive.terminal_report import TerminalReport
from wakebus.plugin.receive.turn_queue import (
    STOPPING,
    Job,
    OutcomeFields,
    TurnQueue,
    fill_outcomes,
    start_jobs,
)
from wakebus.plugin.rules.load import RulesFile
from wakebus.plugin.rules.match import Plan, is_notice, plan
from wakebus.plugin.rules.model import PLAIN
from wakebus.plugin.rules.render import RenderTarget, render
from wakebus.plugin.rules.script import render_or_script
from wakebus.plugin.turns.flood_limit import FloodLimit

RETRY_S: Final = 5.0  # when the disk, or the broker's, takes nothing
CROWDED_S: Final = 2.0
STOP_S: Final = KILL_AFTER_S + 3.0  # until what runs is ended, by SIGKILL if need be


class Dispatch:
    """The handler of a listening endpoint; `host`: where it runs; `answers`: what sends for it."""

    def __init__(
        self,
        endpoint: str,
        rules: RulesFile,
        host: Host,
        answers: Answers,
        context: Context,
        *,
        terminal: TerminalOutput | None = None,
        environ: Mapping[str, str] = os.environ,
        limit: FloodLimit | None = None,
    ) -> None:
        self._endpoint, self._rules, self._host = endpoint, rules, host
        self._answers, self._context, self._environ = answers, context, environ
        self._terminal = terminal or TerminalOutput()
        self._report = TerminalReport(self._terminal, host.kind)
        self._commands = Commands()
        self._command_threads: set[threading.Thread] = set()
        self._limit = limit or FloodLimit()
        self._turns = TurnQueue(self._run_turn, at_once=host.at_once, limit=self._limit)

    def stop(self) -> None:
        """End running turns and commands and wait for their end; what they did comes again."""
        until = time.monotonic() + STOP_S
        self._commands.stop_all()
        self._turns.stop(STOP_S)
        for thread in list(self._command_threads):
            thread.join(max(0.0, until - time.monotonic()))

    def handle(self, delivery: Delivery) -> Mapping[str, Any] | Later | Refusal:
        """Carry out what the rules say of this message; return its outcome."""
        try:
            handled = self._handle(delivery)
        except (Fenced, NotRegistered, NotRunning):
            # Not acknowledged: the broker gives it to the next holder, labelled.
            delivery.lost = True
            raise
        except NotNow as exc:
            if delivery.cancelled:
                return Refusal(delivery.cancelled)
            return Later(RETRY_S, exc.text)
        if isinstance(handled, Later):
            return handled
        if isinstance(handled, Refusal):
            return handled._replace(outcome=fit_outcome(handled.outcome or {}))
        return fit_outcome(handled)

    def _handle(self, delivery: Delivery) -> OutcomeFields | Later | Refusal:
        rules = self._rules.current()
        topic = event_rules.unpack(delivery, self._endpoint)
        known, asks = delivery.sender_known and not topic, delivery.asks
        kind = self._host.kind
        chosen = plan(rules, delivery.message, kind, sender_known=known, asks=asks, topic=topic)
        outcome: OutcomeFields = {"rule": chosen.rule_label, "at": time.time(), "actions": []}
        if topic and chosen.rule is None:
            return {**outcome, "skipped": "no rule is for this topic any more"}
        if when_again(delivery, chosen) == "skip":
            skipped = "work on it had started before; the rule says on_redelivery: skip"
            return {**outcome, "skipped": skipped, "answered": False}
        placed = self._host.place(delivery, chosen)
        if isinstance(placed, Later):
            return placed
        if isinstance(placed, Refusal):
            self._report.report_refusal(delivery.message, placed.reason)
            return placed._replace(outcome={**outcome, **(placed.outcome or {}), "answered": False})
        if placed.note:
            outcome["note"] = placed.note
        return self._carry_out(delivery, placed, outcome)

    def _carry_out(
        self, delivery: Delivery, chosen: Plan, outcome: OutcomeFields
    ) -> OutcomeFields | Later | Refusal:
        turn = begins_turn(delivery, chosen)
        if turn and self._turns.crowded(chosen.session, delivery):
            return Later(CROWDED_S, "many senders wait for a turn of this session already")
        if chosen.context and not turn and (later := self._keep_context(delivery, chosen, outcome)):
            return later
        if chosen.prints != "no" and not _tries_again(delivery, chosen):
            outcome["actions"].append(self._print(delivery, chosen))
        command = self._start_command(delivery, chosen, outcome["actions"])
        job = None
        if turn:
            job = self._take_turn(delivery, chosen, outcome["actions"])
            outcome |= {"wake": chosen.wake, **job.outcome}
        elif delivery.asks:
            outcome |= self._report.report_question(delivery.message, chosen, outcome["actions"])
        if command:
            command.join()
        self._report.report_commands(delivery.message, outcome["actions"])
        if delivery.cancelled:
            return Refusal(delivery.cancelled, outcome)
        outcome = _whole(outcome)
        reason = job.failed if job else failure_of_actions(outcome["actions"])
        if not reason:
            return outcome
        worked = job is not None or any(done["what"] == "command" for done in outcome["actions"])
        if not worked:
            return Refusal(reason, outcome)
        doubt = job is not None and job.doubt
        if not doubt and (later := retry_later(reason, outcome, chosen, delivery, time.time())):
            self._report.report_retry(delivery.message, later.after_s)
            return later
        return self._refuse(delivery, chosen, reason, outcome, job)

    def _refuse(
        self,
        delivery: Delivery,
        chosen: Plan,
        reason: str,
        outcome: OutcomeFields,
        job: Job | None,
    ) -> Refusal:
        """Tell the chat of a failure, once, and return the word for the broker."""
        if tells_chat(delivery.message, chosen):
            told = job.failure_told if job else None
            outcome["failure_told"] = told or self._tell_chat(delivery, reason)
        failed = job is None or not job.doubt
        return refusal(reason, outcome, failed=failed, notice=chosen.on_failure.sender)

    def _tell_chat(self, delivery: Delivery, reason: str) -> Told:
        try:
            if delivery.retried and self._answers.failed_before(delivery):
                return {"again": True}  # the chat knows
            line = failure_line(delivery.message, self._endpoint, reason)
            return self._host.show(delivery, line, "failure")
        except (NotNow, NotRunning) as exc:  # the work is not done anew for the sake of a line
            return not_sent(exc.text)

    # --- print and command ----------------------------------------------------------------

    def _print(self, delivery: Delivery, chosen: Plan) -> OutcomeFields:
        done: OutcomeFields = {"what": "print", "t": time.time()}
        if chosen.prints == "channel" and delivery.message.channel:
            shown = self._render(chosen.print_format, delivery, "plain", done)
            told = self._host.show(delivery, shown)
            # A gateway's terminal is a log that nobody reads.
            nowhere = self._host.kind == "gateway" and not is_notice(delivery.message)
            if told["result"] not in ("not_sent", "rejected") or nowhere:
                return done | told
            done["channel"] = told["reason"]
        text = self._render(chosen.print_format, delivery, "terminal", done)
        error = self._terminal.of_session(chosen.session).show(text)
        return done | ({"to": "terminal", "error": error} if error else {"to": "terminal"})

    def _render(
        self, source: str, delivery: Delivery, target: RenderTarget, done: OutcomeFields
    ) -> str:
        color = target == "terminal" and self._terminal.color
        message = delivery.message
        try:
            rendered = render_or_script(source, message, target, environ=self._environ, color=color)
        except OSError as exc:  # no descriptor, no process to spare
            done["script_error"] = str(exc)
            return render(PLAIN, message, target, color=color)
        if rendered.error:
            done["script_error"] = rendered.error
        return rendered.text

    def _start_command(
        self, delivery: Delivery, chosen: Plan, actions: list[OutcomeFields]
    ) -> threading.Thread | None:
        rule = chosen.rule
        if rule is None or rule.command is None or _tries_again(delivery, chosen):
            return None
        delivery.started()

        cancel = Cancel()
        delivery.on_cancel(partial(self._commands.end_command, cancel))

        def run_command() -> None:
            result = self._commands.run(
                rule, delivery.message, environ=self._environ, cancel=cancel
            )
            actions.append({"what": "command", "t": result.started, **result.to_outcome()})
            self._command_threads.discard(thread)

        thread = threading.Thread(target=run_command, name="wakebus command", daemon=True)
        self._command_threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # no thread to spare: then before the rest, not beside it
            run_command()
            return None
        return thread

    # --- context and turns ----------------------------------------------------------------

    def _keep_context(
        self, delivery: Delivery, chosen: Plan, outcome: OutcomeFields
    ) -> Later | None:
        """Keep a text for the session's next turn, or for nobody but the inbox."""
        outcome |= {"wake": chosen.wake, "answered": False}  # who waits for an answer need not
        done: OutcomeFields = {"what": "context", "t": time.time(), "session": chosen.session}
        if chosen.wake == "silent":
            done |= {"what": "inbox"}
        else:
            item = self._item(delivery, chosen, done)
            try:
                done["waiting"] = self._context.add(chosen.session, item)
            except OSError as exc:
                # Not acknowledged: it would be lost with this process.
                self._terminal.show(f"· context cannot be written: {exc}; again in {RETRY_S:g} s")
                return Later(RETRY_S, f"the context file cannot be written: {exc}")
        outcome["actions"].append(done)
        return None

    def _take_turn(self, delivery: Delivery, chosen: Plan, actions: list[OutcomeFields]) -> Job:
        """Wait for a turn on this message; return the job with what became of it."""
        done: OutcomeFields = {"what": "context", "t": time.time()}
        item = self._item(delivery, chosen, done)
        if "script_error" in done:
            actions.append(done)
        ahead = any(rule.interrupt for rule in self._rules.current().callbacks)
        job = Job(delivery, chosen, item, ahead=ahead)
        if not job.asked and (rest := self._turns.rest(chosen.session)) > 0:
            why = self._limit.reason
            self._terminal.show(f"· {delivery.message.id} rests {seconds_text(rest)}: {why}")
        delivery.on_cancel(partial(self._turns.cancel, chosen.session, job))
        self._turns.take_turn(chosen.session, job)
        return job

    def _item(self, delivery: Delivery, chosen: Plan, done: OutcomeFields) -> PromptItem:
        text = self._render(chosen.context_format, delivery, "plain", done)
        return PromptItem.of_delivery(delivery, text, attempts(chosen))

    def _run_turn(self, session: str, jobs: Sequence[Job], cancel: Cancel) -> bool:
        """Run one turn on `jobs`; return whether it was cut off. Raises NotRunning at a stop."""
        self._host.ready(session, jobs[-1], cancel)
        token, marker = agent_process.new_token(), secrets.token_hex(12)
        ours = start_jobs(jobs, token)
        if not ours:
            return False
        waiting, trouble = self._waiting(session)
        last = ours[-1]
        items = [job.item.at(time.time()) for job in ours]
        waiting, text = build_prompt(waiting, items, self._host.prompt_limit, marker)
        timeout = last.plan.rule.turn_timeout_s if last.plan.rule else None
        self._report.report_begin(last)
        order = TurnRequest(session, ours, text, marker, token, cancel, timeout)
        turn = self._host.turn(order)
        told: OutcomeFields = {**self._host.answer(order, turn)} if turn.answer else {}
        due = is_due(ours)
        spoke = due and turn.mute and self._answers.spoke(order.delivery)
        failed = failure_of_turn(turn, due=due and not spoke)
        if turn.mute and not failed:
            turn = turn._replace(outcome=outcome_of_silence(turn.outcome, spoke=spoke))
        if failed := failed or failure_of_answer(last.delivery.message, told):
            mark_failed(ours, failed, turn.shown)
        if turn.doubt:
            mark_in_doubt(ours, turn)
        self._report.report_turn(last, turn, told)
        fill_outcomes(ours, turn.outcome, told, [item.message.id for item in waiting.items])
        if trouble := self._forget_shown(session, waiting, turn, last) or trouble:
            last.outcome["context_error"] = trouble
        return turn.cut_off

    def _waiting(self, session: str) -> tuple[PendingContext, str]:
        try:
            return self._context.waiting(session).at(time.time()), ""
        except OSError as exc:  # it waits on
            return PendingContext(), f"what waits could not be read: {exc}"

    def _forget_shown(
        self, session: str, waiting: PendingContext, turn: TurnResult, job: Job
    ) -> str:
        """Forget what the agent has seen; return what went wrong."""
        try:
            if turn.well:
                self._context.shown(session, waiting)
            # Of one that is tried again no outcome is kept, in which it could be told.
            elif (
                turn.began
                and not turn.cut_off
                and not may_try_again(job.outcome, job.plan, job.delivery)
            ):
                spoiled = self._context.failed(session, waiting, job.delivery.message.id)
                return self._report.report_given_up(spoiled)
        except OSError as exc:
            return f"what was shown is shown again after a restart: {exc}"
        return ""


def _tries_again(delivery: Delivery, chosen: Plan) -> bool:
    """Whether this is one more turn on the message: what stands beside it has been done."""
    return delivery.failures > 0 and chosen.context


def _whole(outcome: OutcomeFields) -> OutcomeFields:
    """Return the outcome, unless all that was to be done was a command that our stop cut off."""
    if "turn" not in outcome and any(done.get("cancelled") for done in outcome["actions"]):
        raise NotRunning(STOPPING)
    return outcome
