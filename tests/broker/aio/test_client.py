"""`AsyncClient` with a real broker, and with brokers that are frozen or gone."""

import asyncio
import inspect
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes.broker import Broker, until
from fakes.peer import MakePeer
from fakes.program import frozen
from wakebus.broker import AsyncClient, AsyncDelivery, Client, Delivery, Event, Gap, Later, Refusal
from wakebus.broker.aio.subscription import MAX_BUFFERED
from wakebus.broker.errors import (
    BadTopic,
    Loop,
    NameTaken,
    NotRunning,
    Undecided,
    UnknownTarget,
)

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
DEFAULT_THREADS = {"MainThread", "wakebus io", "wakebus handler", "wakebus events"}


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run it in a loop of its own; 60 s are for ever."""

    async def limited() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(limited())


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[Client]:
    """Somebody else, in threads."""
    with Client(shared_broker.address, timeout=30) as found:
        yield found


@pytest.fixture
def bus(shared_broker: Broker) -> AsyncClient:
    """A client that no loop has used yet; the test closes it."""
    return AsyncClient(shared_broker.address, timeout=30)


SIX_THOUSAND = """
import asyncio, os, signal, sys
from collections import Counter
from wakebus import AsyncClient

async def main():
    async with AsyncClient(sys.argv[1], timeout=60) as bus:
        sends = (bus.send(sys.argv[2], str(n)) for n in range(6_000))
        receipts = asyncio.gather(*sends)
        pending = bus._core.connection._pending
        await asyncio.sleep(0)
        while not all(one.written for one in [*pending.values()]):
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGSTOP)
        print(Counter(one.state for one in await receipts)["queued"])

asyncio.run(main())
"""


def test_six_thousand_at_once_get_their_receipts(
    broker: Broker, peers: MakePeer, name: str
) -> None:
    """PROTOCOL-3.4: also where the client stands still: more than pipe and socket take."""
    peer = peers(broker)
    peer.ask("declare", name=name)
    command = [sys.executable, "-c", SIX_THOUSAND, broker.address, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            # It takes 3 s; beside seven others on two cores once more than 30.
            until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED, 90)
            # What libzmq had not written yet when it was stopped cannot arrive before it goes on.
            until(lambda: peer.ask("status")["messages"] > 2_000, 60)
        finally:
            child.send_signal(signal.SIGCONT)
        assert child.communicate()[0] == b"6000\n"


# --- the same calls ---------------------------------------------------------------------------


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_it_has_all_that_client_has() -> None:
    """Same names; what asks the broker has the same parameters and the same words, too."""
    assert names(Client) <= names(AsyncClient)
    for name in ("send", "ask", "wait", "list", "trace", "retry", "dead_letters", "inbox"):
        ours, theirs = getattr(AsyncClient, name), getattr(Client, name)
        assert inspect.signature(ours) == inspect.signature(theirs)
        assert ours.__doc__ == theirs.__doc__
    for name in ("register", "subscribe", "publish"):
        ours, theirs = getattr(AsyncClient, name), getattr(Client, name)
        assert set(inspect.signature(ours).parameters) == set(inspect.signature(theirs).parameters)


def test_send_ask_and_wait(bus: AsyncClient, shared_broker: Broker, name: str) -> None:
    """A coroutine handles and answers; receipts, outcomes and answers are Client's own."""

    async def main() -> None:
        async with bus, AsyncClient(shared_broker.address, timeout=30) as worker:

            async def answer(delivery: AsyncDelivery) -> dict[str, str]:
                message = delivery.message
                if delivery.asks:
                    text = f"{message.type}: {message.text}"
                    await worker.send(message.sender, text, type="answer", reply_to=message.id)
                return {"said": message.text}

            assert await worker.register(name, answer) >= 1
            done = await bus.send(name, "hello", wait=30)
            assert (done.state, done.outcome, done.to) == ("handled", {"said": "hello"}, name)
            found = await bus.ask(name, "done?", wait=30, sender=f"{name}-asker")
            assert found.message and found.message.text == "directive: done?"
            again = await bus.send(name, "hello", id=done.id)
            assert again.duplicate and again.id == done.id
            assert (await bus.wait(done.id, 30)).state == "handled"

    run(main())


