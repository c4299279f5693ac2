"""
A stand-in for an OpenAI-compatible model server: models, chat completions, streaming too.

It remembers every request and whether the client hung up before the answer.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from e2e_hermes.script import Answer, Request, answer_to
from e2e_hermes.server import Handler, Server

MODEL = "fake-model"
HOLD_S = 120.0


class _Handler(Handler):
    app: "Model"

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            models = [{"id": MODEL, "object": "model", "owned_by": "test"}]
            return self.answer(200, {"object": "list", "data": models})
        return self.answer(404, {"error": {"message": "not here"}})

    def do_POST(self) -> None:
        body = self.body()
        if not self.path.endswith("/chat/completions"):
            return self.answer(404, {"error": {"message": "not here"}})
        request = self.app.take(body)
        answer = self.app.decide(request)
        try:
            self._give(request, answer)
        except OSError:
            request.aborted = True
        finally:
            self.app.end(request, answer)

    def _give(self, request: Request, answer: Answer) -> None:
        streams = request.stream and answer.status == 200
        if streams:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
        if not self._wait(answer, streams):
            request.aborted = True
        elif streams:
            said = {"content": "" if answer.calls else answer.text, **_tool_calls(answer)}
            self._part(said)
            self._part({}, _reason(answer))
            self.wfile.write(b"data: [DONE]\n\n")
        elif answer.status == 200:
            message = {"role": "assistant", "content": answer.text, **_tool_calls(answer)}
            self.answer(200, _completion("message", message, _reason(answer)))
        else:
            self.answer(answer.status, {"error": {"message": "the model is ill"}})

    def _wait(self, answer: Answer, streams: bool) -> bool:
        """Return whether the client waited for the answer."""
        end = time.monotonic() + (HOLD_S if answer.hold else answer.after_s)
        while time.monotonic() < end and not self.app.free(answer.hold):
            if self.gone() or self.app.closing.wait(0.05):
                return False
            if streams:  # Hermes closes an interrupted stream only when something comes
                self._part({"role": "assistant", "content": ""})
        return not self.gone()

    def _part(self, delta: dict[str, Any], reason: str | None = None) -> None:
        self.wfile.write(f"data: {json.dumps(_completion('delta', delta, reason))}\n\n".encode())


def _reason(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _tool_calls(answer: Answer) -> dict[str, Any]:
    calls = [
        {
            "index": index,
            "id": f"call_{time.monotonic_ns()}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for index, (name, arguments) in enumerate(answer.calls)
    ]
    return {"tool_calls": calls} if calls else {}


def _completion(part: str, value: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {
        "id": "c1",
        "object": "chat.completion.chunk" if part == "delta" else "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, part: value, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


class Model(Server):
    """`requests`: all that came. `script` may be replaced by a test."""

    handler = _Handler

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.script: Callable[[Request], Answer] = answer_to
        self._failing = 0
        self._released: set[str] = set()
        super().__init__()

    def turns(self, text: str = "") -> list[Request]:
        """Return the requests that begin a turn and hold `text` in the last user message."""
        return [r for r in self.requests if r.kind == "turn" and text in r.last]

    def running(self, text: str = "") -> list[Request]:
        """Return those that have no answer yet."""
        return [r for r in self.turns(text) if not r.ended]

    def fail(self, count: int) -> None:
        """Answer the next requests of turns with 500."""
        self._failing = count

    def release(self, name: str) -> None:
        """Let all requests with `HOLD:name` go, now and from now on."""
        self._released.add(name)

    # --- what the handler does ------------------------------------------------------------

    def take(self, body: dict[str, Any]) -> Request:
        """Remember a request."""
        tools = [str(t.get("function", {}).get("name", "")) for t in body.get("tools") or []]
        request = Request(
            messages=list(body.get("messages") or []),
            tools=tools,
            stream=bool(body.get("stream")),
            at=time.monotonic(),
            shown_tools=json.dumps(body.get("tools") or []),
        )
        with self.changed:
            self.requests.append(request)
        return request

    def decide(self, request: Request) -> Answer:
        """Return the answer that the script, or a planned failure, gives."""
        with self.changed:
            if request.kind in ("turn", "tool") and self._failing:
                self._failing -= 1
                return Answer(status=500)
        return self.script(request)

    def free(self, hold: str) -> bool:
        """Return whether a held request may go."""
        return bool(hold) and hold in self._released

    def end(self, request: Request, answer: Answer) -> None:
        """Remember how it ended."""
        request.answer = "" if request.aborted else answer.text
        request.ended = time.monotonic()
