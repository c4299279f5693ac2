"""`wakebus ask`: the answer on standard output."""

import re
from collections.abc import Callable

import pytest

from fakes.desk import Desk, Listener

Listen = Callable[..., Listener]


def test_it_prints_the_answer(desk: Desk, name: str, listen: Listen) -> None:
    """And the id on standard error; the type is directive unless --type says; options anywhere."""
    listen(name, "--agent", 'echo "$WAKEBUS_TYPE of $WAKEBUS_FROM in <$WAKEBUS_SESSION>"')
    done = desk.wakebus("ask", name, "--from", "ci", "--wait", "60", "how are you?")
    assert (done.status, done.out) == (0, "directive of ci in <>\n")
    assert re.fullmatch(f"asked {name} by [0-9a-f]{{21}}; waiting 60 s for the answer\n", done.err)
    done = desk.wakebus("ask", name, "x", "--from", "ci", "--type", "need_decision", "--json")
    assert (done.json["body"]["text"], done.err) == ("need_decision of ci in <>", "")
    words = ("ask", "--from", "ci", "--session", "s1", name, "-")
    assert desk.wakebus(*words, stdin=b"x\n").out == "directive of ci in <s1>\n"


def test_no_answer(desk: Desk, name: str, listen: Listen) -> None:
    """Exit 4: an agent that is away. Exit 6: one that fails, one that says nothing."""
    desk.declare(name)
    done = desk.wakebus("ask", name, "x", "--from", "ci", "--wait", "0.2")
    assert done.status == 4 and "not yet answered" in done.err and "wakebus trace" in done.err
    assert f"--id {done.err.split()[3].strip(';')}" in done.err, "how to get the answer later"
    assert "waiting 0.2 s for the answer" in done.err
    assert "The wait is over, and it is not lost. Follow it: wakebus trace " in done.err
    listen(name, "--agent", "cat >/dev/null; echo broken >&2; exit 3")
    done = desk.wakebus("ask", name, "x", "--from", "ci")
    assert (done.status, done.out) == (6, "")
    assert "the turn failed: exit 3: broken\n" in done.err and "wakebus dead retry" in done.err


def test_bad_input(desk: Desk, name: str) -> None:
    """Unknown target 3, usage 2."""
    assert desk.wakebus("ask", name, "x", "--from", "ci").status == 3
    done = desk.wakebus("ask", name, "--from", "ci")
    assert done.status == 2 and "TEXT" in done.err
    assert "the text is empty" in desk.wakebus("ask", name, "").err
    assert desk.wakebus("ask", "a b", "x", "--json").json["error"]["code"] == "bad_name"
    assert desk.wakebus("ask", name, "x", "--wait", "never").status == 2


# --- agents that ask each other -------------------------------------------------------------

ASKS = """
prompt=$(cat); chain=$(echo "$prompt" | grep -o 'chain:[a-z0-9,-]*' | head -1 | cut -d: -f2)
next=${chain%%,*}; rest=${chain#*,}; [ "$next" = "$chain" ] && rest=
[ -z "$next" ] && { echo "the end"; exit 0; }
wakebus ask "$next" "chain:$rest" --wait 300 $MORE 2>&1; echo "exit $?"
"""


@pytest.mark.parametrize("length", [1, 2, 3])
def test_agents_that_ask_each_other(desk: Desk, name: str, listen: Listen, length: int) -> None:
    """PROTOCOL-9.7: itself, one another, three in a circle: told at once who waits for whom."""
    names = [f"{name}-{letter}" for letter in "abc"[:length]]
    script = desk.script(f"{name}.sh", ASKS)
    for agent in names:
        listen(agent, "--agent", script)
    done = desk.wakebus(
        "ask", names[0], f"chain:{','.join([*names[1:], names[0]])}", "--wait", "60"
    )
    circle = " waits for ".join([*names, names[0]])
    assert done.status == 0 and f"a loop: {circle};" in done.out
    assert "was taken back: answer without it" in done.out
    told = [line for line in done.out.splitlines() if not line.startswith("asked ")]
    assert told[1] == "exit 1" and done.out.count("exit 0") == length - 1


def test_another_session_is_in_nobodys_way(desk: Desk, name: str, listen: Listen) -> None:
    """PROTOCOL-9.7: an agent that is asked in another session while it waits answers there."""
    script, names = desk.script(f"{name}.sh", ASKS), [f"{name}-a", f"{name}-b"]
    for agent in names:
        listen(agent, "--agent", script, env={"MORE": "--session other"})
    done = desk.wakebus("ask", names[0], f"chain:{names[1]},{names[0]}", "--wait", "60")
    assert done.status == 0 and "the end" in done.out and "loop" not in done.out
