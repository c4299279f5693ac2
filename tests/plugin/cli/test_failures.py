"""A1: agents and commands that fail, as sender and owner see it: the real commands, a real bus."""

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import until
from fakes.desk import Desk, Done, Listener

Listen = Callable[..., Listener]

FIVE_WAYS = {
    "exit": ("cat >/dev/null; echo 429 >&2; exit 1", "the turn failed: exit 1: 429"),
    "late": (
        "cat >/dev/null; echo slow >&2; sleep 60",
        "ended after its time limit of 0.5 s: slow",
    ),
    "mute": ("cat >/dev/null", "the turn failed: no output"),
    "missing": ("no-such-agent", r"the turn failed: exit 127: .*no-such-agent.*not found"),
    "killed": ("cat >/dev/null; kill -9 $$", "the turn failed: ended by SIGKILL"),
}
RULE = """callbacks:
  - match_type: directive
    context: true
    timeout_s: 0.5
  - match_type: job
    command: 'test "$TEXT" = good || { echo "disk full" >&2; exit 7; }'
  - match_type: shown
    print: true
    command: exit 1
"""


@pytest.fixture
def config(desk: Desk) -> str:
    """Return the path of the rules."""
    path = desk.root / "failing.yaml"
    path.write_text(RULE)
    path.chmod(0o600)
    return str(path)


def told(done: Done) -> dict[str, Any]:
    """Return the receipt that a failed wait printed."""
    receipt: dict[str, Any] = done.json
    assert done.status == 6 and receipt["state"] == "dead", done
    assert receipt["outcome"]["failed"] is True
    return receipt


@pytest.mark.parametrize("way", FIVE_WAYS)
def test_an_agent_fails(desk: Desk, name: str, listen: Listen, config: str, way: str) -> None:
    """RULES-8.1, PROTOCOL-6.13: receipt, exit 6, dead list, event, notice, and done again."""
    command, why = FIVE_WAYS[way]
    boss = listen(f"{name}-boss")
    tail = desk.client()
    seen: list[Any] = []
    tail.subscribe("bus.message.dead", lambda event: seen.append(event.envelope))
    listen(name, "--agent", command, "--rules", config)
    words = ("--to", name, "--from", f"{name}-boss", "--type", "directive", "--wait", "30")
    done = desk.notify(*words, "--id", name, "--channel", "console:team", "run it")
    assert done.status == 6 and done.out == ""
    assert re.search(rf"^dead {name}: .*{why}", done.err), done.err
    assert f"wakebus dead retry {name}" in done.err
    boss.shows(f"Not done: your message directive {name} to {name} was worked on, and that failed")
    event = until(lambda: next((one for one in seen if one["id"] == name), None))
    assert event["failed"] is True and re.search(why, event["reason"])
    assert re.search(why, desk.wakebus("dead", "list", "--to", name).out.replace("…", ""))
    shown = desk.wakebus("dead", "show", name).out
    assert "failed yes" in shown and re.search(f"reason: .*{why}", shown)
    assert desk.wakebus("dead", "retry", name).status == 0
    again = desk.notify(*words, "--id", name, "--channel", "console:team", "run it", "--json")
    assert re.search(why, told(again)["reason"])
    steps = [step["what"] for step in desk.traced(name)["steps"]]
    assert steps.count("started") == steps.count("refused") == 2
    tail.close()


def test_an_ask_ends_at_once(desk: Desk, name: str, listen: Listen) -> None:
    """RULES-8.1: with 6 and the reason, not when its time is over; so does `--wait-reply`."""
    listen(name, "--agent", "cat >/dev/null; echo 'Not logged in'; exit 1")
    done = desk.wakebus("ask", name, "x", "--wait", "3000")
    assert (done.status, done.out) == (6, "")
    assert "the turn failed: exit 1: Not logged in\n" in done.err
    words = ("--to", name, "--type", "directive", "--wait-reply", "3000", "x", "--json")
    assert told(desk.notify(*words))["reason"] == "the turn failed: exit 1: Not logged in"


def test_a_command_fails(desk: Desk, name: str, listen: Listen, config: str) -> None:
    """RULES-8.2: refused where it is all there is to do; told where the message was shown, too."""
    listen(name, "--rules", config)
    words = ("--to", name, "--wait", "30", "--type")
    assert told(desk.notify(*words, "job", "bad", "--json"))["reason"] == (
        "the command failed: exit 7: disk full"
    )
    assert desk.notify(*words, "job", "good").status == 0
    done = desk.notify(*words, "shown", "x", "--json")
    assert done.status == 0 and done.json["outcome"]["actions"][1]["status"] == 1


