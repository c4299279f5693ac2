"""A client in the children of os.fork (fork_safety.py), each script in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, MakeBroker, until
from fakes.program import frozen
from wakebus.broker import Client, Delivery, Outcome

TESTS = Path(__file__).parents[2]
# Python 3.12 warns of every fork beside threads; that is its word to users.
PYTHON = (sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", "-c")
# asyncio's dev mode warns of each step that took 0.1 s: a slow machine is no fault.
BEGIN = """\
import logging, os, signal, sys, threading, time
from fakes.forks import *
from wakebus.broker import *

logging.getLogger("asyncio").setLevel(logging.ERROR)
guard()
got = []

def handler(delivery):
    got.append(delivery.message.body["text"])
    return {"by": os.getpid()}

"""


class Script:
    """A script that forks, running."""

    def __init__(self, broker: Broker, name: str, code: str) -> None:
        self.process = subprocess.Popen(
            [*PYTHON, BEGIN + code, name],
            env={**broker.env, "PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> dict[str, Any]:
        """Return the next thing it tells."""
        assert self.process.stdout
        text = self.process.stdout.readline()
        assert text, self.process.communicate(timeout=60)[1]
        found: dict[str, Any] = json.loads(text)
        return found

    def end(self) -> dict[str, Any]:
        """Return the last thing it tells; nothing it did was worth a complaint."""
        output, errors = self.process.communicate("", timeout=90)
        assert (self.process.returncode, errors) == (0, ""), errors
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
        return found

    def kill(self) -> None:
        """Be sure that it is gone."""
        self.process.kill()
        self.process.communicate()


def run(broker: Broker, name: str, code: str) -> dict[str, Any]:
    """Return what a script tells."""
    script = Script(broker, name, code)
    try:
        return script.end()
    finally:
        script.kill()


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[Client]:
    with Client(shared_broker.address, timeout=30) as found:
        yield found


def nothing(delivery: Delivery) -> Outcome:
    return None


# --- the child --------------------------------------------------------------------------------


def test_the_child_has_a_client_of_its_own(
    shared_broker: Broker, client: Client, name: str
) -> None:
    """PROTOCOL-5.17: another instance without a name; what it sends is `cli`'s, or claimed."""
    told = run(
        shared_broker,
        name,
        """
bus = Client(timeout=30)
bus.register(name, handler)
ids = {bus.send(name, "0").id}

def work():
    mine = bus.send(name, "1", wait=30)
    claimed = bus.send(name, "2", sender=name, wait=30)
    listed = {row["name"]: row["pid"] for row in bus.list() if row["state"] == "live"}
    return [bus._core.instance, mine.id, claimed.id, listed[name]]

found = child(work)
bus.send(name, "3", wait=30)
bus.close()
tell(pid=os.getpid(), own=bus._core.instance, found=found, got=got)
""",
    )
    instance, mine, claimed, holder = told["found"]
    assert instance != told["own"] and holder == told["pid"]
    assert sorted(told["got"]) == ["0", "1", "2", "3"]
    for id, sender in ((mine, "cli"), (claimed, name)):
        trace = client.trace(id)[0]
        assert trace["from"] == sender, trace
        assert trace["steps"][0]["claimed"] is True, trace


def test_ids_are_never_the_parents(shared_broker: Broker, name: str) -> None:
    """The random bits that were drawn before the fork are used by the parent alone."""
    told = run(
        shared_broker,
        name,
        """
bus = Client(timeout=30)
bus.declare(name)
bus.send(name, "x")
children = [child(lambda: [bus.send(name, "x").id for _ in range(20)]) for _ in range(3)]
tell(ids=[id for ids in children for id in ids] + [bus.send(name, "x").id for _ in range(20)])
""",
    )
    bits = {id[11:] for id in told["ids"]}
    assert len(bits) == len(told["ids"]) == 80


