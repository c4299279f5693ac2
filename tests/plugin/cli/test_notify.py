"""`notify-hermes` as people run it: every flag, every refusal, every exit status of a live bus."""

import json
import os
from collections.abc import Callable

import pytest

from fakes.desk import Desk, Listener
from fakes.in_process import InProcess

Listen = Callable[..., Listener]


@pytest.fixture
def to(desk: Desk, name: str) -> str:
    """A known endpoint that nobody holds."""
    desk.declare(name)
    return name


def test_it_prints_the_honest_receipt(desk: Desk, to: str, listen: Listen) -> None:
    """Queued says for whom, what is ahead and that nobody is there; later ones say otherwise."""
    first = desk.notify("--to", to, "--from", "ci", "--id", f"{to}-1", "hi")
    assert first.out == f"queued {to}-1 for {to}; {to} is away and gets it when it comes\n"
    second = desk.notify("--to", to, "--from", "ci", "hi")
    assert ", 1 ahead of it;" in second.out and second.status == 0
    assert first.err == second.err == ""
    listener = listen(to)
    listener.shows("ci: hi")
    desk.handled(f"{to}-1")
    again = desk.notify("--to", to, "--from", "ci", "--id", f"{to}-1", "hi")
    assert again.out.startswith(f"handled {to}-1 (again: this id or key was sent before): ")
    there = desk.notify("--to", to, "--from", "ci", "hi")
    assert there.out.startswith("queued ") and there.out.endswith(f" for {to}\n")


def test_every_field_reaches_the_message(desk: Desk, to: str) -> None:
    """--type, --channel, --session, --from, --id, --key; a text from the command line."""
    receipt = desk.sent(
        *("--to", to, "--from", "ci", "--type", "ack", "--channel", "feishu:oc_1"),
        *("--session", "s 1", "--id", f"{to}-a", "--key", f"{to}-k", "hello"),
    )
    assert receipt == {
        "id": f"{to}-a",
        "state": "queued",
        "to": to,
        "live": False,
        "ahead": 0,
        "duplicate": False,
    }
    found = desk.traced(f"{to}-a")
    wanted = {"from": "ci", "to": to, "type": "ack", "channel": "feishu:oc_1", "session": "s 1"}
    assert {key: found[key] for key in wanted} == wanted and found["key"] == f"{to}-k"
    same_key = desk.sent("--to", to, "--from", "ci", "--key", f"{to}-k", "other")
    assert (same_key["id"], same_key["duplicate"]) == (f"{to}-a", True)


def test_flags_beat_the_fields_of_the_body(desk: Desk, to: str) -> None:
    """The rest of --body is carried as it is."""
    body = {"text": "x", "type": "ack", "channel": "feishu:oc_1", "build": {"n": 7}}
    words = ("--to", to, "--from", "ci", "--type", "progress", "--channel", "wecom:ww_2")
    receipt = desk.sent(*words, "--body", json.dumps(body))
    found = desk.traced(receipt["id"])
    assert (found["type"], found["channel"]) == ("progress", "wecom:ww_2")
    receipt = desk.sent("--to", to, "--from", "ci", "--body", json.dumps(body))
    found = desk.traced(receipt["id"])
    assert (found["type"], found["channel"]) == ("ack", "feishu:oc_1")


@pytest.mark.parametrize("words", [("-",), ("--body", "-")])
def test_standard_input(desk: Desk, name: str, listen: Listen, words: tuple[str, ...]) -> None:
    """`-` reads the text from it, `--body -` the JSON; one newline at the end goes."""
    listener = listen(name)
    text = "zwei\nZeilen: 中文 🙂"
    data = text if words == ("-",) else json.dumps({"text": text}, ensure_ascii=False)
    done = desk.notify("--to", name, "--from", "ci", *words, stdin=f"{data}\n".encode())
    assert done.status == 0, done
    listener.shows(f"ci: {text}\n")


def test_an_empty_channel_or_session_is_none(desk: Desk, to: str) -> None:
    """What `--channel "$WAKEBUS_CHANNEL"` gives in a turn that has no channel."""
    words = ("--to", to, "--from", "ci", "--channel", "", "--session", "")
    found = desk.traced(desk.sent(*words, "x")["id"])
    assert found["channel"] == "" and "session" not in found


def test_wait_tells_the_outcome(desk: Desk, name: str, listen: Listen) -> None:
    """Exit 0 once it is handled, whatever the outcome; 4 when that takes longer."""
    listen(name)
    done = desk.notify("--to", name, "--from", "ci", "--wait", "30", "hi")
    assert done.status == 0 and done.out.startswith("handled ")
    assert ": rule none" in done.out
    receipt = desk.notify("--to", name, "--from", "ci", "--wait", "30", "--json", "hi").json
    assert receipt["state"] == "handled" and receipt["outcome"]["rule"] == "none"


