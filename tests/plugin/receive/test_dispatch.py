"""From an arriving message to its outcome: real rules, agents, commands and a real broker."""

import json
import os
import random
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from fakes.broker import Broker, until
from fakes.host import Host, Outcome, deliver, write_rules
from wakebus.broker import Client, Delivery, Later, Refusal
from wakebus.broker.errors import Fenced, NotRunning
from wakebus.broker.protocol.message import Message
from wakebus.plugin.receive import dispatch as dispatch_module
from wakebus.plugin.receive.answers import Answers, not_sent

MakeHost = Callable[..., Host]
MakeBroker = Callable[..., Broker]

# A send takes 2 ms; under a load of 18 on two cores four of them once took more than 600.
COALESCE_MS: Final = 2500
DIRECTIVE = {"match_type": "directive", "context": True}
NOTE = {"match_type": "note", "context": True, "wake": "next_turn"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def make_host(shared_broker: Broker, folder: Path) -> Iterator[MakeHost]:
    """Return a maker of hosts: `make_host(rule, …, command=…)`."""
    made: list[Host] = []
    name = f"host-{secrets.token_hex(5)}"

    def make(*callbacks: Any, broker: Broker = shared_broker, **fields: Any) -> Host:
        made.append(Host(broker.address, folder, name, *callbacks, **fields))
        return made[-1]

    yield make
    for host in made:
        host.close()


def message(id: str = "m1", **fields: Any) -> Message:
    body = {"text": f"text of {id}", **fields.pop("body", {})}
    known: dict[str, Any] = {"id": id, "ts": 1.0, "sender": "alpha", "to": "lead"}
    return Message(**{**known, "body": body, **fields})


def handle(host: Host, message: Message, *, failed: bool = False, **flags: Any) -> Outcome:
    """Hand the host a delivery that no broker sent; return its outcome, also if it `failed`."""
    found = host.dispatch.handle(deliver(message, **flags))
    assert not isinstance(found, Later) and isinstance(found, Refusal) is failed, found
    return dict((found.outcome or {}) if isinstance(found, Refusal) else found)


def actions(outcome: Outcome, what: str) -> list[Outcome]:
    return [action for action in outcome["actions"] if action["what"] == what]


def gone(file: Path) -> bool:
    """Whether the process whose number is in `file` has ended."""
    try:
        os.kill(int(file.read_text()), 0)
    except ProcessLookupError:
        return True
    return False


# --- turns ----------------------------------------------------------------------------------------


def test_a_directive_starts_a_turn_and_is_answered(make_host: MakeHost) -> None:
    """The prompt is labelled; the outcome tells rule, turn and answer."""
    host = make_host(DIRECTIVE, command="cat")
    answer = host.sender.ask(host.name, "do /it", wait=30, sender="nobody")
    assert answer.message is not None
    assert answer.message.text.startswith("[wakebus] A message.")
    assert "from: nobody (claimed, not proven) · type: directive" in answer.message.text
    outcome = host.outcome(answer.receipt.id)
    assert outcome["rule"] == "1: directive" and outcome["wake"] == "immediate"
    assert outcome["answered"] is True and outcome["turn"]["exit"] == 0
    assert outcome["answer"]["id"] == answer.message.id
    assert "turn on directive from nobody" in host.printed.getvalue()


@pytest.mark.parametrize("command", ["exit 3", "true", "no-such-agent", "kill -9 $$"])
def test_an_asker_learns_that_no_answer_will_come(make_host: MakeHost, command: str) -> None:
    """At once, with what went wrong; the message failed, and is not lost."""
    host = make_host(DIRECTIVE, command=f"echo trouble >&2; {command}")
    answer = host.sender.ask(host.name, "x", wait=30, sender="nobody")
    assert answer.message is None and answer.receipt.failed
    assert answer.receipt.reason.startswith("the turn failed: ")
    outcome = dict(answer.receipt.outcome or {})
    assert outcome["answered"] is False and outcome["turn"]["error"]
    assert outcome["turn"]["stderr"].startswith("trouble")


def test_an_unmatched_message(make_host: MakeHost) -> None:
    """Printed, counted, `rule: none`; with an agent it starts a turn."""
    host = make_host(DIRECTIVE, command="echo ok")
    outcome = host.do("hello", type="odd")
    assert outcome["rule"] == "none" and outcome["turn"]["exit"] == 0
    assert actions(outcome, "print")[0]["to"] == "terminal"
    assert "tester: hello" in host.printed.getvalue()


def test_a_terminal_without_an_agent(make_host: MakeHost) -> None:
    """Context is printed there; nothing is promised to an asker."""
    host = make_host({**DIRECTIVE, "context_format": "[{type}] {text}"})
    outcome = host.do("look", type="directive")
    assert "[directive] look" in host.printed.getvalue()
    assert "turn" not in outcome and "answered" not in outcome


def test_two_senders_in_one_channel_share_a_session(make_host: MakeHost) -> None:
    """The sender is no part of it; without a channel it is the default session."""
    host = make_host(DIRECTIVE, NOTE, command="cat > $FOLDER/$WAKEBUS_ID.prompt; echo done")
    assert host.do("n1", type="note", channel="console:a", sender="alpha")["wake"] == "next_turn"
    host.do("n2", type="note", channel="console:a", sender="beta")
    host.do("n3", type="note", session="console:a", channel="console:b", sender="gamma")
    host.do("n4", type="note", sender="alpha")
    id = host.send("go", type="directive", channel="console:a", sender="delta")
    assert len(host.outcome(id)["context"]) == 3
    prompt = (host.folder / f"{id}.prompt").read_text()
    assert [text in prompt for text in ("n1", "n2", "n3", "n4")] == [True, True, True, False]


@pytest.mark.parametrize("seed", [1, 2])
def test_texts_of_one_session_never_reach_another(make_host: MakeHost, seed: int) -> None:
    """Random jobs, sessions and senders: each note once, in front of its own session's turn."""
    rng = random.Random(seed)
    host = make_host(DIRECTIVE, NOTE, command="cat > $FOLDER/$WAKEBUS_ID.prompt; echo done")
    plan = ["note"] * 30 + ["directive"] * 12
    rng.shuffle(plan)
    turns = dict.fromkeys("abcd", 0)
    sent: list[tuple[str, str, str]] = []  # kind, session, id
    for n, kind in enumerate([*plan, *["directive"] * 4]):
        session = rng.choice("abcd") if n < len(plan) else "abcd"[n - len(plan)]
        if kind == "directive" and n < len(plan):
            if turns[session] == 4:  # a fifth would meet the flood guard
                continue
            turns[session] += 1
        chat = f"console:{session}"
        text, where = f"<{session}{n}>", rng.choice([{"session": chat}, {"channel": chat}])
        sender = rng.choice(["alpha", "beta", "gamma"])
        sent.append((kind, session, host.send(text, type=kind, sender=sender, **where)))
        if n >= len(plan) - 1 or rng.random() < 0.3:
            host.outcome(sent[-1][2])  # in between they run as they come
    outcomes = {id: host.outcome(id) for _, _, id in sent}
    seen: list[str] = []
    for kind, session, id in sent:
        if kind == "directive":
            prompt = (host.folder / f"{id}.prompt").read_text()
            texts = re.findall(r"<(\w)\d+>", prompt)
            assert set(texts) == {session}
            assert len(texts) == len(outcomes[id].get("context", [])) + 1
            seen += re.findall(r"<\w\d+>", prompt)
    assert len(seen) == len(set(seen)) == len(sent)


def test_notes_survive_a_restart_and_are_shown_once(make_host: MakeHost) -> None:
    """On disk until a turn has shown them."""
    first = make_host(DIRECTIVE, NOTE, command="cat")
    note = first.send("remember", type="note")
    assert first.outcome(note)["actions"][0]["waiting"] == 1
    first.close()
    second = make_host(DIRECTIVE, NOTE, command="cat")
    assert second.do("one", type="directive")["context"] == [note]
    assert "context" not in second.do("two", type="directive")


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("cat >/dev/null", 1),  # it has nothing to say, but it has seen it
        ("exit 127", 99),
        ("no-such-agent", 99),
        ("/dev/null", 3),  # 126: not executable, or the prompt is too large for an argument
        ("cat >/dev/null; exit 1", 3),
        ("cat >/dev/null; kill -9 $$", 3),
    ],
)
def test_notes_wait_until_a_turn_ended_well(make_host: MakeHost, end: str, shown: int) -> None:
    """RULES-7.4: what was not found saw nothing; one that fails over them 3 times has seen them."""
    host = make_host(DIRECTIVE, NOTE, command=end)
    handle(host, message("n1", body={"type": "note"}))
    for n in range(min(shown, 4)):
        turn = message(f"m{n}", session=None, body={"type": "directive"})
        found = handle(host, turn, failed=end != "cat >/dev/null")
        assert found["context"] == ["n1"]
    assert ("n1" in found.get("context_error", "")) == (shown == 3)
    left = [item.message.id for item in host.context.waiting("").items]
    assert left == (["n1"] if shown == 99 else [])
    told = "not shown again: n1; `wakebus trace n1 --text` shows what it says\n"
    assert (told in host.printed.getvalue()) is (shown == 3)