def test_names_stay_with_the_parent(shared_broker: Broker, name: str) -> None:
    """The child cannot have it while the parent lives; but another one, and gets its messages."""
    told = run(
        shared_broker,
        name,
        """
bus = Client(timeout=30)
bus.register(name, handler)

def work():
    taken = said(lambda: bus.register(name, handler))
    bus.register(name + "-child", handler)
    with Client(timeout=30) as other:
        by = other.send(name + "-child", "hello", wait=30).outcome["by"]
    bus.close()
    return [taken, by == os.getpid(), got]

found = child(work)
tell(found=found, by=bus.send(name, "x", wait=30).outcome["by"] == os.getpid())
""",
    )
    (kind, text), own, got = told["found"]
    assert kind == "NameTaken" and name in text
    assert own is True and got == ["hello"] and told["by"] is True


def test_events_of_both(shared_broker: Broker, name: str) -> None:
    """The child has a publisher of its own, so the parent's numbers go on; and no subscription."""
    told = run(
        shared_broker,
        name,
        """
bus = Client(timeout=30)
seen, gaps = [], []
ours = bus.subscribe(name + ".**", seen.append, on_gap=gaps.append)

def publish(who):
    bus.publish(name + ".x", {"who": who})
    return bus.dropped

publish("parent")
until(lambda: seen)  # on its way, it would reach what the child subscribes

def work():
    mine = []
    bus.subscribe(name + ".x", mine.append)
    publish("child")
    until(lambda: mine)
    bus.close()
    return [ours.closed, [event.envelope["who"] for event in mine], len(seen) <= 1]

found = child(work)
publish("parent")
until(lambda: len(seen) == 3)
tell(found=found, open=not ours.closed, gaps=gaps, missed=bus.missed,
     seen=[(event.pub, event.n, event.envelope["who"]) for event in seen])
""",
    )
    assert told["found"] == [True, ["child"], True]
    first, second, other = sorted(told["seen"], key=lambda one: (one[2] == "child", one[1]))
    assert first[0] == second[0] != other[0]
    assert (first[1], second[1], other[1]) == (1, 2, 1)
    assert told["open"] and told["gaps"] == [] and told["missed"] == 0


def test_a_fork_alone_opens_nothing(shared_broker: Broker, name: str) -> None:
    """In the child: no thread and no file until its first use; close returns without any."""
    told = run(
        shared_broker,
        name,
        """
bus = Client(timeout=30)
bus.register(name, handler)
bus.subscribe(name, print)
bus.publish(name)
files = lambda: len(os.listdir("/dev/fd"))
before = files()

def work():
    at_once = files(), threading.active_count()
    bus.close()
    closed = said(lambda: bus.send(name, "x"))
    return [at_once, (files(), threading.active_count()), closed]

found = Child(work)
tell(found=found.words(), before=before, by=bus.send(name, "x", wait=30).state)
""",
    )
    at_once, closed, error = told["found"]
    assert at_once == closed and closed[1] == 1
    assert closed[0] <= told["before"] + 2  # the pipe of this test
    assert error == ["NotRunning", "this client is closed"]
    assert told["by"] == "handled"


def test_a_closed_client_stays_closed(shared_broker: Broker, name: str) -> None:
    """A fork reopens what was open, nothing else."""
    told = run(
        shared_broker,
        name,
        """
bus = Client(timeout=30)
bus.register(name, handler)
bus.close()
calls = [lambda: bus.send(name, "x"), lambda: bus.publish(name)]
calls.append(lambda: bus.register(name, handler))
tell(found=child(lambda: [said(call)[1] for call in calls]))
""",
    )
    assert told["found"] == ["this client is closed"] * 3


def test_children_of_children(shared_broker: Broker, name: str) -> None:
    """Each generation has its own client, used by the one before or not."""
    told = run(
        shared_broker,
        name,
        """
bus = Client(timeout=30)
bus.declare(name)

def generation(left):
    if left % 2:
        bus.send(name, str(left))
    return [bus._core.instance, *(child(lambda: generation(left - 1)) if left else [])]

tell(found=generation(5))
""",
    )
    assert len(set(told["found"])) == 6