def test_what_the_courier_has_has_not_arrived(desk: Desk, name: str) -> None:
    """A text that is queued for the courier, or in doubt, does not read as if it were there."""
    results = {f"{name}-1": "queued", f"{name}-2": "uncertain", f"{name}-3": "sent"}
    with desk.client() as bus:
        told = {id: {"actions": [{"what": "print", "result": one}]} for id, one in results.items()}
        bus.register(name, lambda delivery: told[delivery.message.id])
        said = {
            id: desk.notify("--to", name, "--from", "ci", "--id", id, "--wait", "30", "hi").out
            for id in results
        }
    assert (
        f"handled {name}-1; what it says in a chat is queued for the courier" in said[f"{name}-1"]
    )
    assert f"handled {name}-2; the chat may have what it says or not" in said[f"{name}-2"]
    assert said[f"{name}-3"].startswith(f"handled {name}-3: ")


def test_not_handled_in_time(desk: Desk, to: str) -> None:
    """Exit 4, the id and where to look; the message stays."""
    done = desk.notify("--to", to, "--from", "ci", "--wait", "0", "hi")
    assert done.status == 4 and done.out == ""
    assert "is queued, not yet handled" in done.err and "wakebus trace " in done.err
    done = desk.notify("--to", to, "--from", "ci", "--wait-reply", "0.1", "--json", "hi")
    assert done.status == 4 and done.json["error"]["code"] == "timeout"
    assert desk.traced(done.json["error"]["id"])["state"] == "queued"


def test_handled_without_an_answer(desk: Desk, name: str, listen: Listen) -> None:
    """A rule that runs a command answers nothing, and that is said at once: exit 4."""
    rules = desk.rules("callbacks:\n  - {match_type: '*', command: 'true'}\n", f"{name}.yaml")
    listen(name, "--rules", rules)
    done = desk.notify("--to", name, "--from", "ci", "--wait-reply", "60", "hi")
    assert done.status == 4 and "but there is no answer" in done.err and done.out == ""
    done = desk.notify("--to", name, "--from", "ci", "--wait-reply", "60", "--json", "hi")
    assert done.json["answer"] is None and done.json["outcome"]["rule"] == "1: *"


def test_an_unknown_target(desk: Desk, to: str) -> None:
    """Exit 3 with near names; --queue keeps it all the same."""
    near = f"{to}x"
    done = desk.notify("--to", near, "--from", "ci", "hi")
    assert done.status == 3 and f"did you mean {to}" in done.err and "--queue" in done.err
    error = desk.notify("--to", near, "--from", "ci", "--json", "hi").json["error"]
    assert error["code"] == "unknown_target" and to in error["near"]
    done = desk.notify("--to", near, "--from", "ci", "--queue", "hi")
    assert done.status == 0 and done.out.startswith("queued ")


def test_the_same_id_with_another_body(desk: Desk, to: str) -> None:
    """Refused with the reason: exit 1; another sender or target is another message too."""
    words = ("--to", to, "--from", "ci", "--id", f"{to}-c")
    assert desk.notify(*words, "one").status == 0
    done = desk.notify(*words, "two")
    assert done.status == 1 and f"id {to}-c is already stored" in done.err and "--id" in done.err
    assert desk.notify("--to", to, "--from", "x", "--id", f"{to}-c", "one").status == 1
    again = desk.notify(*words, "--json", "one").json
    assert again["duplicate"] is True
    assert desk.notify(*words, "--json", "two").json["error"]["code"] == "conflict"


def test_a_dead_message(desk: Desk, name: str) -> None:
    """Exit 1 with the reason, though the receipt is an honest one."""
    desk.notify("--to", name, "--from", "ci", "--queue", "--id", name, "--body", '{"text": "x"}')
    code = (
        "import sys; from wakebus.broker import Client, Refusal\n"
        "import threading; done = threading.Event()\n"
        "with Client() as bus:\n"
        "    bus.register(sys.argv[1], lambda d: done.set() or Refusal('no \\x1b[31mway'))\n"
        "    done.wait(30); bus.wait(sys.argv[2], 30)\n"
    )
    assert desk.run("python", "-c", code, name, name).status == 0
    words = ("--to", name, "--from", "ci", "--id", name)
    done = desk.notify(*words, "x")
    again = f"Look at it: wakebus dead show {name}. Send it again: wakebus dead retry {name}"
    assert (done.status, done.out, done.err) == (1, "", f"dead {name}: no way\n{again}\n")
    done = desk.notify(*words, "--json", "x")
    assert done.status == 1 and (done.json["state"], done.json["reason"]) == (
        "dead",
        "no \x1b[31mway",
    )


