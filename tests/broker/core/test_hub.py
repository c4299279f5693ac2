"""What the broker knows while it runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench, put
from wakebus.broker.core.hub import NEAR_MOST, _alike
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import digest
from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.protocol.event import decode
from wakebus.broker.store.rows import Done
from wakebus.broker.store.store import Operation, Store

DAY = 86400.0


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def test_a_name_is_known_for_thirty_days(bench: Bench) -> None:
    """PROTOCOL-4.8: since it was last used."""
    hub = bench.hub
    hub.endpoint("e").seen = hub.bus_time()
    assert hub.known("e") and not hub.known("other")
    bench.pass_time(29 * DAY)
    assert hub.known("e")
    bench.pass_time(2 * DAY)
    assert not hub.known("e") and hub.near_names("ee") == []


def test_what_makes_a_name_known_for_longer(bench: Bench) -> None:
    """PROTOCOL-4.8: declared, held, or with messages waiting; never merely asked for."""
    hub = bench.hub
    assert not hub.known(hub.endpoint("asked").name)
    hub.endpoint("declared").declared = True
    bench.held("held")
    hub.endpoint("full").mailbox.add(MailboxEntry(1, "m", "l", 5, 1e12))
    bench.pass_time(365 * DAY)
    known = [name for name in ("asked", "declared", "held", "full") if hub.known(name)]
    assert known == ["declared", "held", "full"]


@pytest.mark.parametrize("jump", [-365 * DAY, 365 * DAY])
def test_a_wall_clock_that_jumps_makes_nothing_old(bench: Bench, jump: float) -> None:
    """PROTOCOL-6.10: ages go by the monotonic clock."""
    bench.hub.endpoint("e").seen = bench.hub.bus_time()
    bench.wall += jump
    assert bench.hub.known("e")


def test_near_names_among_very_many(bench: Bench) -> None:
    """PROTOCOL-4.8: few are compared; the right one is still found among unlike ones."""
    for n in range(10_000):
        bench.hub.endpoint(f"agent-{n}").declared = True
    bench.hub.endpoint("worker-alpha").declared = True
    assert len(_alike("agent-77777", bench.hub.endpoints)) == NEAR_MOST
    assert bench.hub.near_names("worker-alhpa") == ["worker-alpha"]


def test_what_has_happened_is_stored_until_the_disk_takes_it(bench: Bench) -> None:
    """PROTOCOL-8.3: again every second."""
    tries: list[int] = []

    def work(_: Store) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise BrokerUnavailable("the disk is full")

    stored: list[str] = []
    bench.hub.store_surely(work, lambda: stored.append("done"))
    for _ in range(4):
        bench.slow.run_all()
        bench.pass_time(1.1)
        bench.hub.timers.run_due()
    assert len(tries) == 3 and stored == ["done"]


def test_a_token_is_kept_as_its_digest() -> None:
    """PROTOCOL-6.4: any text has one."""
    assert len(digest("\ud800")) == len(digest("t" * 99)) == 64 and digest("a") != digest("b")


def test_a_name_comes_and_goes(bench: Bench) -> None:
    """EVENTS-6.2: what was told already is not told again."""
    bench.hub.events.on_subscription(b"\x01bus.endpoint.")
    endpoint = bench.hub.endpoint("e")
    for up in (False, True, True, False, False, True):
        bench.hub.announce_holder(endpoint, 7, up=up)
    told = [decode(frame) for frame in bench.events]
    assert [(event.topic, event.n) for event in told] == [
        ("bus.endpoint.up", 1),
        ("bus.endpoint.down", 1),
        ("bus.endpoint.up", 2),
    ]


def test_what_people_read_has_the_right_age(bench: Bench) -> None:
    """PROTOCOL-8.10: by the wall clock of now; what never was stays so."""
    stamp = bench.hub.bus_time()
    bench.pass_time(100)
    bench.wall -= 30 * DAY
    assert bench.hub.wall_time(stamp) == pytest.approx(bench.wall - 100)
    assert bench.hub.wall_time(0.0) == 0.0


def test_a_mark_counts_as_much_as_its_message(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-8.6: it is written anew with it; so a batch of marks is bounded by bytes, too."""
    sizes: list[int] = []
    submit = bench.slow.submit

    def counted(operation: Operation, done: Done | None = None, size: int = 0, **more: Any) -> None:
        sizes.append(size)
        submit(operation, done, size, **more)

    monkeypatch.setattr(bench.slow, "submit", counted)
    stored = put("m1", body={"text": "x" * 5_000})
    entry = MailboxEntry.of_put(stored, 1, bench.mono)
    bench.hub.mark_surely(entry, "", lambda: None, state="held")
    assert sizes == [len(stored.blob)]
