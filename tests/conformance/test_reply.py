"""PROTOCOL.md section 9: a person's answer, against real brokers."""

import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker
from fakes.peer import Peer
from wakebus.broker import errors

SHOWN = {"rule": "1: directive", "awaits": "reply"}


def asked(peer: Peer, other: Peer, name: str, asker: str = "", **fields: Any) -> str:
    """Have `other` show a question as `name`; return its id."""
    id = str(peer.send(name, "well?", sender=asker or f"{name}-a", asks=True, **fields)["id"])
    other.say("handled", other.take(), outcome=SHOWN)
    return id


def answer(id: str, name: str, **fields: Any) -> dict[str, Any]:
    """Return the message by which somebody answers question `id` as `name`."""
    return {
        "id": secrets.token_hex(10),
        "ts": 1.0,
        "from": name,
        "to": f"{name}-a",
        "reply_to": id,
        "body": {"type": "answer", "text": "yes"},
        **fields,
    }


def waiting(peer: Peer, id: str) -> int:
    """Begin a wait for an answer; return its sequence once the broker knows of it."""
    number = peer.request("wait", {"id": id, "state": "answer", "timeout": 30})
    peer.ask("status")
    return number


def test_who_waits_gets_a_persons_answer(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.9: shown ends no wait; a reply does, proven, and its steps say whose it was."""
    other.register(name)
    id = asked(peer, other, name)
    number = waiting(peer, id)
    told = other.ask("reply", by=name, message=answer(id, name))
    assert (told["state"], told["to"], told["waiting"]) == ("handled", f"{name}-a", 1)
    assert peer.answer(number)["answer"]["body"]["text"] == "yes"
    rows = peer.ask("trace", id=id)["messages"]
    assert [row["claimed"] for row in rows] == [True, False]
    assert rows[1]["steps"][0]["by"] == name


def test_whoever_is_on_this_bus_may(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.9: also who holds nothing; the steps say that the name is only claimed."""
    other.register(name)
    id = asked(peer, other, name)
    told = peer.ask("reply", by="cli", message=answer(id, name))
    step = peer.ask("trace", id=told["id"])["messages"][1]["steps"][0]
    assert (step["by"], step["claimed"], told["waiting"]) == ("cli", True, 0)
    found = peer.ask("wait", id=id, state="answer", timeout=0)
    assert found["answer"]["id"] == told["id"], "kept for who asks again"


def test_an_asker_that_has_ended_waits_no_more(
    shared_broker: Broker, peer: Peer, other: Peer, name: str
) -> None:
    """PROTOCOL-9.9: its wait is still open at the broker, and counts for nobody."""
    other.register(name)
    id = asked(peer, other, name)
    line = (
        "import sys; from fakes.peer import Peer; peer = Peer(sys.argv[1]);"
        "peer.request('wait', {'id': sys.argv[2], 'state': 'answer', 'timeout': 300});"
        "peer.ask('status'); print('waits', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", line, shared_broker.address, id]
    pipe, tests = subprocess.PIPE, Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=tests, stdin=pipe, stdout=pipe) as asker:
        assert asker.stdout and asker.stdout.readline() == b"waits\n"
        asker.kill()
        asker.wait(30)
    assert peer.ask("reply", message=answer(id, name))["waiting"] == 0