def test_what_is_asked(bus: AsyncClient, name: str) -> None:
    """Lists, traces, boxes and dead letters; rows come by `async for`."""

    async def main() -> None:
        async with bus:
            await bus.declare(name)
            sent = [(await bus.send(name, f"text {n}")).id for n in range(3)]
            assert [row["id"] async for row in bus.inbox(name)] == sent
            assert (await bus.cancel(sent[0])).state == "dead"
            assert [row["id"] async for row in bus.dead_letters(to=name, older_than=-60)] == sent[
                :1
            ]
            assert (await bus.retry(sent[:1]))["retried"] == sent[:1]
            assert (await bus.trace(sent[1]))[0]["state"] == "queued"
            assert (await bus.read(sent[2])).text == "text 2"
            assert name in {one["name"] for one in await bus.list()}
            assert (await bus.status())["pid"] > 0 and await bus.connected(0)
            with pytest.raises(UnknownTarget):
                _ = [row async for row in bus.inbox(f"{name}-nobody")]

    run(main())


def test_errors_are_clients_own(bus: AsyncClient, client: Client, name: str) -> None:
    """The same classes, raised where the call is awaited."""
    client.register(name, lambda delivery: None)

    async def nothing(delivery: AsyncDelivery) -> None:
        return None

    async def main() -> None:
        async with bus:
            with pytest.raises(UnknownTarget):
                await bus.send(f"{name}-nobody", "x")
            with pytest.raises(NameTaken):
                await bus.register(name, nothing)
            with pytest.raises(BadTopic):
                await bus.publish("a b")
            with pytest.raises(BadTopic):
                await bus.subscribe("a.**b")

    run(main())


def test_the_example_of_the_readme(shared_broker: Broker, client: Client) -> None:
    """It does what it says."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    code = next(block for block in blocks if "AsyncClient" in block)
    client.register("counter", lambda delivery: {"words": 1})
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=shared_broker.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert set(re.findall(r"\w+", done.stdout)) <= {"queued", "delivered", "handled"}


# --- thousands at once ------------------------------------------------------------------------


def test_a_thousand_at_once_wake_the_loop_a_few_times(bus: AsyncClient, name: str) -> None:
    """All are accepted, by no thread of their own; answers come to the loop in batches."""

    before = {thread.name for thread in threading.enumerate()}  # those that other tests left

    async def main() -> None:
        async with bus:
            await bus.declare(name)
            loop = asyncio.get_running_loop()
            calls = 0
            original = loop.call_soon_threadsafe

            def counting(*args: Any, **kwargs: Any) -> Any:
                nonlocal calls
                calls += 1
                return original(*args, **kwargs)

            loop.call_soon_threadsafe = counting  # type: ignore[method-assign,assignment]
            found = await asyncio.gather(*(bus.send(name, f"text {n}") for n in range(1000)))
            assert {receipt.state for receipt in found} == {"queued"}
            assert len({receipt.id for receipt in found}) == 1000
            assert calls < 500
            ours = {thread.name for thread in threading.enumerate()} - before
            assert ours <= DEFAULT_THREADS | {"wakebus wait"}

    run(main())


# --- handlers ---------------------------------------------------------------------------------


async def handled(delivery: AsyncDelivery) -> Any:
    """Do what the text says."""
    match delivery.message.text:
        case "later":
            return Later(0.05, "busy") if delivery.message.key is None else None
        case "refuse":
            return Refusal("not mine")
        case "fail":
            raise ValueError("what a pity")
        case "exit":
            raise SystemExit
        case "cancel":
            raise asyncio.CancelledError
        case "dict":
            return {"turn": 1}
    return "nonsense"


@pytest.mark.parametrize(
    ("text", "state", "word"),
    [
        ("dict", "handled", ""),
        ("other", "handled", "no mapping"),
        ("refuse", "dead", "not mine"),
        ("fail", "dead", "ValueError: what a pity"),
        ("exit", "dead", "SystemExit"),
        ("cancel", "dead", "CancelledError"),
    ],
)
def test_every_handlers_end_is_told(
    bus: AsyncClient,
    name: str,
    text: str,
    state: str,
    word: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As Client tells it and logs it; what raises takes neither the loop nor its lane along."""

    async def main() -> None:
        async with bus:
            await bus.register(name, handled)
            done = await bus.send(name, text, wait=30)
            assert done.state == state
            assert word in f"{done.outcome} {done.reason}"
            assert (await bus.send(name, "dict", wait=30)).outcome == {"turn": 1}

    run(main())
    assert ("Traceback" in caplog.text) is (text in ("fail", "exit", "cancel"))


