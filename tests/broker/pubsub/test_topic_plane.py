"""`Client.publish` and `Client.subscribe` with a real broker (EVENTS.md)."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import psutil
import pytest

from fakes.broker import Broker, until
from fakes.program import frozen
from wakebus.broker import Client, Event, Gap, Subscription
from wakebus.broker.errors import BadTopic, NotRunning, Refused, TimedOut, Undecided
from wakebus.broker.pubsub.topic_plane import MAX_PATTERNS

NewClient = Callable[..., Client]


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[Client]:
    """A client of the shared broker."""
    with Client(shared_broker.address, timeout=30) as found:
        yield found


@pytest.fixture
def second(shared_broker: Broker) -> Iterator[Client]:
    """Another one."""
    with Client(shared_broker.address, timeout=30) as found:
        yield found


def reached(numbers: list[int], length: int) -> bool:
    """Whether so many have come."""
    return len(numbers) >= length


def texts(events: list[Event]) -> list[object]:
    """Return what was published."""
    return [event.envelope.get("x") for event in events]


def test_what_is_published_after_subscribe_comes(client: Client, name: str) -> None:
    """From the same client at once, from the first event on, in order, without a gap."""
    got: list[Event] = []
    subscription = client.subscribe(f"{name}.**", got.append)
    for number in range(100):
        client.publish(f"{name}.b", {"x": number})
    until(lambda: len(got) == 100)
    assert texts(got) == list(range(100)) and {e.topic for e in got} == {f"{name}.b"}
    assert (subscription.received, subscription.missed) == (100, 0)
    assert client.dropped == client.missed == 0


def test_the_first_event_of_another_client_comes(
    client: Client, shared_broker: Broker, name: str
) -> None:
    """Whatever is subscribed when it begins to publish."""
    got: list[Event] = []
    client.subscribe(name, got.append)
    for number in range(10):
        with Client(shared_broker.address, timeout=30) as other:
            other.publish(name, {"x": number})
    until(lambda: len(got) == 10)
    assert texts(got) == list(range(10))


def test_a_confirmed_event_of_a_program_that_ends(
    client: Client, shared_broker: Broker, name: str
) -> None:
    """Through the message plane: the broker has handed it on when it returns."""
    got: list[Event] = []
    client.subscribe(name, got.append)
    for number in range(10):
        with Client(shared_broker.address, timeout=30) as other:
            other.publish(name, {"x": number}, confirm=True)
    until(lambda: len(got) == 10)
    assert texts(got) == list(range(10))


def test_several_patterns_and_no_others(client: Client, name: str) -> None:
    """EVENTS-2.2: each event once for each subscription that wants it."""
    some: list[Event] = []
    all_: list[Event] = []
    client.subscribe([f"{name}.*.done", f"{name}.x.**", f"{name}.x.done"], some.append)
    client.subscribe(f"{name}.**", all_.append)
    topics = [f"{name}.{rest}" for rest in ("x", "y", "x.done", "y.done", "y.done.not", "end")]
    for topic in topics:
        client.publish(topic)
    until(lambda: len(all_) == len(topics))
    client.publish(f"{name}.x.last")
    until(lambda: some and some[-1].topic == f"{name}.x.last")
    assert [e.topic for e in some[:-1]] == [topics[0], topics[2], topics[3]]


@pytest.mark.parametrize("count", [1_000, 10_000, MAX_PATTERNS])
def test_very_many_patterns(client: Client, second: Client, name: str, count: int) -> None:
    """EVENTS-4.3: one subscription; the events of all of them come, also from another client."""
    got: list[str] = []
    second.publish(f"{name}.early")
    wanted = [f"{name}.n{n}.{'*' if n % 2 else '**'}" for n in range(count)]
    with client.subscribe(wanted, lambda event: got.append(event.topic)) as subscription:
        assert len(subscription.patterns) == count
        topics = [f"{name}.n{n}.x" for n in (0, count // 2, count - 1)]
        for topic in topics:
            second.publish(topic, confirm=True)
        until(lambda: got == topics)


def test_more_patterns_than_a_subscription_takes(client: Client) -> None:
    """EVENTS-4.3: refused at once, with the limit and what to do."""
    with pytest.raises(BadTopic, match=r"20001 patterns; .* at most 20000\. .*`ci\.\*\*`"):
        client.subscribe([f"a{n}" for n in range(MAX_PATTERNS + 1)], print)


def test_a_publisher_that_comes_to_very_many_subscriptions(broker: Broker, name: str) -> None:
    """EVENTS-4.3: it learns of all of them before its first event goes out."""
    with Client(broker.address, timeout=30) as client, Client(broker.address, timeout=30) as other:
        got: list[str] = []
        for part in range(6):
            wanted = [f"{name}.p{part}n{n}" for n in range(MAX_PATTERNS)]
            client.subscribe(wanted, lambda event: got.append(event.topic))
        topics = [f"{name}.p{part}n{MAX_PATTERNS - 1}" for part in range(6)]
        for topic in topics:
            other.publish(topic)
        until(lambda: sorted(got) == topics)


def test_bad_topics_and_patterns(client: Client) -> None:
    """Said before anything is opened or sent."""
    for pattern in ("", "a.**b", [], ["a", "b c"], 7):
        with pytest.raises(BadTopic):
            client.subscribe(pattern, print)  # type: ignore[arg-type]
    for confirm in (False, True):
        with pytest.raises(BadTopic):
            client.publish("a b", confirm=confirm)
        with pytest.raises(Refused, match="the broker's own"):
            client.publish("bus.message.dead", confirm=confirm)


def test_close_from_a_handler_and_subscribe_in_one(client: Client, name: str) -> None:
    """Neither hangs: a handler may end its own subscription, and begin another one."""
    got: list[Event] = []
    subscriptions: list[Subscription] = []

    def first(event: Event) -> None:
        got.append(event)
        subscriptions[0].close()
        subscriptions.append(client.subscribe(f"{name}.second", got.append))

    subscriptions.append(client.subscribe(f"{name}.first", first))
    client.publish(f"{name}.first", {"x": 1})
    until(lambda: len(subscriptions) == 2)
    client.publish(f"{name}.first", {"x": 2})
    client.publish(f"{name}.second", {"x": 3})
    until(lambda: len(got) == 2)
    assert texts(got) == [1, 3] and subscriptions[0].closed


def test_a_slow_handler_holds_up_no_message(client: Client, second: Client, name: str) -> None:
    """Beats and messages are on another thread."""
    running, go_on = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        running.set()
        go_on.wait(60)

    client.register(name, lambda delivery: None)
    client.subscribe(name, slow)
    client.publish(name)
    assert running.wait(30)
    assert second.send(name, "hello", wait=30).state == "handled"
    go_on.set()


def test_a_slow_subscriber_alone_misses_events_and_counts_them_exactly(
    make_broker: Callable[..., Broker], name: str
) -> None:
    """EVENTS-4.1, 5.1, 5.2: the other one gets all; the sum is exact, and reported."""
    make_broker(events_out_hwm=100)
    go_on = threading.Event()
    fast: list[int] = []
    slow: list[int] = []
    gaps: list[Gap] = []

    def wait(event: Event) -> None:
        go_on.wait(60)
        slow.append(event.n)

    with Client(timeout=30) as one, Client(timeout=30) as other, Client(timeout=30) as publisher:
        subscription = one.subscribe(name, wait, on_gap=gaps.append)
        other.subscribe(name, lambda event: fast.append(event.n))
        body = {"x": "x" * 4_000}
        for number in range(1, 10_001):
            publisher.publish(name, body)
            if number % 50 == 0:  # no faster than the fast one takes them
                until(partial(reached, fast, number))
        go_on.set()
        published = 10_000

        def seen() -> bool:
            nonlocal published
            publisher.publish(name)
            published += 1
            return bool(slow) and slow[-1] > 10_000

        until(seen)
        until(lambda: len(fast) == published)
        assert gaps and subscription.missed > 0
        until(lambda: slow[-1] == published)
        assert subscription.received + subscription.missed == published
        assert sum(gap.missed for gap in gaps) == subscription.missed == one.missed
        assert other.missed == 0 and fast == list(range(1, published + 1))
        # Without a name, too.
        until(lambda: publisher.status()["events"]["missed"] == one.missed)


def test_after_a_restart_of_the_broker_subscriptions_work_again(broker: Broker, name: str) -> None:
    """EVENTS-1.3: by themselves; what was published meanwhile is one exact gap."""
    got: list[Event] = []
    gaps: list[Gap] = []
    ups: list[Event] = []
    with Client(timeout=30) as one, Client(timeout=30) as publisher:
        subscription = one.subscribe(name, got.append, on_gap=gaps.append)
        one.subscribe("bus.endpoint.up", ups.append)
        publisher.publish(name)
        until(lambda: got)
        broker.kill()

        def lost() -> int:
            publisher.publish(name)
            return publisher.dropped

        until(lost)
        broker.start()

        def back() -> bool:
            publisher.publish(name)
            return len(got) > 1

        until(back, 30)
        assert gaps[0].missed == got[1].n - 2 >= publisher.dropped >= 1
        assert subscription.received + subscription.missed == got[-1].n
        # The new broker's word is believed: it is another publisher.
        one.register(name, lambda delivery: None)
        until(lambda: ups, 30)
        assert ups[0].envelope["name"] == name


def test_without_a_broker(broker: Broker, name: str) -> None:
    """What waits for the broker ends in time and says what did not happen."""
    with Client(timeout=0.3) as client:
        client.publish(name)
        until(lambda: client.connected(0))  # publishing waits for nothing
        with frozen(broker.pid):
            with pytest.raises(TimedOut, match="did not take the subscription"):
                client.subscribe(name, print)
            with pytest.raises(Undecided, match="may have been published") as caught:
                client.publish(name, confirm=True)
            assert "when it comes twice" in caught.value.data["step"]
            client.publish(name)  # never waits
        broker.kill()
        until(lambda: not client.connected(0))
        with pytest.raises(NotRunning, match="nothing was subscribed"):
            client.subscribe(name, print)
        with pytest.raises(NotRunning, match="nothing was sent"):
            client.publish(name, confirm=True)
        broker.start()
        until(lambda: client.connected(0))
        client.timeout = 30
        client.subscribe(name, print).close()


def test_a_closed_client(shared_broker: Broker, name: str) -> None:
    """Says so; closing waits for no handler."""
    running, go_on = threading.Event(), threading.Event()
    client = Client(shared_broker.address, timeout=30)

    def slow(event: Event) -> None:
        running.set()
        go_on.wait(60)

    subscription = client.subscribe(name, slow)
    client.publish(name)
    assert running.wait(30)
    client.close()
    subscription.close()
    for call in (lambda: client.publish(name), lambda: client.subscribe(name, print)):
        with pytest.raises(NotRunning, match="closed"):
            call()
    go_on.set()


def test_a_client_closed_in_a_handler(shared_broker: Broker, name: str) -> None:
    """Does not hang."""
    client = Client(shared_broker.address, timeout=30)
    done = threading.Event()

    def end(event: Event) -> None:
        client.close()
        done.set()

    client.subscribe(name, end)
    client.publish(name)
    assert done.wait(30)


def test_eight_threads_publish_subscribe_and_close_at_once(client: Client, name: str) -> None:
    """Nothing hangs or fails, and every subscription gets its own thread's events."""
    failures: list[BaseException] = []
    missing: list[str] = []

    def work(number: int) -> None:
        chance = random.Random(number)
        try:
            for turn in range(6):
                topic, came = f"{name}.{number}.{turn}", threading.Event()
                subscription = client.subscribe(topic, lambda event: came.set())  # noqa: B023
                for _ in range(chance.randint(1, 20)):
                    client.publish(topic, confirm=chance.random() < 0.2)
                if not came.wait(30):
                    missing.append(topic)
                subscription.close()
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures and not missing


def test_clients_leave_nothing(shared_broker: Broker, name: str) -> None:
    """No socket, thread or file after 50 that published and subscribed."""

    def live() -> None:
        with Client(shared_broker.address, timeout=30) as client:
            subscription = client.subscribe(name, print)
            client.publish(name)
            if random.random() < 0.5:
                subscription.close()

    process = psutil.Process()
    live()
    files, threads = process.num_fds(), process.num_threads()
    for _ in range(50):
        live()
    until(lambda: process.num_fds() <= files and process.num_threads() <= threads)


def test_ctrl_c_in_subscribe_leaves_nothing(broker: Broker, name: str) -> None:
    """The exception comes through, the socket is closed."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")
    with Client(timeout=60) as client:
        client.subscribe(name, print).close()
        process = psutil.Process()
        with frozen(broker.pid):
            files = process.num_fds()
            timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                client.subscribe(name, print)
            timer.join()
            until(lambda: process.num_fds() <= files)
        start = time.monotonic()
    assert time.monotonic() - start < 30