def test_attempts_of_one_message_give_up_no_note(make_host: MakeHost) -> None:
    """RULES-7.4: they count once, also after `dead retry`; the one that succeeds shows it."""
    agent = "cat >>$FOLDER/prompts; echo >>$FOLDER/n; test $(wc -l <$FOLDER/n) -gt 5 && echo ok"
    host = make_host({**DIRECTIVE, "retries": 4}, NOTE, command=agent)
    handle(host, message("n1", body={"type": "note", "text": "THE-ANSWER"}))
    turn = message(body={"type": "directive"})
    host.dispatch.handle(deliver(turn))
    for failures in range(1, 4):
        assert isinstance(host.dispatch.handle(deliver(turn, failures=failures)), Later)
    assert "context_error" not in handle(host, turn, failed=True, failures=4)
    host.dispatch._turns._sessions.clear()  # the flood guard is not asked here
    assert handle(host, turn)["context"] == ["n1"]
    assert (host.folder / "prompts").read_text().count("THE-ANSWER") == 6
    assert not host.context.waiting("").items


def test_a_note_is_given_up_where_its_outcome_is_kept(make_host: MakeHost) -> None:
    """RULES-7.4: the third turn is tried again: only its last attempt, refused, can tell it."""
    host = make_host({**DIRECTIVE, "retries": 1}, NOTE, command="exit 1")
    note = host.send("remember", type="note")
    handled = host.outcome(note)
    assert handled["actions"][0]["waiting"] == 1
    for n in range(2):
        turn = message(f"m{n}", body={"type": "directive"})
        assert "context_error" not in handle(host, turn, failed=True, failures=1)
    last = message("m2", body={"type": "directive"})
    assert isinstance(host.dispatch.handle(deliver(last)), Later)
    assert note in handle(host, last, failed=True, failures=1)["context_error"]
    assert host.sender.read(note).text == "remember"


