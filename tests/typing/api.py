"""
The public API of `wakebus.broker`, used as its callers use it: checked by mypy, never run.

`mypy --strict tests/typing` fails when a type that callers rely on has changed.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, assert_type

from wakebus.broker import (
    Answer,
    AsyncClient,
    AsyncDelivery,
    AsyncSubscription,
    Client,
    Delivery,
    Event,
    Gap,
    Later,
    Message,
    Outcome,
    Receipt,
    Refusal,
    Refused,
    Subscription,
    TimedOut,
    Undecided,
    WakebusError,
)


def send() -> None:
    with Client() as bus:
        assert_type(bus, Client)
        receipt = bus.send("worker", "run the tests", type="directive", sender="ci", wait=5)
        assert_type(receipt, Receipt)
        assert_type(receipt.id, str)
        assert_type(receipt.state, str)
        assert_type(receipt.live, bool)
        assert_type(receipt.ahead, int)
        assert_type(receipt.duplicate, bool)
        assert_type(receipt.outcome, Mapping[str, Any] | None)
        assert_type(receipt.reason, str)
        assert_type(receipt.claimed, bool)
        assert_type(receipt.failed, bool)
        bus.send(
            "worker", {"text": "x", "number": 1}, session="s", wake="silent", key="k", ttl_s=60
        )
        bus.send("worker", MappingProxyType({"text": "x"}), queue=True, asks=True, token="t" * 16)
        bus.send("worker", "x", id="a", reply_to="b", cause="c", hops=1, path=("w",), timeout=2.5)
        assert_type(bus.wait(receipt.id, 5), Receipt)
        bus.send("worker", "x", outside_turn=True)
        assert_type(bus.resume("worker"), Sequence[dict[str, Any]])
        bus.resume(sender="worker", to="lead")


def stop() -> None:
    with Client() as bus:
        assert_type(bus.stop_broker("boot"), int)


def ask() -> None:
    with Client("/run/broker.sock", timeout=2) as bus:
        answer = bus.ask("worker", "done?", wait=60, channel="console:me")
        assert_type(answer, Answer)
        assert_type(answer.receipt, Receipt)
        assert_type(answer.message, Message | None)
        assert_type(bus.wait_answer("id", 5), Answer)
        assert_type(bus.wait_answer("id", 5, token="t" * 16), Answer)
        assert_type(bus.cancel("id", by="ci").told, bool)
        if answer.message is not None:
            assert_type(answer.message.text, str)
            assert_type(answer.message.type, str)
            assert_type(answer.message.channel, str)
            assert_type(answer.message.body, Mapping[str, Any])
            assert_type(answer.message.session, str | None)


def handle(delivery: Delivery) -> Outcome:
    assert_type(delivery.message, Message)
    assert_type(delivery.attempt, int)
    assert_type(delivery.redelivered, bool)
    assert_type(delivery.started_before, bool)
    assert_type(delivery.asks, bool)
    assert_type(delivery.sender_known, bool)
    assert_type(delivery.claimed, bool)
    assert_type(delivery.retried, int)
    delivery.started()
    delivery.started("t" * 16)
    delivery.take_more()
    match delivery.message.text:
        case "":
            return None
        case "later":
            return Later(0.5, "busy")
        case "never":
            return Refusal("not mine", {"rule": "none"})
        case _:
            return {"turn": 1}


def only_none(delivery: Delivery) -> None:
    """A handler may return nothing at all."""


def only_a_dict(delivery: Delivery) -> dict[str, int]:
    """And one kind of outcome only."""
    return {"n": 1}


def receive() -> None:
    bus = Client(timeout=5)
    assert_type(bus.register("worker", handle, takeover=True, on_lost=print), int)
    bus.register("worker-2", only_none, suffix=True)
    assert_type(bus.names, dict[str, str])
    bus.register("worker-3", only_a_dict)
    bus.register("worker-4", lambda delivery: Later(1))
    bus.unregister("worker")
    bus.register("worker-5", "no handler")  # type: ignore[arg-type]
    bus.register("worker-6", lambda delivery: 7)  # type: ignore[arg-type,return-value]
    bus.close()


def boxes() -> None:
    with Client() as bus:
        assert_type(bus.dead_letters(to="worker", limit=5), Iterator[dict[str, Any]])
        assert_type(
            bus.dead_letters(sender="ci", older_than=60, oldest=True), Iterator[dict[str, Any]]
        )
        assert_type(bus.inbox("worker", all=True), Iterator[dict[str, Any]])
        assert_type(bus.retry(["id"], force=True, by="me"), dict[str, Any])
        assert_type(bus.purge(("id",)), dict[str, Any])
        assert_type(bus.cancel("id", by="me"), Receipt)
        assert_type(bus.reply("id", "yes", by="me"), Receipt)


def see(event: Event) -> None:
    assert_type(event.topic, str)
    assert_type(event.pub, str)
    assert_type(event.n, int)
    assert_type(event.envelope, dict[str, Any])
    assert_type(event.type, str)
    assert_type(event.ts, float)
    assert_type(event.src, str)


def miss(gap: Gap) -> None:
    assert_type(gap.topic, str)
    assert_type(gap.pub, str)
    assert_type(gap.missed, int)
    assert_type(gap.n, int)


def events() -> None:
    with Client() as bus:
        bus.publish("ci.build.done")
        bus.publish("ci.build.done", {"ok": True})
        bus.publish("ci.build.done", MappingProxyType({"ok": True}), confirm=True)
        assert_type(bus.dropped, int)
        assert_type(bus.missed, int)
        assert_type(bus.subscribe("ci.**", see), Subscription)
        seen: list[Event] = []
        with bus.subscribe(["ci.*", "agent.**"], seen.append, on_gap=miss) as subscription:
            assert_type(subscription.patterns, tuple[str, ...])
            assert_type(subscription.received, int)
            assert_type(subscription.missed, int)
            assert_type(subscription.closed, bool)
        subscription.close()
        bus.subscribe("ci.**", miss)  # type: ignore[arg-type]


async def handle_in_a_loop(delivery: AsyncDelivery) -> Outcome:
    assert_type(delivery.message, Message)
    assert_type(delivery.redelivered, bool)
    await delivery.started()
    await delivery.started("t" * 16)
    delivery.take_more()
    return Later(0.5) if delivery.asks else {"turn": 1}


async def only_none_in_a_loop(delivery: AsyncDelivery) -> None:
    """A handler may return nothing at all."""


async def see_in_a_loop(event: Event) -> None:
    """A handler of events may be a coroutine."""


async def in_a_loop() -> None:
    async with AsyncClient("/run/broker.sock", timeout=2) as bus:
        assert_type(bus, AsyncClient)
        receipt = await bus.send("worker", {"text": "x"}, type="ack", key="k", wait=5, timeout=2)
        assert_type(receipt, Receipt)
        assert_type(await bus.ask("worker", "done?", wait=60), Answer)
        assert_type(await bus.wait(receipt.id, 5), Receipt)
        assert_type(await bus.wait_answer(receipt.id, 5), Answer)
        assert_type(await bus.register("a", handle_in_a_loop, on_lost=print, takeover=True), int)
        await bus.register("b", only_none_in_a_loop, suffix=True)
        assert_type(bus.names, dict[str, str])
        await bus.unregister("a")
        await bus.publish("ci.build.done", MappingProxyType({"ok": True}), confirm=True)
        subscription = await bus.subscribe("ci.**", see_in_a_loop, on_gap=miss)
        assert_type(subscription, AsyncSubscription)
        assert_type(subscription.missed, int)
        subscription.close()
        async with bus.subscribe(["ci.*", "agent.**"]) as events:
            async for event in events:
                assert_type(event, Event)
        assert_type(await bus.list(), Sequence[dict[str, Any]])
        assert_type(await bus.status(), dict[str, Any])
        assert_type(await bus.connected(1.0), bool)
        assert_type(bus.inbox("worker"), AsyncIterator[dict[str, Any]])
        assert_type(bus.dead_letters(to="worker", limit=5), AsyncIterator[dict[str, Any]])
        await bus.register("c", handle)  # type: ignore[arg-type]
        await bus.send("worker")  # type: ignore[call-arg]
        await bus.send("worker", "x", kind="y")  # type: ignore[call-arg]
        await bus.close()


def look() -> None:
    with Client() as bus:
        assert_type(bus.list(), Sequence[dict[str, Any]])
        assert_type(bus.trace("id"), Sequence[dict[str, Any]])
        assert_type(bus.status(), dict[str, Any])
        assert_type(bus.connected(1.0), bool)
        assert_type(bus.address, str)
        bus.declare("worker")
        bus.forget("worker")


def fail() -> None:
    try:
        send()
    except Undecided as exc:
        assert_type(exc.id, str)
    except (Refused, TimedOut) as exc:
        assert_type(exc.text, str)
        assert_type(exc.data, dict[str, Any])
    except WakebusError as exc:
        assert_type(exc.code, str)
        assert_type(exc.retry, bool)
