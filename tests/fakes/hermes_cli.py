"""
An interactive CLI of hermes-agent 0.19.0 as wakebus meets it: its queues, its two threads, its
hooks. Each part names the line of cli.py that it copies.
"""

import queue
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakes.broker import until

Fire = Callable[..., list[Any]]
PASTED = re.compile(r"\[Pasted text #\d+: \d+ lines → (.+?)\]")  # :15062


class Untold(Exception):
    """A failure after which Hermes does not say that the turn ended (conversation_loop.py:4365)."""


class Agent:
    """run_agent.py's AIAgent: `seen` are the user messages that it had, with hooks' context."""

    def __init__(self, fire: Fire, session_id: str) -> None:
        self.fire, self.session_id = fire, session_id
        self._interrupt_requested = False
        self.seen: list[str] = []
        self.ended: list[str] = []
        self.written_into: list[dict[str, str]] = []  # what a person put into the turn
        self.holding = threading.Event()
        self.go = threading.Event()

    def interrupt(self, message: str | None = None) -> None:  # run_agent.py:2788
        """Ask the running turn to end."""
        self._interrupt_requested = True

    def clear_interrupt(self) -> None:  # run_agent.py:2866
        """Forget that."""
        self._interrupt_requested = False

    def turn(self, text: str, **more: Any) -> str:
        """turn_context.py:696, then the model, then turn_finalizer.py:459–623."""
        ids = {"session_id": self.session_id, "task_id": "t", "turn_id": secrets.token_hex(4)}
        fields = {**ids, "platform": "cli", **more}
        found = self.fire("pre_llm_call", user_message=text, **fields)
        parts = [str(one["context"]) for one in found if one]
        self.seen.append("\n\n".join([text, *parts]))
        answer = self._model(text)
        interrupted, self._interrupt_requested = self._interrupt_requested, False
        if answer and not interrupted:
            said = [{"role": "user", "content": text}, *self.written_into]
            told = {"assistant_response": answer, "conversation_history": said}
            self.fire("post_llm_call", **told, **fields)
        completed = bool(answer) and not interrupted
        self.fire("on_session_end", completed=completed, interrupted=interrupted, **fields)
        self.ended.append(text)
        return answer

    def _model(self, text: str) -> str:
        if "UNTOLD" in text:
            raise Untold
        if "HOLD" in text:
            self.holding.set()
            until(lambda: self.go.is_set() or self._interrupt_requested, 30)
        return "" if "FAIL" in text or self._interrupt_requested else f"answer to {text[:2000]}"


class Cli:
    """cli.py's HermesCLI, from `run` on: `prompts` are the texts that became turns, in order."""

    def __init__(self, fire: Fire, session_id: str = "s1") -> None:
        self._pending_input: queue.Queue[Any] = queue.Queue()  # :13088
        self._interrupt_queue: queue.Queue[Any] = queue.Queue()
        self._agent_running = self._command_running = self._should_exit = False
        self._approval_state: dict[str, Any] | None = None
        self._prompt_start_time: float | None = None
        self.session_id, self.agent = session_id, Agent(fire, session_id)
        self.prompts: list[str] = []
        self.commands: list[str] = []
        self.refuses = False
        self._thread = threading.Thread(target=self._process_loop, daemon=True)
        self._thread.start()

    def person(self, text: str) -> None:
        """Type a line (:13314, /busy queue)."""
        self._pending_input.put(text)

    def close(self) -> None:
        """End it."""
        self._should_exit = True
        self.agent.go.set()
        self._thread.join(30)

    def _clear_active_overlays_for_interrupt(self) -> None:  # :11711
        self._approval_state = None

    def _process_loop(self) -> None:  # :14970
        while not self._should_exit:
            try:
                text = self._pending_input.get(timeout=0.05)
            except queue.Empty:
                continue
            if text.startswith("/"):
                self.commands.append(text)
                continue
            text = PASTED.sub(lambda match: Path(match[1]).read_text(), text)
            self._agent_running = True
            try:
                self._chat(text)
            finally:
                self._agent_running = False

    def _chat(self, text: str) -> None:  # :11775
        if self.refuses:
            return
        self.prompts.append(text)
        thread = threading.Thread(target=self._run_agent, args=[text], daemon=True)
        self._prompt_start_time = time.time()
        thread.start()
        thread.join(60)
        self._prompt_start_time = None

    def _run_agent(self, text: str) -> None:
        try:
            self.agent.turn(text)
        except Untold:
            pass