def test_notes_that_no_argument_holds_wait_on(make_host: MakeHost, folder: Path) -> None:
    """`hermes chat -q` takes 128 KiB: it is started, with as much as fits, and the rest later."""
    hermes = folder / "hermes"
    hermes.write_text('#!/bin/sh\nprintf %s "$3" > "$FOLDER/prompt"\necho ok\n')
    hermes.chmod(0o700)
    host = make_host(DIRECTIVE, NOTE, command=f"{hermes} chat -q")
    notes = [f"n{n}" for n in range(20)]
    for id in notes:
        handle(host, message(id, body={"type": "note", "text": "é" * 4000}))
    seen: list[str] = []
    while len(seen) < len(notes):
        found = handle(host, message("m1", body={"type": "directive", "text": "x" * 70_000}))
        assert found["turn"]["exit"] == 0, found
        text = (folder / "prompt").read_text()
        assert len(text.encode()) <= 96 << 10 and "[cut: 65536 of 70000 bytes" in text
        assert re.findall(r"id: (n\d+)", text) == found["context"]
        seen += found["context"]
        host.dispatch._turns._sessions.clear()  # the flood guard is not asked here
    assert seen == notes


def test_what_was_dropped_is_said_to_the_model(make_host: MakeHost) -> None:
    """The prompt still begins with our words."""
    host = make_host(DIRECTIVE, NOTE, command="cat > $FOLDER/prompt; echo ok")
    folder = host.folder
    for n in range(103):
        note = message(f"n{n}", body={"type": "note"})
        assert not isinstance(host.dispatch.handle(deliver(note)), Later)
    host.dispatch.handle(deliver(message("m1", body={"type": "directive"})))
    prompt = (folder / "prompt").read_text()
    assert prompt.startswith("[wakebus] 3 older notes were dropped: too many waited.\n[wakebus] ")
    host.dispatch.handle(deliver(message("m2", body={"type": "directive"})))
    assert "dropped" not in (folder / "prompt").read_text()