def test_an_agent_that_spoke_for_itself(desk: Desk, name: str, listen: Listen) -> None:
    """RULES-8.3: it printed nothing, but sent a message from inside its turn: it has not failed."""
    desk.declare(f"{name}-boss")
    report = f"cat >/dev/null; notify-hermes --to {name}-boss --type task_done done >/dev/null"
    listen(name, "--agent", report)
    words = ("--to", name, "--type", "directive", "--wait", "30", "x", "--json")
    done = desk.notify(*words, "--channel", "console:team")
    assert done.status == 0 and done.json["state"] == "handled", done
    turn = done.json["outcome"]["turn"]
    assert turn["note"] == "no output; it sent messages of its own" and "error" not in turn
    asked = desk.wakebus("ask", name, "x")
    assert asked.status == 4 and asked.err.endswith(
        "there is no answer: the agent: no output; it sent messages of its own\n"
    )


def test_messages_done_together_fail_each(
    desk: Desk, name: str, listen: Listen, config: str
) -> None:
    """RULES-8.1: each with its own outcome, and each can be done again alone."""
    with Path(config).open("a", encoding="utf-8") as rules:
        rules.write("  - {match_type: many, context: true, coalesce_ms: 600}\n")
    prompts = desk.root / "prompts"
    listen(name, "--rules", config, "--agent", f"cat >>{prompts}; echo gone >&2; exit 1")
    body = {"type": "many", "channel": "console:team"}
    with desk.client() as bus:
        ids = [bus.send(name, {**body, "text": f"text {n}"}).id for n in range(2)]
    ended = [desk.handled(id) for id in ids]
    assert [one["state"] for one in ended] == ["dead", "dead"]
    assert all(one["reason"] == "the turn failed: exit 1: gone" for one in ended)
    assert ended[0]["outcome"]["together_with"] == ids[1]
    assert desk.wakebus("dead", "retry", ids[0]).status == 0
    assert desk.handled(ids[0])["outcome"].get("together_with") is None
    assert prompts.read_text().count("text 0") == 2 and prompts.read_text().count("text 1") == 1


def test_the_work_on_an_event_fails(desk: Desk, name: str, listen: Listen, config: str) -> None:
    """RULES-8.2, RULES-2.6: a dead letter of the endpoint; nobody gets a notice, and none loops."""
    with Path(config).open("a", encoding="utf-8") as rules:
        rules.write(f"  - {{match_topic: {name}.red, command: 'echo no >&2; exit 1'}}\n")
    listener = listen(name, "--rules", config)
    desk.wakebus("publish", f"{name}.red", '{"text": "3 tests"}')
    listener.shows("): the command failed: exit 1: no\n")
    with desk.client() as bus:
        (letter,) = until(lambda: list(bus.dead_letters(to=name)))
        assert letter["from"] == name and letter["reason"] == "the command failed: exit 1: no"
        assert [one["id"] for one in bus.trace(letter["id"])] == [letter["id"]]


RETRIED = """callbacks:
  - match_type: directive
    context: true
    print: always
    print_format: seen
    retries: 2
    retry_after: 0.3
  - {match_type: twice, context: true, retries: 1, retry_after: 0.1}
  - {match_type: slow, context: true, retries: 1, retry_after: 50}
  - match_type: job
    command: 'test -e "$HOME/done" || { touch "$HOME/done"; exit 1; }'
    retries: 1
    retry_after: 0.1
"""


@pytest.fixture
def retrying(desk: Desk, name: str) -> str:
    """Return the path of rules that try again."""
    path = desk.root / f"{name}.yaml"
    path.write_text(RETRIED)
    path.chmod(0o600)
    return str(path)