def test_without_a_broker_the_child_says_so(make_broker: MakeBroker, name: str) -> None:
    """As a new client would; and works when the broker is back."""
    broker = make_broker()
    script = Script(
        broker,
        name,
        """
bus = Client(timeout=30)
bus.declare(name)
tell(ready=True)
sys.stdin.readline()

def work():
    tell(found=said(lambda: bus.send(name, "x", timeout=0.3)))
    sys.stdin.readline()
    return bus.send(name, "x").state

tell(found=child(work))
""",
    )
    try:
        script.line()
        broker.stop()
        assert script.process.stdin
        script.process.stdin.write("\n")
        script.process.stdin.flush()
        assert script.line()["found"][0] == "NotRunning"
        broker.start()
        assert script.end()["found"] == "queued"
    finally:
        script.kill()


# --- the parent -------------------------------------------------------------------------------


def test_a_hundred_forks_in_the_middle_of_traffic(shared_broker: Broker, name: str) -> None:
    """
    Nothing of the parent is lost or doubled and nothing is left in it; no child hangs.

    Four threads send and publish, handlers run and a subscription gets events at each fork.
    """
    told = run(
        shared_broker,
        name,
        """
bus = Client(timeout=30)
bus.register(name, handler)
seen, gaps, sent, problems = [], [], [], []
bus.subscribe(name, lambda event: seen.append(event.n), on_gap=gaps.append)
bus.publish(name)
over = threading.Event()

def traffic(number):
    count = 0
    while not over.is_set():
        text = f"{number}-{count}"
        try:
            bus.send(name, text, session=str(number), wait=30)
            bus.publish(name)
        except Exception as exc:
            problems.append(repr(exc))
        sent.append(text)
        count += 1

def size():
    return len(os.listdir("/dev/fd")), threading.active_count()

threads = [thread(lambda number=number: traffic(number)) for number in range(4)]
until(lambda: len(sent) > 20)
before = size()
states = []
for number in range(100):
    states.append(child(lambda: bus.send(name, f"child {number}").state if number % 4 == 0 else ""))
after = size()
over.set()
for one in threads:
    one.join()
until(lambda: len(got) == len(sent) + 25)
epoch = [row["epoch"] for row in bus.list() if row["name"] == name]
until(lambda: len(seen) == len(sent) + 1)
tell(twice=len(got) - len(set(got)), sizes=[before, after], epoch=epoch, gaps=len(gaps),
     states=sorted(set(states)), problems=problems, order=seen == sorted(seen))
""",
    )
    assert told["problems"] == [] and told["twice"] == 0
    assert told["epoch"] == [1] and told["gaps"] == 0 and told["order"]
    assert told["states"] == ["", "queued"]
    before, after = told["sizes"]
    assert after[0] <= before[0]
    assert after[1] < before[1] + 20  # a handler's thread more or less


def test_no_lock_of_the_parent_is_needed(shared_broker: Broker, name: str) -> None:
    """All of them are held by another thread at the fork: the child works all the same."""
    told = run(
        shared_broker,
        name,
        """
deliveries = []
bus = Client(timeout=30)
bus.register(name, deliveries.append)
ours = bus.subscribe(name, print)
bus.publish(name)
bus.send(name, "x", wait=30)
core = bus._core
names, topics = core.registrations(), core.topics()
locks = [core._lock, core.connection._lock, topics._lock, topics._publisher._lock,
         topics._subscriber._lock, names._lock, names._pool._lock, names._in_flight._lock,
         names._in_flight._sending]
held, over = threading.Event(), threading.Event()

def hold():
    for lock in locks:
        assert lock.acquire(timeout=30)
    held.set()
    over.wait()
    for lock in locks:
        lock.release()

def work():
    mine = []
    bus.register(name + "-child", handler)
    bus.subscribe(name + ".child", mine.append)
    bus.publish(name + ".child")
    until(lambda: mine)
    state = bus.send(name + "-child", "y", sender=name + "-child", wait=30).state
    late = [said(deliveries[0].started)[0], said(deliveries[0].take_more)[0], said(ours.close)]
    bus.close()
    return [state, *late]

beside = thread(hold)
held.wait()
mine = Child(work)
over.set()
beside.join()
tell(child=mine.words(), parent=bus.send(name, "z", wait=30).state)
""",
    )
    assert told == {"child": ["handled", "NotRunning", "NotRunning", None], "parent": "handled"}