def test_silent_is_inbox_only(make_host: MakeHost) -> None:
    """No turn, no context; the outcome says where it is, and an asker is told at once."""
    host = make_host(DIRECTIVE, command="cat")
    asked = host.sender.ask(host.name, "psst", wait=30, wake="silent", sender="nobody")
    assert asked.message is None
    outcome = host.outcome(asked.receipt.id)
    assert outcome["wake"] == "silent" and actions(outcome, "inbox")
    assert "context" not in host.do("go", type="directive") and "turn" not in outcome


def test_the_disk_takes_no_context(
    make_host: MakeHost, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not now, said on the terminal, and nothing else was done: it all comes again."""
    rule = {**NOTE, "print": "always", "command": "touch $FOLDER/ran", "env": ["FOLDER"]}
    host = make_host(rule, command="cat")

    def refuse(*args: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(dispatch_module, "RETRY_S", 0.1)
    monkeypatch.setattr(host.context, "add", refuse)
    found = host.dispatch.handle(deliver(message(body={"type": "note"})))
    assert isinstance(found, Later) and "Read-only" in found.reason
    assert "text of m1" not in host.printed.getvalue() and not (folder / "ran").exists()
    id = host.send("later", type="note")
    until(lambda: "context cannot be written" in host.printed.getvalue())
    monkeypatch.undo()
    assert host.outcome(id)["actions"][0]["waiting"] == 1 and (folder / "ran").exists()


def test_context_that_cannot_be_read_stops_no_turn(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits on; the outcome says it."""
    host = make_host(DIRECTIVE, NOTE, command="cat")
    host.do("note", type="note")

    def refuse(*args: object) -> int:
        raise OSError(5, "Input/output error")

    for method in ("waiting", "shown"):
        with monkeypatch.context() as patched:
            patched.setattr(host.context, method, refuse)
            outcome = host.do("go", type="directive")
        assert "Input/output error" in outcome["context_error"] and outcome["turn"]["exit"] == 0
    assert len(host.do("go", type="directive")["context"]) == 1


# --- interrupting, coalescing ---------------------------------------------------------------------


def test_a_stop_sign_from_the_same_sender_in_the_same_chat(make_host: MakeHost) -> None:
    """Its lane goes on although one message is in flight; the ended turn's notes wait on."""
    stop = {"match_type": "stop", "context": True, "interrupt": True}
    command = "case $WAKEBUS_TYPE in directive) sleep 60;; *) cat;; esac"
    host = make_host(DIRECTIVE, NOTE, stop, command=command)
    host.do("note", type="note", channel="console:a")
    long = host.send("long work", type="directive", channel="console:a")
    host.until_started(long)
    urgent = host.send("stop it", type="stop", channel="console:a")
    outcome = host.outcome(long)
    assert outcome["interrupted_by"] == urgent and outcome["answered"] is False
    assert outcome["turn"]["error"] == "ended before it was done"
    assert host.outcome(urgent)["turn"]["exit"] == 0
    assert len(host.outcome(urgent)["context"]) == 1


@pytest.mark.parametrize("window", [1, 64])
def test_coalescing_through_a_broker(
    make_broker: MakeBroker, make_host: MakeHost, window: int
) -> None:
    """One turn, one answer to the newest, each its own outcome; also with the smallest window."""
    broker = make_broker(window_lanes=window)
    rule = {**DIRECTIVE, "coalesce_ms": COALESCE_MS}
    host = make_host(rule, command="cat", broker=broker)
    got: list[Message] = []
    with Client(broker.address) as alpha:
        alpha.register("alpha", lambda delivery: got.append(delivery.message))
        ids = [alpha.send(host.name, f"t{n}", type="directive", sender="alpha").id for n in "0123"]
        outcomes = [host.outcome(id) for id in ids]
        until(lambda: got)
    assert [found.get("together_with") for found in outcomes] == [ids[3]] * 3 + [None]
    assert [found["answered"] for found in outcomes] == [False, False, False, True]
    assert len({json.dumps(found["turn"]) for found in outcomes}) == 1
    (answer,) = got
    assert answer.reply_to == ids[3]
    assert [f"t{n}\n" in answer.text for n in range(4)] == [True] * 4


def test_what_a_coalesced_turn_sends_is_proven(make_host: MakeHost, shared_broker: Broker) -> None:
    """The token is good for the newest: sender, cause and hops come from it."""
    main = "from wakebus.plugin.cli.notify import main; raise SystemExit(main())"
    notify = f"{sys.executable} -c '{main}' --socket {shared_broker.address.removeprefix('ipc://')}"
    command = f"cat >/dev/null; {notify} --to $WAKEBUS_ENDPOINT --type note hi >/dev/null; echo ok"
    host = make_host({**DIRECTIVE, "coalesce_ms": COALESCE_MS}, {**NOTE}, command=command)
    ids = [host.send(f"t{n}", type="directive") for n in range(3)]
    assert host.outcome(ids[0])["together_with"] == ids[2]
    assert not host.sent(ids[0])
    (sent,) = (found for found in host.sent(ids[2]) if found["type"] == "note")
    assert (sent["from"], sent["hops"], sent["claimed"]) == (host.name, 1, False)


# --- what comes again -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("again", "turn", "waits", "skipped"),
    [("turn", True, 0, False), ("context", False, 1, False), ("skip", False, 0, True)],
)
def test_on_redelivery(
    make_host: MakeHost, again: str, turn: bool, waits: int, skipped: bool
) -> None:
    """turn: labelled; context: for the next turn; skip: nothing, and said. Only if it had begun."""
    rule = {**DIRECTIVE, "on_redelivery": again, "command": "true"}
    host = make_host(rule, command="cat > $FOLDER/prompt; echo ok")
    flags: dict[str, Any] = {"redelivered": True, "started": True, "attempt": 2}
    found = handle(host, message(body={"type": "directive"}), **flags)
    assert ("turn" in found) is turn and ("skipped" in found) is skipped
    assert len(host.context.waiting("").items) == waits
    assert bool(actions(found, "command")) is not skipped
    if turn:
        prompt = (host.folder / "prompt").read_text()
        assert "Delivered again (attempt 2): work on it had started and was cut off." in prompt
    fresh = message("m2", body={"type": "directive"})
    assert "turn" in handle(host, fresh, redelivered=True, attempt=2)