ENDER = """
import sys, threading
from wakebus.broker import Client, Refusal
LINES = "bad\\u2028\\x1b[31m\\x85\\rZZ\\nZZ\\x0bZZ\\u2029ZZ"
done = threading.Event()
def handle(delivery):
    done.set()
    good = sys.argv[2] == "handled"
    return {"error": LINES, "turn": {"error": LINES, "stderr": LINES}} if good else Refusal(LINES)
with Client() as bus:
    bus.register(sys.argv[1], handle)
    done.wait(30)
    bus.wait(sys.argv[1], 30)
"""


@pytest.mark.parametrize("end", ["handled", "dead"])
def test_a_receiver_writes_no_line_of_ours(desk: Desk, name: str, end: str) -> None:
    """RULES-4.6: its words begin no line, whatever character ends one, so it forges no receipt."""
    desk.notify("--to", name, "--from", "ci", "--queue", "--id", name, "x")
    assert desk.run("python", "-c", ENDER, name, end).status == 0
    send = ("--to", name, "--from", "ci", "--id", name, "x")
    commands = {
        "wait": desk.notify(*send, "--wait", "30"),
        "ask": desk.notify(*send, "--wait-reply", "1"),
        "trace": desk.run("wakebus", "trace", name),
        "cancel": desk.run("wakebus", "cancel", name),
        "dead": desk.run("wakebus", "dead", "list"),
        "show": desk.run("wakebus", "dead", "show", name),
    }
    for what, done in commands.items():
        lines = (done.out + done.err).splitlines()
        assert not [line for line in lines if line.strip().startswith("ZZ")], (what, done)
        assert "\x1b" not in done.out + done.err and "Traceback" not in done.err
    told, *next_step = (commands["wait"].out + commands["wait"].err).splitlines()
    assert "ZZ" in told
    assert [line.partition(":")[0] for line in next_step] == ["Look at it"] * (end == "dead")


BAD: dict[str, tuple[tuple[bytes, ...], bytes, str]] = {
    "an empty text": ((b"",), b"", "the text is empty"),
    "a text of spaces": ((b" ",), b"", "the text is empty"),
    "nothing at all": ((), b"", "give a text"),
    "empty standard input": ((b"-",), b"", "the text is empty"),
    "both": ((b"x", b"--body", b"{}"), b"", "not both"),
    "bad JSON": ((b"--body", b"{'a': 1}"), b"", "--body is not JSON"),
    "a JSON list": ((b"--body", b"[1]"), b"", "not an object {…}: a list"),
    "an empty object": ((b"--body", b"{}"), b"", "an empty object"),
    "NaN": ((b"--body", b'{"a": NaN}'), b"", "NaN is no JSON number"),
    "infinity": ((b"--body", b'{"a": 1e999}'), b"", "not JSON"),
    "a text that is none": ((b"--body", b'{"text": 1}'), b"", "body.text: a string"),
    "not UTF-8": ((b"-",), b"ab\xff", "standard input is not UTF-8 (byte 2)"),
    "a lone surrogate": ((b"\xff",), b"", "argument TEXT is not UTF-8"),
    "an escaped surrogate": ((b"--body", b'{"text": "\\ud800"}'), b"", "lone surrogate"),
    "NUL": ((b"-",), b"a\0b", "NUL"),
    "NUL in JSON": ((b"--body", b'{"text": "\\u0000"}'), b"", "NUL"),
    "10 MB": ((b"-",), b"x" * 10_000_000, "the limit is 1048576"),
    "more than that": ((b"-",), b"x" * 17_000_000, "goes on after 16 MiB"),
    "nested without end": ((b"--body", b"-"), b'{"a":' + b"[" * 5000, "not JSON"),
    "nested deeply": ((b"--body", b"-"), b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "nested"),
    "an empty type": ((b"--type", b"", b"x"), b"", "body.type"),
    "a type of two lines": ((b"--type", b"a\nb", b"x"), b"", "body.type"),
    "an empty key": ((b"--key", b"", b"x"), b"", "key"),
    "an id with spaces": ((b"--id", b"a b", b"x"), b"", "id 'a b'"),
    "a sender with dots": ((b"--from", b"a.b", b"x"), b"", "--from 'a.b'"),
    "a time that is none": ((b"--wait", b"soon", b"x"), b"", "no number of seconds"),
    "a negative time": ((b"--wait", b"-1", b"x"), b"", "no number of seconds"),
    "NaN seconds": ((b"--wait", b"nan", b"x"), b"", "no number of seconds"),
    "both waits": ((b"--wait", b"1", b"--wait-reply", b"1", b"x"), b"", "not allowed with"),
    "an unknown flag": ((b"--chanel", b"x", b"y"), b"", "unrecognized"),
    "an abbreviated flag": ((b"--chan", b"x", b"y"), b"", "unrecognized"),
    "two texts": ((b"x", b"y"), b"", "unrecognized"),
    "an empty socket": ((b"--socket", b"", b"x"), b"", "--socket"),
    "a socket that is no path": ((b"--socket", b"/tmp/\xff", b"x"), b"", "--socket"),
    "a rules file that is not there": ((b"--from", b"", b"--config", b"/no", b"x"), b"", "/no"),
}