def test_the_parent_is_killed_and_its_child_lives_on(make_broker: MakeBroker, name: str) -> None:
    """PROTOCOL-5.17: the child has its connection open, unused; the name is free all the same."""
    broker = make_broker()
    script = Script(
        broker,
        name,
        """
bus = Client(timeout=30)
bus.register(name, lambda delivery: threading.Event().wait())
mine = os.fork()
if mine == 0:
    sys.stdin.read()
    os._exit(0)
bus.send(name, "in hand", timeout=30)
until(lambda: bus.list()[0]["in_hand"])
tell(child=mine)
signal.pause()
""",
    )
    got: list[tuple[str, bool]] = []
    try:
        pid = script.line()["child"]
        script.process.send_signal(signal.SIGKILL)
        script.process.wait(30)
        os.kill(pid, 0)
        with Client(broker.address, timeout=30) as heir:
            until(lambda: _claims(heir, name, got), 60)
            heir.send(name, "new", sender=name)
            until(lambda: len(got) == 2)
        os.kill(pid, 0)
    finally:
        script.kill()
    assert got == [("in hand", True), ("new", False)]


def _claims(heir: Client, name: str, got: list[tuple[str, bool]]) -> bool:
    from wakebus.broker.errors import NameTaken

    def handler(delivery: Delivery) -> Outcome:
        got.append((str(delivery.message.body["text"]), delivery.redelivered))
        return None

    try:
        return bool(heir.register(name, handler))
    except NameTaken:
        return False


# --- where a fork happens ---------------------------------------------------------------------


def test_a_fork_in_a_handler(shared_broker: Broker, client: Client, name: str) -> None:
    """The delivery is the parent's: the child can say nothing of it, and ends with the handler."""
    told = run(
        shared_broker,
        name,
        """
forks = []

def handler(delivery):
    delivery.started()
    def work():
        return [said(delivery.started), said(delivery.take_more), bus.send("c" + name, "x").state]
    forks.append(Child(work, lambda _: 0))
    if not forks[0].pid:
        return {"by": "the child"}
    return {"by": "the parent", "child": forks[0].words()}

bus = Client(timeout=30)
bus.declare("c" + name)
bus.register(name, handler)
first = bus.send(name, "x", wait=30)
tell(outcome=first.outcome, id=first.id)
""",
    )
    outcome = told["outcome"]
    assert outcome["by"] == "the parent"
    *said, state = outcome["child"]
    assert state == "queued"
    for kind, text in said:
        assert kind == "NotRunning" and "parent process" in text
    steps = [step["what"] for step in client.trace(told["id"])[0]["steps"]]
    assert steps.count("started") == steps.count("handled") == 1


@pytest.mark.parametrize(
    ("how", "end", "status"),
    [
        ("message", "sys.exit()", 0),
        ("message", "sys.exit(3)", 3),
        ("message", "1 / 0", 1),
        ("event", "return", 0),
        ("event", "sys.exit(3)", 3),
        ("event", "sys.exit('no')", 1),
    ],
)
def test_a_child_ends_with_the_handler_it_was_forked_in(
    shared_broker: Broker, name: str, how: str, end: str, status: int
) -> None:
    """With its status, though the client that it has used has threads of its own."""
    told = run(
        shared_broker,
        name,
        f"""
sys.excepthook = lambda *_: None
forks = []

def handler(_):
    pid = os.fork()
    if pid == 0:
        guard()
        bus.status()
        {end}
    forks.append(pid)

bus = Client(timeout=30)
if {how == "event"}:
    bus.subscribe(name, handler)
    bus.publish(name)
else:
    bus.register(name, handler)
    bus.send(name, "x", wait=30)
until(lambda: forks)
tell(status=os.waitstatus_to_exitcode(os.waitpid(forks[0], 0)[1]))
""",
    )
    assert told == {"status": status}