@pytest.mark.parametrize("end", ["sleep 60", "trap '' TERM; sleep 60; sleep 60"])
def test_stop_in_the_middle_of_a_turn(make_host: MakeHost, end: str) -> None:
    """Not acknowledged: it comes to the next listener, labelled; no process stays; notes stay."""
    first = make_host(DIRECTIVE, NOTE, command=f"echo $$ > $FOLDER/pid; {end}")
    folder = first.folder
    note = first.send("note", type="note")
    first.outcome(note)
    id = first.send("work", type="directive")
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    # Only now: two senders are two lanes, and either's turn may begin first.
    waiting = first.send("more", type="directive", sender="other")
    first.close()
    assert gone(folder / "pid")
    second = make_host(DIRECTIVE, NOTE, command="cat > $FOLDER/$WAKEBUS_ID; echo ok")
    again, more = second.outcome(id), second.outcome(waiting)
    assert again["turn"]["exit"] == more["turn"]["exit"] == 0
    # Here too either turn may be the first, and only that one shows what waited.
    assert [*again.get("context", ()), *more.get("context", ())] == [note]
    assert "Delivered again (attempt 1): work on it had started" in (folder / id).read_text()
    assert len(second.steps(id, "returned")) == 1 and not second.steps(id, "dead")


def test_stop_in_the_middle_of_a_command(make_host: MakeHost, folder: Path) -> None:
    """The same: ended, not acknowledged, run again by the next listener."""
    rule = {"match_type": "note", "env": ["FOLDER"]}
    first = make_host({**rule, "command": "echo $$ > $FOLDER/pid; exec sleep 60"})
    id = first.send("x", type="note")
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    first.close()
    assert gone(folder / "pid")
    second = make_host({**rule, "command": "echo again"})
    assert actions(second.outcome(id), "command")[0]["tail"] == "again"


