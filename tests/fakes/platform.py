"""
All platforms on loopback: one real HTTP server that keeps their rules and misbehaves by name.

It checks credentials and limits, makes one message of one key while the platform would, and
remembers every request with what it did. What it does next is planned per route (`send`,
`webhook`, `token`, …), for one chat or all; without a plan it is what `whim` says, else `ok`.
What a platform says in which words is in fakes/chats/.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

from fakes.chats import FAMILIES
from fakes.chats.rules import ACCEPTING, HTML, Answer, Call, Message, Rules, Seen, Step
from fakes.chats.server import Server

__all__ = ["Message", "Platform", "Seen", "Step"]

# Routes whose requests put a text into a chat.
TEXTS = ("send", "webhook", "session")


class Platform:
    """`url`: the base of all their URLs; `hint`: the wait that throttles tell. Close it."""

    def __init__(self, hint: float | None = 0.05, port: int = 0) -> None:
        self.hint = hint
        self.seen: list[Seen] = []
        self.messages: list[Message] = []
        self.generation = 1
        self.patience = 60.0  # seconds, after which a connection that hangs is dropped
        self.whim: Callable[[Seen], Step] | None = None
        self.too_fast: Counter[str] = Counter()  # refused by an enforced limit, by platform
        self.rules: dict[str, Rules] = {family.name: family() for family in FAMILIES}
        self._changed = threading.Condition()
        self._plans: dict[tuple[str, str], deque[Step]] = {}
        self._keys: dict[tuple[str, str], tuple[float, str]] = {}
        self._limits: dict[tuple[str, str], tuple[int, float]] = {}
        self._taken: dict[tuple[str, str], deque[float]] = {}
        self._free = threading.Event()
        self._server = Server(self, port)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    # --- what a test says -----------------------------------------------------------------

    def settings(self, *platforms: str) -> dict[str, str]:
        """Return the settings that lead to these platforms here; without names to all."""
        found: dict[str, str] = {}
        for name in platforms or self.rules:
            found |= self.rules[name].settings(self.url)
        return found

    def plan(self, route: str, *steps: Step, chat: str = "") -> None:
        """Do these steps, in order, at this route's next requests (to this chat)."""
        with self._changed:
            self._plans.setdefault((route, chat), deque()).extend(steps)

    def forget_plans(self) -> None:
        """Do what was planned no more."""
        with self._changed:
            self._plans.clear()

    def limit(self, platform: str, scope: str, count: int, seconds: float) -> None:
        """Enforce at most `count` texts in any `seconds`, per `chat` or `app` (scope)."""
        self._limits[platform, scope] = (count, seconds)

    def release(self) -> None:
        """Drop the connections that hang, now and from now on."""
        self._free.set()

    def close(self) -> None:
        """Stop; every connection ends."""
        self.release()
        self._server.shutdown()
        self._thread.join(10)
        self._server.end()

    # --- what a test asks -----------------------------------------------------------------

    def requests(self, route: str = "send") -> list[Seen]:
        """Return the requests at a route until now."""
        with self._changed:
            return [seen for seen in self.seen if seen.route == route]

    def texts(self, chat: str | None = None) -> list[str]:
        """Return what stands in a chat, or in all, in order."""
        with self._changed:
            return [m.text for m in self.messages if chat in (None, m.chat)]

    def wait(self, until: Callable[["Platform"], bool], timeout: float = 20.0) -> None:
        """Return when `until` says so of this platform."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not until(self):
                left = deadline - time.monotonic()
                assert left > 0, f"not seen within {timeout} s; seen: {self.seen}"
                self._changed.wait(left)

    def wait_for(self, count: int, route: str = "send", timeout: float = 20.0) -> None:
        """Return when `count` requests have come at a route."""
        self.wait(lambda p: sum(s.route == route for s in p.seen) >= count, timeout)

    # --- what the server does -------------------------------------------------------------

    def take(self, call: Call) -> tuple[Step, Answer]:
        """Decide about one request, remember it, return the step and the answer."""
        rules = next((r for r in self.rules.values() if r.route(call)), None)
        if rules is None:
            return "ok", Answer(404, b"404 page not found", {"content-type": "text/plain"})
        with self._changed:
            seen = self._seen(rules, call)
            if seen.step == "token_expired_once":
                self.generation += 1
            answer = self._judge(rules, seen)
            if answer is None and seen.route in TEXTS and seen.step in ACCEPTING:
                seen = replace(seen, accepted=True)
                answer = rules.success(call, self._accept(rules, seen))
            self.seen.append(seen)
            self._changed.notify_all()
        if seen.step == "error_500":
            answer = rules.failed(call)
        return seen.step, answer or Answer(0, b"")

    def refused(self, call: Call) -> bool:
        """Whether the connection is to end before the body is read."""
        found = ((r.name, r.route(call)) for r in self.rules.values() if r.route(call))
        name, route = next(found, ("", ""))
        with self._changed:
            if (self._plans.get((route, "")) or [""])[0] != "close_before_read":
                return False
            self._plans[route, ""].popleft()
            self.seen.append(Seen(call, name, route, "", "close_before_read"))
            self._changed.notify_all()
            return True

    def held(self) -> None:
        """Return when hanging ends."""
        self._free.wait(self.patience)

    def _seen(self, rules: Rules, call: Call) -> Seen:
        route = rules.route(call)
        text = route in TEXTS
        chat = rules.chat(call) if text else ""
        key = rules.key(call) if text else ""
        told = rules.text(call) if text else ""
        plain = Seen(call, rules.name, route, chat, "ok", key, rules.credential(call), told)
        return replace(plain, step=self._next(plain))

    def _next(self, seen: Seen) -> Step:
        plan = self._plans.get((seen.route, seen.chat)) or self._plans.get((seen.route, ""))
        if plan:
            return plan.popleft()
        return self.whim(seen) if self.whim and seen.route in TEXTS else "ok"

    def _judge(self, rules: Rules, seen: Seen) -> Answer | None:
        """Return the answer of all that is no text that is taken."""
        call, route = seen.call, seen.route
        if seen.step.endswith("_lost") and seen.step != "error_500_lost":
            return Answer(0, b"")
        if not rules.admits(call, route, self.generation):
            return rules.permanent(call) if route == "webhook" else rules.unauthorized(call)
        if seen.step not in ACCEPTING:
            return _misdeed(rules, seen, self.hint)
        if route == "token":
            return rules.fetched(call, rules.good(self.generation))
        if route not in TEXTS:
            return rules.other(call, route)
        return self._too_fast(rules, seen) or rules.too_long(call)

    def _too_fast(self, rules: Rules, seen: Seen) -> Answer | None:
        """Return the refusal of a text that is over an enforced limit; else count it."""
        now = time.monotonic()
        places = {"chat": f"{rules.name}:{seen.chat}", "app": rules.name}
        windows = []
        for scope, place in places.items():
            count, seconds = self._limits.get((rules.name, scope), (0, 0.0))
            window = self._taken.setdefault((scope, place), deque(maxlen=count or None))
            if count and len(window) == count and now - window[0] < seconds:
                self.too_fast[rules.name] += 1
                return rules.throttled(seen.call, seconds - (now - window[0]))
            windows += [window] if count else []
        for window in windows:
            window.append(now)
        return None

    def _accept(self, rules: Rules, seen: Seen) -> str:
        known = self._keys.get((rules.name, seen.key)) if seen.key else None
        now = time.monotonic()
        if known and now - known[0] < rules.key_s:
            return known[1]
        id_ = rules.message_id(len(self.messages) + 1)
        if seen.key:
            self._keys[rules.name, seen.key] = (now, id_)
        self.messages.append(Message(rules.name, seen.chat, seen.text, seen.key, id_))
        return id_


def _misdeed(rules: Rules, seen: Seen, hint: float | None) -> Answer:
    """Return the answer of a step that accepts nothing and says so."""
    answers: dict[Step, Callable[[Call], Answer]] = {
        "throttle_429": lambda call: rules.throttled(call, hint),
        "throttle_in_200": lambda call: rules.throttled(call, None),
        "token_expired_once": rules.unauthorized,
        "error_in_200": rules.error_in_200,
        "permanent": rules.permanent,
        "error_500_lost": rules.failed,
        "html": lambda call: _page(200),
        "html_429": lambda call: _page(429),
        "html_502": lambda call: _page(502),
        "html_413": lambda call: _page(413),
        "redirect": lambda call: _page(302, location="https://login.example.org/"),
    }
    own = rules.own(seen.call, seen.step)
    return own or answers[seen.step](seen.call)


def _page(status: int, **headers: str) -> Answer:
    return Answer(status, HTML, {"content-type": "text/html", **headers})