def test_a_fork_in_the_handler_of_an_event(shared_broker: Broker, name: str) -> None:
    """In the child its thread reads no more of the parent's socket, and ends."""
    told = run(
        shared_broker,
        name,
        """
seen, forks = [], []

def on_event(event):
    seen.append(event.envelope["x"])
    if event.envelope["x"] == 1:
        forks.append(Child(lambda: bus.send(name, "from the child").state, lambda _: 0))

bus = Client(timeout=30)
bus.declare(name)
bus.subscribe(name, on_event)
for x in range(200):
    bus.publish(name, {"x": x})
until(lambda: len(seen) == 200)
tell(child=forks[0].words(), seen=seen == list(range(200)), missed=bus.missed)
""",
    )
    assert told == {"child": "queued", "seen": True, "missed": 0}


def test_a_fork_in_a_signal_handler_while_a_send_waits(make_broker: MakeBroker, name: str) -> None:
    """The call goes on in the parent; in the child it ends at once, and the client works."""
    broker = make_broker()
    script = Script(
        broker,
        name,
        """
bus = Client(timeout=30)
bus.declare(name)
read, write = os.pipe()

def fork(*_):
    if os.fork() == 0:
        guard()
        os.close(read)

def work():
    return bus.send(name, "x", timeout=50).state

parent = os.getpid()
signal.signal(signal.SIGUSR1, fork)
tell(pid=parent)
sys.stdin.readline()
thread(lambda: until(lambda: bus._core.connection._pending) and tell(waits=True))
started = time.monotonic()
found = said(work)
if os.getpid() != parent:
    tell(child=found, waited=time.monotonic() - started < 40)
    os.write(write, bus.send(name, "y").state.encode())
    os._exit(0)
os.close(write)
tell(parent=found, child=os.read(read, 99).decode(), status=os.wait()[1])
""",
    )
    try:
        pid = script.line()["pid"]
        with frozen(broker.pid):
            assert script.process.stdin
            script.process.stdin.write("\n")
            script.process.stdin.flush()
            assert script.line()["waits"] is True
            os.kill(pid, signal.SIGUSR1)
            words = script.line()
            assert words["child"][0] == "NotRunning" and words["waited"] is True
        assert script.end() == {"parent": "queued", "child": "queued", "status": 0}
    finally:
        script.kill()


def test_a_fork_in_a_signal_handler_while_a_client_is_made(
    shared_broker: Broker, name: str
) -> None:
    """Each process gets one that works."""
    told = run(
        shared_broker,
        name,
        """
from wakebus.broker.client import connection
children = []
really_open = connection._open

def open_and_fork(address):
    found = really_open(address)
    if not children:
        signal.raise_signal(signal.SIGUSR1)
    return found

def fork(*_):
    children.append(os.fork())
    if not children[0]:
        guard()

connection._open = open_and_fork
signal.signal(signal.SIGUSR1, fork)
with Client(timeout=30) as bus:
    bus.declare(name)
    state = bus.send(name, "x").state
if not children[0]:
    os._exit(state != "queued")
tell(state=state, status=os.waitpid(children[0], 0)[1])
""",
    )
    assert told == {"state": "queued", "status": 0}