def test_a_turn_is_tried_again(desk: Desk, name: str, listen: Listen, retrying: str) -> None:
    """RULES-8.9: a third attempt that succeeds is handled; each prompt says which one it is."""
    count, prompts = desk.root / f"{name}.count", desk.root / f"{name}.prompts"
    agent = f"cat >>{prompts}; echo >>{count}; test $(wc -l <{count}) = 3 && echo ok || exit 4"
    listener = listen(name, "--agent", agent, "--rules", retrying)
    done = desk.wakebus("ask", name, "do it", "--from", "ci", "--id", name)
    assert (done.status, done.out) == (0, "ok\n"), done
    text = prompts.read_text()
    assert text.count("do it") == 3 and text.count("Attempt ") == 2
    assert "Attempt 2 of 3: the one before failed (why: quoted below)" in text
    assert 'why the attempt before failed: "the turn failed: exit 4"' in text
    assert "Attempt 3 of 3" in text and "Delivered again" not in text
    assert listener.out.count("seen") == 1, "what was shown is not shown again"
    steps = [step for step in desk.traced(name)["steps"] if step["what"] == "later"]
    assert [step["failures"] for step in steps] == [1, 2]
    assert "failure 1, again in 0.3 s, the turn failed: exit 4" in desk.wakebus("trace", name).out


def test_all_attempts_fail(desk: Desk, name: str, listen: Listen, retrying: str) -> None:
    """RULES-8.9, RULES-8.1: then it is refused; `dead retry` begins counting anew."""
    count = desk.root / f"{name}.count"
    listen(name, "--agent", f"cat >/dev/null; echo >>{count}; exit 1", "--rules", retrying)
    words = ("--to", name, "--type", "twice", "--wait", "30", "--json", "--id", name, "x")
    assert told(desk.notify(*words))["reason"] == "the turn failed: exit 1"
    assert count.read_text().count("\n") == 2
    assert desk.wakebus("dead", "retry", name).status == 0
    told(desk.notify(*words))
    assert count.read_text().count("\n") == 4


def test_a_command_is_tried_again(desk: Desk, name: str, listen: Listen, retrying: str) -> None:
    """RULES-8.9: where it is all that its rule does."""
    listen(name, "--rules", retrying, env={"HOME": str(desk.root)})
    assert desk.notify("--to", name, "--type", "job", "--wait", "30", "x").status == 0


def test_a_wait_that_ends_before(desk: Desk, name: str, listen: Listen, retrying: str) -> None:
    """RULES-8.9: exit 4, and what is known so far; the reason is cleaned."""
    agent = r"cat >/dev/null; printf '\033[31m429\n' >&2; exit 1"
    listen(name, "--agent", agent, "--rules", retrying)
    words = ("--to", name, "--type", "slow", "--id", name, "x")
    desk.notify(*words)
    with desk.client() as bus:
        until(lambda: bus.trace(name)[0].get("failures"))
    done = desk.notify(*words, "--wait", "0.1")
    assert done.status == 4 and "\x1b" not in done.err
    assert re.search(r"it failed once, again in \d\d s: the turn failed: exit 1: 429", done.err)


def test_attempts_are_counted_over_deaths(own_desk: Desk, name: str) -> None:
    """RULES-8.9: of receiver and broker, which also keeps the time; a death is none of them."""
    desk, prompts = own_desk, own_desk.root / "prompts"
    desk.start()
    rules = desk.root / "rules.yaml"
    rules.write_text("- {match_type: directive, context: true, retries: 2, retry_after: 2}\n")
    rules.chmod(0o600)
    # It fails, hangs, and succeeds.
    count = desk.root / "count"
    cases = "1) exit 1;; 2) sleep 100;; *) echo ok;; esac"
    agent = f"cat >>{prompts}; echo >>{count}; case $(wc -l <{count}) in {cases}"
    words = (name, "--agent", agent, "--rules", str(rules))
    first = desk.listen(*words)
    asked = ("--to", name, "--type", "directive", "--from", "ci", "--id", name, "x")
    desk.sent(*asked)
    until(lambda: desk.traced(name).get("failures"))
    desk.kill_broker()
    first.end(signal.SIGKILL)
    desk.start()
    second = desk.listen(*words)
    until(lambda: count.read_text().count("\n") == 2)
    second.end(signal.SIGKILL)
    third = desk.listen(*words)
    done = desk.notify(*asked, "--wait", "60")
    assert done.status == 0, done
    third.end()
    last = prompts.read_text().rpartition("[wakebus]")[2]
    assert (
        "Attempt 2 of 3" in last and "Delivered again (attempt 2): work on it had started" in last
    )
    steps = desk.traced(name)["steps"]
    failed = next(step["t"] for step in steps if step["what"] == "later")
    starts = [step["t"] for step in steps if step["what"] == "started"]
    assert len(starts) == 3 and starts[1] - failed >= 1.9