def test_lanes_are_handled_at_once_and_in_order(bus: AsyncClient, name: str) -> None:
    """One at a time in each lane; ten lanes side by side, in one thread."""
    busy: set[str] = set()
    most, seen = 0, dict[str, list[str]]()

    async def handle(delivery: AsyncDelivery) -> None:
        nonlocal most
        message = delivery.message
        assert message.lane not in busy
        busy.add(message.lane)
        most = max(most, len(busy))
        seen.setdefault(message.lane, []).append(message.text)
        await delivery.started()
        # The first ones of all lanes wait for each other.
        while message.text == "0" and most < 10:
            await asyncio.sleep(0.001)
        busy.discard(message.lane)

    async def main() -> None:
        async with bus:
            await bus.declare(name)
            ids = [
                (await bus.send(name, f"{n}", session=f"s{lane}")).id
                for n in range(3)
                for lane in range(10)
            ]
            await bus.register(name, handle)
            for id in ids:
                assert (await bus.wait(id, 30)).state == "handled"
            assert most == 10 and [*seen.values()] == [["0", "1", "2"]] * 10

    run(main())


def test_later_comes_again(bus: AsyncClient, name: str) -> None:
    """And what has begun is told so only when it comes to another holder."""
    attempts: list[int] = []

    async def handle(delivery: AsyncDelivery) -> Later | None:
        delivery.take_more()
        attempts.append(delivery.attempt)
        return Later(0.05) if len(attempts) == 1 else None

    async def main() -> None:
        async with bus:
            await bus.register(name, handle)
            assert (await bus.send(name, "x", wait=30)).state == "handled"
            assert attempts == [1, 1]

    run(main())


def test_closing_cancels_handlers_and_acknowledges_nothing(
    bus: AsyncClient, client: Client, name: str
) -> None:
    """What was in hand goes to the next holder, marked."""
    running = asyncio.Event()
    ended: list[str] = []

    async def handle(delivery: AsyncDelivery) -> None:
        await delivery.started()
        running.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        async with bus:
            await bus.register(name, handle)
            await bus.send(name, "x")
            await running.wait()

    run(main())
    assert ended == ["cancelled"]
    got: list[Delivery] = []
    client.register(name, got.append)
    until(lambda: got, 30)
    assert got[0].redelivered and got[0].started_before


def test_a_handler_that_somebody_cancels_gets_its_message_again(
    bus: AsyncClient, name: str
) -> None:
    """Its lane is not blocked for ever."""
    times = 0

    async def handle(delivery: AsyncDelivery) -> None:
        nonlocal times
        times += 1
        task = asyncio.current_task()
        if times == 1 and task:
            task.cancel()
            await asyncio.sleep(600)

    async def main() -> None:
        async with bus:
            await bus.register(name, handle)
            assert (await bus.send(name, "x", wait=30)).state == "handled"
            assert times == 2

    run(main())


def test_who_lost_the_name_is_told(bus: AsyncClient, client: Client, name: str) -> None:
    """`on_lost` is called in the loop; `started` raises, and what comes then is not looked at."""
    lost: list[str] = []
    raised: list[Exception] = []

    def tell(why: str) -> None:
        lost.append(threading.current_thread().name)

    async def main() -> None:
        running = asyncio.Event()

        async def handle(delivery: AsyncDelivery) -> None:
            running.set()
            while not lost:
                await asyncio.sleep(0.01)
            try:
                await delivery.started()
            except Exception as exc:
                raised.append(exc)
                raise

        async with bus:
            await bus.register(name, handle, on_lost=tell)
            sent = await bus.send(name, "x")
            await running.wait()
            await asyncio.to_thread(client.register, name, lambda d: {"by": "other"}, takeover=True)
            done = await bus.wait(sent.id, 30)
            assert (done.state, done.outcome) == ("handled", {"by": "other"})
            while not raised:
                await asyncio.sleep(0.01)

    run(main())
    assert len(raised) == 1
    assert lost == ["MainThread"]


def test_a_name_with_a_suffix(bus: AsyncClient, client: Client, name: str) -> None:
    """PROTOCOL-5.13: as with Client: `names` tells it, and it is given up by either name."""
    client.register(name, lambda delivery: None)

    async def main() -> None:
        async with bus:
            assert await bus.register(name, handled, suffix=True) == 1
            assert bus.names == {name: f"{name}-2"}
            await bus.unregister(name)
            assert bus.names == {}

    run(main())


# --- who stops waiting ------------------------------------------------------------------------


def left(bus: AsyncClient) -> int:
    """Return how many requests are kept."""
    connection = bus._core.connection
    return len(connection._pending) + len(connection._outbox)


