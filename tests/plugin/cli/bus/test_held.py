"""What waits says why, where its sender looks: receipt, --wait, inbox, trace (RULES-3.12)."""

import re
from collections.abc import Callable

from fakes.desk import Desk, Listener

Listen = Callable[..., Listener]

RESTS = r"resting \d+ s: more than 5 turns a minute"


def test_an_ask_passes_a_flood_and_what_rests_says_so(
    desk: Desk, name: str, listen: Listen
) -> None:
    """RULES-3.7, RULES-3.12: seven directives, then a question, also by the same sender."""
    listen(name, "--agent", "cat >/dev/null; echo here")
    for n in range(5):
        desk.handled(desk.sent("--to", name, "--from", "ci", f"job {n}")["id"])
    said = [desk.notify("--to", name, "--from", "ci", f"job {n}").out for n in (5, 6)]
    assert re.fullmatch(rf"queued \w+ for {name}, {RESTS}\n", said[0])
    assert re.fullmatch(rf"queued \w+ for {name}, 1 ahead of it, {RESTS}\n", said[1])
    assert desk.wakebus("ask", name, "well?", "--wait", "30", "--from", "me").out == "here\n"
    waited = desk.notify("--to", name, "--from", "other", "--wait", "0.5", "job 7")
    assert waited.status == 4 and re.search(rf"not yet handled; {RESTS}\n", waited.err)
    box = desk.wakebus("inbox", name).out
    assert re.search(rf"^{said[0].split()[1]} and 2 more wait: {RESTS}$", box, re.M)
    assert re.search(rf"now +waits +{RESTS}$", desk.wakebus("trace", said[0].split()[1]).out, re.M)
    assert desk.wakebus("ask", name, "well?", "--wait", "30", "--from", "ci").out == "here\n"


def test_the_limit_is_a_setting(desk: Desk, name: str, listen: Listen) -> None:
    """RULES-3.7: `flood_turns`, `flood_window_s`; a wrong one stops the listener, and is named."""
    env = {"WAKEBUS_FLOOD_TURNS": "1", "WAKEBUS_FLOOD_WINDOW_S": "600"}
    listen(name, "--agent", "cat >/dev/null; echo here", env=env)
    desk.handled(desk.sent("--to", name, "--from", "ci", "one")["id"])
    said = desk.notify("--to", name, "--from", "ci", "two").out
    assert re.search(r"resting \d+ s: more than 1 turn in 600 s$", said)
    done = desk.run("wakebus", "listen", "x", env={"WAKEBUS_FLOOD_TURNS": "0"})
    assert done.status == 1 and "WAKEBUS_FLOOD_TURNS: a number above 0, not 0" in done.err


def test_no_answer_says_why(desk: Desk, name: str) -> None:
    """RULES-3.12: in the line, and not only in the outcome's JSON."""
    outcomes: list[tuple[dict[str, object], str]] = [
        ({"note": "it names neither channel nor session"}, "it names neither channel nor session"),
        ({"wake": "next_turn"}, "it waits for the next turn of its session there"),
        ({"wake": "silent"}, "it lies in the inbox there"),
        ({"words": 3}, "words 3, answered no"),
    ]
    with desk.client() as bus:
        left = [{**outcome, "answered": False} for outcome, _ in outcomes]
        bus.register(name, lambda delivery: left.pop(0))
        for _, why in outcomes:
            done = desk.wakebus("ask", name, "well?", "--from", "ci", "--wait", "30")
            assert done.status == 4 and f"but there is no answer: {why}" in done.err