def test_stop_while_the_broker_is_away(broker: Broker, make_host: MakeHost) -> None:
    """A turn whose answer nobody has yet is not acknowledged; the answer is not lost."""
    first = make_host(DIRECTIVE, command=f"kill -9 {broker.pid}; echo it", broker=broker)
    first.client.timeout = 0.5
    id = first.send("work", type="directive", asks=True)
    until(lambda: not broker.alive)
    first.close()
    broker.start()
    # This process still lives, so the broker keeps the name for it.
    second = make_host(DIRECTIVE, command="echo it", broker=broker, takeover=True)
    assert second.outcome(id)["answered"] is True
    answer = second.sender.wait_answer(id, 20).message
    assert answer is not None and answer.text == "it"
    assert [found["type"] for found in second.sent(id)] == ["answer"]


def test_a_host_that_is_killed_in_the_middle_of_a_turn(
    broker: Broker, make_host: MakeHost, folder: Path
) -> None:
    """SIGKILL of a real listener: message and notes come again, labelled, and once."""
    main = "from wakebus.plugin.cli.main import main; raise SystemExit(main())"
    words = ["listen", "lead", "--rules", str(write_rules(folder, DIRECTIVE, NOTE))]
    # It has all its input: then its host has told the watcher of it.
    agent = f"cat > {folder}/first; echo $$ > {folder}/pid; exec sleep 60"
    listener = subprocess.Popen(
        [sys.executable, "-c", main, *words, "--agent", agent],
        env=broker.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with Client(broker.address) as client:
        note = client.send("lead", "a note", type="note", queue=True).id
        client.wait(note, 30)
        id = client.send("lead", "work", type="directive").id
        until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
        listener.kill()
        listener.wait()
        until(lambda: gone(folder / "pid"))  # orphan_guard.py
        command = "cat > $FOLDER/prompt; echo ok"
        host = Host(
            broker.address, folder, "lead", DIRECTIVE, NOTE, command=command, bus=broker.folder
        )
        outcome = dict(client.wait(id, 30).outcome or {})
    host.close()
    assert outcome["turn"]["exit"] == 0 and outcome["context"] == [note]
    prompt = (folder / "prompt").read_text()
    assert "Delivered again (attempt 2): work on it had started and was cut off." in prompt


def test_what_is_lost_to_another_holder_is_not_acknowledged(make_host: MakeHost) -> None:
    """A takeover: the loser's turn raises, the winner has the message."""
    first = make_host(DIRECTIVE, command="echo x >> $FOLDER/begun; sleep 60")
    folder = first.folder
    id = first.send("work", type="directive")
    until(lambda: (folder / "begun").exists())
    second = make_host(DIRECTIVE, command="echo mine", takeover=True)
    outcome = second.outcome(id)
    assert outcome["turn"]["characters"] == 4
    assert second.steps(id, "handled")[0]["pid"] == os.getpid()


@pytest.mark.parametrize("error", [Fenced("taken over"), NotRunning("closed")])
def test_a_delivery_that_is_no_longer_ours(make_host: MakeHost, error: Exception) -> None:
    """`started` finds out: no agent is run for it, nothing is acknowledged."""

    def say(delivery: Delivery, verb: str, fields: object, wait: bool) -> None:
        if wait:
            raise error

    host = make_host(DIRECTIVE, command="touch $FOLDER/ran")
    payload = {"message": message(body={"type": "directive"}).to_wire(), "epoch": 1}
    delivery = Delivery(payload, "lead", say)
    with pytest.raises(type(error)):
        host.dispatch.handle(delivery)
    assert delivery.lost
    assert not (host.folder / "ran").exists()


def test_the_broker_dies_between_turn_and_answer(broker: Broker, make_host: MakeHost) -> None:
    """The agent itself kills it: the answer is sent to the next one, and arrives once."""
    command = f"cat > /dev/null; kill -9 {broker.pid}; echo the answer"
    host = make_host(DIRECTIVE, command=command, broker=broker)
    got: list[Message] = []
    alpha = Client(broker.address)
    alpha.register("alpha", lambda delivery: got.append(delivery.message))
    id = host.send("work", type="directive", sender="alpha")
    until(lambda: not broker.alive)
    broker.start()
    outcome = host.outcome(id)
    assert outcome["answered"] is True
    until(lambda: got)
    last = host.sender.send("alpha", "the end", sender="tester")
    until(lambda: len(got) > 1 and got[-1].id == last.id)
    assert [found.text for found in got] == ["the answer", "the end"]
    assert got[0].reply_to == id and got[0].id == outcome["answer"]["id"]
    alpha.close()


# --- print and command ----------------------------------------------------------------------------


def test_a_print_goes_to_the_chat_or_to_the_terminal(broker: Broker, make_host: MakeHost) -> None:
    """Through the courier when it is known and has an adapter; and not twice."""
    host = make_host({"match_type": "note", "print": True}, broker=broker)
    outcome = host.do("one", type="note", channel="console:c")
    assert actions(outcome, "print")[0]["to"] == "terminal" and "one" in host.printed.getvalue()
    told: list[Message] = []
    courier = Client(broker.address)
    courier.register("courier", lambda delivery: told.append(delivery.message))
    outcome = host.do("two", type="note", channel="console:c")
    assert (
        actions(outcome, "print")[0] | {"to": "courier", "result": "queued"}
        == (actions(outcome, "print")[0])
    )
    again = message("m7", body={"type": "note", "channel": "console:c"})
    for _ in range(2):  # the ack of the first was lost
        host.dispatch.handle(deliver(again))
    outcome = host.do("three", type="note", channel="odd:c")
    assert actions(outcome, "print")[0]["channel"].startswith("no adapter for the platform 'odd'")
    host.do("four", type="note", channel="console:c")
    until(lambda: told and told[-1].text == "four")
    assert [found.text for found in told] == ["two", "text of m7", "four"]
    assert all(found.channel == "console:c" and found.type == "say" for found in told)
    courier.close()


def test_a_print_script_that_fails(make_host: MakeHost, folder: Path) -> None:
    """The plain text and the reason; the turn is not disturbed by its own either."""
    script = folder / "format"
    script.write_text("#!/bin/sh\nexit 9\n")
    script.chmod(0o700)
    rule = {**DIRECTIVE, "print": "always"}
    rule |= {"print_format": str(script), "context_format": str(script)}
    host = make_host(rule, command="cat > $FOLDER/prompt; echo ok")
    outcome = host.do("the text", type="directive")
    assert "exit status 9" in actions(outcome, "print")[0]["script_error"]
    assert "exit status 9" in actions(outcome, "context")[0]["script_error"]
    assert "the text" in host.printed.getvalue() and outcome["turn"]["exit"] == 0
    assert "the text" in (folder / "prompt").read_text()


def test_a_command_runs_beside_the_turn(make_host: MakeHost, folder: Path) -> None:
    """Each waits for the other's file: one after the other would wait for ever."""
    both = "i=0; while [ ! -e {0} ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; [ -e {0} ]"
    command = f"touch {folder}/c; {both.format(folder / 't')}"
    turn = f"touch {folder}/t; {both.format(folder / 'c')} && echo ok"
    host = make_host({**DIRECTIVE, "command": command}, command=turn)
    outcome = host.do("x", type="directive")
    assert actions(outcome, "command")[0]["status"] == 0 and outcome["turn"]["exit"] == 0


def test_a_command_that_fails_stops_nothing_else(make_host: MakeHost) -> None:
    """It runs whatever print and context say; its end is told."""
    host = make_host({**DIRECTIVE, "print": "always", "command": "echo no; exit 4"}, command="cat")
    outcome = host.do("x", type="directive")
    assert (
        actions(outcome, "command")[0] | {"status": 4, "tail": "no"}
        == (actions(outcome, "command")[0])
    )
    assert actions(outcome, "print") and outcome["turn"]["exit"] == 0


def test_no_thread_to_spare(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is run before the rest, not lost."""

    def none_left(self: threading.Thread) -> None:
        if self.name == "wakebus command":
            raise RuntimeError("can't start new thread")
        start(self)

    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", none_left)
    host = make_host({"match_type": "note", "command": "echo ran"})
    outcome = handle(host, message(body={"type": "note"}))
    assert outcome["actions"][0]["tail"] == "ran"


def test_no_descriptor_to_spare_for_a_script(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain text is shown, the reason told."""

    def none_left(*args: object, **named: object) -> str:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(dispatch_module, "render_or_script", none_left)
    host = make_host({"match_type": "note", "print": True, "print_format": "<{text}>"})
    outcome = handle(host, message(body={"type": "note"}))
    assert "Too many" in outcome["actions"][0]["script_error"]
    assert host.printed.getvalue() == "text of m1\n"


def test_the_outcome_fits_whatever_they_print(make_host: MakeHost) -> None:
    """16 KiB with the longest tails and a hundred notes; `answered` is in it."""
    flood = "head -c 9000 /dev/zero | tr '\\0' '\\377'"
    rule = {**DIRECTIVE, "print": "always", "command": f"{flood}; exit 1"}
    host = make_host(rule, NOTE, command=f"{flood}; {flood} >&2; exit 1")
    for n in range(100):
        note = message(f"{n:03}" + "i" * 61, body={"type": "note"})
        host.dispatch.handle(deliver(note))
    outcome = host.do("x", type="directive", failed=True)
    assert "note" not in outcome and outcome["answered"] is False
    assert outcome["turn"]["error"] == "exit 1" and len(outcome["context"]) > 8
    assert actions(outcome, "command")[0]["status"] == 1
    assert len(json.dumps(outcome, ensure_ascii=False).encode()) <= 16 << 10


def test_the_terminal_tells_what_failed(make_host: MakeHost) -> None:
    """RULES-8.11: commands alone and beside a print, and what is refused before its turn."""
    fails = r"printf 'no\033[2J\n disk' >&2; exit 2"
    host = make_host(
        {"match_type": "job", "command": fails},
        {"match_type": "shown", "print": True, "command": fails},
        DIRECTIVE,
        command="echo ran >&2",
    )
    handle(host, message("m1", body={"type": "job"}), failed=True)
    handle(host, message("m2", body={"type": "shown"}))
    host.dispatch.handle(deliver(message("m3", body={"type": "directive", "channel": "nope:1"})))
    lines = host.printed.getvalue().splitlines()
    assert lines[0] == "· command on job from alpha (m1): the command failed: exit 2: disk"
    assert lines[2] == "· command on shown from alpha (m2): the command failed: exit 2: disk"
    assert lines[3].startswith(
        "· refused directive from alpha (m3): no answer could go to 'nope:1'"
    )
    assert len(lines) == 4 and "\x1b" not in host.printed.getvalue()


def test_the_terminal_tells_that_a_turn_begins(make_host: MakeHost) -> None:
    """RULES-8.11: before its end, once for what is done together."""
    host = make_host(DIRECTIVE, command="echo done")
    handle(host, message("m1", body={"type": "directive"}))
    lines = host.printed.getvalue().splitlines()
    assert lines[0] == "· turn on directive from alpha (m1): begins"
    assert lines[1].startswith("· turn on directive from alpha (m1): done")


def test_a_slip_of_ours_in_a_turn_is_logged(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """RULES-8.1: with its traceback; the outcome has a line."""

    def slip(*given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(dispatch_module, "build_prompt", slip)
    host = make_host(DIRECTIVE, command="cat")
    handle(host, message(body={"type": "directive"}), failed=True)
    assert "Traceback" in caplog.text and "in slip" in caplog.text


@pytest.mark.parametrize(
    ("after", "text"), [(0.1, "0.1 s"), (0.5, "0.5 s"), (1, "1 s"), (30, "30 s")]
)
def test_the_terminal_tells_when_it_is_tried_again(
    make_host: MakeHost, after: float, text: str
) -> None:
    """RULES-8.9: a time below a second is not 0."""
    host = make_host({**DIRECTIVE, "retries": 1, "retry_after": after}, command="exit 1")
    host.dispatch.handle(deliver(message(body={"type": "directive"})))
    assert f"· m1 failed; again in {text}\n" in host.printed.getvalue()


def test_rules_change_between_messages(make_host: MakeHost) -> None:
    """The next message meets the new rules."""
    host = make_host({"match_type": "note", "print": True})
    assert host.do("x", type="note")["rule"] == "1: note"
    path = host.folder / "bus-rules.yaml"
    path.write_text(json.dumps({"callbacks": [{"match_type": ["a", "note"], "print": True}]}))
    assert host.do("x", type="note")["rule"] == "1: a, note"


def test_an_answer_that_the_courier_does_not_take(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RULES-8.8: the message is dead, with the reason, and the answer's beginning is kept."""
    refused = not_sent("its mailbox is full")
    monkeypatch.setattr(Answers, "to_chat", lambda *given: dict(refused))
    host = make_host({"match_type": "t", "context": True, "reply": "channel"}, command="echo yes")
    id = host.send("x", type="t", channel="console:team")
    outcome = host.outcome(id, failed=True)
    assert outcome["channel"]["text"] == "yes" and outcome["turn"]["exit"] == 0
    reason = host.sender.wait(id, 5).reason
    assert reason == "the answer was not sent to console:team: its mailbox is full"
