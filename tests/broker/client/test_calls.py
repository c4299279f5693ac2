"""The calls: what they ask one after the other, and what comes of it, against a real broker."""

import secrets
from collections.abc import Iterator

import pytest

from fakes.broker import Broker
from fakes.peer import MakePeer
from wakebus.broker import AsyncClient, Client, Refused
from wakebus.broker.client import calls
from wakebus.broker.client.calls import BrokerRequest, Calls
from wakebus.broker.errors import UnknownId, UnknownTarget


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[Client]:
    """A client of the shared broker."""
    with Client(shared_broker.address, timeout=30) as found:
        yield found


def dead(client: Client, name: str, count: int) -> list[str]:
    """Make dead letters for `name`; return their ids, oldest first."""
    client.declare(name)
    ids = [client.send(name, f"text {n}", sender="ci").id for n in range(count)]
    for id in ids:
        assert client.cancel(id, by="somebody").state == "dead"
    return ids


def test_names(client: Client, name: str) -> None:
    """PROTOCOL-10.1, PROTOCOL-10.2, PROTOCOL-10.3: declared, listed, forgotten."""
    client.declare(name)
    assert [one["name"] for one in client.list() if one["name"] == name] == [name]
    client.forget(name)
    assert name not in [one["name"] for one in client.list()]
    assert client.status()["pid"] > 0


def test_pages_are_followed(client: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-10.7, PROTOCOL-10.10: every row once, as many as are wanted."""
    ids = dead(client, name, 7)
    monkeypatch.setattr(calls, "PAGE", 3)
    found = [*client.dead_letters(to=name)]
    assert [row["id"] for row in found] == ids[::-1]
    assert all(0 <= row["age_s"] < 600 and "cancelled" in row["reason"] for row in found)
    assert [row["id"] for row in client.dead_letters(to=name, oldest=True, limit=4)] == ids[:4]
    assert [*client.dead_letters(to=name, older_than=3600)] == []
    assert [*client.dead_letters(to=name, sender="nobody")] == []
    assert [row["id"] for row in client.inbox(name, all=True)] == ids
    assert [*client.inbox(name)] == []


def test_steps_are_repeated(client: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-10.8, PROTOCOL-10.9: until nothing is left; the fate of each id is told."""
    ids = dead(client, name, 5)
    monkeypatch.setattr(calls, "STEP", 2)
    done = client.retry([*ids, "never"], by="me")
    assert done["retried"] == ids and [one["id"] for one in done["kept"]] == ["never"]
    assert [row["id"] for row in client.inbox(name)] == ids
    for id in ids[:3]:
        client.cancel(id)
    done = client.purge(ids)
    assert done["purged"] == ids[:3] and [one["id"] for one in done["kept"]] == ids[3:]
    with pytest.raises(UnknownId):
        client.read(ids[0])
    assert client.purge([]) == {"purged": [], "kept": []}


def test_refusals_are_errors(client: Client, name: str) -> None:
    """PROTOCOL-10.11, PROTOCOL-10.10: of their kinds."""
    (id,) = dead(client, name, 1)
    with pytest.raises(Refused, match="dead already"):
        client.cancel(id)
    with pytest.raises(UnknownId):
        client.cancel("never")
    with pytest.raises(UnknownTarget):
        [*client.inbox(secrets.token_hex(8))]


def test_a_delivery_says_that_it_was_dead(
    shared_broker: Broker, client: Client, name: str, peers: MakePeer
) -> None:
    """PROTOCOL-10.8: to its handler."""
    (id,) = dead(client, name, 1)
    client.retry([id])
    seen: list[int] = []
    with Client(shared_broker.address) as receiver:
        receiver.register(name, lambda delivery: seen.append(delivery.retried))
        assert client.wait(id, 30).state == "handled"
    assert seen == [1]


def own_name() -> str | None:
    """Hold no name."""
    return None


def test_a_call_can_be_run_by_anybody() -> None:
    """It yields what it asks, and takes the answers: no client is needed."""
    given_up: list[str] = []

    def give_up(name: str) -> str:
        given_up.append(name)
        return f"{name}-2"

    made = Calls(own_name, give_up)
    call = made.read("m1")
    assert next(call) == BrokerRequest("read", {"id": "m1"})
    message = {"id": "m1", "ts": 1.0, "from": "ci", "to": "w", "body": {"text": "hi"}}
    with pytest.raises(StopIteration) as end:
        call.send({"message": message})
    assert end.value.value.text == "hi"
    asked = next(made.send("w", "x"))
    assert isinstance(asked, BrokerRequest)
    assert asked.payload["message"]["from"] == "cli" and asked.id == asked.payload["message"]["id"]
    assert next(made.unregister("w")) == BrokerRequest("unregister", {"name": "w-2"})
    assert given_up == ["w"]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_wrong_arguments_are_those_of_the_client(kind: type[Client] | type[AsyncClient]) -> None:
    """A TypeError and help() name the class that people know."""
    assert kind.send.__qualname__ == "Client.send"
    with pytest.raises(TypeError, match=r"Client\.ask\(\) missing 1 required"):
        Calls.ask(Calls(lambda: None, str), "w", "x")  # type: ignore[call-arg]