def test_a_cancelled_call_leaves_nothing(broker: Broker, name: str) -> None:
    """Neither in the client nor in the loop; the same id settles what may have been written."""

    async def main() -> None:
        async with AsyncClient(broker.address, timeout=30) as bus:
            await bus.declare(name)
            with frozen(broker.pid):
                calls = [bus.send(name, "x", id="first"), bus.list(), bus.ask(name, "x", wait=600)]
                tasks = [asyncio.create_task(call) for call in calls]
                await asyncio.sleep(0.05)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await bus.send(name, "y")
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                assert all(task.cancelled() for task in tasks) and not left(bus)
            assert (await bus.send(name, "x", id="first")).id == "first"

    run(main())


def test_a_send_without_a_receipt_is_undecided(broker: Broker, name: str) -> None:
    """As Client says it; its id settles it."""

    async def main() -> None:
        async with AsyncClient(broker.address, timeout=30) as bus:
            await bus.declare(name)
            with frozen(broker.pid):
                with pytest.raises(Undecided) as caught:
                    await bus.send(name, "x", timeout=0.2)
                assert not left(bus)
            assert (await bus.send(name, "x", id=caught.value.id)).id == caught.value.id

    run(main())


def test_a_cancelled_claim_is_given_up(
    bus: AsyncClient, client: Client, shared_broker: Broker, name: str
) -> None:
    """A name that nobody waits for any more is free again; so is a subscription."""

    async def main() -> None:
        async with bus:
            await bus.connected(30)
            with frozen(shared_broker.pid):  # it cannot have answered when they are cancelled
                claim = asyncio.create_task(bus.register(name, handled))
                opening = asyncio.create_task(bus._subscribe(name, None, None))
                await asyncio.sleep(0.01)
                claim.cancel()
                opening.cancel()
            await asyncio.wait([claim, opening])
            assert claim.cancelled() and opening.cancelled()

            def free() -> bool:
                return all(one["name"] != name or one["state"] == "away" for one in client.list())

            await asyncio.to_thread(until, lambda: free() and not held(bus), 30)

    run(main())


def held(bus: AsyncClient) -> bool:
    """Whether it holds a name or a subscription."""
    topics = bus._core._topics
    subscriber = topics and topics._subscriber
    return bool(bus._core.registrations()._names) or bool(subscriber and subscriber._open)


# --- the end ----------------------------------------------------------------------------------


def test_closing_ends_all_that_waits(bus: AsyncClient, name: str) -> None:
    """Calls raise, iterators end, a handler that will not end is left behind; twice is harmless."""

    async def stubborn(delivery: AsyncDelivery) -> None:
        started.set()
        while not closed.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                pass

    started, closed = asyncio.Event(), asyncio.Event()

    async def main() -> None:
        await bus.register(name, stubborn)
        waiting = asyncio.create_task(bus.send(name, "x", wait=600))
        subscription = await bus.subscribe(name)
        events = asyncio.create_task(anext(subscription, None))
        await started.wait()
        await bus.close()
        await bus.close()
        assert await events is None and subscription.closed
        with pytest.raises((NotRunning, Exception), match="closed"):
            await waiting
        for call in (bus.list(), bus.register(name, stubborn), bus.publish("a"), bus._subscribe):
            with pytest.raises(NotRunning):
                await (call if inspect.isawaitable(call) else call("a", None, None))
        closed.set()

    run(main())