def test_an_asker_with_a_name_gets_it_in_its_mailbox(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.9: as any answer."""
    peer.register(f"{name}-a")
    other.register(name)
    id = asked(peer, other, name)
    assert other.ask("reply", message=answer(id, name))["state"] == "queued"
    assert peer.take()["message"]["reply_to"] == id


def test_a_question_lies_in_the_inbox_until_it_is_answered(
    peer: Peer, other: Peer, name: str
) -> None:
    """PROTOCOL-9.9: also over a wait that ended; what nobody asked with does not."""
    other.register(name)
    id = asked(peer, other, name)
    peer.send(name, "just so", sender=f"{name}-a")
    other.say("handled", other.take(), outcome=SHOWN)
    error = peer.error("wait", id=id, state="answer", timeout=0.05)
    assert error.code == "timeout" and f"shown at {name}, where no person has replied" in error.text
    (row,) = peer.ask("inbox", name=name)["messages"]
    assert (row["id"], row["awaits"], row["silent"]) == (id, "reply", False)
    other.ask("reply", message=answer(id, name))
    assert peer.ask("inbox", name=name)["messages"] == []
    assert not any("awaits" in row for row in peer.ask("inbox", name=name, all=True)["messages"])


def test_one_answer(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.10: the second is refused; the first sent again gets its receipt."""
    other.register(name)
    id = asked(peer, other, name)
    first = answer(id, name)
    other.ask("reply", message=first)
    again = other.ask("reply", message=first)
    assert (again["id"], again["duplicate"]) == (first["id"], True)
    error = other.error("reply", message=answer(id, name))
    assert error.code == "refused"
    assert f"answered already; what was said: wakebus trace {first['id']} --text" in error.text


def test_a_question_is_taken_back(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.10: by `cancel`, once: who waits is told, the inbox is empty, no answer counts."""
    other.register(name)
    id = asked(peer, other, name)
    number = waiting(peer, id)
    told = peer.ask("cancel", id=id, by="ci")
    assert (told["state"], told["reason"]) == ("handled", "cancelled by ci")
    outcome = peer.answer(number)["outcome"]
    assert (outcome["answered"], outcome["note"]) == (False, "cancelled by ci")
    assert outcome["rule"] == SHOWN["rule"] and "awaits" not in outcome
    assert peer.ask("inbox", name=name)["messages"] == []
    error = other.error("reply", message=answer(id, name))
    assert "was taken back, and nobody waits for an answer to it: cancelled by ci" in error.text
    assert "nothing to take back" in peer.error("cancel", id=id, by="ci").text
    steps = peer.ask("trace", id=id)["messages"][0]["steps"]
    assert (steps[-1]["what"], steps[-1]["by"]) == ("cancelled", "ci")
    id = asked(peer, other, name, asker=f"{name}-a")
    other.ask("reply", message=answer(id, name))
    assert "nothing to take back" in peer.error("cancel", id=id).text


def test_what_no_person_answers(peer: Peer, other: Peer, name: str) -> None:
    """PROTOCOL-9.10: by its state, as the text says; nothing is stored."""
    other.register(name)

    def refused(id: str, **fields: Any) -> str:
        error = other.error("reply", message=answer(id, name, **fields))
        assert error.code in ("refused", "unknown_id"), error
        assert len(peer.ask("trace", id=id)["messages"]) == 1
        return error.text

    plain = peer.send(name, "just so", sender=f"{name}-a")["id"]
    other.say("handled", other.take(), outcome=SHOWN)
    assert f"no question: {name}-a did not wait" in refused(plain)
    dead = peer.send(name, "well?", sender=f"{name}-a", asks=True)["id"]
    other.say("refused", other.take(), reason="never")
    assert "is dead, and nobody waits for an answer to it: never" in refused(dead)
    held = peer.send(name, "well?", sender=f"{name}-a", asks=True, session="s")["id"]
    delivery = other.take()
    other.say("got", delivery)
    assert f"{name} has {held} in its hands" in refused(held)
    other.say("handled", delivery, outcome={"rule": "none"})
    assert "asked no person" in refused(held)
    id = asked(peer, other, name)
    assert f"a question of {name}-a for {name}, and not for x" in refused(id, **{"from": "x"})
    assert "and not for" in refused(id, to="x")
    other.ask("unregister", name=name)
    waits = peer.send(name, "well?", sender=f"{name}-a", asks=True)["id"]
    assert "was shown to nobody yet: wakebus listen" in refused(waits)


def test_a_reply_to_nothing(peer: Peer, name: str) -> None:
    """PROTOCOL-9.10, PROTOCOL-3.2: `unknown_id`."""
    assert peer.error("reply", message=answer(secrets.token_hex(5), name)).code == "unknown_id"


@pytest.mark.parametrize(
    "fields",
    [{"reply_to": None}, {"body": {"type": "note", "text": "x"}}, {"hops": 1}],
    ids=repr,
)
def test_a_wrong_reply(peer: Peer, name: str, fields: dict[str, Any]) -> None:
    """PROTOCOL-9.10, PROTOCOL-3.2: what is no answer of a person is `bad_message`."""
    message = {k: v for k, v in {**answer("m1", name), **fields}.items() if v is not None}
    error = peer.error("reply", message=message)
    assert isinstance(error, errors.BadMessage) and "type `answer`" in error.text
