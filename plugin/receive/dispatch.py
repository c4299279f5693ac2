"""
What happens to a message that has arrived: the rule's actions, in order (design 6).

Rule 1: the plan comes from rules/match.py; here it is only carried out. Rule 2: the outcome tells
every action with its result; nothing is silent. Rule 3: a print or command that fails is told, and
stops nothing else. Rule 4: a delivery is acknowledged by returning; what must come again raises.
"""

import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wakebus.broker import Delivery, Later
from wakebus.broker.errors import WakebusError
from wakebus.plugin import process
from wakebus.plugin.receive import agent
from wakebus.plugin.receive.command import Commands
from wakebus.plugin.receive.context import Context
from wakebus.plugin.receive.label import Item, label_context, label_many
from wakebus.plugin.receive.reply import Answers
from wakebus.plugin.receive.screen import Screen
from wakebus.plugin.receive.turns import Job, Turns
from wakebus.plugin.rules.clean import clean_line
from wakebus.plugin.rules.load import RulesFile
from wakebus.plugin.rules.match import Plan, plan
from wakebus.plugin.rules.script import render_or_script

DISK_RETRY_S: Final = 5.0


class Dispatch:
    """
    The handler of a listening endpoint.

    `command`: the `--agent` command line, None for a terminal without a model.
    """

    def __init__(
        self,
        endpoint: str,
        rules: RulesFile,
        answers: Answers,
        context: Context,
        *,
        command: str | None = None,
        screen: Screen | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._endpoint, self._rules, self._answers = endpoint, rules, answers
        self._context, self._command, self._environ = context, command, environ
        self._screen = screen or Screen()
        self._commands = Commands()
        self._turns = Turns(self._turn)
        self.unmatched = 0

    def stop(self) -> None:
        """End running turns and commands; what they worked on goes back to the broker."""
        self._turns.stop()
        self._commands.stop_all()

    def handle(self, delivery: Delivery) -> Mapping[str, Any] | Later:
        """Carry out what the rules say of this message; return its outcome."""
        message = delivery.message
        chosen = plan(
            self._rules.current(),
            message,
            "agent" if self._command else "terminal",
            sender_known=delivery.sender_known,
            asks=delivery.asks,
        )
        self.unmatched += chosen.rule is None
        again = chosen.rule.on_redelivery if chosen.rule else "turn"
        outcome: dict[str, Any] = {"rule": chosen.rule_label, "at": time.time(), "actions": []}
        if delivery.started_before and again == "skip":
            outcome["skipped"] = "work on it had started before; the rule says on_redelivery: skip"
            return outcome
        commanding = self._start_command(delivery, chosen, outcome["actions"])
        if chosen.prints != "no":
            outcome["actions"].append(self._print(delivery, chosen))
        later = self._wake(delivery, chosen, outcome) if chosen.context else None
        if commanding:
            commanding.join()
        return later or outcome

    # --- print and command ----------------------------------------------------------------

    def _print(self, delivery: Delivery, chosen: Plan) -> dict[str, Any]:
        message = delivery.message
        done: dict[str, Any] = {"what": "print", "t": time.time()}
        if chosen.prints == "channel" and message.channel:
            shown = self._render(chosen.print_format, delivery, "plain", done)
            told = self._answers.say(delivery, message.channel, shown)
            if told["result"] != "not_sent":
                return done | told
            done["channel"] = told["reason"]
        text = self._render(chosen.print_format, delivery, "terminal", done)
        error = self._screen.show(text)
        return done | ({"to": "terminal", "error": error} if error else {"to": "terminal"})

    def _render(self, source: str, delivery: Delivery, target: Any, done: dict[str, Any]) -> str:
        rendered = render_or_script(
            source,
            delivery.message,
            target,
            environ=self._environ,
            color=target == "terminal" and self._screen.color,
        )
        if rendered.error:
            done["script_error"] = rendered.error
        return rendered.text

    def _start_command(
        self, delivery: Delivery, chosen: Plan, actions: list[dict[str, Any]]
    ) -> threading.Thread | None:
        rule = chosen.rule
        if rule is None or rule.command is None:
            return None
        delivery.started()

        def work() -> None:
            result = self._commands.run(rule, delivery.message, environ=self._environ)
            actions.append({"what": "command", "t": result.started, **result.to_outcome()})

        thread = threading.Thread(target=work, name="wakebus command", daemon=True)
        thread.start()
        return thread

    # --- context and turns ----------------------------------------------------------------

    def _wake(self, delivery: Delivery, chosen: Plan, outcome: dict[str, Any]) -> Later | None:
        outcome["wake"] = chosen.wake
        if chosen.wake == "silent":
            return None
        rule = chosen.rule
        cut_off = delivery.started_before and rule is not None and rule.on_redelivery == "context"
        done: dict[str, Any] = {"what": "context", "t": time.time(), "session": chosen.session}
        item = self._item(delivery, chosen, done)
        if chosen.wake == "immediate" and not cut_off:
            job = Job(delivery, chosen, item, arrived=time.monotonic())
            outcome |= self._turns.take(chosen.session, job)
            if "script_error" in done:
                outcome["actions"].append(done)
            return None
        try:
            done["waiting"] = self._context.add(chosen.session, item)
        except OSError as exc:
            # Not acknowledged: it would be lost with this process.
            return Later(DISK_RETRY_S, f"the context file cannot be written: {exc}")
        outcome["actions"].append(done)
        return None

    def _item(self, delivery: Delivery, chosen: Plan, done: dict[str, Any]) -> Item:
        return Item(
            delivery.message,
            self._render(chosen.context_format, delivery, "plain", done),
            delivery.attempt,
            delivery.redelivered,
            delivery.started_before,
            delivery.claimed,
        )

    def _turn(self, session: str, jobs: Sequence[Job], cancel: process.Cancel) -> None:
        token = agent.new_token()
        ours = self._begin(jobs, token)
        if not ours:
            return
        waiting = self._context.waiting(session)
        fence = secrets.token_hex(12)
        dropped = f"[{waiting.dropped} older notes were dropped]\n" if waiting.dropped else ""
        before = label_context(waiting.items, fence)
        prompt = f"{before}{chr(10) if before else ''}{dropped}" + label_many(
            [job.item for job in ours], fence
        )
        last = ours[-1]
        timeout = (last.plan.rule and last.plan.rule.turn_timeout_s) or agent.TURN_S
        assert self._command is not None
        turn = agent.run(
            *(self._command, prompt, last.delivery.message, self._endpoint, token),
            timeout=timeout,
            cancel=cancel,
            environ=self._environ,
        )
        self._context.shown(session, waiting)
        told = (
            self._answers.answer(last.delivery, last.plan.reply, turn.answer) if turn.answer else {}
        )
        self._say(last, turn)
        for job in ours:
            job.outcome |= {"turn": turn.outcome, "answered": "answer" in told, **told}
            if waiting.items:
                job.outcome["context"] = [item.message.id for item in waiting.items]
            if job is not last:
                job.outcome["together_with"] = last.delivery.message.id

    def _begin(self, jobs: Sequence[Job], token: str) -> list[Job]:
        """Say that work on each job begins; return those that are still ours."""
        ours = []
        for job in jobs:
            try:
                job.delivery.started(token if job is jobs[-1] else None)
                ours.append(job)
            except WakebusError as exc:
                job.error = exc
        return ours

    def _say(self, job: Job, turn: agent.Turn) -> None:
        message = job.delivery.message
        how = turn.outcome.get("error") or "answered"
        type_ = clean_line(message.type or "message", 40)
        self._screen.show(f"· turn on {type_} from {message.sender} ({message.id}): {how}")