def test_a_cancelled_close_still_closes(bus: AsyncClient, name: str) -> None:
    """The rest happens in the background."""

    async def main() -> None:
        await bus.register(name, handled)
        closing = asyncio.create_task(bus.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await asyncio.to_thread(until, lambda: bus._core.connection._ended, 30)

    run(main())


def test_a_handler_may_close_its_client(bus: AsyncClient, client: Client, name: str) -> None:
    """It is not cancelled by that."""

    async def main() -> None:
        ended = asyncio.Event()

        async def handle(delivery: AsyncDelivery) -> None:
            await bus.close()
            ended.set()

        await bus.register(name, handle)
        await asyncio.to_thread(client.send, name, "x")
        await ended.wait()

    run(main())


FORGETFUL = """\
import asyncio, gc, sys, threading, time
from wakebus.broker import AsyncClient, Client

async def handle(delivery):
    running.set()
    await asyncio.sleep(600)

async def main():
    global running, bus
    running = asyncio.Event()
    bus = AsyncClient()
    await bus.register(sys.argv[1], handle)
    await bus.subscribe("forgotten.**", print)
    await bus.send(sys.argv[1], "one", session="a")
    await running.wait()
    if sys.argv[2] == "run":
        asyncio.ensure_future(bus.send(sys.argv[1], "x", wait=600))  # comes while the loop ends
        await asyncio.sleep(0)

if sys.argv[2] == "run":
    asyncio.run(main())
else:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    for task in (tasks := asyncio.all_tasks(loop)):
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks))
    loop.close()
    with Client(timeout=30) as other:
        other.send(sys.argv[1], "two", session="b")
bus._core.connection._thread.join(60)
print("ended", not bus._core.connection._thread.is_alive())
del bus
gc.collect()
"""


@pytest.mark.parametrize("end", ["run", "close"])
def test_a_loop_that_ends_with_its_client_open(shared_broker: Broker, name: str, end: str) -> None:
    """
    No warning, no error. `asyncio.run` ends the client; a loop that is merely closed does not tell,
    but the next message that comes ends the client, and its name is free.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGETFUL, name, end],
        env=shared_broker.env,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended True\n", "")


def test_another_loop_is_an_error(bus: AsyncClient) -> None:
    """Said at once, with what to do."""
    asyncio.run(bus.list())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(bus.list())
    bus._core.close()


# --- events -----------------------------------------------------------------------------------


def test_events_by_async_for(bus: AsyncClient, name: str) -> None:
    """From the first one on, in order; leaving the block ends the subscription."""

    async def main() -> None:
        async with bus:
            async with bus.subscribe(f"{name}.**") as events:
                await asyncio.gather(*(bus.publish(f"{name}.a", {"x": n}) for n in range(300)))
                found = [await anext(events) for _ in range(300)]
            assert [event.envelope["x"] for event in found] == [*range(300)]
            assert (events.received, events.missed, bus.missed, bus.dropped) == (300, 0, 0, 0)
            assert events.closed and [event async for event in events] == []

    run(main())


def test_very_many_patterns(bus: AsyncClient, name: str) -> None:
    """EVENTS-4.3: as `Client` takes them."""

    async def main() -> None:
        async with bus, bus.subscribe([f"{name}.n{n}.*" for n in range(10_000)]) as events:
            await bus.publish(f"{name}.n9999.x", confirm=True)
            assert (await anext(events)).topic == f"{name}.n9999.x"

    run(main())


def test_events_by_handler(bus: AsyncClient, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A function or a coroutine, called in the loop for one after the other; errors are logged."""

    async def main() -> None:
        got: list[int] = []
        seen: list[Event] = []
        busy = False

        async def slow(event: Event) -> None:
            nonlocal busy
            assert not busy
            busy = True
            await asyncio.sleep(0.001)
            busy = False
            got.append(event.n)
            raise ValueError(event.n)

        async with bus:
            subscription = await bus.subscribe(name, slow)
            await bus.subscribe([name, f"{name}.x"], seen.append)
            for _ in range(20):
                await bus.publish(name)
            await bus.publish(name, confirm=True)
            while len(got) < 21 or len(seen) < 21:
                await asyncio.sleep(0.01)
            # The confirmed one is another publisher's: between the two there is no order.
            assert sorted(got) == [1, *range(1, 21)]
            subscription.close()
            await bus.publish(f"{name}.x")
            while len(seen) < 22:
                await asyncio.sleep(0.01)

    run(main())
    assert caplog.text.count("ValueError") and caplog.text.count("are not logged") == 1


def test_a_slow_consumer_misses_events_and_counts_them_exactly(
    bus: AsyncClient, client: Client, name: str
) -> None:
    """What its buffer does not hold is a gap before the next event; others get all."""
    many = 3 * MAX_BUFFERED
    all_ = 0

    def count(event: Event) -> None:
        nonlocal all_
        all_ += 1

    def seen(number: int) -> bool:
        return all_ == number

    def publish() -> None:
        for n in range(many):
            client.publish(name, {"x": n})
            if n % 500 == 499:
                until(partial(seen, n + 1), 30)

    async def main() -> None:
        gaps: list[Gap] = []
        async with bus:
            await bus.subscribe(f"{name}", count)
            async with bus.subscribe(name, on_gap=gaps.append) as events:
                # This one reads nothing meanwhile.
                await asyncio.to_thread(publish)
                numbers = [(await anext(events)).n for _ in range(MAX_BUFFERED)]
                await asyncio.to_thread(client.publish, name)
                while numbers[-1] <= many:
                    numbers.append((await anext(events)).n)
                assert (
                    numbers[:MAX_BUFFERED] == [*range(1, MAX_BUFFERED + 1)]
                    and numbers[-1] == many + 1
                )
                assert gaps and sum(gap.missed for gap in gaps) == events.missed == bus.missed
                assert len(numbers) + events.missed == many + 1

    run(main())


def test_without_a_broker(bus_root: Path) -> None:
    """Said as Client says it: at once where none ever was, after the timeout where one was."""
    with pytest.raises(NotRunning):
        AsyncClient()

    async def main() -> None:
        async with AsyncClient(str(bus_root / "nobody"), timeout=0.2) as bus:
            assert not await bus.connected(0.05)
            with pytest.raises(NotRunning, match="nothing was sent"):
                await bus.send("a", "x")
            with pytest.raises(NotRunning):
                await bus.publish("a")
            with pytest.raises(NotRunning):
                await bus.subscribe("a", print)
            assert not left(bus)
            with pytest.raises(NotRunning):
                await bus.register("a", handled)

    run(main())


def test_a_handlers_task_is_cancelled_with_its_message(bus: AsyncClient, name: str) -> None:
    """PROTOCOL-6.14: and the message is dead, however the task takes it."""

    async def main() -> None:
        async with bus:
            at_work = asyncio.Event()

            async def work(delivery: AsyncDelivery) -> dict[str, str] | None:
                at_work.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if delivery.message.text == "caught":
                        return {"cancelled": delivery.cancelled}
                    raise
                return None

            await bus.register(name, work)
            for text in ("raised", "caught"):
                at_work.clear()
                id = (await bus.send(name, text)).id
                await at_work.wait()
                assert (await bus.cancel(id, by="ci")).told
                receipt = await bus.wait(id, 30)
                assert (receipt.state, receipt.reason) == ("dead", "cancelled by ci")
                caught = {"cancelled": "cancelled by ci"} if text == "caught" else {}
                assert receipt.outcome == caught

    run(main())


@pytest.mark.parametrize("length", [1, 2, 3])
def test_handlers_that_ask_each_other(
    shared_broker: Broker, client: Client, name: str, length: int
) -> None:
    """PROTOCOL-4.17, PROTOCOL-9.8: coroutines likewise, also by a task that the handler makes."""
    names = [f"{name}-{number}" for number in range(length)]
    refused: list[str] = []

    async def main() -> None:
        agents = [AsyncClient(shared_broker.address, timeout=30) for _ in names]

        async def work(number: int, delivery: AsyncDelivery) -> None:
            if delivery.message.type != "directive":
                return
            bus, text = agents[number], "done"
            ask = bus.ask(names[(number + 1) % length], "and you?", wait=50)
            try:
                await asyncio.create_task(ask)
            except Loop as exc:
                refused.append(exc.text)
                text = "without"
            asked = delivery.message
            await bus.send(asked.sender, text, type="answer", reply_to=asked.id)

        for number, agent in enumerate(agents):
            await agent.register(names[number], partial(work, number))
        answer = await asyncio.to_thread(client.ask, names[0], "go", wait=50)
        assert answer.message is not None and answer.message.text == "done"
        for agent in agents:
            await agent.close()

    client.register(f"{name}-asker", lambda _: None)
    run(main())
    assert len(refused) == 1


def test_what_a_handler_sends(bus: AsyncClient, client: Client, name: str) -> None:
    """PROTOCOL-4.17: its own task, and those it makes, until its delivery has ended."""
    sent: dict[str, str] = {}

    async def main() -> None:
        ended, tasks = asyncio.Event(), list[asyncio.Task[None]]()

        async def send(kind: str) -> None:
            sent[kind] = (await bus.send(f"{name}-to", kind)).id

        async def send_late() -> None:
            await ended.wait()
            await send("late")

        async def work(delivery: AsyncDelivery) -> None:
            await send("own")
            await asyncio.gather(send("task"))
            tasks.append(asyncio.create_task(send_late()))

        async with bus:
            await bus.declare(f"{name}-to")
            await bus.register(name, work)
            receipt = await asyncio.to_thread(client.send, name, "go", wait=50)
            while bus._core.registrations()._in_flight.holding(name):
                await asyncio.sleep(0.01)
            ended.set()
            await tasks[0]
            told = {kind: await bus.read(id) for kind, id in sent.items()}
        causes = {kind: (one.cause, one.hops, one.path) for kind, one in told.items()}
        inside = (receipt.id, 1, (name,))
        assert causes == {"own": inside, "task": inside, "late": (None, 0, ())}

    run(main())