# Bytes that are no text: what they become, only a process of its own shows.
REAL = ("not UTF-8", "a lone surrogate", "a socket that is no path")


@pytest.fixture
def here(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """The desk in this process: forty new ones would be half of this file's time."""
    return InProcess(desk.root, monkeypatch, capsys)


@pytest.mark.parametrize("case", BAD)
def test_usage(desk: Desk, here: InProcess, case: str) -> None:
    """Exit 2 and a line that names what is wrong; with --json one object; nothing is sent."""
    words, stdin, says = BAD[case]
    sender = () if b"--from" in words else (b"--from", b"ci")
    notify = desk.notify if case in REAL else here.notify
    done = notify("--to", "nobody", *sender, *words, "--json", stdin=stdin)
    assert done.status == 2, done
    assert says in done.err and "Traceback" not in done.err
    assert says in done.json["error"]["text"] and done.json["error"]["retry"] is False


CHANNELS: dict[str, str] = {
    "nope:1": "no platform 'nope' is known",
    "telegramm:1": "did you mean telegram?",
    "Mattermots": "did you mean mattermost?",
    "a b": "'a b' is no platform",
    " ": "empty",
    ":x": "is no platform",
    "telegram:": "no chat id after the colon",
    "telegram:1?thread=": "no thread",
    "telegram:\x1b[2J": "U+001B",
    "tele\u202egram:1": "U+202E",
    "x" * 600: "the limit is 512",
}


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_channel_that_nobody_can_reach(
    desk: Desk, to: str, here: InProcess, channel: str
) -> None:
    """ADP-7.8: exit 2 at once, as an option and in the body, for `ask` too; nothing is sent."""
    words, body = ("--to", to, "--from", "ci"), json.dumps({"text": "x", "channel": channel})
    for done in (
        here.notify(*words, "--channel", channel, "--json", "x"),
        here.notify(*words, "--json", "--body", body),
        here.wakebus("ask", to, "x", "--from", "ci", "--channel", channel, "--json"),
    ):
        assert done.status == 2 and CHANNELS[channel] in done.err and "\x1b" not in done.both, done
        assert done.json["error"]["code"] == "usage"
    with desk.client() as bus:
        assert not [*bus.inbox(to)]


def test_a_channel_that_may_be_reached_elsewhere(
    desk: Desk, to: str, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADP-7.8: what only Hermes has passes, what is not set up here too, with a note; so does the
    channel of an agent's own turn, whatever it is."""
    words = ("--to", to, "--from", "ci", "hi", "--channel")
    status = desk.root / "bus" / "courier.json"
    row = {"problem": "set A_TOKEN in $HERMES_HOME/.env", "home": ""}
    status.write_text(json.dumps({"pid": os.getpid(), "settings": "/h", "set_up": {"slack": row}}))
    try:
        for channel, note in (("whatsapp:1", "whatsapp"), ("signal", "signal"), ("telegram:1", "")):
            done = here.notify(*words, channel)
            said = f"note: only a gateway of Hermes that has {note} could answer there\n"
            assert done.status == 0 and done.err == (said if note else ""), done
        done = here.notify(*words, "slack:C1")
        assert done.status == 0 and done.err.startswith("note: slack is not set up here"), done
        done = here.notify(*words, "slack:C1", "--socket", str(desk.root / "bus" / "broker.sock"))
        assert "note" not in done.err
    finally:
        status.unlink()
    monkeypatch.setenv("WAKEBUS_CHANNEL", "app:42")
    assert here.notify(*words, "app:42").status == 0
    assert here.notify(*words, "app:43").status == 2


@pytest.mark.parametrize("to", ["a.b", "a b", "", "é", "x" * 65, "a\nb"])
def test_a_target_that_is_no_name(here: InProcess, to: str) -> None:
    """Exit 2: it can never be one, so it is no unknown target."""
    done = here.notify("--to", to, "--from", "ci", "x")
    assert done.status == 2 and "an endpoint name has 1 to 64" in done.err


def test_without_a_target(desk: Desk) -> None:
    """The usage, and where help is."""
    done = desk.notify("x")
    assert done.status == 2 and "--to" in done.err and "notify-hermes --help" in done.err


def test_a_variable_that_is_no_name(desk: Desk) -> None:
    """The error names the variable, not a flag that nobody gave."""
    done = desk.notify("--to", "x", "hi", env={"HERMES_BUS_ENDPOINT": "my agent"})
    assert done.status == 2 and "HERMES_BUS_ENDPOINT 'my agent'" in done.err


def test_another_socket(desk: Desk, to: str, own_desk: Desk) -> None:
    """--socket is the ROUTER's path; the bus of HERMES_BUS_ROOT is not asked."""
    path = desk.address["router"].removeprefix("ipc://")
    assert own_desk.notify("--to", to, "--from", "ci", "x").status == 1
    for socket in (path, f"ipc://{path}"):
        done = own_desk.notify("--to", to, "--from", "ci", "--socket", socket, "x")
        assert done.status == 0, done
    for socket in ("/nowhere/broker.sock", f"/tmp/{'x' * 200}", "tcp://there"):
        done = own_desk.notify("--to", to, "--from", "ci", "--socket", socket, "x")
        assert done.status == 1 and "Is --socket right?" in done.err, done


def test_the_reader_is_gone(desk: Desk, to: str) -> None:
    """Whoever reads the receipt decides nothing about the message."""
    send = f"notify-hermes --to {to} --from ci hi"
    for line in (f"{send} >&-", f"{send} >/dev/full", f"({send}; echo $? >&2) | true"):
        done = desk.run("/bin/sh", "-c", line)
        assert done.status == 0 and "Traceback" not in done.err, done
        assert "Exception" not in done.err
    assert desk.run("/bin/sh", "-c", f"{send} 2>&-").out.startswith("queued ")
    done = desk.run("/bin/sh", "-c", f"{send.removesuffix('hi')} - <&-")
    assert done.status == 2 and "standard input is closed" in done.err


def test_a_terminal_without_the_characters(desk: Desk, name: str, listen: Listen) -> None:
    """An answer in another script is printed with question marks, not lost in a traceback."""
    listen(name, "--agent", "echo 中文 ok")
    words = ("--to", name, "--from", "ci", "--wait-reply", "60", "hi")
    done = desk.notify(*words, env={"PYTHONIOENCODING": "ascii"})
    assert (done.status, done.out) == (0, "?? ok\n")


def test_an_answer_and_its_message(desk: Desk, name: str, listen: Listen) -> None:
    """--wait-reply prints the text; with --json the whole message."""
    listen(name, "--agent", "printf 'all \\033[31mgreen\\033[0m\\033]0;title\\007'")
    words = ("--to", name, "--from", "ci", "--wait-reply", "60")
    done = desk.notify(*words, "--type", "directive", "hi")
    assert (done.status, done.out) == (0, "all green\n")
    assert done.err.startswith(f"asked {name} by ") and done.err.count("\n") == 1
    answer = desk.notify(*words, "--channel", "feishu:oc_1", "--json", "hi").json
    assert answer["from"] == name and answer["to"] == "ci"
    assert answer["body"] == {"type": "answer", "text": "all green", "channel": "feishu:oc_1"}
    assert answer["reply_to"] == answer["cause"]


def test_what_a_peer_wrote_steers_no_terminal(desk: Desk, name: str) -> None:
    """A name in an error, an outcome with escapes: cleaned; --json escapes them."""
    done = desk.notify("--to", f"{name}\x1b[2J", "--from", "ci", "x")
    assert done.status == 2 and "\x1b" not in done.both
    desk.notify("--to", name, "--from", "ci", "--queue", "--id", name, "x")
    code = (
        "import sys; from wakebus.broker import Client\n"
        "with Client() as bus:\n"
        "    bus.register(sys.argv[1], lambda d: {'note': '\\x1b]0;evil\\x07\\x9b2Jred'})\n"
        "    bus.wait(sys.argv[1], 30)\n"
    )
    assert desk.run("python", "-c", code, name).status == 0
    done = desk.notify("--to", name, "--from", "ci", "--id", name, "x")
    assert done.out.startswith("handled ") and not {"\x1b", "\x07", "\x9b"} & set(done.out)
    trace = desk.wakebus("trace", name)
    assert "red" in trace.out and not {"\x1b", "\x07", "\x9b"} & set(trace.out)