def test_multiprocessing(shared_broker: Broker, name: str) -> None:
    """A pool of forked workers uses the client that the host has made."""
    told = run(
        shared_broker,
        name,
        """
import multiprocessing
bus = Client(timeout=30)
bus.register(name, handler)

def work(number):
    return bus.send(name, str(number), wait=30).state

with multiprocessing.get_context("fork").Pool(4) as pool:
    states = pool.map(work, range(20))
tell(states=states, got=sorted(map(int, got)))
""",
    )
    assert told == {"states": ["handled"] * 20, "got": list(range(20))}


# --- the end of a child -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    ["pass", "bus.send(name, 'x')", "bus.register('c' + name, handler)", "bus.close()"],
)
def test_a_child_ends_with_its_own_status(shared_broker: Broker, name: str, use: str) -> None:
    """By Python's own end (atexit, threads), with what is the parent's untouched and unsaid."""
    told = run(
        shared_broker,
        name,
        f"""
status = None
with Client(timeout=30) as bus:
    bus.register(name, handler)
    bus.subscribe(name, print)
    bus.publish(name)
    pid = os.fork()
    if pid == 0:
        guard()
        {use}
        sys.exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    state = bus.send(name, "x", wait=30).state
tell(status=status, state=state)
""",
    )
    assert told == {"status": 7, "state": "handled"}


# --- asyncio ----------------------------------------------------------------------------------

LOOP = """\
import asyncio

async def handler(delivery):
    got.append(delivery.message.body["text"])

async def use():
    mine = []
    async with bus.subscribe(name + ".child") as events:
        await bus.publish(name + ".child", {"x": 1})
        async for event in events:
            mine.append(event.envelope["x"])
            break
    await bus.register(name + "-child", handler)
    state = (await bus.send(name + "-child", "x", sender=name + "-child", wait=30)).state
    await bus.close()
    return [state, mine, got[-1]]

"""
USED = ["handled", [1], "x"]


def test_an_async_client_in_a_childs_own_loop(shared_broker: Broker, name: str) -> None:
    """Forked inside the parent's loop: free for another loop in the child."""
    told = run(
        shared_broker,
        name,
        LOOP
        + """
async def main():
    global bus
    bus = AsyncClient(timeout=30)
    await bus.register(name, handler)
    theirs = await bus.subscribe(name)
    await bus.publish(name)

    def work():
        async def ended():
            return [event async for event in theirs]
        return [asyncio.run(ended()), asyncio.run(use())]

    found = Child(work)
    words = await asyncio.to_thread(found.words)
    await bus.publish(name)
    state = (await bus.send(name, "y", wait=30)).state
    count = [event.n async for event in two(theirs)]
    await bus.close()
    tell(child=words, state=state, count=count)

async def two(events):
    for _ in range(2):
        yield await anext(events)

asyncio.run(main())
""",
    )
    assert told == {"child": [[], USED], "state": "handled", "count": [1, 2]}


def test_an_async_client_made_before_its_loop(shared_broker: Broker, name: str) -> None:
    """Each process runs its own."""
    told = run(
        shared_broker,
        name,
        LOOP
        + """
bus = AsyncClient(timeout=30)
first = Child(lambda: asyncio.run(use()), sys.exit)
words = first.words()
tell(child=words, parent=asyncio.run(use()))
""",
    )
    assert told == {"child": USED, "parent": USED}


def test_a_delivery_of_an_async_client(shared_broker: Broker, name: str) -> None:
    """The child can say nothing of it."""
    told = run(
        shared_broker,
        name,
        """
import asyncio
words = []

async def handler(delivery):
    def work():
        return [said(lambda: asyncio.run(delivery.started())), said(delivery.take_more)]
    words.append(await asyncio.to_thread(Child(work).words))
    await delivery.started()
    return {"by": "the parent"}

async def main():
    async with AsyncClient(timeout=30) as bus:
        await bus.register(name, handler)
        tell(outcome=(await bus.send(name, "x", wait=30)).outcome, child=words[0])

asyncio.run(main())
""",
    )
    assert told["outcome"] == {"by": "the parent"}
    assert [kind for kind, _ in told["child"]] == ["NotRunning", "NotRunning"]
